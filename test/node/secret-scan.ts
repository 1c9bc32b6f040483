import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Shorter forms could match by chance. */
const SHORTEST_FORM = 7

/**
 * The forms of a secret: plain, escaped for JSON, XML or a URL, in hexadecimal digits, and in base64 at any offset of a
 * longer text.
 */
export function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret)
  const xml = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const address = encodeURIComponent(secret)
  const strict = address.replaceAll(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
  const base64 = [0, 1, 2].map((offset) => {
    // The first and last characters of an encoding depend on the neighbouring bytes.
    const text = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replaceAll('=', '')
    const end = (offset + bytes.length) % 3 === 0 ? text.length : text.length - 1
    return text.slice(offset === 0 ? 0 : offset + 1, end)
  })
  const forms = [
    secret,
    secret.toUpperCase(),
    JSON.stringify(secret).slice(1, -1),
    xml,
    xml.replaceAll('"', '&quot;').replaceAll("'", '&apos;'),
    address,
    strict,
    address.replaceAll('%20', '+'),
    bytes.toString('hex'),
    bytes.toString('hex').toUpperCase(),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
    ...base64.map((text) => encodeURIComponent(text)),
  ]
  return [...new Set(forms)].filter((form) => form.length >= SHORTEST_FORM)
}

/** A place and its content, as latin1 so that every byte is preserved. */
export interface Text {
  place: string
  latin1: string
}

export function textOf(place: string, content: string): Text {
  return { place, latin1: Buffer.from(content).toString('latin1') }
}

/** Lists which secret is where, in which form. */
export function findSecrets(secrets: Record<string, string>, texts: Iterable<Text>): string[] {
  const forms = Object.entries(secrets).flatMap(([name, secret]) =>
    formsOf(secret).map((form) => ({ name, form, latin1: Buffer.from(form).toString('latin1') })),
  )
  const found = new Set<string>()
  for (const { place, latin1 } of texts) {
    for (const { name, form, latin1: wanted } of forms) {
      if (latin1.includes(wanted)) found.add(`${name} in ${place}, as ${form}`)
    }
  }
  return [...found]
}

/** Every file of a folder as it is, and every value of every table of those that are databases. */
export function* readFolder(folder: string): Generator<Text> {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const path = join(folder, name)
    if (!statSync(path).isFile()) continue
    yield { place: name, latin1: `${name}\n${readFileSync(path).toString('latin1')}` }
    if (name.endsWith('.sqlite')) yield* readDatabase(path, name)
  }
}

/** A value larger than a page is split over several, so values are read as well as bytes. */
function* readDatabase(path: string, place: string): Generator<Text> {
  const database = new DatabaseSync(path, { readOnly: true })
  try {
    const tables = database.prepare(`SELECT name FROM sqlite_master WHERE type = 'table'`).all()
    for (const { name } of tables) {
      // A virtual table's values are stored in others.
      if (/_fts/.test(String(name))) continue
      const rows = database.prepare(`SELECT * FROM "${name}"`).all()
      const values = rows.flatMap((row) => Object.values(row).map(toText))
      yield { place: `${place} ${name}`, latin1: values.join('\n') }
    }
  } finally {
    database.close()
  }
}

function toText(value: unknown): string {
  const bytes = value instanceof Uint8Array ? Buffer.from(value) : Buffer.from(String(value))
  return bytes.toString('latin1')
}

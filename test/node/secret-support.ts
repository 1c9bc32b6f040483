import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { SeedInput } from '../../src/operation/copies/seed/file.ts'
import { credentialsFor } from '../../src/simulators/accounting.ts'
import type { Simulator } from '../../src/simulators/kit.ts'
import { S3_KEYS, S3_REGION } from '../../src/simulators/s3-keys.ts'
import { ENDPOINT_PATH, CREDENTIALS as SUPPLIER_A } from '../../src/simulators/supplier-a.ts'
import { CREDENTIALS as SUPPLIER_B } from '../../src/simulators/supplier-b.ts'
import { smallShop } from '../support/small-shop.ts'

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

export const textOf = (place: string, content: string) => ({ place, latin1: Buffer.from(content).toString('latin1') })

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

export type Simulators = Record<'supplierA' | 'supplierB' | 'accounting' | 's3', Simulator>

const REALM = '4711'
export const BUCKET = 'own-bucket'
/** With a refresh token as long as the real system's. */
export const ACCOUNTING = { ...credentialsFor(REALM), refresh_token: `refresh-${REALM}-${randomUUID()}` }
const THREAD = '18c2f0a9b7d3e4f1'
/** Of the company whose outside systems refuse it. */
export const WRONG = {
  password: 'refused-password-1',
  apiKey: 'refused-key-2',
  clientSecret: 'refused-client-secret-3',
  refreshToken: 'refresh-4712-refused-4',
  storageSecret: 'refused/storage+secret-5',
}

/** A company whose outside systems accept its credentials. */
export const shopThatWorks = (outside: Simulators) =>
  shopOf(outside, 1, '', { a: { ...SUPPLIER_A }, b: { ...SUPPLIER_B }, accounting: ACCOUNTING, storage: S3_KEYS })

/** A company whose outside systems refuse its credentials. */
export const shopThatIsRefused = (outside: Simulators) =>
  shopOf(outside, 2, '-2', {
    a: { ...SUPPLIER_A, password: WRONG.password },
    b: { ...SUPPLIER_B, api_key: WRONG.apiKey },
    accounting: {
      ...credentialsFor('4712'),
      client_secret: WRONG.clientSecret,
      refresh_token: WRONG.refreshToken,
    },
    storage: { ...S3_KEYS, secret_access_key: WRONG.storageSecret },
  })

type Credentials = Record<'a' | 'b' | 'accounting' | 'storage', Record<string, string>>

function shopOf({ supplierA, supplierB, accounting, s3 }: Simulators, id: number, suffix: string, of: Credentials) {
  const bucket = `${BUCKET}${suffix}`
  return {
    ...smallShop(id),
    company: { id, name: `Shop ${id}`, accounting_sync_enabled: true },
    integrations: {
      supplier_a: { base_url: `${supplierA.url}/t/a${suffix}${ENDPOINT_PATH}`, credentials: of.a },
      supplier_b: { base_url: `${supplierB.url}/t/b${suffix}`, credentials: of.b },
      accounting_sync: { base_url: `${accounting.url}/t/x${suffix}`, credentials: of.accounting },
      storage: { endpoint: `${s3.url}/t/${bucket}`, bucket, region: S3_REGION, credentials: of.storage },
    },
  } satisfies SeedInput
}

const message = { account_email: 'box@x.example', messages: [{ id: '1', body_plain: 'Hello' }] }
/** Requests to every endpoint, valid and invalid. */
export const REQUESTS: [string, string, unknown?][] = [
  ['GET', '/clients?q=tee'],
  ['POST', '/clients', { company_name: 'Acme' }],
  ['GET', '/clients/1'],
  ['PATCH', '/clients/1', { phone: '5' }],
  ['GET', '/orders'],
  ['POST', '/orders', { title: 'Shirts', client_id: 1 }],
  ['GET', '/orders/1'],
  ['PATCH', '/orders/1', { title: 'Other shirts' }],
  ['GET', '/products/search?q=PC61'],
  ['GET', '/products/supplier_a?style=PC61'],
  ['GET', '/products/supplier_b?styleId=40'],
  ['GET', '/products/invoice_item?id=1'],
  ['GET', `/mail/threads/${THREAD}`],
  ['PUT', `/mail/email-threads/${THREAD}`, message],
  ['GET', `/mail/email-threads/${THREAD}?account_email=box@x.example`],
  ['POST', '/orders/1/files/presign', { fileName: 'a.png', size: 1, legacyThreadId: THREAD }],
  ['GET', '/orders/1/files'],
  ['POST', '/clients', '{'],
  ['POST', '/clients', { company_name: 5 }],
  ['GET', '/nowhere'],
  ['DELETE', '/clients/1'],
  ['PUT', '/clients/1'],
  ['DELETE', '/orders/2'],
]

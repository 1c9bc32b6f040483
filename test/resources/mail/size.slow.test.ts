import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { freshThreadId, MAILBOX, messagesIn, objectsOf, segmentsOf, sendText, threadPath } from './support.ts'

const MIB = 1_048_576
const D1_VALUE_BYTES = 2_000_000

let company: TestCompany

beforeAll(async () => {
  await migrate()
  company = await mintCompany()
})

/** Incompressible text of `length` random characters out of those given. */
function randomText(length: number, characters: readonly string[]): string {
  const parts: string[] = []
  const random = new Uint32Array(16_384)
  for (let made = 0; made < length; made += random.length) {
    crypto.getRandomValues(random)
    const count = Math.min(random.length, length - made)
    parts.push(Array.from(random.subarray(0, count), (number) => characters[number % characters.length]).join(''))
  }
  return parts.join('')
}

/** ASCII characters that JSON holds without escapes. */
const PRINTABLE = Array.from({ length: 94 }, (_, code) => String.fromCharCode(code + 33)).filter(
  (c) => !'"\\'.includes(c),
)
const CJK = Array.from({ length: 20_000 }, (_, code) => String.fromCharCode(0x4e00 + code))
const AWKWARD = ['\\u0000', '\\ud800', '\\udfff', '😀', '漢', 'é', '\\"', '\\\\', 'a', '\\r\\n', '<p>']

const html = (length: number) => '<p style=\\"margin:0\\">Please confirm the proof “x” 👍</p>\\r\\n'.repeat(length / 60)

/** JSON text of about 20 MiB as UTF-8. */
const THREADS: Record<string, () => string> = {
  'one message of characters that do not compress': () => `[{"t":"${randomText(20 * MIB, PRINTABLE)}"}]`,
  'one message of three-byte characters': () => `[{"t":"${randomText((20 * MIB) / 3, CJK)}"}]`,
  'escapes, lone surrogates, U+0000 and emoji': () => `[{"t":"${randomText(6 * MIB, AWKWARD)}"}]`,
  'messages of HTML': () =>
    `[${Array(40)
      .fill(`{"id":"x","body_html":"${html(MIB / 2)}"}`)
      .join()}]`,
  'a million small messages': () => `[${Array(1_000_000).fill('{"n":1234567890.5}').join()}]`,
  'seven million empty arrays in one message': () => `[{"a":[${Array(7_000_000).fill('[]').join()}]}]`,
  'a message ten million levels deep': () => `[{"a":${'['.repeat(10_000_000)}${']'.repeat(10_000_000)}}]`,
  'long numbers': () => `[{"n":[${Array(200_000).fill('12345678901234567890.12345678901234567890e-300').join()}]}]`,
}

async function expectNoLargeValue(): Promise<void> {
  const tables = await sql<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'",
  )
  expect(tables.map(({ name }) => name)).toContain('email_thread_segments')
  for (const { name } of tables) {
    const columns = await sql<{ name: string }>('SELECT name FROM pragma_table_info(?)', name)
    const sizes = columns.map((column) => `coalesce(octet_length("${column.name}"), 0)`)
    const [row] = await sql<{ value: number; whole: number }>(
      `SELECT max(max(${sizes}, 0)) AS value, max(${sizes.join(' + ')}) AS whole FROM "${name}"`,
    )
    expect([name, (row?.value ?? 0) < D1_VALUE_BYTES]).toEqual([name, true])
    expect([name, (row?.whole ?? 0) < D1_VALUE_BYTES]).toEqual([name, true])
  }
}

describe('a thread of 20 MiB', () => {
  it.each(Object.keys(THREADS))('is returned byte for byte: %s', { timeout: 120_000 }, async (name) => {
    const messages = THREADS[name]?.() ?? ''
    const bytes = new TextEncoder().encode(messages).length
    const id = freshThreadId()
    const path = threadPath(id)
    const put = await sendText(company, 'PUT', path, `{"account_email":"${MAILBOX}","messages":${messages}}`)
    expect(put.status).toBe(200)
    // Booleans are compared, since a failure would print 20 MB.
    expect(messagesIn(put) === messages).toBe(true)
    const get = await sendText(company, 'GET', threadPath(id, MAILBOX))
    expect(get.status).toBe(200)
    expect(messagesIn(get) === messages).toBe(true)
    expect(get.text === put.text).toBe(true)
    const [object] = await objectsOf(id)
    const segments = object ? JSON.parse(object.segments) : await segmentsOf(id)
    expect(segments.length).toBe(Math.ceil((bytes + '"participants":[],"labels":[],"messages":'.length) / 1_400_000))
    expect((object?.bytes ?? 0) > 1_000_000).toBe(object !== undefined)
    await expectNoLargeValue()
  })

  it('is stored in values under D1’s limit, as long texts are', { timeout: 120_000 }, async () => {
    const id = freshThreadId()
    const subject = `"${randomText(4_000_000, CJK)}\\ud800\\u0000"`
    const snippet = `"${'s'.repeat(100_000)}"`
    const inline = `"${'k'.repeat(99_998)}"`
    const fields = `"subject":${subject},"snippet":${snippet},"mail_history_id":${inline}`
    const put = await sendText(company, 'PUT', threadPath(id), `{"account_email":"${MAILBOX}","messages":[],${fields}}`)
    const get = await sendText(company, 'GET', threadPath(id, MAILBOX))
    // Texts that are left out are returned as stored.
    const again = await sendText(company, 'PUT', threadPath(id), `{"account_email":"${MAILBOX}","messages":[]}`)
    for (const response of [put, get, again]) {
      expect(response.status).toBe(200)
      for (const text of [subject, snippet, inline]) expect(response.text.includes(text)).toBe(true)
      JSON.parse(response.text)
    }
    const stored = await segmentsOf(id)
    expect(new Set(stored.map(({ field }) => field))).toEqual(new Set(['content', 'subject', 'snippet']))
    await expectNoLargeValue()
  })
})

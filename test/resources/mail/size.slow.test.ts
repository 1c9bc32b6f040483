import { describe, expect, it } from 'vitest'
import { mintCompany, sql } from '../../support/app.ts'
import { contentLengthOf, freshThreadId, MAILBOX, messagesIn, objectsOf, sendText, threadPath } from './support.ts'

const MIB = 1_048_576
const D1_VALUE_BYTES = 2_000_000

const company = await mintCompany()

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
  expect(tables.map(({ name }) => name)).toContain('email_threads')
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
    expect((object?.bytes ?? 0) > 1_000_000).toBe(object !== undefined)
    await expectNoLargeValue()
  })

  it('with the longest texts is stored in a row under D1’s limit', { timeout: 120_000 }, async () => {
    const id = freshThreadId()
    const text = `${'"'.repeat(49_000)}${'x'.repeat(51_000)}`
    const texts = { subject: text, snippet: text, mail_thread_id: text, mail_history_id: text }
    const messages = [{ t: randomText(1_210_000, PRINTABLE) }]
    await company.call('PUT', threadPath(id), { account_email: MAILBOX, messages, ...texts })
    const { email_thread } = (await company.call('GET', threadPath(id, MAILBOX))).body
    expect(email_thread.subject === text && email_thread.messages[0].t === messages[0]?.t).toBe(true)
    expect(await contentLengthOf(id)).toBeGreaterThan(1_300_000)
    await expectNoLargeValue()
  })
})

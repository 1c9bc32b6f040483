import fc from 'fast-check'
import { beforeEach, expect, it } from 'vitest'
import { mintCompany, type TestCompany } from '../../support/app.ts'
import { freshThreadId, MAILBOX, messagesIn, sendText, threadPath } from './support.ts'

let company: TestCompany

// A token may send 300 requests a minute.
beforeEach(async () => {
  company = await mintCompany()
})

/** Stores JSON text as the messages and returns it as the responses of PUT and GET have it. */
async function roundTrip(messages: string): Promise<[string, string]> {
  const id = freshThreadId()
  const put = await sendText(company, 'PUT', threadPath(id), `{"account_email":"${MAILBOX}","messages":${messages}}`)
  expect(put.status).toBe(200)
  const get = await sendText(company, 'GET', threadPath(id, MAILBOX))
  return [messagesIn(put), messagesIn(get)]
}

/** JSON text that JSON.parse and JSON.stringify would change. */
const AWKWARD = [
  ...['12345678901234567890', '-9007199254740993', '0.1000000000000000055511151231257827021181583404541015625'],
  ...['1e400', '1E-400', '-0', '1.0', '1.50e+2'],
  ...['"\\u0000"', '"a\\u0000b"', '"\\ud800"', '"\\udfff\\ud800"', '"\\ud83d\\ude00"', '"\\/"'],
  '"😀 漢字 e\\u0301 é \u2028\u2029\ufeff\ufffd\uffff"',
].map((value) => `[{"v":${value}}]`)
/** Its names and white space, too. */
const AWKWARD_NAMES = [
  ...['[{"\\u0000":1}]', '[{"a":1,"a":2}]', '[{"__proto__":{"a":1}}]', '[ { "a" : [ ] } , {} ]'],
  '[{"10":"numeric names","9":"keep","1":"their order"}]',
]

it.each([...AWKWARD, ...AWKWARD_NAMES])('a stored thread returns messages byte for byte: %s', async (messages) => {
  expect(await roundTrip(messages)).toEqual([messages, messages])
})

it('a stored thread returns any JSON array of objects byte for byte', async () => {
  const text = fc.string({ unit: 'binary', maxLength: 40 })
  const loneSurrogate = fc.integer({ min: 0xd800, max: 0xdfff }).map((unit) => `x${String.fromCharCode(unit)}y`)
  const value = fc.oneof(fc.jsonValue(), text, loneSurrogate, fc.double())
  const messages = fc.array(fc.dictionary(fc.oneof(text, loneSurrogate), value))
  await fc.assert(
    fc.asyncProperty(messages, async (list) => {
      const sent = JSON.stringify(list)
      expect(await roundTrip(sent)).toEqual([sent, sent])
    }),
    { numRuns: 60 },
  )
})

it('a stored thread returns any JSON number byte for byte', async () => {
  const numbers = fc.array(fc.stringMatching(/^-?(0|[1-9]\d{0,40})(\.\d{1,40})?([eE][+-]?\d{1,5})?$/), {
    maxLength: 50,
  })
  await fc.assert(
    fc.asyncProperty(numbers, async (list) => {
      const sent = `[{"numbers":[${list}]}]`
      expect(await roundTrip(sent)).toEqual([sent, sent])
    }),
    { numRuns: 20 },
  )
})

it('a stored thread returns every other field byte for byte', async () => {
  const fields = [
    '"subject":"\\ud800 \\u0000 é 😀"',
    '"snippet":"\\u0000"',
    '"mail_thread_id":"\\udc00"',
    '"mail_history_id":"18446744073709551615"',
    '"participants":[{"n":1e400,"t":"\\ud800"}]',
    '"labels":["\\u0000","\\udfff","é"]',
  ]
  const id = freshThreadId()
  const put = (messages: string, sent: string[]) =>
    sendText(company, 'PUT', threadPath(id), `{"account_email":"${MAILBOX}","messages":${messages},${sent}}`)
  for (const response of [
    await put('[]', fields),
    await sendText(company, 'GET', threadPath(id, MAILBOX)),
    // A text that is left out is returned as stored.
    await put('[]', fields.slice(4)),
    await put('[{}]', fields.slice(4)),
  ]) {
    for (const field of fields) expect(response.text).toContain(field)
    expect(() => JSON.parse(response.text)).not.toThrow()
  }
})

import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseOrder, toBaseName, toContentType } from '../../src/client/attachments.ts'
import { verifyWebhook, WebhookVerificationError } from '../../src/client/webhooks.ts'
import { bodyOf, rotateSecret, signedHeaders } from '../../src/delivery/webhooks/message.ts'
import { presignUpload } from '../../src/resources/files/contract.ts'

const KEY = 'a secret of 24 characters'
const SECRET = `whsec_${btoa(KEY)}`
const OTHER = `whsec_${btoa('another of 24 characters')}`
const BODY = JSON.stringify({
  type: 'client.updated',
  timestamp: '2026-01-31T00:00:00.000Z',
  data: { type: 'clients', id: 7, operation: 'update', version: 2, time: '2026-01-31T00:00:00.000Z', name: 'Zoë' },
})
const EVENT = { ...JSON.parse(BODY), id: 'msg_1', bookmark: null }

describe('a delivery', () => {
  it.each<[string, Parameters<typeof verifyWebhook>]>([
    ['with Headers', [BODY, new Headers(sign()), SECRET]],
    ['with the headers of Node', [BODY, { ...sign(), host: 'shop.example', 'set-cookie': ['a', 'b'] }, SECRET]],
    ['with capitals', [BODY, { ...upperCase(sign()) }, SECRET]],
    ['with undefined headers', [BODY, { ...sign(), 'x-bookmark': undefined, cookie: undefined }, SECRET]],
    ['as bytes', [new TextEncoder().encode(BODY), sign(), SECRET]],
    ['while its secret is being replaced', [BODY, sign(), OTHER, SECRET]],
    ['with two signatures', [BODY, { ...sign(), 'webhook-signature': `v1,AAAA ${signature(sign())}` }, SECRET]],
  ])('%s is verified and returned', (_name, parameters) => {
    expect(verifyWebhook(...parameters)).toEqual(EVENT)
  })

  it.each<[string, Parameters<typeof verifyWebhook>, string]>([
    ['another body', [BODY.replace('7', '8'), sign(), SECRET], 'No matching signature found'],
    ['another secret', [BODY, sign(), OTHER], 'No matching signature found'],
    ['another id', [BODY, { ...sign(), 'webhook-id': 'msg_2' }, SECRET], 'No matching signature found'],
    ['an old timestamp', [BODY, sign({ secondsAgo: 310 }), SECRET], 'timestamp too old'],
    ['a timestamp to come', [BODY, sign({ secondsAgo: -310 }), SECRET], 'timestamp too new'],
    ['no signature', [BODY, {}, SECRET], 'Missing required headers'],
    ['an undefined id', [BODY, { ...sign(), 'webhook-id': undefined }, SECRET], 'Missing required headers'],
    ['no secret', [BODY, sign()], 'No secret was given'],
    ['a signed body that is no event', ['[]', sign({ body: '[]' }), SECRET], 'not an event'],
    ['a signed body that is not JSON', ['x', sign({ body: 'x' }), SECRET], 'JSON'],
  ])('with %s is rejected', (_name, parameters, message) => {
    const verify = () => verifyWebhook(...parameters)
    expect(verify).toThrow(WebhookVerificationError)
    expect(verify).toThrow(message)
  })

  it('has the bookmark with which its change can be read', () => {
    const event = verifyWebhook(BODY, { ...sign(), 'X-Bookmark': 'b1' }, SECRET)
    expect(event.bookmark).toBe('b1')
  })

  it('is not attempted with a secret that is none', () => {
    expect(() => verifyWebhook(BODY, sign(), 'whsec_')).toThrow(/empty/)
  })
})

it('a message of the service is verified with its secret and, after a rotation, with the previous one', () => {
  const now = Date.now()
  const first = rotateSecret(null, now)
  const second = rotateSecret(first, now)
  const change = { type: 'clients', entity_id: '7', operation: 'delete', version: 3, at: now, sequence: 1 } as const
  const body = bodyOf({
    ...change,
    account_email: null,
    legacy_thread_id: null,
    old_status_id: null,
    new_status_id: null,
  })
  const headers = signedHeaders(second, 'msg_1', body, now)
  for (const { secret } of [first, second]) {
    const data = { type: 'clients', id: 7, operation: 'delete', version: 3, time: new Date(now).toISOString() }
    expect(verifyWebhook(body, headers, secret)).toEqual({
      id: 'msg_1',
      bookmark: null,
      type: 'client.deleted',
      timestamp: data.time,
      data,
    })
  }
})

/** The headers of a delivery, by https://www.standardwebhooks.com. */
function sign({ body = BODY, secondsAgo = 0 } = {}): Record<string, string> {
  const sentAt = Math.floor(Date.now() / 1000) - secondsAgo
  const signature = createHmac('sha256', KEY).update(`msg_1.${sentAt}.${body}`).digest('base64')
  return { 'webhook-id': 'msg_1', 'webhook-timestamp': String(sentAt), 'webhook-signature': `v1,${signature}` }
}

const signature = (headers: Record<string, string>) => headers['webhook-signature']

function upperCase(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]))
}

describe('chooseOrder', () => {
  it.each([
    ['the selected order', '7', [{ id: 1 }, { id: 2 }], { orderId: '7' }],
    ['the selected order where no others are linked', '7', [], { orderId: '7' }],
    ['the only order', null, [{ id: 12 }], { orderId: '12' }],
    ['the only order where its id is a string', null, [{ id: '12' }], { orderId: '12' }],
    ['the only order where the selection is blank', ' ', [{ id: 12 }], { orderId: '12' }],
    ['no order of several', null, [{ id: 1 }, { id: 2 }], { reason: 'several_orders' }],
    ['no order of an empty list', null, [], { reason: 'no_orders' }],
    ['no order of null', null, null, { reason: 'no_orders' }],
    ['no order of a value that is not a list', null, { id: 1 }, { reason: 'no_orders' }],
    ['no order of an element without an id', null, [{ title: 'x' }], { reason: 'no_orders' }],
  ])('returns %s', (_name, selected_order_id, orders_data, expected) => {
    expect(chooseOrder({ selected_order_id, orders_data })).toEqual(expected)
  })
})

describe('names and content types', () => {
  it.each([
    ['logo.png', 'logo.png'],
    ['a/b\\c/logo.png', 'logo.png'],
    ['C:\\art\\logo.png', 'logo.png'],
    ['../../etc/passwd', 'passwd'],
    ['e\u0301.png', 'é.png'],
    ['a\u0000\r\n\u007f\u0085b.png', 'ab.png'],
    ['folder/', null],
    ['..', null],
    ['.\u0007.', null],
    ['  ', null],
    ['', null],
    [undefined, null],
    [7, null],
  ])('%j has the base name %j', (filename, expected) => {
    expect(toBaseName(filename)).toBe(expected)
  })

  it.each([
    [' text/plain; charset=utf-8 ', 'text/plain; charset=utf-8'],
    ['image/png\r\nX-Other: 1', undefined],
    [null, undefined],
  ])('%j is sent as content type %j', (mimeType, expected) => {
    expect(toContentType(mimeType)).toBe(expected)
  })

  it('replace a lone surrogate, which no request can contain', () => {
    // Escaped: the text of a failure could not be sent out of the worker.
    expect(JSON.stringify(toBaseName('a\ud800😀.png'))).toBe('"a\ufffd😀.png"')
  })

  const part = fc.oneof(
    fc.constantFrom('image', '.pdf', '_x', '-', 'x-a+b', '9', 'a'.repeat(127), 'a'.repeat(128)),
    fc.string({ maxLength: 3 }),
  )
  const suffix = fc.constantFrom('', ' ', ';', '  ; a=b', '; é', '\n', `;${'x'.repeat(250)}`)
  const mimeType = fc.tuple(part, fc.constantFrom('/', '/', '//', ''), part, suffix).map((parts) => parts.join(''))

  it('are sent with exactly the content types that the API accepts', () => {
    const accepts = (contentType: string) =>
      presignUpload.body.safeParse({ fileName: 'a', size: 1, contentType }).success
    fc.assert(
      fc.property(mimeType, (text) => {
        expect(toContentType(text)).toBe(accepts(text.trim()) ? text.trim() : undefined)
      }),
    )
  })
})

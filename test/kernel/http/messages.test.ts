import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import { component, date, id, text, trimmed } from '../../../src/kernel/api/contract.ts'
import { rateLimited, refusalOf } from '../../../src/kernel/gate/limits.ts'
import { adminCall } from '../../support/admin.ts'
import { type ApiResponse, call, mintCompany } from '../../support/app.ts'

const company = await mintCompany()

async function issuesOf(method: string, path: string, body?: unknown): Promise<string[]> {
  const { status, body: sent } = await company.call(method, path, body)
  expect(status).toBe(400)
  expect(sent.error.message.length).toBeGreaterThan(0)
  return sent.error.details.issues.map((issue: { path: string; message: string }) => `${issue.path} ${issue.message}`)
}

describe('a body with one mistake gets one issue that says what is wrong and what to send', () => {
  const order = { title: 'Shirts', client_id: 1 }
  const client = { company_name: 'Quay' }
  const thread = { account_email: 'a@quay.example', messages: [] }
  const discountTypes = 'discount_amount_type must be one of "percentage", "fixed_amount", "fixed", "amount"'
  const cases: Record<string, [body: unknown, issue: string][]> = {
    'POST /clients': [
      [{}, 'company_name is required'],
      [{ company_name: ' ' }, 'company_name must not be blank'],
      [{ company_name: 'x'.repeat(256) }, 'company_name must have at most 255 characters'],
      [{ company_name: null }, 'company_name must be a string, not null'],
      [{ company_name: 123_456 }, 'company_name must be a string, not a number'],
      [{ ...client, email: 'x' }, 'email must be an email address such as ada@example.com'],
      [{ ...client, tax_exempt: 'yes' }, 'tax_exempt must be true or false, not a string'],
      [{ ...client, tax_exempt: null }, 'tax_exempt must be true or false, not null'],
      [[], ' must be an object, not an array'],
      ['', ' is required'],
      ['null', ' must be an object, not null'],
      ['{"company_name": "Quay",\n}', ' is not valid JSON: expected double-quoted property name at line 2 column 1'],
      ['{"company_name": "Quay"', " is not valid JSON: expected ',' or '}' after property value at line 1 column 24"],
      ['{"a":1,\n "b":}', " is not valid JSON: unexpected token '}'"],
      [`[${'1,'.repeat(20)}]`, " is not valid JSON: unexpected token ']'"],
      ['{\n"company_name": Quay, "phone": "1"}', " is not valid JSON: unexpected token 'Q'"],
      ['{"a": 😀}', " is not valid JSON: unexpected token '\ufffd'"],
      ['// c', " is not valid JSON: unexpected token '/'"],
      ['{"a":[\n', ' is not valid JSON: unexpected end of JSON input'],
    ],
    'PATCH /clients/1': [
      [{}, ' must name at least one field to change'],
      [{ name: 'Quay' }, 'name is not a known field'],
      ['{"\\ud83dabc":1}', '\ufffdabc is not a known field'],
      [{ phone: 5 }, 'phone must be a string, not a number'],
    ],
    'PUT /mail/threads/t': [[{ client_id: '9007199254740993' }, 'client_id must be at most 9007199254740991']],
    'POST /orders': [
      [{ ...order, client_id: '1' }, 'client_id must be a number, not a string'],
      [{ ...order, client_id: 1.5 }, 'client_id must be an integer'],
      [{ ...order, client_id: { id: 1 } }, 'client_id must be a number, not an object'],
      [{ ...order, client_id: 0 }, 'client_id must be greater than 0'],
      [{ ...order, client_id: 2 ** 40 }, 'client_id must be a client of the company, and not a deleted one'],
      [{ ...order, deadline: '31/01/2026' }, 'deadline must be a date such as 2026-01-31'],
      [{ ...order, statusId: 1 }, 'statusId is not a known field; did you mean status_id?'],
      [{ ...order, order_status_id: 1 }, 'order_status_id is not a known field; did you mean status_id?'],
      [{ ...order, company_id: 1 }, 'company_id is not a known field; the company is known without it'],
      [{ ...order, discount_type: 'pre_tax' }, 'discount_type must be one of "before_tax", "after_tax"'],
      [{ ...order, discount_amount_type: 'percent', discount_amount: 500 }, discountTypes],
      [{ ...order, discount_amount_type: 'percentages' }, `${discountTypes}; did you mean percentage?`],
      [{ ...order, discount_amount: '500' }, 'discount_amount must be a number, not a string'],
      [{ ...order, discount_amount: 1e9 }, 'discount_amount must be at most 999999999.99'],
      [
        { ...order, discount_amount: 101 },
        'discount_amount must be at most 100 as a percentage: for an amount of money send discount_amount_type fixed_amount',
      ],
    ],
    'PATCH /orders/1': [[{ status: 1 }, 'status is not a known field; did you mean status_id?']],
    'POST /orders/1/payments': [
      [
        { amount: 1, paid_at: 'yesterday' },
        'paid_at must be a date such as 2026-01-31, or a date-time with an offset such as 2026-01-31T12:00:00Z',
      ],
    ],
    'POST /batch': [
      [
        { operations: [{ method: 'PUT', path: '/clients/by-external-id/a', if_none_match: '*' }] },
        'operations.0.if_none_match is not a known field; send the operation by itself',
      ],
    ],
    'PUT /mail/email-threads/t': [
      ['', ' is required'],
      [[], ' must be an object'],
      [{ messages: [] }, 'account_email is required'],
      [{ ...thread, account_email: 'x' }, 'account_email must be an email address such as ada@example.com'],
      [{ ...thread, subject: 5 }, 'subject must be a string or null, not a number'],
      [{ ...thread, subject: {} }, 'subject must be a string or null, not an object'],
      [{ ...thread, messages: {} }, 'messages must be an array of objects, not an object'],
      [{ ...thread, labels: true }, 'labels must be an array of strings, not a boolean'],
      [{ ...thread, labels: [1] }, 'labels.0 must be a string'],
      [{ ...thread, messages: ['x'] }, 'messages.0 must be an object'],
      [
        { ...thread, last_synced_at: '2026-01-31' },
        'last_synced_at must be a date-time with an offset, such as 2026-01-31T09:30:00Z, or null',
      ],
    ],
  }
  const rows = Object.entries(cases).flatMap(([name, each]) => each.map((one) => [name, ...one] as const))
  it.each(rows)('%s %j: %s', async (name, body, expected) => {
    const [method = '', path = ''] = name.split(' ')
    expect(await issuesOf(method, path, body)).toEqual([expected])
  })

  it('says what a path needs that no resource can have', async () => {
    const messages = ['/orders/abc', '/orders/9007199254740993', '/products/%ZZ'].map(async (path) => {
      const { status, body } = await company.call('GET', path)
      return [status, body.error.message]
    })
    const batched = { operations: [{ method: 'PATCH', path: '/orders/x', body: { title: 'Shirts' } }] }
    const { results } = (await company.call('POST', '/batch', batched)).body
    expect([...(await Promise.all(messages)), results[0].body.error.message]).toEqual([
      [404, 'Resource not found: id must be a positive integer'],
      [404, 'Resource not found: id must be at most 9007199254740991'],
      [404, 'Resource not found: path must be percent-encoded UTF-8'],
      'Resource not found: id must be a positive integer',
    ])
  })

  it.each([
    ['/clients?q=caf%e9', 'q'],
    ['/orders?sort=id&q=%E0%A4', 'q'],
    ['/orders/1?deleted=%c0%ae', 'deleted'],
    ['/changes?x=%ED%A0%80', 'x'],
    ['/clients?%ff=1&q=a', '%ff'],
    ['/clients?q=caf%C3%A9', null],
    ['/clients?q=100%25', null],
    ['/clients?q=100%', null],
  ])('refuses a query that is not UTF-8: %s', async (path, name) => {
    const { status, body } = await company.call('GET', path)
    const refusal = [400, [{ path: name, message: 'must be percent-encoded UTF-8' }]]
    expect([status, body.error?.details?.issues]).toEqual(name === null ? [200, undefined] : refusal)
  })
})

const sorts = '"id", "-id", "created_at", "-created_at", "updated_at", "-updated_at"'

it.each([
  ['/clients?per_page=101', 'per_page must be between 1 and 100'],
  ['/clients?perPage=5', 'perPage is not a known parameter; did you mean per_page?'],
  ['/clients?limit=5', 'limit is not a known parameter; did you mean per_page?'],
  ['/clients?page=1&page=2', 'page must be sent only once'],
  ['/clients?sort=id&sort=-id', 'sort must be sent only once'],
  ['/clients?sort=-ID', `sort must be one of ${sorts}; did you mean -id?`],
  ['/clients?sort=-updatedAt', `sort must be one of ${sorts}; did you mean -updated_at?`],
  ['/clients?sort=updatedAt', `sort must be one of ${sorts}; did you mean updated_at?`],
  ['/orders/1?deleted=include&deleted=include', 'deleted must be sent only once'],
  ['/orders?expand=client&expand=client', 'expand must be sent only once'],
  ['/changes?start=latest&start=latest', 'start must be sent only once'],
  ['/orders?form=2026-01-31', 'form is not a known parameter; did you mean from?'],
  ['/orders?from=yesterday', 'from must be a date such as 2026-01-31'],
  ['/orders?client_id=x', 'client_id must be a positive integer'],
  ['/orders?client_id=9999999999999999', 'client_id must be at most 9007199254740991'],
  ['/products/search?include=local,supplier_c', 'include must be a comma list of local, supplier_b, supplier_a, lines'],
  [
    '/products/search?include=line',
    'include must be a comma list of local, supplier_b, supplier_a, lines; did you mean lines?',
  ],
  ['/products/supplier_a', 'style is required'],
  ['/products/supplier_b', 'styleId is missing: sku or styleId is required'],
  ['/products/supplier_b?style_id=5', 'style_id is not a known parameter; did you mean styleId?'],
  ['/products/supplier_a?style=x&colour=red', 'colour is not a known parameter; did you mean color?'],
  ['/products/invoice_item', 'id is required'],
  ['/mail/email-threads/t', 'account_email is required'],
  ['/openapi.json?version=2', 'version is not a known parameter'],
])('a query with one mistake gets one issue on the parameter that was sent: %s: %s', async (path, expected) => {
  expect(await issuesOf('GET', path)).toEqual([expected])
})

describe('the suggestion of a known name', () => {
  const known = component('Known', 'For names.', {
    ...Object.fromEntries(['status_id', 'tax_id', 'client_id', 'company_name'].map((name) => [name, z.optional(id)])),
    ...Object.fromEntries(['first_name', 'last_name', 'deadline', 'email'].map((name) => [name, z.optional(date)])),
  })
  const suggestionFor = (name: string) =>
    /did you mean (\w+)\?$/.exec(known.safeParse({ [name]: 1 }).error?.issues[0]?.message ?? '')?.[1] ?? null

  it.each([
    ['status_id', ['statusId', 'STATUS-ID', 'satus_id', 'stauts_id']],
    ['client_id', ['client']],
    ['tax_id', ['tax']],
    ['company_name', ['companyName', 'company']],
    ['deadline', ['dead_line']],
    ['email', ['emails', 'email_address']],
  ])('is %s for %j', (expected, names) => {
    expect(names.map(suggestionFor)).toEqual(names.map(() => expected))
  })

  it.each(['name', 'id', 'company_id', 'x', '', '__proto_', 'constructor', '客户', 'notes', 'status_id'.repeat(20)])(
    'is left out for %s, which is close to none or to several',
    (name) => expect(suggestionFor(name)).toBeNull(),
  )

  it('takes little time for many long names', () => {
    const names = Array.from({ length: 5_000 }, (_, i) => `${i}${'companynamx_'.repeat(3)}`.slice(0, 12 + (i % 3)))
    const body = Object.fromEntries(names.map((name) => [name, 0]))
    const startedAt = performance.now()
    for (let runs = 0; runs < 20; runs++) known.safeParse(body)
    expect((performance.now() - startedAt) / 20).toBeLessThan(1_000)
  })
})

describe('a value', () => {
  it.each([
    [trimmed(5), '  ', 'must not be blank'],
    [text(1, 5), '', 'must not be blank'],
    [text(0, 5), 'abcdef', 'must have at most 5 characters'],
    [z.string().check(z.minLength(1)), '', 'must have at least 1 character'],
    [z.number(), JSON.parse('1e400'), 'must be in the range of a double'],
    [z.uuid(), 'x', 'must be a UUID'],
    [z.array(z.string()).check(z.maxLength(2)), ['a', 'b', 'c'], 'must have at most 2 elements'],
  ] as [z.ZodMiniType, unknown, string][])('case %#', (schema, value, expected) => {
    expect(schema.safeParse(value).error?.issues.map(({ message }) => message)).toEqual([expected])
  })

  it('that was sent is never repeated, since it may be a secret', () => {
    const fields = { secret: z.string(), flag: z.boolean(), list: z.array(z.string()), of: z.record(z.string(), id) }
    const hidden = { secret: 12_345_678, flag: 'hunter2', list: 'hunter2', of: 'hunter2' }
    const { error } = z.object(fields).safeParse(hidden)
    expect(error?.issues.map(({ message }) => message)).toEqual([
      'must be a string, not a number',
      'must be true or false, not a string',
      'must be an array, not a string',
      'must be an object, not a string',
    ])
  })
})

describe('an error of the request as a whole', () => {
  const send = (authorization?: string) =>
    call(null, 'GET', '/clients', undefined, authorization === undefined ? {} : { authorization })

  it('tells a missing token from one of a wrong form and from an unknown one', async () => {
    const missing = await send()
    const malformed = await send(`Bearer ${company.token.slice(1)}`)
    const scheme = await send('Basic YTpi')
    const unknown = await send(`Bearer ${'0'.repeat(64)}`)
    const all = [missing, malformed, scheme, unknown]
    const ofForm = expect.stringMatching(/must be Bearer, a space and the token of 64 hexadecimal characters$/)
    expect(all.map(({ body }) => body.error.message)).toEqual([
      'Send a token in the header Authorization: Bearer <API_TOKEN>',
      ...[ofForm, ofForm],
      expect.stringMatching(/^The token is unknown, revoked or expired: /),
    ])
    const invalid = `Bearer error="invalid_token", error_description="${unknown.body.error.message}"`
    const challenges = all.map(({ headers }) => headers.get('www-authenticate'))
    expect(challenges).toEqual(['Bearer', 'Bearer', 'Bearer', invalid])
  })

  it.each<[message: string, call: () => Promise<ApiResponse>]>([
    [
      'The path does not support this method: use GET, HEAD, PATCH or DELETE',
      () => company.call('PUT', '/orders/1', {}),
    ],
    ['The path does not support this method: use POST', () => company.call('GET', '/orders/1/files/presign')],
    ['Route not found: /api/v1/openapi.json describes every route', () => company.call('GET', '/nowhere')],
    ['Route not found: /admin/v1/openapi.json describes every route', () => adminCall('GET', '/nowhere')],
  ])('says which methods and routes there are: %s', async (message, call) => {
    expect((await call()).body.error.message).toBe(message)
  })

  it('names the rate limit and the seconds to wait', () => {
    const error = rateLimited(12)
    expect(error.message).toBe('The token may send 300 requests a minute: retry after 12 seconds')
    expect(error.details).toMatchObject({ retry_after: 12 })
    expect(error.headers).toEqual({ 'Retry-After': '12' })
    expect(rateLimited(1).message).toMatch(/retry after 1 second$/)
    const { message } = refusalOf({ window: { startedAt: 0, count: 299, databaseMs: 0 } }, 0)
    expect(message).toBe('It counts as more requests than are left (1): retry after 60 seconds')
  })

  it('says that a description takes no query, without a token', async () => {
    const { status, body } = await call(null, 'GET', '/openapi.json?x=1')
    expect([status, body.error.details.issues[0].path]).toEqual([400, 'x'])
    expect((await call(null, 'HEAD', '/openapi.json?x=1')).status).toBe(400)
  })
})

import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import {
  type ApiResponse,
  call,
  issuesOf,
  mintCompany,
  mintToken,
  request,
  send,
  sql,
  sqlIn,
} from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { insertEndpoint } from '../../support/rows.ts'
import { loseResponses, wrapBindings } from '../../support/wrap-bindings.ts'
import { useUp } from '../gate/support.ts'

const DAY_MS = 86_400_000
let nextKey = 0
const freshKey = () => `key-${nextKey++}`
const keyed = (key: string) => ({ 'idempotency-key': key })
const isReplayed = ({ headers }: ApiResponse) => headers.get('idempotency-replayed') === 'true'

const company = await mintCompany()
const clientId: number = await createClient()

async function createClient(fields: object = {}): Promise<number> {
  return (await company.call('POST', '/clients', { company_name: 'Client', ...fields })).body.client.id
}

const createOrder = async (): Promise<number> =>
  (await company.call('POST', '/orders', { title: 'Order', client_id: clientId })).body.project.id

async function createPayment(): Promise<string> {
  const path = `/orders/${await createOrder()}/payments`
  return `${path}/${(await company.call('POST', path, { amount: 1 })).body.payment.id}`
}

const count = async (table: string) => (await sql(`SELECT 1 FROM ${table} WHERE company_id = ?`, company.id)).length

const TABLES = 'clients orders invoices invoice_items payments changes audit_log accounting_outbox'.split(' ')
const COUNTS = TABLES.map((table) => `(SELECT count(*) FROM ${table} WHERE company_id = ?1) AS ${table}`)
const countAll = () => sql(`SELECT ${COUNTS}`, company.id)

const WHOLE_ORDER = { title: 'A', client_id: clientId, invoice_items: [{ title: 'Tee' }], payments: [{ amount: 1 }] }

/** Requests that a key makes happen once, each with the status of its first response. */
type Write = [method: string, path: string, body?: object, headers?: Record<string, string>]
const email = 'found@x.example'
const WRITES: [name: string, status: number, make: () => Promise<Write>][] = [
  ['creation of a client', 200, async () => ['POST', '/clients', { company_name: 'A' }]],
  ['creation with an external id', 200, async () => ['POST', '/clients', { company_name: 'A', external_id: 'e' }]],
  ['update of a client', 200, async () => ['PATCH', `/clients/${await createClient()}`, { phone: '1' }]],
  [
    'update that names a version, which is another one by then',
    200,
    async () => ['PATCH', `/clients/${await createClient()}`, { phone: '1' }, { 'if-match': '"1"' }],
  ],
  [
    'update that takes away the email it was found by',
    200,
    async () => ['PATCH', `/clients/${(await createClient({ email })) && email}`, { email: null }],
  ],
  ['update of an unknown client', 404, async () => ['PATCH', '/clients/1', { phone: '1' }]],
  ['creation of an order', 200, async () => ['POST', '/orders', { title: 'A', client_id: clientId }]],
  ['creation of an order with its lists', 200, async () => ['POST', '/orders', WHOLE_ORDER]],
  ['creation of a payment', 200, async () => ['POST', `/orders/${await createOrder()}/payments`, { amount: 1 }]],
  ['deletion of a payment', 200, async () => ['DELETE', await createPayment()]],
  ['creation of an order of an unknown client', 400, async () => ['POST', '/orders', { title: 'A', client_id: 1 }]],
  ['update of an order', 200, async () => ['PATCH', `/orders/${await createOrder()}`, { discount_amount: 5 }]],
  ['update to an unknown status', 400, async () => ['PATCH', `/orders/${await createOrder()}`, { status_id: 1 }]],
  ['update of an unknown order', 404, async () => ['PATCH', '/orders/1', { title: 'B' }]],
  ['deletion of an order', 200, async () => ['DELETE', `/orders/${await createOrder()}`]],
  ['deletion of an unknown order', 404, async () => ['DELETE', '/orders/1']],
]

describe('a request that is sent again with its key', () => {
  it.each(WRITES)('repeats the first response to a %s (%i), and changes nothing', async (_, status, make) => {
    const [method, path, body, headers] = await make()
    const sent = { ...headers, ...keyed(freshKey()) }
    const first = await company.call(method, path, body, sent)
    expect(first.status, JSON.stringify(first.body)).toBe(status)
    expect(isReplayed(first)).toBe(false)
    const before = await countAll()
    for (const samePath of [path, `${path}/`]) {
      const again = await company.call(method, samePath, body, sent)
      expect([again.status, JSON.stringify(again.body)]).toEqual([status, JSON.stringify(first.body)])
      expect(isReplayed(again)).toBe(true)
      expect(again.headers.get('etag')).toBe(first.headers.get('etag'))
    }
    expect(await countAll()).toEqual(before)
  })

  it('starts the deliveries that the first request lost with its response', async () => {
    const own = await mintCompany({ home: 'DB' })
    const client = (await own.call('POST', '/clients', { company_name: 'A' })).body.client.id
    await insertEndpoint(own.id, `we_${freshKey()}`)
    const token = await mintToken(own.id)
    const started: string[] = []
    const objects = (name: string) => ({
      idFromName: String,
      get: () => ({ start: async () => void started.push(name) }),
    })
    const lost = wrapBindings(env, async (name, work) => {
      const result = await work()
      if (name === 'DB.batch') throw new Error('D1_ERROR: out of order')
      return result
    })
    const delivery = { ACCOUNTING_DELIVERY: objects('accounting'), WEBHOOK_DELIVERY: objects('webhooks') }
    const key = keyed(freshKey())
    const order = () => request(token, 'POST', '/orders', { title: 'A', client_id: client }, key)
    expect((await send(order(), { env: Object.assign({}, lost, delivery) })).status).toBe(503)
    expect(started).toEqual([])
    const again = await send(order(), { env: Object.assign({}, env, delivery) })
    expect([again.status, isReplayed(again)]).toEqual([200, true])
    expect(started.sort()).toEqual(['accounting', 'webhooks'])
  })

  it('repeats the response as it was, whatever has changed since', async () => {
    const key = freshKey()
    const body = { company_name: 'Before' }
    const first = await company.call('POST', '/clients', body, keyed(key))
    await company.call('PATCH', `/clients/${first.body.client.id}`, { company_name: 'After', deleted: true })
    expect((await company.call('POST', '/clients', body, keyed(key))).body).toEqual(first.body)
  })

  it('repeats a response that the release before a column stored, with the default of the column', async () => {
    const id = await createOrder()
    const headers = keyed(freshKey())
    const sent = () => company.call('PATCH', `/orders/${id}`, { title: 'B' }, headers)
    const first = await sent()
    // The last column of the invoice is `deleted`.
    const older = "UPDATE idempotency_keys SET result = json_remove(result, '$[1][0][1][0][#-1]') WHERE key = ?"
    await sqlIn(company.home, older, headers['idempotency-key'])
    const again = await sent()
    expect([again.status, again.body, isReplayed(again)]).toEqual([200, first.body, true])
  })

  it.each<[string, (id: number) => [method: string, path: string, body?: object]]>([
    ['body', (id) => ['PATCH', `/clients/${id}`, { phone: '2' }]],
    ['formatting of the body', (id) => ['PATCH', `/clients/${id}`, { website: 'x.example', phone: '1' }]],
    ['path', () => ['PATCH', `/clients/${clientId}`, { phone: '1' }]],
    ['query', (id) => ['PATCH', `/clients/${id}?email=a@x.example`, { phone: '1' }]],
    ['method', () => ['POST', '/clients', { company_name: 'A' }]],
    ['resource', () => ['DELETE', '/orders/1']],
  ])('is refused with another %s', async (_, other) => {
    const id = await createClient()
    const key = freshKey()
    expect((await company.call('PATCH', `/clients/${id}`, { phone: '1' }, keyed(key))).status).toBe(200)
    const before = await countAll()
    const [method, path, body] = other(id)
    const response = await company.call(method, path, body, keyed(key))
    expect(issuesOf(response)).toEqual(['Idempotency-Key'])
    expect(response.body.error.details.reason).toBe('idempotency_key_reused')
    expect(await countAll()).toEqual(before)
  })
})

describe('a key', () => {
  it('is that of one token', async () => {
    const key = keyed(freshKey())
    const body = { company_name: 'A' }
    const first = await company.call('POST', '/clients', body, key)
    const other = await call(await mintToken(company.id), 'POST', '/clients', { company_name: 'B' }, key)
    expect([other.status, other.body.client?.id === first.body.client.id]).toEqual([200, false])
    const stranger = await (await mintCompany()).call('POST', '/clients', body, key)
    expect(isReplayed(stranger)).toBe(false)
  })

  it.each(['', 'a b', 'é', 'x'.repeat(256), 'tab\tbed'])('is refused where it is %j', async (key) => {
    const before = await count('clients')
    const response = await company.call('POST', '/clients', { company_name: 'A' }, keyed(key))
    expect(issuesOf(response)).toEqual(['Idempotency-Key'])
    expect(await count('clients')).toBe(before)
  })

  it.each(['a', '~!"#', 'x'.repeat(255)])('may be %j', async (key) => {
    for (const isSecond of [false, true]) {
      const response = await company.call('POST', '/clients', { company_name: 'A' }, keyed(key))
      expect([response.status, isReplayed(response)]).toEqual([200, isSecond])
    }
  })

  it('has no effect on reads and PUT', async () => {
    const key = keyed(freshKey())
    const before = await count('idempotency_keys')
    await company.call('GET', '/clients', undefined, key)
    const body = { account_email: 'box@x.example', messages: [] }
    expect((await company.call('PUT', '/mail/email-threads/a', body, key)).status).toBe(200)
    expect((await company.call('PUT', '/mail/email-threads/b', body, key)).status).toBe(200)
    expect(await count('idempotency_keys')).toBe(before)
  })

  it('is not stored by a request that is refused before it reaches the data', async () => {
    const before = await count('idempotency_keys')
    const [reader, limited] = [await mintToken(company.id, ['clients:read']), await mintToken(company.id)]
    const id = await createClient({ external_id: 'taken' })
    await useUp(limited)
    const refusals: [number, Parameters<typeof call>][] = [
      // It comes first: the token may send again after a minute.
      [429, [limited, 'POST', '/clients', { company_name: 'A' }]],
      [400, [company.token, 'POST', '/clients', {}]],
      [400, [company.token, 'POST', '/clients', '{']],
      [400, [company.token, 'POST', '/clients?x=1', { company_name: 'A' }]],
      [401, [null, 'POST', '/clients', { company_name: 'A' }]],
      [403, [reader, 'POST', '/clients', { company_name: 'A' }]],
      [404, [company.token, 'DELETE', '/orders/x']],
      [409, [company.token, 'POST', '/clients', { company_name: 'A', external_id: 'taken' }]],
      [412, [company.token, 'PATCH', `/clients/${id}`, { phone: '1' }, { 'if-match': '"9"' }]],
      [415, [company.token, 'POST', '/clients', '{}', { 'content-type': 'text/plain' }]],
    ]
    for (const [status, [token, method, path, body, headers]] of refusals) {
      const key = freshKey()
      const response = await call(token, method, path, body, { ...headers, ...keyed(key) })
      expect(response.status, JSON.stringify(response.body)).toBe(status)
      const next = await company.call('POST', '/clients', { company_name: 'A' }, keyed(key))
      expect([next.status, isReplayed(next)]).toEqual([200, false])
    }
    expect(await count('idempotency_keys')).toBe(before + refusals.length)
  })

  it('expires after 24 hours', async () => {
    const key = freshKey()
    const age = (ms: number) =>
      sqlIn(company.home, 'UPDATE idempotency_keys SET created_at = created_at - ? WHERE key = ?', ms, key)
    const create = (company_name: string) => company.call('POST', '/clients', { company_name }, keyed(key))
    const first = await create('A')
    await age(DAY_MS - 60_000)
    expect((await create('A')).body).toEqual(first.body)
    await age(60_000)
    const second = await create('B')
    expect([second.status, isReplayed(second)]).toEqual([200, false])
    expect(second.body.client.id).not.toBe(first.body.client.id)
    expect((await create('B')).body).toEqual(second.body)
  })

  it('that has expired leaves the refusals of its request as they are', async () => {
    const id = await createClient()
    const headers = { ...keyed(freshKey()), 'if-match': '"1"' }
    const sent = () => company.call('PATCH', `/clients/${id}`, { phone: '1' }, headers)
    expect((await sent()).status).toBe(200)
    await sql('UPDATE idempotency_keys SET created_at = 0 WHERE company_id = ?', company.id)
    expect((await sent()).status).toBe(412)
  })
})

describe('requests that are sent at once with one key', () => {
  it.each([
    ['clients', { company_name: 'Once' }],
    ['orders', { title: 'Once', client_id: clientId }],
  ])('make one row of %s, and every response is the first one or 409', async (table, body) => {
    const key = keyed(freshKey())
    const before = await count(table)
    const responses = await Promise.all(Array.from({ length: 8 }, () => company.call('POST', `/${table}`, body, key)))
    expect(await count(table)).toBe(before + 1)
    const done = responses.filter(({ status }) => status === 200)
    expect(done.length).toBeGreaterThan(0)
    expect(new Set(done.map((response) => JSON.stringify(response.body))).size).toBe(1)
    for (const response of responses.filter(({ status }) => status !== 200)) {
      expect([response.status, response.body.error.details]).toMatchObject([409, { reason: 'idempotency_key_in_use' }])
      expect(response.headers.get('retry-after')).toBe('1')
    }
  })

  it('in several isolates make one row, too', async () => {
    const key = freshKey()
    const before = await count('clients')
    // The second request is done while the first waits for the database.
    let other: Awaited<ReturnType<typeof send>> | undefined
    const slow = wrapBindings(env, async (name, work) => {
      if (name === 'DB.batch' && !other) {
        other = await company.call('POST', '/clients', { company_name: 'Once' }, keyed(`${key}x`))
        await sql('UPDATE idempotency_keys SET key = ?, fingerprint = fingerprint WHERE key = ?', key, `${key}x`)
      }
      return work()
    })
    const sent = request(company.token, 'POST', '/clients', { company_name: 'Once' }, keyed(key))
    const response = await send(sent, { env: slow })
    expect(await count('clients')).toBe(before + 1)
    expect([response.status, response.body, isReplayed(response)]).toEqual([200, other?.body, true])
  })

  it('run once where the database’s response is lost', async () => {
    const before = await count('clients')
    const sent = request(company.token, 'POST', '/clients', { company_name: 'Lost' }, keyed(freshKey()))
    const response = await send(sent, { env: loseResponses(env) })
    // No earlier request had the key.
    expect([response.status, response.body.client?.company_name, isReplayed(response)]).toEqual([200, 'Lost', false])
    expect(await count('clients')).toBe(before + 1)
  })
})

it('waits no longer for a request with a key than for one without, and once more for its repetition', async () => {
  const token = await mintToken(company.id)
  const key = keyed(freshKey())
  const sent = () => request(token, 'POST', '/orders', { title: 'A', client_id: clientId }, key)
  expect((await measureHops(sent())).depth).toBe(2)
  expect((await measureHops(sent())).depth).toBe(3)
})

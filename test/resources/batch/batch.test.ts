import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { call, mintCompany, mintToken, request, send, sql, type TestCompany } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { enableAccounting } from '../orders/support.ts'

interface Sent {
  method: string
  path: string
  body?: unknown
  if_match?: string
}

let next = 0

const fresh = () => `batch-${next++}`

const company = await mintCompany()
const clientId: number = (await company.call('POST', '/clients', { company_name: 'First' })).body.client.id

const run = (operations: unknown, headers?: Record<string, string>, of = company) =>
  of.call('POST', '/batch', { operations }, headers)
const create = (external_id?: string): Sent => ({
  method: 'POST',
  path: '/clients',
  body: { company_name: 'Created', ...(external_id && { external_id }) },
})

/** Status and transaction of each result. */
const shapeOf = ({ body }: { body: { results: { status: number; transaction: number | null }[] } }) =>
  body.results.map(({ status, transaction }) => [status, transaction])

async function count(table: string): Promise<number> {
  const [row] = await sql<{ count: number }>(`SELECT count(*) AS count FROM ${table} WHERE company_id = ?`, company.id)
  return row?.count ?? 0
}

describe('POST /batch', () => {
  it('carries out creates and updates in their order, in one transaction', async () => {
    const order = (await company.call('POST', '/orders', { title: 'A', client_id: clientId })).body.project.id
    const response = await run([
      { method: 'POST', path: '/clients', body: { company_name: 'New', email: ' new@x.example ' } },
      { method: 'PATCH', path: `/clients/${clientId}`, body: { phone: '1' } },
      { method: 'PATCH', path: '/clients/new%40x.example', body: { phone: '2' } },
      { method: 'POST', path: '/orders', body: { title: 'New', client_id: clientId, tax_id: 0 } },
      { method: 'PATCH', path: `/orders/${order}`, body: { title: 'B', discount_amount: 5 } },
      { method: 'PATCH', path: `/orders/${order}`, body: { title: 'C' }, if_match: '"2"' },
      { method: 'PUT', path: '/clients/by-external-id/a%2Fb', body: { company_name: 'Put' } },
    ])
    expect(response.status, JSON.stringify(response.body)).toBe(200)
    expect(shapeOf(response)).toEqual(Array(7).fill([200, 1]))
    expect(response.body.transactions).toBe(1)
    const [created, , byEmail, newOrder, , changed, put] = response.body.results.map(
      (each: { body: object }) => each.body,
    )
    expect(byEmail.client).toMatchObject({ id: created.client.id, email: 'new@x.example', phone: '2', version: 2 })
    expect((await company.call('GET', `/clients/${created.client.id}`)).body).toEqual(byEmail)
    expect((await company.call('GET', `/orders/${newOrder.project.id}`)).body).toEqual(newOrder)
    expect(changed).toMatchObject({ project: { title: 'C', version: 3 }, invoice: { discount_amount: 5 } })
    expect(put.client.external_id).toBe('a/b')
  })

  it('returns for a wrong operation what its own request would, and carries out the others', async () => {
    const wrong: Sent[] = [
      { method: 'POST', path: '/clients', body: {} },
      { method: 'POST', path: '/clients', body: { company_name: 'A', company_id: 1 } },
      { method: 'POST', path: '/clients', body: [] },
      { method: 'PATCH', path: '/clients/1', body: { phone: '1' } },
      { method: 'PATCH', path: '/clients/x', body: { phone: '1' } },
      { method: 'PATCH', path: `/clients/${clientId}`, body: {} },
      { method: 'PATCH', path: '/orders/x', body: { title: 'A' } },
      { method: 'PATCH', path: '/orders/1', body: { title: 'A' } },
      { method: 'POST', path: '/orders', body: { title: 'A', client_id: 1, status_id: 2 } },
      { method: 'PATCH', path: `/clients/${clientId}`, body: { phone: '1' }, if_match: '"99"' },
      { method: 'PUT', path: '/clients/by-external-id/%20', body: { company_name: 'A' } },
      { method: 'PUT', path: '/clients/by-external-id/z%20b%E9', body: { company_name: 'A' } },
    ]
    const operations = wrong.flatMap((each) => [create(), each])
    const before = await count('clients')
    const response = await run(operations)
    expect(response.status).toBe(200)
    for (const [index, { method, path, body, if_match }] of wrong.entries()) {
      const alone = await company.call(
        method,
        path,
        body ?? 'null',
        if_match === undefined ? {} : { 'if-match': if_match },
      )
      const result = response.body.results[2 * index + 1]
      expect([result.status, result.transaction], path).toEqual([alone.status, null])
      if (body !== undefined) expect(result.body).toEqual(alone.body)
      expect(response.body.results[2 * index].status).toBe(200)
    }
    expect(await count('clients')).toBe(before + wrong.length)
  })

  it.each([
    ['GET', '/clients'],
    ['DELETE', '/clients'],
    ['post', '/clients'],
    ['POST', '/clients/1'],
    ['PATCH', '/clients'],
    ['PUT', '/orders/1/payments'],
    ['PUT', '/mail/email-threads/t1'],
    ['POST', '/batch'],
    ['PATCH', '/clients/'],
    ['PATCH', '/clients/1?email=a@x.example'],
    ['POST', '/api/v1/clients'],
    ['POST', 'clients'],
    ['POST', ''],
  ])('refuses the operation %s %s', async (method, path) => {
    const response = await run([{ method, path, body: {} }])
    expect(response.body.results).toMatchObject([{ status: 400, transaction: null }])
    const [issue] = response.body.results[0].body.error.details.issues
    const isMethod = ['GET', 'post'].includes(method)
    expect(issue).toEqual({
      path: isMethod ? 'method' : 'path',
      message: expect.stringMatching(
        isMethod ? /^must be one of POST, / : `^must be one of /.* with the method ${method}$`,
      ),
    })
    expect(response.body.transactions).toBe(0)
  })

  it.each<[string, unknown, string]>([
    ['no operations', undefined, 'operations'],
    ['an empty list', [], 'operations'],
    ['101 operations', Array.from({ length: 101 }, () => create()), 'operations'],
    ['a text', ['a'], 'operations.0'],
    ['an unknown field', [{ ...create(), id: 1 }], 'operations.0.id'],
    ['no method', [create(), { path: '/clients', body: {} }], 'operations.1.method'],
    ['a path that is no text', [{ ...create(), path: 1 }], 'operations.0.path'],
  ])('is refused as a whole with %s', async (_, operations, path) => {
    const before = await count('clients')
    const response = await run(operations)
    expect(response.status).toBe(400)
    expect(response.body.error.details.issues[0].path).toBe(path)
    expect(await count('clients')).toBe(before)
  })

  it.each<unknown>(['HEAD', 'GET', '', 7, null, {}, { toString: 1 }])(
    'carries out the operations beside one with the method %j',
    async (method) => {
      const before = await count('clients')
      const operations = [create(), { method, path: `/clients/${clientId}`, body: {} }, create()]
      // A token of its own, since the file's own may send 300 requests a minute.
      const { status, body } = await call(await mintToken(company.id), 'POST', '/batch', { operations })
      expect([status, body.transactions]).toEqual([200, 1])
      expect(body.results).toMatchObject([{ status: 200 }, { status: 400, transaction: null }, { status: 200 }])
      expect(body.results[1].body.error.details.issues[0].message).toBe('must be one of POST, PATCH, DELETE, PUT')
      expect(await count('clients')).toBe(before + 2)
    },
  )

  it('checks the permission of each operation', async () => {
    const token = await mintToken(company.id, ['clients:write'])
    const response = await call(token, 'POST', '/batch', {
      operations: [create(), { method: 'POST', path: '/orders', body: { title: 'A', client_id: clientId } }],
    })
    expect(shapeOf(response)).toEqual([
      [200, 1],
      [403, null],
    ])
    expect(response.body.results[1].body.error.code).toBe('forbidden')
    const none = await call(await mintToken(company.id, []), 'POST', '/batch', { operations: [create()] })
    expect(shapeOf(none)).toEqual([[403, null]])
  })

  it('tells which operations were committed together where the database refuses some', async () => {
    const [taken, twice] = [fresh(), fresh()]
    await company.call('POST', '/clients', { company_name: 'A', external_id: taken })
    const before = await count('clients')
    const operations = [
      create(),
      create(twice),
      create(taken),
      create(twice),
      create(),
      { method: 'PATCH', path: `/clients/${clientId}`, body: { phone: '1' }, if_match: '"0"' },
      create(),
    ]
    const response = await run(operations)
    const results = shapeOf(response)
    expect(results.map(([status]) => status)).toEqual([200, 200, 409, 409, 200, 412, 200])
    expect(await count('clients')).toBe(before + 4)
    const transactions = results.flatMap(([, transaction]) => transaction ?? [])
    expect(transactions[0]).toBe(1)
    expect(transactions).toEqual([...transactions].sort())
    expect(response.body.transactions).toBe(Math.max(...transactions))
    expect(results.filter(([status]) => status !== 200).every(([, transaction]) => transaction === null)).toBe(true)
    expect(response.body.results[2].body.error.details).toMatchObject({ reason: 'external_id_taken' })
  })

  it('carries out 100 orders, each with its own number and invoice', async () => {
    const own = await mintCompany()
    const client = (await own.call('POST', '/clients', { company_name: 'A' })).body.client.id
    const operations = Array.from({ length: 100 }, (_, n) => ({
      method: 'POST',
      path: '/orders',
      body: { title: `Order ${n}`, client_id: client, external_id: `${n}`, tax_exempt: true },
    }))
    const response = await run(operations, {}, own)
    expect(response.body.transactions).toBe(1)
    const orders = response.body.results.map((each: { body: { project: object } }) => each.body)
    expect(orders.map((order: { project: { title: string } }) => order.project.title)).toEqual(
      operations.map(({ body }) => body.title),
    )
    expect(new Set(orders.map((order: { invoice: { number: string } }) => order.invoice.number)).size).toBe(100)
    expect((await own.call('GET', '/orders')).body.pagination.total).toBe(100)
  })

  it('delivers the accounting events of its operations', async () => {
    const own = await mintCompany()
    await enableAccounting(own, false)
    const client = (await own.call('POST', '/clients', { company_name: 'A' })).body.client.id
    const order = (title: string, accounting_sync_enabled: boolean) => ({
      method: 'POST',
      path: '/orders',
      body: { title, client_id: client, accounting_sync_enabled },
    })
    await run([order('a', false), order('b', true), create()], {}, own)
    expect(await sql('SELECT operation FROM accounting_outbox WHERE company_id = ?', own.id)).toEqual([
      { operation: 'create' },
    ])
  })
})

describe('the limits of a batch', () => {
  const limitOf = (response: { headers: Headers }) =>
    Number(/r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1])

  it('count each operation as a request, and a malformed batch as one', async () => {
    const own = await mintCompany()
    const first = limitOf(await own.call('GET', '/clients'))
    const batch = await run(
      Array.from({ length: 40 }, () => create()),
      {},
      own,
    )
    expect(limitOf(batch)).toBe(first - 40)
    expect(limitOf(await run([], {}, own))).toBe(first - 41)
    expect(limitOf(await own.call('GET', '/batch'))).toBe(first - 42)
    expect(limitOf(await own.call('GET', '/clients'))).toBe(first - 43)
  })

  it('refuse it as a whole where less is left, and leave that for smaller ones', async () => {
    const own = await mintCompany()
    const sent = (n: number) =>
      run(
        Array.from({ length: n }, () => create()),
        {},
        own,
      )
    for (let i = 0; i < 2; i++) expect((await sent(100)).status).toBe(200)
    expect((await sent(60)).status).toBe(200)
    const refused = await sent(50)
    expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limited'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await own.call('GET', '/clients')).body.pagination.total).toBe(260)
    expect((await sent(30)).status).toBe(200)
    // The refused batch and the list count as one each.
    expect(limitOf(await sent(8))).toBe(0)
    expect((await own.call('GET', '/clients')).status).toBe(429)
  })

  it('are three serial waits while it is one transaction: the second is for its further requests', async () => {
    const token = await mintToken(company.id)
    await measureHops(request(token, 'GET', '/clients'))
    const sent = (key: Record<string, string>) =>
      request(token, 'POST', '/batch', { operations: [create(), create()] }, key)
    const { hops, response } = await measureHops(sent({ 'idempotency-key': fresh() }))
    expect(response.status).toBe(200)
    expect(hops.filter(({ name }) => name.startsWith('DB.'))).toHaveLength(1)
    const other = await mintToken(company.id)
    const calls: string[] = []
    const bindings = wrapBindings(env, (name, work) => {
      if (name !== 'FAILED_LOOKUPS.limit') calls.push(name)
      return work()
    })
    await send(request(other, 'GET', '/clients'), { env: bindings })
    calls.length = 0
    const operations = Array.from({ length: 50 }, () => create())
    await send(request(other, 'POST', '/batch', { operations }), { env: bindings })
    expect(calls.slice(0, 3)).toEqual(['RATE_LIMITER.admit', 'RATE_LIMITER.take', 'DB.batch'])
    expect(calls.filter((name) => name === 'DB.batch')).toHaveLength(1)
  })
})

it('takes the path of every external id that a request of its own takes', async () => {
  const external_id = '語'.repeat(255)
  const path = `/clients/by-external-id/${encodeURIComponent(external_id)}`
  const { body } = await run([{ method: 'PUT', path, body: { company_name: 'A' } }], {}, await mintCompany())
  expect(body.results[0].body.client).toMatchObject({ external_id })
})

describe('a batch with stale versions', () => {
  let own: TestCompany

  beforeAll(async () => {
    own = await mintCompany({ home: 'DB' })
  })

  /** Sends a batch, and returns the statuses of its operations and the round trips to the database. */
  async function countTrips(
    operations: Sent[],
    headers?: Record<string, string>,
    around: () => Promise<void> = async () => undefined,
  ) {
    let trips = 0
    const counting = wrapBindings(env, async (name, work) => {
      if (name !== 'DB.batch') return work()
      trips++
      await around()
      return work()
    })
    const token = await mintToken(own.id)
    const { body } = await send(request(token, 'POST', '/batch', { operations }, headers), { env: counting })
    return { statuses: body.results.map(({ status }: { status: number }) => status), trips, body }
  }
  const newClient = async () => (await own.call('POST', '/clients', { company_name: 'A' })).body.client.id
  const rename = (id: number, name: string, if_match?: string): Sent => ({
    method: 'PATCH',
    path: `/clients/${id}`,
    body: { company_name: name },
    ...(if_match && { if_match }),
  })
  const read = async (id: number) => (await own.call('GET', `/clients/${id}`)).body.client

  it('takes few round trips, however many there are', async () => {
    const id = await newClient()
    const order = (await own.call('POST', '/orders', { title: 'A', client_id: await newClient() })).body.project.id
    const stale: Sent[] = [
      rename(id, 'stale', '"99"'),
      { method: 'PATCH', path: `/orders/${order}`, body: { title: 'stale' }, if_match: '"99"' },
      { method: 'PUT', path: `/clients/by-external-id/${fresh()}`, body: { company_name: 'stale' }, if_match: '"1"' },
    ]
    const operations = Array.from({ length: 99 }, (_, n) => (n % 2 ? create() : (stale[n % 3] as Sent)))
    const expected = operations.map(({ method }) => (method === 'POST' ? 200 : 412))
    const first = await countTrips(operations)
    expect([first.statuses, first.trips, first.body.transactions]).toEqual([expected, 3, 1])
    const keyed = await countTrips(operations, { 'idempotency-key': fresh() })
    expect([keyed.statuses, keyed.trips, keyed.body.transactions]).toEqual([expected, 4, 1])
    expect(await read(id)).toMatchObject({ company_name: 'A', version: 1 })
  })

  it('commits nothing where all are stale', async () => {
    const id = await newClient()
    const { statuses, trips, body } = await countTrips(Array.from({ length: 20 }, () => rename(id, 'stale', '"7"')))
    expect([statuses, trips, body.transactions]).toEqual([Array(20).fill(412), 3, 0])
  })

  it('asks no versions where something else is refused', async () => {
    const [id, taken] = [await newClient(), fresh()]
    await own.call('POST', '/clients', { company_name: 'A', external_id: taken })
    const countFor = async (...if_match: string[]) => {
      const { version } = await read(id)
      const each = (n: number) =>
        n % 2 ? create(taken) : rename(id, `${n}`, ...if_match.map((tag) => tag + (version + n / 2) + tag))
      return countTrips(Array.from({ length: 8 }, (_, n) => each(n)))
    }
    const [plain, conditional] = [await countFor(), await countFor('"')]
    expect(conditional.statuses).toEqual([200, 409, 200, 409, 200, 409, 200, 409])
    expect(conditional.trips).toBe(plain.trips)
  })

  it('is repeated after a lost connection where all others may be', async () => {
    const id = await newClient()
    let batches = 0
    const loseThird = async () => {
      batches++
      if (batches === 3) throw new Error('D1_ERROR: Network connection lost.')
    }
    const { statuses } = await countTrips([rename(id, 'B'), rename(id, 'stale', '"9"')], undefined, loseThird)
    expect(statuses).toEqual([200, 412])
  })

  it.each<Sent>([
    { method: 'PATCH', path: '/orders/1', body: { title: 'A' }, if_match: 'x' },
    { method: 'POST', path: '/orders', body: { title: 'A', client_id: 1 }, if_match: '"1"' },
    { method: 'PATCH', path: '/orders/%ff', body: { title: 'A' } },
    { method: 'PUT', path: '/clients/by-external-id/%ff', body: { company_name: 'A' } },
    { method: 'PATCH', path: '/clients/a%40b', body: { phone: '1' }, if_match: 'x' },
  ])('checks the permission of an operation before its form: $method $path', async (operation) => {
    const token = await mintToken(company.id, ['clients:read'])
    const { body } = await call(token, 'POST', '/batch', { operations: [operation] })
    expect(body.results[0].status).toBe(403)
  })

  it('checks the path and the body of an operation before its if_match', async () => {
    const body = { title: 'A', description: 'a'.repeat(400_000) }
    const operations = [
      { method: 'PATCH', path: '/orders/abc', body: { title: 'A' }, if_match: 'x' },
      { method: 'PATCH', path: '/orders/1', body, if_match: 'x' },
    ]
    const { body: found } = await run(operations, {}, await mintCompany())
    expect(found.results.map(({ status }: { status: number }) => status)).toEqual([404, 413])
  })

  it('refuses if_match where it would have no effect', async () => {
    const id = await newClient()
    const thread = {
      method: 'PUT',
      path: `/mail/threads/${fresh()}`,
      body: { client_id: id },
      if_match: '"99"',
    } as const
    const { body } = await own.call('POST', '/batch', { operations: [{ ...create(), if_match: '"1"' }, thread] })
    const refusal = { path: 'if_match', message: 'has no effect on this operation: send the request without it' }
    for (const {
      status,
      body: { error },
    } of body.results) {
      expect([status, error.details.issues]).toEqual([400, [refusal]])
    }
    expect((await own.call('GET', thread.path)).status).toBe(404)
  })

  it('gives each operation what it would have alone, in their order', async () => {
    const [id, other] = [await newClient(), await newClient()]
    const external = fresh()
    const { statuses } = await countTrips([
      rename(other, 'stale', '"9"'),
      rename(id, 'first'),
      // The change before gives it this version.
      rename(id, 'second', '"2"'),
      rename(id, 'stale', '"2"'),
      rename(id, 'third', '"3"'),
      create(external),
      { method: 'PUT', path: `/clients/by-external-id/${external}`, body: { company_name: 'Put' }, if_match: '"1"' },
      create(external),
      rename(id, 'fourth'),
    ])
    expect(statuses).toEqual([412, 200, 200, 412, 200, 200, 200, 409, 200])
    expect(await read(id)).toMatchObject({ company_name: 'fourth', version: 5 })
  })

  it('carries out an operation that another request makes right meanwhile, or refuses it', async () => {
    const [id, stale] = [await newClient(), await newClient()]
    let trips = 0
    const { statuses } = await countTrips(
      [rename(stale, 'stale', '"9"'), rename(id, 'right', '"2"'), create()],
      {},
      async () => {
        if (++trips === 3) await own.call('PATCH', `/clients/${id}`, { phone: '1' })
        return undefined
      },
    )
    expect(statuses).toEqual([412, 200, 200])
    expect(await read(id)).toMatchObject({ company_name: 'right', version: 3 })
  })
})

describe('a batch that is sent again with its key', () => {
  const keyed = () => ({ 'idempotency-key': fresh() })

  it('returns the same, and carries out nothing again', async () => {
    const headers = keyed()
    const operations = [
      create(),
      { method: 'PATCH', path: '/clients/1', body: { phone: '1' } },
      { method: 'POST', path: '/clients', body: {} },
      { method: 'POST', path: '/orders', body: { title: 'A', client_id: 1 } },
      { method: 'PATCH', path: `/clients/${clientId}`, body: { website: 'x.example' } },
    ]
    const first = await run(operations, headers)
    const before = [await count('clients'), await count('changes')]
    const again = await run(operations, headers)
    expect(JSON.stringify(again.body)).toBe(JSON.stringify(first.body))
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect([await count('clients'), await count('changes')]).toEqual(before)
    expect((await run([create()], headers)).body.error.details).toMatchObject({ reason: 'idempotency_key_reused' })
  })

  it('is refused where the key is that of another request, whichever of its operations stored a result', async () => {
    const own = await mintCompany()
    const headers = keyed()
    const operations = [{ method: 'POST', path: '/clients', body: {} }, create()]
    const first = await run(operations, headers, own)
    expect(shapeOf(first)).toEqual([
      [400, null],
      [200, 1],
    ])
    const single = await own.call('POST', '/clients', { company_name: 'Other' }, headers)
    expect(single.body.error?.details).toMatchObject({ reason: 'idempotency_key_reused' })
    expect((await run(operations, headers, own)).body).toEqual(first.body)

    const ofSingle = keyed()
    expect((await own.call('POST', '/clients', { company_name: 'Single' }, ofSingle)).status).toBe(200)
    const batch = await run(operations, ofSingle, own)
    expect(batch.body.error?.details).toMatchObject({ reason: 'idempotency_key_reused' })
    expect((await own.call('GET', '/clients')).body.pagination.total).toBe(2)
  })

  it('returns the same transactions', async () => {
    const twice = fresh()
    const headers = keyed()
    const operations = [create(), create(twice), create(twice), create(), create()]
    const first = await run(operations, headers)
    expect(first.body.transactions).toBeGreaterThan(1)
    const before = await count('clients')
    const again = await run(operations, headers)
    expect(again.body).toEqual(first.body)
    expect(await count('clients')).toBe(before)
  })

  it.each([1, 2, 3, 4, 5])(
    'carries out the rest when the service stopped after %i calls of the database',
    async (calls) => {
      const headers = keyed()
      const twice = fresh()
      // Refused as a whole, so that it runs in several transactions.
      const operations = [create(), create(twice), create(twice), create(), create(), create()]
      let done = 0
      const stopping = wrapBindings(env, async (name, work) => {
        if (name === 'DB.batch' && done >= calls) throw new Error('D1_ERROR: out of order')
        try {
          return await work()
        } finally {
          if (name === 'DB.batch') done++
        }
      })
      const before = await count('clients')
      const stopped = await send(request(company.token, 'POST', '/batch', { operations }, headers), { env: stopping })
      expect(stopped.status).toBe(503)
      const response = await run(operations, headers)
      expect(response.body.results.map(({ status }: { status: number }) => status)).toEqual([
        200, 200, 409, 200, 200, 200,
      ])
      expect(await count('clients')).toBe(before + 5)
      const ids = response.body.results.flatMap(
        (each: { body: { client?: { id: number } } }) => each.body.client?.id ?? [],
      )
      expect(new Set(ids).size).toBe(5)
      expect((await run(operations, headers)).body.results).toEqual(response.body.results)
    },
  )

  it.each([1, 2, 3, 4, 5, 6])(
    'returns the result of each operation, or 503 until it is sent again, when the response to batch %i is lost',
    async (lost) => {
      const [headers, twice, own] = [keyed(), fresh(), await mintCompany({ home: 'DB' })]
      await run([create(twice)], {}, own)
      const { id, version } = (await own.call('POST', '/clients', { company_name: 'A' })).body.client
      const rename = (phone: string, if_match?: string) => ({
        method: 'PATCH',
        path: `/clients/${id}`,
        body: { phone },
        ...(if_match && { if_match }),
      })
      const operations = [rename('1', `"${version}"`), rename('2'), create(twice), create(), create()]
      let batches = 0
      const losing = wrapBindings(env, async (name, work) => {
        const result = await work()
        if (name === 'DB.batch' && ++batches === lost) throw new Error('D1_ERROR: Network connection lost.')
        return result
      })
      const sent = () => request(own.token, 'POST', '/batch', { operations }, headers)
      const first = await send(sent(), { env: losing })
      const last = first.status === 503 ? await send(sent()) : first
      expect(shapeOf(last).map(([status]) => status)).toEqual([200, 200, 409, 200, 200])
      expect((await own.call('GET', '/clients')).body.pagination.total).toBe(4)
      expect((await own.call('GET', `/clients/${id}`)).body.client).toMatchObject({ phone: '2', version: 3 })
    },
  )

  it('carries out each operation once, however many are sent at once', async () => {
    const headers = keyed()
    const operations = [create(), create(), create()]
    const before = await count('clients')
    const responses = await Promise.all(Array.from({ length: 5 }, () => run(operations, headers)))
    expect(await count('clients')).toBe(before + 3)
    const done = responses.filter(({ status }) => status === 200).map(({ body }) => JSON.stringify(body))
    expect(new Set(done).size).toBe(1)
    expect(responses.every(({ status }) => status === 200 || status === 409)).toBe(true)
  })
})

describe('a batch whose operations name earlier results', () => {
  const ref = ($ref: string) => ({ $ref })

  it('creates clients with their orders, contexts and payments in few transactions', async () => {
    const pairs = Array.from({ length: 20 }, (_, index): Sent[] => [
      create(),
      { method: 'POST', path: '/orders', body: { title: 'A', client_id: ref(`${2 * index}.client.id`) } },
    ])
    const context = {
      client_id: ref('0.client.id'),
      clients_data: [{ id: ref('0.client.id'), name: ref('0.client.company_name') }],
      orders_data: [{ id: ref('1.project.id') }],
      selected_order_id: ref('1.project.id'),
    }
    const operations = [...pairs.flat(), { method: 'PUT', path: '/mail/threads/batch-thread', body: context }]
    const { body } = await run(operations)
    expect(body.results.map(({ status }: { status: number }) => status)).toEqual(Array(41).fill(200))
    expect(body.transactions).toBe(3)
    for (let index = 0; index < 40; index += 2) {
      expect(body.results[index + 1].body.project.client_id).toBe(body.results[index].body.client.id)
    }
    const [client, order] = body.results
    const read = await company.call('GET', '/mail/threads/batch-thread')
    expect(read.body).toMatchObject({
      client_id: String(client.body.client.id),
      clients_data: [{ id: client.body.client.id, name: 'Created' }],
      selected_order_id: String(order.body.project.id),
    })
    expect(body.results[40].body).toEqual(read.body)
  })

  it('fails as the first that names one', async () => {
    const { body } = await run([{ method: 'POST', path: '/clients', body: { company_name: ref('0.client.id') } }])
    const [issue] = body.results[0].body.error.details.issues
    expect(issue).toEqual({
      path: 'company_name.$ref',
      message: 'must name an earlier operation, and this is the first',
    })
  })

  it('fails alone where the other failed, or where the reference is wrong', async () => {
    const order = (client_id: unknown): Sent => ({ method: 'POST', path: '/orders', body: { title: 'A', client_id } })
    const { body } = await run([
      { method: 'POST', path: '/clients', body: {} },
      order(ref('0.client.id')),
      create(),
      order(ref('2.client.id')),
      order(ref('2.client.name')),
      order(ref('2.client.nothing')),
      order(ref('7.client.id')),
      order(ref('7.project.id')),
      order(ref('9.client.id')),
      order(ref('client.id')),
      order({ $ref: 2 }),
      order(ref('2.client.company_name')),
      order(ref('2.client.id')),
    ])
    const shape = body.results.map(({ status, body: each }: { status: number; body: Record<string, never> }) => {
      const { error } = each as { error?: { details: { issues: { path: string; message: string }[] } } }
      const [issue] = error?.details.issues ?? []
      return [status, issue?.path, issue?.message]
    })
    const path = 'client_id.$ref'
    expect(shape).toEqual([
      [400, 'company_name', 'is required'],
      [400, path, 'names operation 0, which failed'],
      [200, undefined, undefined],
      [200, undefined, undefined],
      [400, path, 'names nothing in the result of operation 2'],
      [400, path, 'names nothing in the result of operation 2'],
      [400, path, 'must name an earlier operation: this one is 6, the first is 0'],
      [400, path, 'must name an earlier operation: this one is 7, the first is 0'],
      [400, path, 'must name an earlier operation: this one is 8, the first is 0'],
      [400, path, 'must be the position of an earlier operation and a path in its result, such as 0.client.id'],
      [400, path, 'must be the position of an earlier operation and a path in its result, such as 0.client.id'],
      [400, 'client_id', 'must be a number, not a string'],
      [200, undefined, undefined],
    ])
  })

  it('may be to what is null, and not to an object', async () => {
    const { body } = await run([
      create(),
      { method: 'POST', path: '/clients', body: { company_name: fresh(), phone: ref('0.client.phone') } },
      { method: 'POST', path: '/clients', body: { company_name: ref('0.client') } },
    ])
    const [, second, third] = body.results
    expect([second.status, second.body.client.phone]).toEqual([200, null])
    expect(third.body.error.details.issues).toEqual([
      { path: 'company_name.$ref', message: 'must name a single value, not an object' },
    ])
  })

  it('is not repeated with the same key, wherever it was interrupted', async () => {
    const key = { 'Idempotency-Key': fresh() }
    const operations = [
      create(),
      { method: 'POST', path: '/orders', body: { title: 'A', client_id: ref('0.client.id') } },
    ]
    const first = await run(operations, key)
    const [clients, orders] = [await count('clients'), await count('orders')]
    const again = await run(operations, key)
    expect(again.body).toEqual(first.body)
    expect(again.headers.get('Idempotency-Replayed')).toBe('true')
    await sql(
      'DELETE FROM idempotency_keys WHERE company_id = ? AND key = ? AND position = 1',
      company.id,
      key['Idempotency-Key'],
    )
    const rest = await run(operations, key)
    expect(rest.body.results[0]).toEqual(first.body.results[0])
    expect(rest.body.results[1].body.project.client_id).toBe(first.body.results[0].body.client.id)
    expect([await count('clients'), await count('orders')]).toEqual([clients, orders + 1])
  })

  it('takes every operation that a batch may contain', async () => {
    const { body } = await run([
      {
        method: 'PUT',
        path: '/orders/by-external-id/b-1',
        body: { title: 'A', client_id: clientId, payments: [{ amount: 3 }] },
      },
    ])
    const { project, payments } = body.results[0].body
    const path = `/orders/${project.id}`
    const more = await run([
      { method: 'PUT', path: `${path}/invoice-items`, body: { items: [{ title: 'Tee' }] } },
      { method: 'POST', path: `${path}/payments`, body: { amount: 2 } },
      { method: 'PATCH', path: `${path}/payments/${payments[0].id}`, body: { amount: 4 } },
      { method: 'DELETE', path: `${path}/payments/${payments[0].id}` },
      { method: 'DELETE', path },
      { method: 'DELETE', path: `/clients/${clientId}` },
      { method: 'PATCH', path: `/clients/${clientId}`, body: { deleted: false } },
      { method: 'PUT', path: '/mail/threads/b-1', body: { client_id: clientId } },
    ])
    expect(more.body.results.map(({ status }: { status: number }) => status)).toEqual(Array(8).fill(200))
    expect(more.body.results[1].body.invoice.amount_paid).toBe(5)
    expect(more.body.results[3].body.invoice.amount_paid).toBe(2)
  })

  it('refuses what its own request would by size or depth', async () => {
    const invoice_items = Array(45).fill({ title: 'a', description: 'x'.repeat(9_000) })
    const deep = JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`)
    const { body } = await run([
      { method: 'POST', path: '/orders', body: { title: 'a', client_id: clientId, invoice_items } },
      { method: 'PUT', path: '/mail/threads/deep', body: { client_data: deep } },
      create(),
    ])
    expect(body.results.map(({ status }: { status: number }) => status)).toEqual([413, 400, 200])
  })
})

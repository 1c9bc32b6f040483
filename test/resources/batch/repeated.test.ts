import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { BUDGET_MS } from '../../../src/kernel/http/isolate.ts'
import { type ApiResponse, mintCompany, mintToken, request, send } from '../../support/app.ts'
import { moveTime, resumeTime, stopTime } from '../../support/time.ts'
import { DATABASE_BATCH, loseResponses, replaceCalls } from '../../support/wrap-bindings.ts'
import { batchesOf, create, fresh, newOrder, rename, type Sent, statusesOf } from './support.ts'

const company = await mintCompany()
const clientId: number = (await company.call('POST', '/clients', { company_name: 'First' })).body.client.id
const { run, count } = batchesOf(company)

describe('a batch that is sent again with its key', () => {
  const keyed = () => ({ 'idempotency-key': fresh() })

  it('returns the same, and carries out nothing again', async () => {
    const headers = keyed()
    const operations = [
      create(),
      { method: 'PATCH', path: '/clients/1', body: { phone: '1' } },
      { method: 'POST', path: '/clients', body: {} },
      newOrder({ title: 'A', client_id: 1 }),
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
    expect(statusesOf(first)).toEqual([400, 200])
    const single = await own.call('POST', '/clients', { company_name: 'Other' }, headers)
    expect(single.body.error?.details).toMatchObject({ reason: 'idempotency_key_reused' })
    expect((await run(operations, headers, own)).body).toEqual(first.body)

    const ofSingle = keyed()
    expect((await own.call('POST', '/clients', { company_name: 'Single' }, ofSingle)).status).toBe(200)
    const batch = await run(operations, ofSingle, own)
    expect(batch.body.error?.details).toMatchObject({ reason: 'idempotency_key_reused' })
    expect((await own.call('GET', '/clients')).body.pagination.total).toBe(2)
  })

  it('is carried out where nothing was the first time', async () => {
    const headers = keyed()
    const sent = () => run([{ method: 'POST', path: '/clients', body: {} }], headers)
    for (const { headers } of [await sent(), await sent()]) expect(headers.get('idempotency-replayed')).toBeNull()
  })

  it('returns the same transactions, also of one millisecond', async () => {
    stopTime()
    const [headers, twice] = [keyed(), fresh()]
    const operations = [create(), create(twice), create(twice), create(), create()]
    const first = await run(operations, headers)
    expect(first.body.transactions).toBeGreaterThan(1)
    const before = await count('clients')
    expect((await run(operations, headers)).body).toEqual(first.body)
    expect(await count('clients')).toBe(before)
  })

  it.each([1, 2, 3, 4, 5])('carries out the rest when the service stopped after %i batches', async (batches) => {
    const [headers, twice] = [keyed(), fresh()]
    // Refused as a whole, so that it runs in several transactions.
    const operations = [create(), create(twice), create(twice), create(), create(), create()]
    const stopping = replaceCalls(env, DATABASE_BATCH, async (work, batch) => {
      if (batch > batches) throw new Error('D1_ERROR: out of order')
      return work()
    })
    const before = await count('clients')
    const stopped = await send(request(company.token, 'POST', '/batch', { operations }, headers), { env: stopping })
    expect(stopped.status).toBe(503)
    const response = await run(operations, headers)
    expect(statusesOf(response)).toEqual([200, 200, 409, 200, 200, 200])
    expect(await count('clients')).toBe(before + 5)
    const ids = response.body.results.flatMap((each: ApiResponse) => each.body.client?.id ?? [])
    expect(new Set(ids).size).toBe(5)
    expect((await run(operations, headers)).body.results).toEqual(response.body.results)
  })

  it.each([1, 2, 3, 4, 5, 6])('returns each result, at the latest when sent again: batch %i is lost', async (lost) => {
    const [headers, twice, own] = [keyed(), fresh(), await mintCompany({ home: 'DB' })]
    await run([create(twice)], {}, own)
    const { id, version } = (await own.call('POST', '/clients', { company_name: 'A' })).body.client
    const operations = [rename(id, 'B', `"${version}"`), rename(id, 'C'), create(twice), create(), create()]
    const sent = () => request(own.token, 'POST', '/batch', { operations }, headers)
    const first = await send(sent(), { env: loseResponses(env, (batch) => batch === lost) })
    const last = first.status === 503 ? await send(sent()) : first
    expect(statusesOf(last)).toEqual([200, 200, 409, 200, 200])
    expect((await own.call('GET', '/clients')).body.pagination.total).toBe(4)
    expect((await own.call('GET', `/clients/${id}`)).body.client).toMatchObject({ company_name: 'C', version: 3 })
  })

  it.each([1, 2, 3, 4, 5])('returns what a repetition in another isolate returns before batch %i', async (before) => {
    const [headers, taken, own] = [keyed(), fresh(), await mintCompany({ home: 'DB' })]
    await run([create(taken)], {}, own)
    const operations = [create(), create(taken), create(), newOrder({ title: 'A', client_id: { $ref: '0.client.id' } })]
    let other: ApiResponse | undefined
    const meeting = replaceCalls(env, DATABASE_BATCH, async (work, batch) => {
      if (batch !== before) return work()
      // This isolate has then forgotten the key of the first request.
      moveTime(BUDGET_MS.handler)
      other = await run(operations, headers, own).finally(resumeTime)
      return work()
    })
    const response = await send(request(own.token, 'POST', '/batch', { operations }, headers), { env: meeting })
    expect(statusesOf(response)).toEqual([200, 409, 200, 200])
    expect(response.body).toEqual(other?.body)
    const totals = await Promise.all(['clients', 'orders'].map((path) => own.call('GET', `/${path}`)))
    expect(totals.map(({ body }) => body.pagination.total)).toEqual([3, 1])
  })

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

it.each([
  ['takes the external id away', { external_id: fresh() }],
  ['is of the same field', { company_name: 'B' }],
])('a batch without a key whose response is lost is not carried out twice: its last PATCH %s', async (_, change) => {
  const own = await mintCompany({ home: 'DB' })
  const external_id = fresh()
  const { id } = (await own.call('POST', '/clients', { company_name: 'Old', external_id })).body.client
  const put = { method: 'PUT', path: `/clients/by-external-id/${external_id}`, body: { company_name: 'New' } }
  const operations = [rename(id, 'A'), put, { method: 'PATCH', path: `/clients/${id}`, body: change }]
  const losing = loseResponses(env, (batch) => batch === 1)
  const { status, headers } = await send(request(own.token, 'POST', '/batch', { operations }), { env: losing })
  expect([status, headers.get('retry-after')]).toEqual([503, null])
  const { data } = (await own.call('GET', '/clients')).body
  expect(data).toMatchObject([{ id, version: 4 }])
})

/** Its batches are sent through a counter of round trips. */
const own = await mintCompany({ home: 'DB' })

describe('a batch with stale versions', () => {
  /** Sends a batch, and returns the statuses of its operations and the round trips to the database. */
  async function countTrips(operations: Sent[], headers = {}, before?: (trip: number) => unknown) {
    let trips = 0
    const counting = replaceCalls(env, DATABASE_BATCH, async (work, trip) => {
      trips = trip
      await before?.(trip)
      return work()
    })
    const token = await mintToken(own.id)
    const { body } = await send(request(token, 'POST', '/batch', { operations }, headers), { env: counting })
    return { statuses: statusesOf({ body }), trips, body }
  }
  const newClient = async () => (await own.call('POST', '/clients', { company_name: 'A' })).body.client.id
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

  it('takes few round trips, however many have a taken external id', async () => {
    const client_id = await newClient()
    const ids = Array.from({ length: 50 }, fresh)
    const operations: Sent[] = ids.flatMap((external_id) => [
      { method: 'POST', path: '/clients', body: { company_name: 'A', external_id } },
      { method: 'POST', path: '/orders', body: { title: 'A', client_id, external_id } },
    ])
    const first = await countTrips(operations)
    expect([first.statuses, first.trips]).toEqual([Array(100).fill(200), 1])
    const again = await countTrips(operations)
    expect([again.statuses, again.trips]).toEqual([Array(100).fill(409), 3])
    expect(again.body.results[1].body.error.details.reason).toBe('external_id_taken')
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
    const { statuses } = await countTrips([rename(id, 'B'), rename(id, 'stale', '"9"')], {}, (trip) => {
      if (trip === 3) throw new Error('D1_ERROR: Network connection lost.')
    })
    expect(statuses).toEqual([200, 412])
  })

  it('checks the path and the body of an operation before its if_match', async () => {
    const body = { title: 'A', description: 'a'.repeat(400_000) }
    const operations = [
      { method: 'PATCH', path: '/orders/abc', body: { title: 'A' }, if_match: 'x' },
      { method: 'PATCH', path: '/orders/1', body, if_match: 'x' },
      { method: 'PATCH', path: '/orders/1', body: { title: 'A' }, if_match: 'x' },
    ]
    const response = await run(operations, {}, await mintCompany())
    expect(statusesOf(response)).toEqual([404, 413, 400])
    expect(response.body.results[2].body.error.details.issues[0].path).toBe('if_match')
  })

  it('refuses if_match where it would have no effect', async () => {
    const id = await newClient()
    const thread = { method: 'PUT', path: `/mail/threads/${fresh()}`, body: { client_id: id }, if_match: '"99"' }
    const { body } = await own.call('POST', '/batch', { operations: [{ ...create(), if_match: '"1"' }, thread] })
    const refusal = { path: 'if_match', message: 'has no effect on this operation: send the request without it' }
    const refused = body.results.map((each: ApiResponse) => [each.status, each.body.error.details.issues])
    expect(refused).toEqual(Array(2).fill([400, [refusal]]))
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
    const operations = [rename(stale, 'stale', '"9"'), rename(id, 'right', '"2"'), create()]
    const { statuses } = await countTrips(operations, {}, (trip) =>
      trip === 3 ? own.call('PATCH', `/clients/${id}`, { phone: '1' }) : undefined,
    )
    expect(statuses).toEqual([412, 200, 200])
    expect(await read(id)).toMatchObject({ company_name: 'right', version: 3 })
  })
})

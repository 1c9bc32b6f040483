import { env, exports } from 'cloudflare:workers'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { app } from '../../../src/app.ts'
import type { Env } from '../../../src/env.ts'
import wrangler from '../../../wrangler.toml?raw'
import { type ApiResponse, bodyOf, mintCompany, mintToken, request, send } from '../../support/app.ts'
import { linesOf, logLines } from '../../support/log.ts'
import { meterBindings } from '../../support/meter.ts'
import { holdTimers } from '../../support/time.ts'
import { breakCalls, watchCalls, wrapBindings } from '../../support/wrap-bindings.ts'

let clock = Date.now()

/** Later than any earlier test, whose result is not reused then. */
function passTime(): void {
  vi.useFakeTimers({ toFake: ['Date'] })
  clock += 60_000
  vi.setSystemTime(clock)
}

function get(path: string, bindings: Env = env, method = 'GET'): Promise<ApiResponse> {
  return send(new Request(`https://api.test${path}`, { method }), { env: bindings, app })
}

const failing = (names: RegExp) => breakCalls(env, names, new Error('hunter2'))

describe('GET /health', () => {
  let deadlines: (() => void)[]

  beforeEach(() => {
    passTime()
    deadlines = holdTimers(2_000)
  })

  it('waits two seconds for what hangs', async () => {
    let underWay = 0
    const hanging = wrapBindings(env, (name, work) => {
      if (/^(FILES|WEBHOOK_DELIVERY)\./.test(name)) return new Promise(() => undefined)
      underWay += 1
      return work().finally(() => {
        underWay -= 1
      })
    })
    const response = get('/health', hanging)
    await vi.waitUntil(() => deadlines.length > 0 && underWay === 0, 30_000)
    for (const run of deadlines) run()
    const { status, body } = await response
    expect(status).toBe(503)
    const { cache, files, backups, durable_objects } = body.checks
    const { accounting_delivery, webhook_delivery } = durable_objects
    expect([cache, backups, accounting_delivery].map((check) => check.status)).toEqual(['ok', 'ok', 'ok'])
    expect([files, webhook_delivery].map((check) => check.status)).toEqual(['failed', 'failed'])
  })

  it('returns 200 without a token where everything responds, and the schema that is applied', async () => {
    const { status, body, headers } = await get('/health')
    expect(status).toBe(200)
    const check = { status: 'ok', ms: expect.any(Number) }
    const { needed } = body.checks.schema
    const schema = { ...check, applied: needed, needed: expect.any(String), missing: [], unknown: [] }
    expect(body).toEqual({
      status: 'ok',
      checked_at: expect.any(String),
      checks: {
        ...{ database: check, schema, databases: { db_two: schema } },
        ...{ cache: check, files: check, backups: check, credentials_key: check },
        durable_objects: expect.objectContaining({ rate_limiter: check }),
      },
    })
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.has('x-request-id')).toBe(true)
  })

  it('reaches every database, the cache, both buckets and an object of every class, which are all beside each other', async () => {
    const { env: watched, calls } = watchCalls(env)
    const { body } = await get('/health', watched)
    const classes = Array.from(wrangler.matchAll(/^name = "(\w+)"\nclass_name/gm), ([, name = '']) => name)
    expect(classes).toContain('RATE_LIMITER')
    expect(Object.keys(body.checks.durable_objects)).toEqual(classes.map((name) => name.toLowerCase()))
    const others = ['BACKUPS.head', 'CACHE.get', 'DB.batch', 'DB.batch', 'DB_TWO.batch', 'FILES.head']
    expect(calls.sort()).toEqual([...others, ...classes.map((name) => `${name}.ping`)].sort())
  })

  it.each([
    ['the database', /^DB\./, 'database'],
    ['the cache', /^CACHE\./, 'cache'],
    ['the files', /^FILES\./, 'files'],
    ['the backups', /^BACKUPS\./, 'backups'],
    ['an object of one class', /^ACCOUNTING_DELIVERY\./, 'ACCOUNTING_DELIVERY'],
  ])('returns 503 and names the check when %s fails, and tells nothing of why', async (_, name, check) => {
    const { status, body } = await get('/health', failing(name))
    expect(status).toBe(503)
    expect(body.status).toBe('failed')
    const { durable_objects, ...others } = body.checks
    expect({ ...others, ...durable_objects }).toMatchObject({
      ...{ webhook_delivery: { status: 'ok' }, company_backup: { status: 'ok' } },
      [check.toLowerCase()]: { status: 'failed' },
    })
    expect(JSON.stringify(body)).not.toContain('hunter2')
    expect(logLines.at(-2)).toMatchObject({ event: 'health_failed', failures: { [check]: 'Error' } })
    expect(JSON.stringify(logLines)).not.toContain('hunter2')
  })

  it.each(['', 'too short', `${env.CREDENTIALS_KEY},`, `${env.CREDENTIALS_KEY},x`])(
    'returns 503 for the malformed CREDENTIALS_KEY %j, and does not show it',
    async (key) => {
      const { status, body } = await get('/health', { ...env, CREDENTIALS_KEY: key })
      expect([status, body.checks.credentials_key.status]).toEqual([503, 'failed'])
      expect(logLines.at(-2)).toMatchObject({ failures: { credentials_key: 'CredentialsError' } })
      if (key) expect(JSON.stringify([body, logLines.slice(-2)])).not.toContain(key)
    },
  )

  it('returns 503 and names the database of a company that has no binding', async () => {
    await mintCompany({ home: 'DB_TWO' })
    const { DB_TWO: _, ...without } = env
    const { status, body } = await get('/health', without as Env)
    expect(status).toBe(503)
    expect(body.checks.databases).toMatchObject({ db_two: { status: 'failed' } })
    expect(logLines).toContainEqual({ event: 'database_missing', database: 'DB_TWO' })
    expect(logLines.at(-2)).toMatchObject({ event: 'health_failed', failures: { db_two: 'ApiError' } })
  })

  it('checks once for all requests of five seconds, those at the same time included', async () => {
    const { env: watched, calls } = watchCalls(env)
    const all = await Promise.all(Array.from({ length: 20 }, () => get('/health', watched)))
    expect(new Set(all.map(({ body }) => JSON.stringify(body))).size).toBe(1)
    vi.setSystemTime(Date.now() + 4_999)
    await get('/health', watched)
    expect(calls.filter((name) => name === 'DB_TWO.batch')).toHaveLength(1)
    vi.setSystemTime(Date.now() + 1)
    await get('/health', watched)
    expect(calls.filter((name) => name === 'DB_TWO.batch')).toHaveLength(2)
  })

  it('does not wait for checks that another request began more than two seconds ago', async () => {
    const begun = Promise.withResolvers<void>()
    const hanging = wrapBindings(env, (name, work) => {
      if (!name.startsWith('FILES.')) return work()
      begun.resolve()
      return new Promise(() => undefined)
    })
    const first = get('/health', hanging)
    await begun.promise
    vi.setSystemTime(clock + 2_001)
    expect((await get('/health')).status).toBe(200)
    for (const run of deadlines) run()
    expect((await first).status).toBe(503)
  })

  it('returns 400 for a query, and 405 for another method', async () => {
    expect((await get('/health?x=1')).status).toBe(400)
    expect((await get('/health', env, 'POST')).status).toBe(405)
    expect((await get('/health', env, 'HEAD')).status).toBe(200)
  })
})

it('GET /health/live returns 200 without reaching anything', async () => {
  const { env: watched, calls } = watchCalls(env)
  const { status, body } = await get('/health/live', watched)
  expect([status, body]).toEqual([200, { status: 'ok' }])
  expect(calls).toEqual([])
})

const { token } = await mintCompany({ home: 'DB' })

/** Sends a request whose database fails as `thrown` says; `counted` has the calls of the counter. */
async function fail(thrown: Error | null, counter = async () => new Response(), sent = token) {
  const bindings = wrapBindings(env, (name, work) => (name === 'DB.batch' && thrown ? Promise.reject(thrown) : work()))
  const counted: [string, RequestInit][] = []
  const work: Promise<unknown>[] = []
  const context = {
    waitUntil: (promise: Promise<unknown>) => void work.push(promise),
    passThroughOnException: () => undefined,
    props: {},
    exports: {
      FailureCounter: {
        fetch: (...input: [string, RequestInit]) => {
          counted.push(input)
          return counter()
        },
      },
    },
  }
  const response = await bodyOf(await app.fetch(request(sent, 'GET', '/clients'), bindings, context))
  return { response, counted, work: await Promise.allSettled(work) }
}

describe('a failure', () => {
  it('is counted by the platform, under the id of the request, and returned in the error shape', async () => {
    const { response, counted } = await fail(new Error('hunter2'))
    const id = response.headers.get('x-request-id')
    expect(response).toMatchObject({ status: 500, body: { error: { code: 'internal_error' } } })
    expect(counted).toEqual([['https://failure.internal/', { headers: { 'x-request-id': id } }]])
  })

  it('is one only where the response is a 500', async () => {
    expect(await fail(null)).toMatchObject({ response: { status: 200 }, counted: [] })
    expect(await fail(null, undefined, 'unknown')).toMatchObject({ response: { status: 401 }, counted: [] })
  })

  it('changes neither the response nor the work after it when it cannot be counted', async () => {
    const { response, work } = await fail(new Error('hunter2'), () => Promise.reject(new Error('x')))
    expect(response.status).toBe(500)
    expect(work.map(({ status }) => status)).not.toContain('rejected')
  })
})

it('throws nothing but the id of the request', async () => {
  const call = exports.FailureCounter.fetch('https://failure.internal/', { headers: { 'x-request-id': 'r-1' } })
  await expect(call).rejects.toMatchObject({ name: 'InternalError', message: 'of request r-1' })
})

const company = await mintCompany()
await company.call('POST', '/clients', { company_name: 'Acme' })

async function lineOf(sent: Request, bindings = env) {
  const { headers } = await send(sent, { env: bindings })
  return linesOf(headers.get('x-request-id')).find(({ event }) => event === 'request')
}

it('has the rows that the request read and wrote and its database time', async () => {
  const meter = meterBindings(env)
  const token = await mintToken(company.id)
  const line = await lineOf(request(token, 'GET', '/clients'), meter.env)
  // The last use is written after the response, one row of the table and none of an index.
  const { rowsRead, rowsWritten } = meter.take()
  expect(line?.rows_read).toBeGreaterThanOrEqual(3)
  expect(line?.rows_read).toBeLessThanOrEqual(rowsRead)
  expect(line).toMatchObject({ rows_written: 0, database_ms: expect.any(Number), slow_statements: 0 })
  expect(rowsWritten).toBeLessThanOrEqual(1)

  // The token's object looked it up.
  expect(await lineOf(request(token, 'GET', '/clients'))).toMatchObject({ rows_read: line?.rows_read })

  const warm = await lineOf(request(token, 'POST', '/clients', { company_name: 'Box' }), meter.env)
  expect(warm).toMatchObject({ rows_read: expect.any(Number), rows_written: meter.take().rowsWritten })
  expect(warm?.rows_written).toBeGreaterThan(0)
})

it('has the region that served the database, whether it was the primary, and the colo of the request', async () => {
  const remote = wrapBindings(env, async (name, work) => {
    const results = await work()
    if (name !== 'DB.batch' || !Array.isArray(results)) return results
    const served = { duration: 1.234, served_by_region: 'WEUR', served_by_primary: false }
    return results.map((result) => ({ ...result, meta: { ...result.meta, ...served } }))
  })
  const sent = new Request(request(company.token, 'GET', '/clients?per_page=1'), { cf: { colo: 'AMS' } })
  const line = await lineOf(sent, remote)
  expect(line).toMatchObject({ served_by_region: 'WEUR', served_by_primary: false, colo: 'AMS' })
  expect(Number(line?.database_ms) % 1.23).toBeLessThan(0.1)
})

it('has zeros for a request that reaches no database', async () => {
  const none = { rows_read: 0, rows_written: 0, database_ms: 0 }
  expect(await lineOf(request(null, 'GET', '/clients'))).toMatchObject(none)
})

import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { app } from '../../../src/app.ts'
import type { Env } from '../../../src/env.ts'
import wrangler from '../../../wrangler.toml?raw'
import { type ApiResponse, mintCompany, send } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
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

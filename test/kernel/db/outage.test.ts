import { env } from 'cloudflare:workers'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Meter, openDatabase, startUse, statement } from '../../../src/kernel/db/client.ts'
import { BUDGET_MS, DeadlineError } from '../../../src/kernel/http/isolate.ts'
import { mintCompany, request, send } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { breakCalls } from '../../support/wrap-bindings.ts'

await mintCompany({ home: 'DB' })
const company = await mintCompany({ home: 'DB' })

const failing = (message: string) => breakCalls(env, /^DB\.batch$/, new Error(message))

const LOCKED = 'D1_ERROR: database is locked: SQLITE_BUSY'
const OVERLOADED = 'D1_ERROR: D1 DB is overloaded. Requests queued for too long.'
const LOST = 'D1_ERROR: Network connection lost.'
const POST = ['POST', '/clients', { company_name: 'A' }] as const
const PUT = ['PUT', '/clients/by-external-id/a', { company_name: 'A' }] as const
const CONDITIONAL = ['PUT', '/clients/by-external-id/b', { company_name: 'A' }, { 'If-None-Match': '*' }] as const
const GET = ['GET', '/clients', undefined] as const

describe('a directory database that fails', () => {
  it.each([
    [LOCKED, POST, '2'],
    [LOCKED, PUT, '2'],
    [LOCKED, GET, '2'],
    ['D1_ERROR: disk I/O error: SQLITE_IOERR', POST, '2'],
    [OVERLOADED, POST, '2'],
    [OVERLOADED, GET, '2'],
    [LOST, PUT, '2'],
    // It may have been carried out.
    [LOST, POST, null],
    [LOST, CONDITIONAL, null],
    [OVERLOADED, CONDITIONAL, '2'],
    ['D1_ERROR: internal error', POST, null],
  ])('with %s returns 503 to %j, with Retry-After: %s', async (message, [method, path, body, headers], retryAfter) => {
    const response = await send(request(company.token, method, path, body, headers), { env: failing(message) })
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, retryAfter])
    expect(response.body.error.code).toBe('internal_error')
    const lines = linesOf(response.headers.get('x-request-id'))
    expect(lines).toContainEqual(
      expect.objectContaining({ event: 'unavailable', error: expect.stringContaining(message) }),
    )
  })

  it('returns 503 with Retry-After to a token that is not known yet', async () => {
    const { token } = await mintCompany({ home: 'DB' })
    const broken = breakCalls(env, /^(RATE_LIMITER\.admit|DB\.batch)$/, new Error(LOCKED))
    const response = await send(request(token, ...POST), { env: broken })
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '2'])
  })
})

describe('a write whose turn comes after the deadline', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  it('is not carried out, since its caller was told that nothing was changed', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const batch = vi.fn().mockResolvedValue([{ meta: {}, results: [] }])
    const session = { prepare: () => ({ bind: () => null }), getBookmark: () => null, batch }
    const binding = { withSession: () => session } as unknown as D1Database
    const turn = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<unknown>()
    const meter: Meter = {
      async run(work) {
        await turn.promise
        const result = work()
        result.then(ended.resolve, ended.resolve)
        return result
      },
    }
    const use = startUse()
    const written = openDatabase(binding, { meter, use }).write([statement('DELETE FROM clients')])
    const refused = expect(written).rejects.toMatchObject({ kind: 'unavailable', headers: { 'Retry-After': '2' } })
    await vi.advanceTimersByTimeAsync(BUDGET_MS.database)
    await refused
    turn.resolve()
    expect(await ended.promise).toBeInstanceOf(DeadlineError)
    expect([batch.mock.calls.length, use.openWrites]).toEqual([0, 0])
  })
})

import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { app } from '../../../src/app.ts'
import type { Env } from '../../../src/env.ts'
import type { Admission, AdmitRequest, RateLimiter, Report } from '../../../src/kernel/gate/limiter.ts'
import { count, type Decision, LIMIT, type Usage, type Window } from '../../../src/kernel/gate/limits.ts'
import { type Found, findToken, hashToken } from '../../../src/kernel/gate/tokens.ts'
import { request as requestOf, send, sql } from '../../support/app.ts'
import { noteSessions, wrapBindings } from '../../support/wrap-bindings.ts'

/** Bindings with this object for every token that `find` finds, and the names of those called for requests. */
export function withLimiter(
  decide: (name: string, cost: Usage) => Promise<Decision>,
  find = (hash: string): Promise<Found> => findToken(env.DB, hash),
) {
  const called: string[] = []
  const admit = async (hash: string, request: AdmitRequest): Promise<Admission> => {
    called.push(hash)
    const decision = await decide(hash, { ...request, requests: 1 })
    const { token, applied } = await find(hash)
    if (token === undefined) return { kind: 'unknown' }
    if (token === null) return { kind: 'ended', ageMs: 0 }
    return { kind: 'admitted', token, ageMs: 0, applied, decision, constraint: null, receipt: undefined }
  }
  const stub = (name: string) => ({
    admit,
    report: (report: Report) => decide(name, report),
  })
  const namespace = { idFromName: (name: string) => name, get: stub }
  // Only these two methods of a namespace are used.
  const bindings: Env = { ...env, RATE_LIMITER: namespace as unknown as Env['RATE_LIMITER'] }
  return { bindings, called }
}

/** Objects in memory with the real window. */
export function memory() {
  const windows = new Map<string, Window>()
  return async (name: string, cost: Usage) => {
    const decision = count(windows.get(name), Date.now(), cost)
    windows.set(name, decision.window)
    return decision
  }
}

const TOKENS = env.RATE_LIMITER as unknown as DurableObjectNamespace<RateLimiter>

/** The object of a token. */
export const tokenObject = (token: string) => TOKENS.get(TOKENS.idFromName(hashToken(token)))

/** Uses up a token's requests. */
export const useUp = (token: string) => tokenObject(token).report({ uncounted: LIMIT, databaseMs: 0 })

/** Writes a token's last use now: no request writes it soon, with the real database's duration. */
export const markUsed = (token: string) =>
  sql('UPDATE api_tokens SET last_used_at = ? WHERE token_hash = ?', Date.now(), hashToken(token))

/** Sends so many requests at once, without the conformance check of responses, and counts their statuses. */
export async function statusesOf(count: number, make: () => Request, bindings: Env): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {}
  const sendOne = async () => {
    const context = createExecutionContext()
    const { status } = await app.fetch(make(), bindings, context)
    statuses[status] = (statuses[status] ?? 0) + 1
    await waitOnExecutionContext(context)
  }
  await Promise.all(Array.from({ length: count }, sendOne))
  return statuses
}

/** A database that reports `durationMs` for each statement and waits for `hold`. */
export function timedDatabase(durationMs: number, hold: () => Promise<unknown> = () => Promise.resolve()) {
  const seen = { batches: 0, statements: 0, inFlight: 0, mostInFlight: 0 }
  const { DB } = wrapBindings(env, async (name, work, [statements]) => {
    if (name !== 'DB.batch') return work()
    seen.batches++
    seen.statements += (statements as unknown[]).length
    seen.mostInFlight = Math.max(seen.mostInFlight, ++seen.inFlight)
    try {
      await hold()
      const results = (await work()) as D1Result[]
      return results.map((result) => ({ ...result, meta: { ...result.meta, duration: durationMs } }))
    } finally {
      seen.inFlight--
    }
  })
  return { DB, seen }
}

/** Bindings that note the tokens admitted by their objects, failures and bookmarks, and allow so many failures. */
export function guarded(allowed = Number.POSITIVE_INFINITY) {
  const { database: DB, sessions: bookmarks } = noteSessions(env.DB)
  const seen = { admitted: [] as unknown[], failures: [] as unknown[], bookmarks }
  const bindings = wrapBindings({ ...env, DB }, async (name, work, [input]) => {
    if (name === 'RATE_LIMITER.admit') seen.admitted.push(input)
    if (name !== 'AUTH_FAILURES.limit') return work()
    return { success: seen.failures.push(Object(input).key) <= allowed }
  })
  const get = (token: string, headers?: Record<string, string>, path = '/clients') =>
    send(requestOf(token, 'GET', path, undefined, headers), { env: bindings })
  return { seen, bindings, get }
}

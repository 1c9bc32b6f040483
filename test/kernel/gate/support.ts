import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { app } from '../../../src/app.ts'
import type { Env } from '../../../src/env.ts'
import type { Admission, AdmitRequest, Report } from '../../../src/kernel/gate/limiter.ts'
import {
  count,
  DATABASE_LIMIT_MS,
  type Decision,
  LIMIT,
  type Usage,
  type Window,
} from '../../../src/kernel/gate/limits.ts'
import { findToken, hashToken } from '../../../src/kernel/gate/tokens.ts'

/** Bindings with this object for every token, and the names of those that were called for requests. */
export function withLimiter(decide: (name: string, cost: Usage) => Promise<Decision>): {
  bindings: Env
  called: string[]
} {
  const called: string[] = []
  const admit = async (hash: string, request: AdmitRequest): Promise<Admission> => {
    called.push(hash)
    const decision = await decide(hash, { ...request, requests: 1 })
    const { token, applied } = await findToken(env.DB, hash)
    if (token === undefined) return { kind: 'unknown' }
    if (token === null) return { kind: 'ended', ageMs: 0 }
    return { kind: 'admitted', token, ageMs: 0, applied, decision, constraint: null, receipt: undefined }
  }
  const stub = (name: string) => ({
    admit,
    take: (report: Report) => decide(name, report),
    report: (report: Report) => decide(name, { ...report, requests: 0 }),
  })
  const namespace = { idFromName: (name: string) => name, get: stub }
  // Only these two methods of a namespace are used.
  return { bindings: { ...env, RATE_LIMITER: namespace as unknown as Env['RATE_LIMITER'] }, called }
}

/** An object that refuses every request until a minute has passed. */
export async function refuse(): Promise<Decision> {
  return { allowed: false, window: { startedAt: Date.now(), count: LIMIT, databaseMs: DATABASE_LIMIT_MS - 1 } }
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

/** Uses up a token's requests. */
export async function useUp(token: string): Promise<void> {
  const object = env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(hashToken(token)))
  await object.take({ uncounted: LIMIT, databaseMs: 0 })
}

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
  const batch = async (session: D1DatabaseSession, statements: D1PreparedStatement[]) => {
    seen.batches++
    seen.statements += statements.length
    seen.mostInFlight = Math.max(seen.mostInFlight, ++seen.inFlight)
    try {
      await hold()
      const results = await session.batch(statements)
      return results.map((result) => ({ ...result, meta: { ...result.meta, duration: durationMs } }))
    } finally {
      seen.inFlight--
    }
  }
  const DB = new Proxy(env.DB, {
    get: (target, name) => {
      if (name !== 'withSession') return Reflect.get(target, name).bind(target)
      return (mark: string) => {
        const session = target.withSession(mark)
        return {
          prepare: (text: string) => session.prepare(text),
          getBookmark: () => session.getBookmark(),
          batch: (statements: D1PreparedStatement[]) => batch(session, statements),
        }
      }
    },
  })
  return { DB, seen }
}

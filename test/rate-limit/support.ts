import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { app } from '../../src/app.ts'
import type { Env } from '../../src/env.ts'
import { acquire, type Demand, type Lease, type Window } from '../../src/rate-limit/window.ts'

/** Bindings with this limiter instead, and the names of the objects that were called. */
export function withLimiter(acquireLease: (name: string, demand: Demand) => Promise<Lease>): {
  bindings: Env
  called: string[]
} {
  const called: string[] = []
  const acquire = (name: string, demand: Demand) => {
    called.push(name)
    return acquireLease(name, demand)
  }
  const namespace = {
    idFromName: (name: string) => name,
    get: (name: string) => ({ acquire: (demand: Demand) => acquire(name, demand) }),
  }
  // Only these two methods of a namespace are used.
  return { bindings: { ...env, RATE_LIMITER: namespace as unknown as Env['RATE_LIMITER'] }, called }
}

/** A limiter that refuses every request until a minute has passed. */
export async function refuse(): Promise<Lease> {
  return { permits: 0, remaining: 0, resetAt: Date.now() + 60_000, databaseMs: 1 }
}

/** A limiter in memory with the real window. */
export function memory() {
  const windows = new Map<string, Window>()
  return async (name: string, demand: Demand) => {
    const { window, lease } = acquire(windows.get(name), Date.now(), demand)
    windows.set(name, window)
    return lease
  }
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

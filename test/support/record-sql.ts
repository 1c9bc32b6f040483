import { hash } from 'node:crypto'
import { replaceMethods } from './wrap-bindings.ts'

type Statement = [text: string, params: unknown[]]

/** What was sent to a database at once. */
export type Call = Statement[]

/** The same database; what is run is added to `calls`. */
export function recordSql(database: D1Database, calls: Call[]): D1Database {
  const statements = new WeakMap<object, { real: D1PreparedStatement; sent: Statement }>()

  function wrapStatement(real: D1PreparedStatement, sent: Statement): D1PreparedStatement {
    const wrapped = replaceMethods(real, (key, call) => {
      if (key === 'bind') return (...params) => wrapStatement(real.bind(...params), [sent[0], params])
      return (...input) => {
        if (['all', 'raw', 'run', 'first'].includes(key)) calls.push([sent])
        return call(...input)
      }
    })
    statements.set(wrapped, { real, sent })
    return wrapped
  }

  function wrap<T extends D1Database | D1DatabaseSession>(target: T): T {
    const prepare = (text: string) => wrapStatement(target.prepare(text), [text, []])
    const batch = (wrapped: D1PreparedStatement[]) => {
      const known = wrapped.flatMap((each) => statements.get(each) ?? [])
      calls.push(known.map(({ sent }) => sent))
      return target.batch(known.map(({ real }) => real))
    }
    const withSession = (mark: string) => wrap((target as D1Database).withSession(mark))
    const replaced = new Map(Object.entries({ prepare, batch, withSession }))
    return replaceMethods(target, (key, call) => (replaced.get(key) as typeof call | undefined) ?? call)
  }
  return wrap(database)
}

/** Runs recorded calls again, each as one transaction. @returns a hash of each call's rows, or the error */
export async function replay(database: D1Database, calls: readonly Call[]): Promise<string[]> {
  const outcomes: string[] = []
  for (const call of calls) {
    try {
      const results = await database.batch(call.map(([text, params]) => database.prepare(text).bind(...params)))
      outcomes.push(hashRows(results.map((result) => result.results)))
    } catch (error) {
      outcomes.push(error instanceof Error ? error.message : String(error))
    }
  }
  return outcomes
}

/** Of the present: triggers write the time of the database. */
const TIME = /\b1[78]\d{11}\b/g

function hashRows(rows: unknown): string {
  return hash('sha256', JSON.stringify(rows).replaceAll(TIME, '0')).slice(0, 12)
}

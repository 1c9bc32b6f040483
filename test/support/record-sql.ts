import { hash } from 'node:crypto'

type Statement = [text: string, params: unknown[]]

/** What was sent to a database at once. */
export type Call = Statement[]

/** The same database; what is run is added to `calls`. */
export function recordSql(database: D1Database, calls: Call[]): D1Database {
  const statements = new WeakMap<object, { real: D1PreparedStatement; sent: Statement }>()
  const runs = ['all', 'raw', 'run', 'first']

  function wrapStatement(real: D1PreparedStatement, sent: Statement): D1PreparedStatement {
    const wrapped = new Proxy(real, {
      get: (_, key) => {
        if (key === 'bind') return (...params: unknown[]) => wrapStatement(real.bind(...params), [sent[0], params])
        const member: unknown = Reflect.get(real, key)
        if (typeof member !== 'function') return member
        return (...input: unknown[]) => {
          if (runs.includes(String(key))) calls.push([sent])
          return Reflect.apply(member, real, input)
        }
      },
    })
    statements.set(wrapped, { real, sent })
    return wrapped
  }

  function wrap<T extends D1Database | D1DatabaseSession>(target: T): T {
    return new Proxy(target, {
      get: (_, key) => {
        if (key === 'prepare') return (text: string) => wrapStatement(target.prepare(text), [text, []])
        if (key === 'withSession') return (mark: string) => wrap((target as D1Database).withSession(mark))
        if (key === 'batch') {
          return (batch: D1PreparedStatement[]) => {
            const known = batch.flatMap((each) => statements.get(each) ?? [])
            calls.push(known.map(({ sent }) => sent))
            return target.batch(known.map(({ real }) => real))
          }
        }
        const member: unknown = Reflect.get(target, key)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
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

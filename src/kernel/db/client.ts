import { fillPlaceholders, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/d1'
import { unavailable } from '../http/errors.ts'
import { BUDGET_MS, DeadlineError, LruCache, pause, withDeadline } from '../http/isolate.ts'

interface Query {
  readonly _: { readonly result: unknown }
  prepare(): Prepared
}

interface Prepared {
  getQuery(): { sql: string; params: unknown[] }
  mapResult(result: unknown, isFromBatch: true): unknown
}

export type Value = string | number | boolean | null

/** Stands for the company's slot in the full-text tables of its database, which binds it: a moved company may have another. */
export const OWN_SLOT = -1

export type Placeholders<Name extends string, Optional extends string = never> = Record<Name, Placeholder> &
  Partial<Record<Optional, Placeholder>>

type ValuesOf<P> = { [Name in keyof P]: Value | (undefined extends P[Name] ? undefined : never) }

export interface Filled<Result> {
  prepared: Prepared
  values: Record<string, Value | undefined>
  /** Exists in the type only. */
  readonly _?: { readonly result: Result }
}

type AllFilled<T extends readonly Query[] | Record<string, Query>> = {
  -readonly [K in keyof T]: T[K] extends Query ? Filled<T[K]['_']['result']> : never
}

type Statement = Query | Filled<unknown>
export type Statements = readonly [Statement, ...Statement[]]
type ResultOf<S> = S extends Filled<infer R> ? R : S extends Query ? S['_']['result'] : never
export type Results<T extends readonly Statement[]> = { -readonly [K in keyof T]: ResultOf<T[K]> }

/** A statement that Drizzle cannot express; its columns are as it names them. A text costs nothing to build. */
export function statement<Row = Record<string, Value>>(query: SQL | string, ...params: Value[]): Filled<Row[]> {
  if (typeof query !== 'string') return { prepared: orm.all(query), values: {} }
  const prepared: Prepared = {
    getQuery: () => ({ sql: query, params }),
    mapResult: (result) => (result as { results: Row[] }).results,
  }
  return { prepared, values: {} }
}

/** The query with a result made of its rows as SQLite names their columns: Drizzle's mapping costs more than the JSON. */
export function mapRows<Row, T>({ prepared, values }: Filled<unknown>, map: (rows: Row[]) => T): Filled<T> {
  const mapResult = (result: unknown) => map((result as { results: Row[] }).results)
  return { prepared: { getQuery: () => prepared.getQuery(), mapResult }, values }
}

/** Builds queries without a database: a {@link Database} runs them. */
export const orm = drizzle({ prepare: () => undefined } as unknown as D1Database)

/** The texts of an isolate, by statement and given values. A character takes up to seven bytes with what it is built of. */
const texts = new LruCache<string, [name: string, Prepared][]>({
  maxWeight: 3_000_000,
  weigh: (named) => named.reduce((sum, [, prepared]) => sum + prepared.getQuery().sql.length, 0),
})
let lastNumber = 0

/**
 * Prepares the statements of a write by their names, in the order in which they run. Their texts are built once per
 * isolate: building them costs more than the rest of a small read.
 *
 * @param build gets a placeholder for each given value; called once for each set of given values
 * @returns binds values; an undefined value is not given
 */
export function prepareNamed<P extends Placeholders<never>, const T extends Record<string, Query>>(
  build: (placeholders: P) => T,
): (values: ValuesOf<P>) => AllFilled<T> {
  const number = ++lastNumber
  return (values: Record<string, Value | undefined>) => {
    const names = Object.keys(values).filter((name) => values[name] !== undefined)
    const named = texts.getOrMake(`${number} ${names}`, () => {
      const placeholders = Object.fromEntries(names.map((name) => [name, sql.placeholder(name)])) as P
      return Object.entries(build(placeholders)).map(([name, query]) => [name, query.prepare()])
    })
    return Object.fromEntries(named.map(([name, prepared]) => [name, { prepared, values }])) as AllFilled<T>
  }
}

export function prepareBatch<P extends Placeholders<never>, const T extends readonly [Query, ...Query[]]>(
  build: (placeholders: P) => T,
): (values: ValuesOf<P>) => AllFilled<T> {
  const named = prepareNamed((placeholders: P) => ({ ...build(placeholders) }) as unknown as Record<string, Query>)
  return (values) => Object.values(named(values)) as AllFilled<T>
}

export function prepare<P extends Placeholders<never>, Q extends Query>(
  build: (placeholders: P) => Q,
): (values: ValuesOf<P>) => Filled<Q['_']['result']> {
  const batch = prepareBatch((placeholders: P) => [build(placeholders)])
  return (values) => batch(values)[0]
}

/** A reset database is back at once; the jitter spreads callers that failed together. */
const RETRY_AFTER_MS = 20
const RETRY_JITTER_MS = 60

/** One request's access to its company's database. Every call is one round trip. */
export interface Database {
  /** Runs one batch of queries that change nothing. Retried once after a transient failure. */
  read<T extends Statements>(queries: T): Promise<Results<T>>
  /** Runs one batch as one transaction. Never retried: a lost response may hide a commit. */
  write<T extends Statements>(queries: T): Promise<Results<T>>
  /** Retried as a read is: run twice, it leaves and returns the same, except for audit, events and revisions. */
  writeIdempotent<T extends Statements>(queries: T): Promise<Results<T>>
  /** How fresh the next read must be. That of another database than the directory has its name: see `parseBookmark`. */
  bookmark(): string | null
}

/** The database use of one request, for its line in the log. */
export type DatabaseUse = ReturnType<typeof startUse>

export function startUse() {
  return {
    rowsRead: 0,
    rowsWritten: 0,
    /** Writes that have not ended, or ended without a response of SQLite: they may have been committed. */
    openWrites: 0,
    /** Time of the statements, without the network. */
    durationMs: 0,
    /** Time of all calls, with the network and the waits for their turn. */
    waitedMs: 0,
    slow: 0,
    /** Bytes of the database after the last batch. */
    sizeBytes: 0,
    /** Where the last batch ran; undefined in local databases. */
    region: undefined as string | undefined,
    isPrimary: undefined as boolean | undefined,
  }
}

/** Ten times as long as the dearest request of the budgets takes; one database runs one statement at a time. */
export const SLOW_MS = 100

/** The time of a batch, and whether it ran at the primary; undefined in local databases. */
export type BatchResult = { durationMs: number; isPrimary: boolean | undefined }

/** Decides when a batch may run, and charges the database time it took. */
export type Meter = { run<T extends BatchResult>(batch: () => Promise<T>): Promise<T> }

export interface DatabaseOptions {
  /** Reads go to any replica that is as fresh, or with null to any. Without one the session starts at the primary. */
  bookmark?: string | null | undefined
  /** See {@link OWN_SLOT}. */
  slot?: number | undefined
  /** Meters the caller's token; background work has none. */
  meter?: Meter | undefined
  use?: DatabaseUse | undefined
  /** The binding, for the log. */
  name?: string | undefined
}

/** Opens a database, whatever company's data it has: see `placement.ts` for the one of a company. */
export function openDatabase(
  binding: D1Database,
  { bookmark, slot = OWN_SLOT, meter, use = startUse(), name = 'DB' }: DatabaseOptions = {},
): Database {
  const session = binding.withSession(bookmark === null ? 'first-unconstrained' : (bookmark ?? 'first-primary'))

  async function runBatch<T extends Statements>(statements: T) {
    const queries = statements.map((statement) => {
      const { prepared, values } = 'prepared' in statement ? statement : { prepared: statement.prepare(), values: {} }
      const { sql, params } = prepared.getQuery()
      return { prepared, bound: session.prepare(sql).bind(...fillPlaceholders(params, { ...values, slot })) }
    })
    const results = await session.batch(queries.map(({ bound }) => bound))
    let durationMs = 0
    for (const { meta } of results) {
      use.rowsRead += meta.rows_read
      use.rowsWritten += meta.rows_written
      durationMs += meta.duration
      if (meta.duration >= SLOW_MS) use.slow++
      use.sizeBytes = meta.size_after
      use.region = meta.served_by_region
      use.isPrimary = meta.served_by_primary
    }
    use.durationMs += durationMs
    const values = queries.map(({ prepared }, index) => prepared.mapResult(results[index], true)) as Results<T>
    return { values, durationMs, isPrimary: use.isPrimary }
  }

  async function run<T extends Statements>(queries: T, isIdempotent: boolean, isWrite: boolean): Promise<Results<T>> {
    const start = Date.now()
    let hasEnded = false
    const batch = async () => {
      // Its meter may start it after the deadline, when the caller has got its 503 with Retry-After.
      if (hasEnded) throw new DeadlineError(BUDGET_MS.database)
      if (isWrite) use.openWrites++
      const result = await runBatch(queries).catch((error: unknown) => {
        if (isWrite && NOT_COMMITTED.test(databaseMessage(error))) use.openWrites--
        throw error
      })
      if (isWrite) use.openWrites--
      return result
    }
    const attempt = () => (meter ? meter.run(batch) : batch())
    const retry = async (error: unknown) => {
      if (!isIdempotent || !TRANSIENT.test(databaseMessage(error))) throw error
      await pause(RETRY_AFTER_MS + Math.random() * RETRY_JITTER_MS)
      return attempt()
    }
    try {
      // A write may still happen after its deadline.
      return (await withDeadline(attempt().catch(retry), BUDGET_MS.database)).values
    } catch (error) {
      throw describeOutage(error, name)
    } finally {
      hasEnded = true
      use.waitedMs += Date.now() - start
    }
  }

  return {
    read: (queries) => run(queries, true, false),
    write: (queries) => run(queries, false, true),
    writeIdempotent: (queries) => run(queries, true, true),
    bookmark: () => session.getBookmark(),
  }
}

/** D1's failures after which it recommends a retry of idempotent queries: only the response may have been lost. */
const TRANSIENT = /Network connection lost|storage caused object to be reset|reset because its code was updated/

/** Failures of a batch that is undone, or was not begun. */
const NOT_COMMITTED = /SQLITE_|D1 DB is overloaded/

/** D1's errors that may pass; with other codes of SQLite a statement is wrong, and a database of 10 GB stays full. */
const OUTAGE = /^D1_ERROR(?!.*(?:SQLITE_|maximum DB size))|SQLITE_(?:BUSY|LOCKED|IOERR|CANTOPEN|INTERRUPT)/s

/** From the first quotation mark to the code at the end. */
const QUOTED = /["'`](?:.*(?=: SQLITE_\w+(?: \(extended: \w+\))?$)|.*$)/s

/**
 * D1's text of a failed statement with SQLite's code, which names tables and columns; null for another error. What is
 * quoted is left out: it may be a value, such as the search text in a syntax error of the full-text search.
 */
export function databaseText(error: unknown): string | null {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (each.message.startsWith('D1_')) return each.message.replace(QUOTED, '…')
    const [transient] = TRANSIENT.exec(each.message) ?? []
    if (transient) return transient
  }
  return null
}

/** A 503 for the failure of a database; another error as it is. @param name a binding */
function describeOutage(error: unknown, name: string): unknown {
  const text = error instanceof DeadlineError ? error.message : databaseText(error)
  if (!(error instanceof DeadlineError || OUTAGE.test(text ?? '') || TRANSIENT.test(text ?? ''))) return error
  const message = 'The database does not respond. Retry after the seconds in Retry-After'
  return unavailable(2, { message, cause: `${name}: ${text}` })
}

/** D1's own message. Drizzle's wraps it as `cause` and contains the bound values, so it is not used. */
export function databaseMessage(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error ? cause.message : ''
}

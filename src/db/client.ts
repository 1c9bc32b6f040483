import { fillPlaceholders, type Placeholder, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/d1'
import { BUDGET_MS, pause, withDeadline } from '../http/deadline.ts'

/** What Drizzle's builders have in common. */
interface Query {
  readonly _: { readonly result: unknown }
  prepare(): Prepared
}

interface Prepared {
  getQuery(): { sql: string; params: unknown[] }
  mapResult(result: unknown, isFromBatch: true): unknown
}

type Value = string | number | boolean | null

/** Stand for values that come later, by name. */
export type Placeholders<Name extends string, Optional extends string = never> = Record<Name, Placeholder> &
  Partial<Record<Optional, Placeholder>>

type ValuesOf<P> = { [Name in keyof P]: Value | (undefined extends P[Name] ? undefined : never) }

/** A query of {@link prepare} with its values. */
interface Filled<Result> {
  prepared: Prepared
  values: Record<string, Value | undefined>
  /** For the type alone: there is no such member. */
  readonly _?: { readonly result: Result }
}

type Statement = Query | Filled<unknown>
type Statements = readonly [Statement, ...Statement[]]
type ResultOf<S> = S extends Filled<infer R> ? R : S extends Query ? S['_']['result'] : never
export type Results<T extends readonly Statement[]> = { -readonly [K in keyof T]: ResultOf<T[K]> }

/** Builds queries. It has no database: they run where they are handed to a {@link Database}. */
export const orm = drizzle({ prepare: () => undefined } as unknown as D1Database)

/** A query keeps at most so many texts. */
const TEXTS_KEPT = 200

/**
 * A query whose text is built once per isolate: building it costs more than the rest of a small read.
 *
 * @param build gets a placeholder for each value that is given; called once for each set of given values
 * @returns makes a statement of the values; one that is undefined is not given
 */
export function prepare<P extends Placeholders<never>, Q extends Query>(
  build: (placeholders: P) => Q,
): (values: ValuesOf<P>) => Filled<Q['_']['result']> {
  const kept = new Map<string, Prepared>()
  return (values: Record<string, Value | undefined>) => {
    const names = Object.keys(values).filter((name) => values[name] !== undefined)
    const shape = names.join()
    let prepared = kept.get(shape)
    if (!prepared) {
      prepared = build(Object.fromEntries(names.map((name) => [name, sql.placeholder(name)])) as P).prepare()
      if (kept.size >= TEXTS_KEPT) kept.clear()
      kept.set(shape, prepared)
    }
    return { prepared, values }
  }
}

/** Failures after which D1 says that a call may be repeated, where that is safe: its answer may be all that was lost. */
const TRANSIENT = /Network connection lost|storage caused object to be reset|reset because its code was updated/

/** A database that was reset comes back at once; callers that failed together do not return together. */
const REPEAT_AFTER_MS = 20
const REPEAT_SPREAD_MS = 60

/** A bookmark as D1 gives it out. D1 accepts anything locally, so ours is checked. */
const BOOKMARK = /^[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{32}$/

/** One request's way to its company's database. Every call is one round trip. */
export interface Database {
  /** One batch of queries that change nothing; asked once more after a passing failure. */
  read<T extends Statements>(queries: T): Promise<Results<T>>
  /** One batch as one transaction: all of it or nothing. Never repeated: an answer that was lost may hide a change. */
  write<T extends Statements>(queries: T): Promise<Results<T>>
  /**
   * A write that leaves and answers the same when it is carried out twice, but for what only counts writes (audit,
   * notices, revisions): repeated as a read is.
   */
  writeIdempotent<T extends Statements>(queries: T): Promise<Results<T>>
  /** Where the next read must at least be, for the caller's `X-Bookmark`. */
  bookmark(): string | null
  /** Milliseconds spent waiting for the database so far. */
  waitedMs(): number
}

/** Whose data a query reads or changes, and where it is. Every query function takes it first. */
export interface CompanyContext {
  companyId: number
  db: Database
}

/** What a batch gave, and how much of the database's time it took. */
interface Batch {
  values: unknown[]
  durationMs: number
}

/** Decides when a batch may run, and counts what it took. */
export interface Meter {
  run<T extends { durationMs: number }>(batch: () => Promise<T>): Promise<T>
}

const UNMETERED: Meter = { run: (batch) => batch() }

/**
 * The only way to a database. All companies share one today; when one database is full, companies move to others here
 * and nothing else changes.
 *
 * @param options.bookmark what the caller got with its last response: reads may then go to any replica that is as fresh.
 *   Without one, or with one that is not well-formed, the session starts at the primary.
 * @param options.meter of the caller's token; work that belongs to none has none
 */
export function databaseFor(
  binding: D1Database,
  _companyId: number,
  { bookmark, meter = UNMETERED }: { bookmark?: string | undefined; meter?: Meter } = {},
): Database {
  const session = binding.withSession(bookmark && BOOKMARK.test(bookmark) ? bookmark : 'first-primary')
  let waited = 0

  async function run<T extends Statements>(queries: T, isRepeatable: boolean): Promise<Results<T>> {
    const start = Date.now()
    try {
      const { values } = await runQuery(() => meter.run(() => runBatch(session, queries)), isRepeatable)
      return values as Results<T>
    } finally {
      waited += Date.now() - start
    }
  }

  return {
    read: (queries) => run(queries, true),
    write: (queries) => run(queries, false),
    writeIdempotent: (queries) => run(queries, true),
    bookmark: () => session.getBookmark(),
    waitedMs: () => waited,
  }
}

async function runBatch(session: ReturnType<D1Database['withSession']>, statements: Statements): Promise<Batch> {
  const queries = statements.map((statement) => {
    const { prepared, values } = 'prepared' in statement ? statement : { prepared: statement.prepare(), values: {} }
    const { sql, params } = prepared.getQuery()
    return { prepared, bound: session.prepare(sql).bind(...fillPlaceholders(params, values)) }
  })
  const results = await session.batch(queries.map(({ bound }) => bound))
  return {
    values: queries.map(({ prepared }, index) => prepared.mapResult(results[index], true)),
    durationMs: results.reduce((sum, { meta }) => sum + meta.duration, 0),
  }
}

/**
 * One call to a database, within its budget; where it is repeatable, once more after a passing failure. An overloaded
 * database is never asked again.
 *
 * @throws DeadlineError when it takes too long: a write may then still happen
 */
export function runQuery<T>(work: () => Promise<T>, isRepeatable: boolean): Promise<T> {
  const asked = isRepeatable ? repeatOnce(work) : work()
  return withDeadline(asked, BUDGET_MS.database)
}

async function repeatOnce<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isTransient(error)) throw error
    await pause(REPEAT_AFTER_MS + Math.random() * REPEAT_SPREAD_MS)
    return work()
  }
}

/** Drizzle hides D1's words in `cause`, and its own message holds the bound values: only the cause is read. */
export function databaseMessage(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error ? cause.message : ''
}

function isTransient(error: unknown): boolean {
  return TRANSIENT.test(databaseMessage(error))
}

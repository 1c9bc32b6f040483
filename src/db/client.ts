import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1'
import { BUDGET_MS, pause, withDeadline } from '../http/deadline.ts'

export type Orm = DrizzleD1Database
type Query = Parameters<Orm['batch']>[0][number]
type Queries = readonly [Query, ...Query[]]
export type Results<T extends Queries> = { -readonly [K in keyof T]: T[K]['_']['result'] }

/** Failures after which D1 says that a call may be repeated, where that is safe: its answer may be all that was lost. */
const TRANSIENT = /Network connection lost|storage caused object to be reset|reset because its code was updated/

/** A database that was reset comes back at once; callers that failed together do not return together. */
const REPEAT_AFTER_MS = 20
const REPEAT_SPREAD_MS = 60

/** A bookmark as D1 gives it out. D1 accepts anything locally, so ours is checked. */
const BOOKMARK = /^[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{32}$/

/** One request's way to its company's database. Every call is one round trip. */
export interface Database {
  /** Builds queries; nothing runs before they are handed to `read` or `write`. */
  readonly orm: Orm
  /** One batch of queries that change nothing; asked once more after a passing failure. */
  read<T extends Queries>(queries: T): Promise<Results<T>>
  /** One batch as one transaction: all of it or nothing. Never repeated: an answer that was lost may hide a change. */
  write<T extends Queries>(queries: T): Promise<Results<T>>
  /**
   * A write that leaves and answers the same when it is carried out twice, but for what only counts writes (audit,
   * notices, revisions): repeated as a read is.
   */
  writeRepeatably<T extends Queries>(queries: T): Promise<Results<T>>
  /** Where the next read must at least be, for the caller's `X-Bookmark`. */
  bookmark(): string | null
  /** Milliseconds spent waiting for the database so far. */
  waitedMs(): number
}

/**
 * The only way to a database. All companies share one today; when one database is full, companies move to others here
 * and nothing else changes.
 *
 * @param bookmark what the caller got with its last answer: reads may then go to any replica that is as fresh.
 *   Without one, or with one that is not well-formed, the session starts at the primary.
 */
export function databaseFor(binding: D1Database, _companyId: number, bookmark?: string | undefined): Database {
  const session = binding.withSession(bookmark && BOOKMARK.test(bookmark) ? bookmark : 'first-primary')
  // Drizzle types only D1Database; it calls prepare and batch alone, which a session has.
  const orm = drizzle(session as unknown as D1Database)
  let waited = 0

  async function run<T extends Queries>(queries: T, isRepeatable: boolean): Promise<Results<T>> {
    const start = Date.now()
    try {
      return (await askDatabase(() => orm.batch(queries), isRepeatable)) as Results<T>
    } finally {
      waited += Date.now() - start
    }
  }

  return {
    orm,
    read: (queries) => run(queries, true),
    write: (queries) => run(queries, false),
    writeRepeatably: (queries) => run(queries, true),
    bookmark: () => session.getBookmark(),
    waitedMs: () => waited,
  }
}

/**
 * One call to a database, within its budget; where it is repeatable, once more after a passing failure. An overloaded
 * database is never asked again.
 *
 * @throws DeadlineError when it takes too long: a write may then still happen
 */
export function askDatabase<T>(work: () => Promise<T>, isRepeatable: boolean): Promise<T> {
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

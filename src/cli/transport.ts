import { setTimeout as sleep } from 'node:timers/promises'

/** One statement as SQLite takes it; parameters in the order of their question marks. */
export interface Statement {
  sql: string
  params: Parameter[]
}

export type Parameter = string | number | null

/** A way to the database. */
export interface Transport {
  /** The rows of one statement that changes nothing, as arrays in the order of its columns. */
  query: (statement: Statement) => Promise<unknown[][]>
  /** Statements as one transaction: all of them or nothing. They must do no harm when they are carried out twice. */
  write: (statements: Statement[]) => Promise<void>
  close: () => Promise<void>
}

/**
 * Another process has the file of a local database locked (which workerd hides behind an internal error while it opens
 * the file), or `wrangler dev` has just reloaded changed sources.
 */
const PASSING =
  /SQLITE_BUSY|database is locked|internal error; reference|session commit token|restarted mid-request|other side closed|ECONNRESET/
const PASSING_FOR_MS = 15_000
const PAUSE_MS = 50

/** Tries again after what passes by itself. A write may have been applied already: all writes can be repeated. */
export async function retryPassing<T>(attempt: () => Promise<T>): Promise<T> {
  const end = Date.now() + PASSING_FOR_MS
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : ''
      const isPassing = error instanceof Error && PASSING.test(`${error.message} ${cause}`)
      if (!isPassing || Date.now() > end) throw error
      await sleep(PAUSE_MS * (1 + Math.random()))
    }
  }
}

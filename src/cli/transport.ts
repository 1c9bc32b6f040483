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
  /** Statements as one transaction: all of them or nothing. */
  write: (statements: Statement[]) => Promise<void>
  close: () => Promise<void>
}

/** Another process has the file of a local database locked. Nothing of the transaction was applied. */
const LOCKED = /SQLITE_BUSY|database is locked|session commit token/
const LOCKED_FOR_MS = 15_000
const LOCKED_PAUSE_MS = 50

/** Tries again while another process holds the lock. */
export async function retryWhileLocked<T>(attempt: () => Promise<T>): Promise<T> {
  const end = Date.now() + LOCKED_FOR_MS
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof Error) || !LOCKED.test(error.message) || Date.now() > end) throw error
      await sleep(LOCKED_PAUSE_MS * (1 + Math.random()))
    }
  }
}

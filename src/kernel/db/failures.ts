import { DeadlineError } from '../http/deadline.ts'
import { ApiError } from '../http/errors.ts'

/** D1's failures after which it recommends a retry of idempotent queries: only the response may have been lost. */
export const TRANSIENT = /Network connection lost|storage caused object to be reset|reset because its code was updated/

/** Failures of a batch that is undone, or was not begun. */
export const NOT_COMMITTED = /SQLITE_|D1 DB is overloaded/

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
export function describeOutage(error: unknown, name = 'DB'): unknown {
  const text = error instanceof DeadlineError ? error.message : databaseText(error)
  const isOutage = error instanceof DeadlineError || OUTAGE.test(text ?? '') || TRANSIENT.test(text ?? '')
  if (!isOutage) return error
  const message = 'The database does not respond: nothing was changed. Retry after the seconds in Retry-After'
  return new ApiError('unavailable', { message, cause: `${name}: ${text}`, headers: { 'Retry-After': '2' } })
}

/** D1's own message. Drizzle's wraps it as `cause` and contains the bound values, so it is not used. */
export function databaseMessage(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error ? cause.message : ''
}

import { sql } from 'drizzle-orm'
import { ApiError } from '../http/errors.ts'
import { log } from '../http/log.ts'
import { databaseMessage, openDatabase, orm } from './client.ts'

/** The newest migration that this code needs; a test compares it with the files in `drizzle`. */
export const NEWEST_MIGRATION = '0006_placement.sql'

/** The newest migration that is applied. Migrations are applied in the order of their names. */
export const newestApplied = sql<string | null>`(SELECT max(name) FROM d1_migrations)`.as('newest_applied')

const RETRY_AFTER_SECONDS = '30'
const LOG_EVERY_MS = 60_000

/** In this isolate. A schema never gets older. */
let isVerified = false
let loggedAt = 0

/**
 * Checks the name that a query selected as {@link newestApplied}. A newer schema is accepted: see `operations.md`.
 *
 * @throws ApiError 503 where the schema is older than the code
 */
export function verifySchema(applied: string | null): void {
  if (isVerified) return
  if (!isCurrent(applied)) throw outdated(applied)
  isVerified = true
}

/** Whether a schema with this newest migration has everything that the code needs. */
export function isCurrent(applied: string | null): boolean {
  return applied !== null && applied >= NEWEST_MIGRATION
}

/** As {@link verifySchema}, with a query of its own where this isolate has not verified the schema yet. */
export async function requireSchema(binding: D1Database): Promise<void> {
  if (!isVerified) verifySchema(await readNewestApplied(binding))
}

/** The newest migration that is applied; null where there is none. */
export async function readNewestApplied(binding: D1Database): Promise<string | null> {
  try {
    const [[row]] = await openDatabase(binding).read([orm.select({ newestApplied }).from(sql`(SELECT 1)`)])
    return row?.newestApplied ?? null
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

/** Whether a query failed for a table or column that the database does not have: before the schema is verified, yet. */
export function isMissing(error: unknown): boolean {
  return !isVerified && /no such (table|column)/.test(databaseMessage(error))
}

/** The refusal of every request while the schema is older than the code. Logged once a minute in each isolate. */
function outdated(applied: string | null, now = Date.now()): ApiError {
  if (now - loggedAt >= LOG_EVERY_MS) {
    loggedAt = now
    const advice = 'The database is older than this release: run npm run migrate, or roll the release back.'
    log('schema_outdated', { applied, needed: NEWEST_MIGRATION, advice }, 'error')
  }
  return new ApiError('unavailable', {
    message: 'The service is being updated: retry after the seconds in Retry-After',
    cause: `the schema is ${applied ?? 'unknown'}, this release needs ${NEWEST_MIGRATION}`,
    headers: { 'Retry-After': RETRY_AFTER_SECONDS },
  })
}

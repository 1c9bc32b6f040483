import { sql } from 'drizzle-orm'
import journal from '../../../drizzle/meta/_journal.json' with { type: 'json' }
import { conflict, log, unavailable } from '../http/errors.ts'
import { databaseMessage, openDatabase, orm } from './client.ts'
import { BEFORE_RELEASE } from './names.ts'

/** The migrations that this code needs: drizzle-kit adds each to its journal. */
const NEEDED = journal.entries.map(({ tag }) => `${tag}.sql`)

/** The applied migrations, newest first and joined by commas. */
export const appliedMigrations = sql<string | null>`(SELECT group_concat(name)
  FROM (SELECT name FROM d1_migrations ORDER BY name DESC))`.as('applied_migrations')

const RETRY_AFTER_SECONDS = 30
const LOG_EVERY_MS = 60_000
const CHECK_EVERY_MS = 30_000

/** The migrations that this isolate has accepted last; null before the first. */
let accepted: string | null = null
let loggedAt = 0
let checkedAt = 0

/** A newer schema is accepted: see `src/site/guides/upgrades.md`. @throws ApiError 503 where it is older than the code */
export function verifySchema(applied: string | null): void {
  if (acceptsSchema(applied)) return
  const schema = compareSchema(applied)
  if (Date.now() - loggedAt >= LOG_EVERY_MS) {
    loggedAt = Date.now()
    log('schema_outdated', { ...schema, advice: adviceFor(applied) }, 'error')
  }
  throw unavailable(RETRY_AFTER_SECONDS, {
    message: applied === null ? EMPTY : 'The service is being updated: retry after the seconds in Retry-After',
    cause: `the schema misses ${schema.missing.join(', ')}`,
  })
}

export function acceptsSchema(applied: string | null): boolean {
  const isAccepted = (applied !== null && applied === accepted) || compareSchema(applied).missing.length === 0
  if (isAccepted) accepted = applied
  return isAccepted
}

/** How a schema differs from what the code needs: with missing migrations it is older, with unknown ones newer. */
export function compareSchema(applied: string | null) {
  const names = applied?.split(',') ?? []
  const isBeforeRelease = names.includes(BEFORE_RELEASE)
  return {
    applied: names[0] ?? null,
    needed: NEEDED.at(-1) ?? '',
    missing: NEEDED.filter((name) => isBeforeRelease || !names.includes(name)),
    unknown: names.filter((name) => !NEEDED.includes(name)),
  }
}

/** As {@link verifySchema}, by a query of its own every 30 seconds: Time Travel takes migrations back, too. */
export async function requireSchema(binding: D1Database): Promise<void> {
  if (accepted !== null && Date.now() - checkedAt < CHECK_EVERY_MS) return
  const applied = await readApplied(binding).catch((error: unknown) => {
    // A database that fails is not older: work for the others goes on.
    if (accepted === null) throw error
    return accepted
  })
  verifySchema(applied)
  checkedAt = Date.now()
}

/** @throws ApiError 409 for a database that `npm run migrate` has not prepared for this release */
export async function requireCurrent(binding: D1Database): Promise<void> {
  if (acceptsSchema(await readApplied(binding))) return
  throw conflict(`The database has an older schema: first run ${MIGRATE}`)
}

/** The migrations that are applied, as {@link appliedMigrations}; null where there is none. */
export async function readApplied(binding: D1Database): Promise<string | null> {
  try {
    const [[row]] = await openDatabase(binding).read([orm.select({ appliedMigrations }).from(sql`(SELECT 1)`)])
    return row?.appliedMigrations ?? null
  } catch (error) {
    if (lacksSchema(error)) return null
    throw error
  }
}

/** Whether a query failed for a table or column that the database does not have. */
export function lacksSchema(error: unknown): boolean {
  return /no such (table|column)|has no column/.test(databaseMessage(error))
}

/** As {@link lacksSchema}, but only until the schema is verified. */
export function isMissing(error: unknown): boolean {
  return accepted === null && lacksSchema(error)
}

const MIGRATE = '`npm run migrate`, for a deployment `npm run migrate -- --env NAME`'
const EMPTY = `The database is empty: run ${MIGRATE}; then \`npm run seed -- FILE.json\`, for a deployment with \`--remote URL\``

function adviceFor(applied: string | null): string {
  if (applied === null) return EMPTY
  return applied.includes(BEFORE_RELEASE)
    ? 'The database was made by a version before the first release: begin with a new one.'
    : `The database is older than this release: run ${MIGRATE}, or roll the release back.`
}

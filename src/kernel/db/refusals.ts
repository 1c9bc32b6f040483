import { fillPlaceholders, type Placeholder, type SQL, sql } from 'drizzle-orm'
import journal from '../../../drizzle/meta/_journal.json' with { type: 'json' }
import { ApiError, conflict, errorFor, invalid, unavailable } from '../http/errors.ts'
import { log } from '../http/isolate.ts'
import { describeBytes } from '../http/messages.ts'
import {
  databaseMessage,
  type Filled,
  openDatabase,
  orm,
  type Placeholders,
  prepare,
  statement,
  type Value,
} from './client.ts'
import { BEFORE_RELEASE } from './names.ts'
import { BYTES_A_ROW } from './schema.ts'

// The state of the database refuses a request: its schema is older than the code, a row has another version, or the
// company would store more than its quota.

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
export function lacksUnverifiedSchema(error: unknown): boolean {
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

export const CONDITION_LENGTH_MAX = 8_192

/** RFC 9110, 8.8.3: quotes around any characters except quotes, spaces and control characters. */
export const ETAG = /(?:^|[\s,])(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")(?=$|[\s,])/g

/**
 * Reads the versions of an `If-Match` as JSON; undefined if any version matches. A tag begins with its version, and the rest
 * is not compared. A weak tag matches none (RFC 9110, 13.1.1).
 *
 * @throws ApiError 400 for anything but a list of entity tags
 */
export function versionsOf(ifMatch: string | null, name = 'If-Match'): string | undefined {
  if (ifMatch === null || ifMatch.trim() === '*') return undefined
  if (!/^[\s,]*$/.test(ifMatch.replaceAll(ETAG, ''))) {
    throw invalid([{ path: name, message: 'must be `*`, or versions with their double quotes, such as `"1"`' }])
  }
  return JSON.stringify(
    Array.from(ifMatch.slice(0, CONDITION_LENGTH_MAX).matchAll(VERSION), ([, version]) => Number(version)),
  )
}

const VERSION = /(?<=^|[\s,])"([1-9]\d{0,14})(?:-[0-9a-f]+)?"/g

/** Reasons raised by statements: outside of triggers SQLite has no RAISE. */
const OF_ROW = ['version_mismatch', 'already_exists', 'external_id_taken'] as const
export const FAILURES = [...OF_ROW, 'invoice_missing', 'payments_limit'] as const
export type Failure = (typeof FAILURES)[number]

/** Fails its batch. @param when a condition on the row's `version`, which is null where there is no row */
export function failWhen(when: SQL, table: SQL, isRow: SQL, reason: Failure = 'version_mismatch') {
  // The path depends on the row, or SQLite would evaluate it without one.
  const failure = sql`json_extract('{}', ${sql.raw(`'${reason}'`)} || coalesce(version, ''))`.as('failure')
  return orm.select({ failure }).from(sql`(SELECT max(version) AS version FROM ${table} WHERE ${isRow})`).where(when)
}

type Table = 'clients' | 'orders'
type ExternalKey = Placeholders<'companyId' | 'externalId', 'versions'>

/** As {@link failWhen}, for the row with an external id. */
const failForId = (table: Table, p: ExternalKey, when: SQL, reason?: Failure) =>
  failWhen(when, sql.raw(table), sql`company_id = ${p.companyId} AND external_id = ${p.externalId}`, reason)

/** Fails a creation with a taken external id. Its index would do, too, but a batch can ask many guards at once. */
export function creationGuard(table: Table, { companyId, external_id: id }: Placeholders<'companyId', 'external_id'>) {
  return id && { guard: failForId(table, { companyId, externalId: id }, sql`version IS NOT NULL`, 'external_id_taken') }
}

/** Builds two forms of a {@link failWhen}: a query that returns a row where it fails, and a write that is refused there. */
export function guardOf(guard?: Filled<unknown>) {
  const { sql: text, params } = guard?.prepared.getQuery() ?? { sql: '', params: [] }
  const reason = FAILURES.find((each) => text.includes(`'${each}'`))
  if (!guard || !reason) return
  const ask = (query: string) => statement(query, ...(fillPlaceholders(params, guard.values) as Value[]))
  const result = ask(`SELECT json_extract('{}', iif(EXISTS (${text}), '$', '${reason}'))`)
  const read = () => {
    throw errorFor(reason)
  }
  // It changes nothing, so no quota may refuse it before its guard does.
  const refused = { statements: { result }, isIdempotent: true, isDeletion: true, read }
  // EXISTS does not evaluate the failure.
  return { reason, fails: ask(`SELECT 1 WHERE EXISTS (${text})`), refused }
}

/** For {@link failWhen}: the row exists, in another version. @param versions JSON array */
export const isOtherVersion = (versions: Placeholder) => sql`version NOT IN (SELECT value FROM json_each(${versions}))`

/** Fails a PUT by the caller's own id as its headers ask. @throws ApiError 400 for an `If-None-Match` other than `*` */
export function externalGuardsOf(table: Table) {
  const match = prepare((p: ExternalKey) =>
    failForId(table, p, p.versions ? sql`version IS NULL OR ${isOtherVersion(p.versions)}` : sql`version IS NULL`),
  )
  const absence = prepare((p: ExternalKey) => failForId(table, p, sql`version IS NOT NULL`, 'already_exists'))
  return ({ companyId, ifMatch, ifNoneMatch }: Conditions, externalId: string) => {
    const key = { companyId, externalId }
    if (ifNoneMatch !== null && ifNoneMatch.trim() !== '*')
      throw invalid([{ path: 'If-None-Match', message: 'must be `*`' }])
    return {
      ...(ifMatch !== null && { match: match({ ...key, versions: versionsOf(ifMatch) }) }),
      ...(ifNoneMatch !== null && { absence: absence(key) }),
    }
  }
}

type Conditions = { companyId: number; ifMatch: string | null; ifNoneMatch: string | null }

// The storage quotas of a company. Triggers count its rows in the transaction of a change; a table whose rows no request
// updates or deletes has no trigger for that.

const rowsIn = (table: keyof typeof BYTES_A_ROW, key: 'id' | 'sequence') => {
  const end = (name: 'min' | 'max') => `(SELECT ${name}(${key}) FROM ${table} WHERE company_id = companies.id)`
  return `${BYTES_A_ROW[table]} * coalesce(1 + ${end('max')} - ${end('min')}, 0)`
}

const STORED = `(companies.stored_bytes + ${rowsIn('changes', 'sequence')} + ${rowsIn('audit_log', 'id')})`

/** All that a company stores, but for its mail, in a statement on `companies`. */
export const storedBytes = sql<number>`${sql.raw(STORED)}`

const IS_OVER = `(recounted_at IS NOT NULL AND ${STORED} > storage_quota_bytes)`
const CHECKED = `iif(${IS_OVER}, ${STORED}, 0), iif(mail_bytes > mail_quota_bytes, mail_bytes, 0)`
const NOTE_BEFORE = `UPDATE companies SET (stored_bytes_checked, mail_bytes_checked) = (SELECT ${CHECKED})
  WHERE id = ? AND (stored_bytes_checked, mail_bytes_checked) <> (${CHECKED})`

const IS_RAISED = `(${IS_OVER} AND ${STORED} > stored_bytes_checked)`
const IS_MAIL_RAISED = '(mail_bytes > mail_quota_bytes AND mail_bytes > mail_bytes_checked)'
const FAIL_IF_RAISED = `SELECT json_extract('{}', iif(${IS_MAIL_RAISED},
    'mail_quota_exceeded ' || mail_quota_bytes, 'storage_quota_exceeded ' || storage_quota_bytes))
  FROM companies WHERE id = ? AND (${IS_RAISED} OR ${IS_MAIL_RAISED})`

/**
 * Puts the first and the last statement around those of a write: the write is undone if it raises what the company stores
 * above a quota. They write no row unless the company is above one. A deletion is never refused, so it needs neither.
 */
export function withinQuotas<const T extends readonly Filled<unknown>[]>(companyId: number, statements: T) {
  return [statement(NOTE_BEFORE, companyId), ...statements, statement(FAIL_IF_RAISED, companyId)] as const
}

/** 413 for a batch undone by {@link withinQuotas}; null for any other failure. */
export function quotaRefusal(error: unknown): ApiError | null {
  const [, of, quota] = /(storage|mail)_quota_exceeded (\d+)/.exec(databaseMessage(error)) ?? []
  if (quota === undefined) return null
  const limit_bytes = Number(quota)
  const message =
    of === 'mail'
      ? `The thread would exceed the company’s quota of stored mail, ${describeBytes(limit_bytes)}`
      : `The company would store more than its quota, ${describeBytes(limit_bytes)}: delete or shorten what it stores, or ask the operator for more`
  return new ApiError('too_large', { message, details: { reason: 'storage_quota', limit_bytes } })
}

import { fillPlaceholders, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { invalid, unusable } from '../http/errors.ts'
import { type Filled, orm, type Placeholders, prepare, statement, type Value } from './client.ts'

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
    throw unusable(reason)
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

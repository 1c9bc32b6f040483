import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import { invalid, type Reason } from '../http/errors.ts'
import { etagsOf, versionsOf } from '../http/etag.ts'
import { orm, type Placeholders, prepare } from './client.ts'

/** Reasons raised by statements: outside of triggers SQLite has no RAISE. */
export const FAILURES = ['version_mismatch', 'already_exists', 'invoice_missing'] as const satisfies Reason[]

/**
 * A statement that fails its batch.
 *
 * @param when a condition on the row's `version`, which is null where there is no row
 */
export function failWhen(when: SQL, table: SQL, isRow: SQL, reason: (typeof FAILURES)[number] = 'version_mismatch') {
  // The path depends on the row, or SQLite would evaluate it without one.
  const failure = sql`json_extract('{}', ${sql.raw(`'${reason}'`)} || coalesce(version, ''))`
  return orm
    .select({ failure: sql`${failure}`.as('failure') })
    .from(sql`(SELECT max(version) AS version FROM ${table} WHERE ${isRow})`)
    .where(when)
}

/** For {@link failWhen}: the row exists, in another version. @param versions JSON array */
export const isOtherVersion = (versions: Placeholder) => sql`version NOT IN (SELECT value FROM json_each(${versions}))`

type ExternalKey = Placeholders<'companyId' | 'externalId', 'versions'>

/**
 * Builds the statements that fail a PUT by the caller's own id as its `If-Match` and `If-None-Match` ask.
 *
 * @throws ApiError 400 for an `If-None-Match` other than `*`
 */
export function externalGuardsOf(table: 'clients' | 'orders') {
  const isRow = (p: ExternalKey) => sql`company_id = ${p.companyId} AND external_id = ${p.externalId}`
  const match = prepare((p: ExternalKey) => {
    const isAbsent = sql`version IS NULL`
    return failWhen(p.versions ? sql`${isAbsent} OR ${isOtherVersion(p.versions)}` : isAbsent, sql.raw(table), isRow(p))
  })
  const absence = prepare((p: ExternalKey) =>
    failWhen(sql`version IS NOT NULL`, sql.raw(table), isRow(p), 'already_exists'),
  )
  return ({ companyId, ifMatch, ifNoneMatch }: Conditions, externalId: string) => {
    const key = { companyId, externalId }
    const known = etagsOf(ifNoneMatch)
    if (ifNoneMatch !== null && known !== '*') throw invalid([{ path: 'If-None-Match', message: 'must be `*`' }])
    return {
      ...(ifMatch !== null && { match: match({ ...key, versions: versionsOf(ifMatch) ?? undefined }) }),
      ...(known === '*' && { absence: absence(key) }),
    }
  }
}

/** The conditions of a request, as its headers. */
type Conditions = { companyId: number; ifMatch: string | null; ifNoneMatch: string | null }

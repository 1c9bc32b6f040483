import { fillPlaceholders, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { invalid, unusable } from '../http/errors.ts'
import { type Filled, orm, type Placeholders, prepare, statement, type Value } from './client.ts'

/** Reads the entity tags of an `If-None-Match`, without `W/` since the comparison is weak; `*` matches every tag. */
export function etagsOf(ifNoneMatch: string | null): string[] | '*' {
  if (ifNoneMatch === null) return []
  if (ifNoneMatch.trim() === '*') return '*'
  return Array.from(ifNoneMatch.slice(0, MAX_LENGTH).matchAll(ETAG), ([, tag = '']) => tag)
}

const MAX_LENGTH = 8_192

/** RFC 9110, 8.8.3: quotes around any characters except quotes, spaces and control characters. */
const ETAG = /(?:^|[\s,])(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g

/**
 * Reads the versions of an `If-Match` as JSON; null if any version matches. A tag begins with its version, and the rest
 * is not compared. A weak tag matches none (RFC 9110, 13.1.1).
 *
 * @throws ApiError 400 for anything but a list of entity tags
 */
export function versionsOf(ifMatch: string | null, name = 'If-Match'): string | null {
  if (ifMatch === null || ifMatch.trim() === '*') return null
  if (!/^[\s,]*$/.test(ifMatch.replaceAll(ETAG, ''))) {
    throw invalid([{ path: name, message: 'must be `*`, or versions with their double quotes, such as `"1"`' }])
  }
  return JSON.stringify(Array.from(ifMatch.slice(0, MAX_LENGTH).matchAll(VERSION), ([, version]) => Number(version)))
}

const VERSION = /(?<=^|[\s,])"(\d{1,15})(?:-[0-9a-f]*)?"/g

export function taggedResponse(body: unknown, version: number, headers: object, ifNoneMatch: string | null): Response {
  const text = JSON.stringify(body)
  const etag = `"${version}-${hash64(text)}"`
  const known = etagsOf(ifNoneMatch)
  const tagged = { ...headers, ETag: etag }
  if (known === '*' || known.includes(etag)) return new Response(null, { status: 304, headers: tagged })
  return new Response(text, { headers: { ...tagged, 'Content-Type': 'application/json' } })
}

/**
 * Sixteen hex digits of a text: two lanes of FNV-1a over its UTF-16 units, mixed at the end. The version tells states of
 * the resource apart; the hash covers the rest of the body, such as an order's client. SHA-256 took a tenth of a read's time.
 */
function hash64(text: string): string {
  let [a, b] = [0x811c9dc5, 0x9e3779b9]
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit ^ (a >>> 15), 0x85ebca6b)
  }
  return [a ^ (b >>> 13), b ^ (a >>> 16)].map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('')
}

/**
 * Headers that keep a version's tag strong by preventing compression: Cloudflare weakens tags of compressed responses
 * but obeys `no-transform`; the local runtime compresses any response without a coding.
 */
export const UNCOMPRESSED = { 'Cache-Control': 'private, no-store, no-transform', 'Content-Encoding': 'identity' }

/**
 * Weakens the tag of a large response without a version, which is compressed in transit if the caller accepts a coding:
 * only the uncompressed bytes are the same (RFC 9110, 8.8.3.3).
 */
export function weakenEtag(headers: Headers, acceptEncoding = ''): void {
  headers.append('Vary', 'Accept-Encoding')
  const acceptsCoding = acceptEncoding.split(',').some((coding) => !/^\s*(identity\b|$)/i.test(coding))
  const etag = headers.get('ETag')
  if (acceptsCoding && etag?.startsWith('"')) headers.set('ETag', `W/${etag}`)
}

/** Reasons raised by statements: outside of triggers SQLite has no RAISE. */
export const FAILURES = ['version_mismatch', 'already_exists', 'invoice_missing', 'payments_limit'] as const
type Failure = (typeof FAILURES)[number]

/** Fails its batch. @param when a condition on the row's `version`, which is null where there is no row */
export function failWhen(when: SQL, table: SQL, isRow: SQL, reason: Failure = 'version_mismatch') {
  // The path depends on the row, or SQLite would evaluate it without one.
  const failure = sql`json_extract('{}', ${sql.raw(`'${reason}'`)} || coalesce(version, ''))`.as('failure')
  return orm.select({ failure }).from(sql`(SELECT max(version) AS version FROM ${table} WHERE ${isRow})`).where(when)
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
  return { fails: ask(`SELECT 1 WHERE EXISTS (${text})`), refused }
}

/** For {@link failWhen}: the row exists, in another version. @param versions JSON array */
export const isOtherVersion = (versions: Placeholder) => sql`version NOT IN (SELECT value FROM json_each(${versions}))`

type ExternalKey = Placeholders<'companyId' | 'externalId', 'versions'>

/** Fails a PUT by the caller's own id as its headers ask. @throws ApiError 400 for an `If-None-Match` other than `*` */
export function externalGuardsOf(table: 'clients' | 'orders') {
  const fail = (p: ExternalKey, when: SQL, reason?: Failure) =>
    failWhen(when, sql.raw(table), sql`company_id = ${p.companyId} AND external_id = ${p.externalId}`, reason)
  const match = prepare((p: ExternalKey) =>
    fail(p, p.versions ? sql`version IS NULL OR ${isOtherVersion(p.versions)}` : sql`version IS NULL`),
  )
  const absence = prepare((p: ExternalKey) => fail(p, sql`version IS NOT NULL`, 'already_exists'))
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

type Conditions = { companyId: number; ifMatch: string | null; ifNoneMatch: string | null }

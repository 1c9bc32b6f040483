import { getTableColumns, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareBatch, prepareNamed } from '../../kernel/db/client.ts'
import type { RowOf } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type Actor, type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { type CursorPosition, DELETED } from '../../kernel/db/lists.ts'
import { emailThreads } from '../../kernel/db/schema.ts'
import { isText, SUMMARY_FIELDS, TEXT_FIELDS, type ThreadList } from './contract.ts'

/** Identifies a thread within its company; the email is lower-case. */
export type ThreadKey = Record<'legacyThreadId' | 'accountEmail', string>

export type Key = 'companyId' | keyof ThreadKey

const { content, text_bytes: _texts, stored_bytes: _stored, ...threadColumns } = getTableColumns(emailThreads)

export { threadColumns }
export type ThreadRow = RowOf<typeof threadColumns>

/** Selects the id of a thread's object in R2. One with another hash is of content that was replaced. */
export const objectOfThread = sql<string | null>`(SELECT o.id
  FROM email_thread_objects AS o WHERE o.thread_id = email_threads.id AND o.company_id = email_threads.company_id
    AND o.content_hash = email_threads.content_hash)`

/** Larger stored content is read only when there is memory for it. */
const READ_AT_ONCE_BYTES = 262_144

/**
 * Raise the leading number whenever the form of the response changes. After a recovery of the database, a revision may
 * come again with another content or time.
 */
const etag = sql<string>`'"1.' || ${emailThreads.id} || '.' || ${emailThreads.revision} || '.' || ${emailThreads.updated_at}
  || '.' || substr(${emailThreads.content_hash}, 1, 16) || '"'`

const thread = prepare((p: Placeholders<Key | 'knownEtags'>) => {
  const isKnown = sql`EXISTS (SELECT 1 FROM json_each(${p.knownEtags}) WHERE value IN ('*', ${etag}))`
  const isSmall = sql`octet_length(${content}) <= ${sql.raw(String(READ_AT_ONCE_BYTES))}`
  return orm
    .select({
      ...threadColumns,
      etag: etag.as('etag'),
      isKnown: sql<number>`${isKnown}`.as('is_known'),
      isInRow: sql<number>`${content} IS NOT NULL`.as('is_in_row'),
      content: sql<string | null>`CASE WHEN ${isSmall} AND NOT ${isKnown} THEN ${content} END`.as('small_content'),
      objectId: objectOfThread.as('object_id'),
    })
    .from(emailThreads)
    .where(isLive(p))
})

/**
 * Finds a live thread. It has no `content` if R2 has it, if the content is large, or if `knownEtags` has the thread's
 * ETag or `*`.
 */
export async function findThread({ companyId, db }: CompanyContext, key: ThreadKey, knownEtags: string[]) {
  const [[row]] = await db.read([thread({ companyId, ...key, knownEtags: JSON.stringify(knownEtags) })])
  return row
}

/** Reads content of a row, in base64; nothing if it was replaced. */
export async function readContent({ companyId, db }: CompanyContext, row: Pick<ThreadRow, 'id' | 'content_hash'>) {
  const isStored = sql`id = ${row.id} AND company_id = ${companyId} AND content_hash = ${row.content_hash}`
  const [[found]] = await db.read([orm.select({ content }).from(emailThreads).where(isStored)])
  return found?.content ?? null
}

export const isThread = (p: Record<Key, Placeholder | string | number>): SQL =>
  sql`${emailThreads.company_id} = ${p.companyId} AND ${emailThreads.legacy_thread_id} = ${p.legacyThreadId}
    AND ${emailThreads.account_email} = ${p.accountEmail}`

const isLive = (p: Placeholders<Key>) => sql`${isThread(p)} AND ${emailThreads.deleted} = 0`

/** A thread without its content. */
export type ThreadSummaryRow = Pick<ThreadRow, (typeof SUMMARY_FIELDS)[number]>

/** The summary as a JSON object, with the bytes of a text's JSON that surely have its first 2,000 characters. */
const summaryMembers = SUMMARY_FIELDS.map((field) =>
  isText(field) ? `'${field}', CAST(substr(CAST(${field} AS BLOB), 1, 12002) AS TEXT)` : `'${field}', ${field}`,
)
const summary = sql.raw(`json_object(${summaryMembers.join(', ')})`)

/** Decodes a summary, and truncates its texts, which remain JSON. */
function decode(json: string): ThreadSummaryRow {
  const { deleted, ...rest } = JSON.parse(json)
  const row: ThreadSummaryRow = { ...rest, deleted: !!deleted }
  for (const field of TEXT_FIELDS) {
    const start = /^"(?:[^"\\]|\\u[\da-f]{4}|\\[^u]){0,2000}/u.exec(row[field] ?? '')?.[0]
    if (start && row[field] !== `${start}"`) row[field] = `${start}…"`
  }
  return row
}

/** Limits the threads read for one page: with filters it may have fewer than requested, or none. */
const MAX_SCANNED = 1_000

type Page = Placeholders<'companyId' | 'accountEmail' | 'listed' | 'updatedSince' | 'createdAt' | 'id' | 'limit'>

const page = prepareBatch((p: Page) => {
  const order = sql`created_at DESC, id DESC`
  const follows = sql`company_id = ${p.companyId} AND account_email = ${p.accountEmail}
    AND (created_at, id) < (${p.createdAt}, ${p.id})`
  const isListed = sql`deleted IN (SELECT value FROM json_each(${p.listed})) AND updated_at >= ${p.updatedSince}`
  const scanned = (value: SQL) => sql`(SELECT CASE WHEN ${isListed} THEN ${value} END AS json FROM ${emailThreads}
    WHERE ${follows} ORDER BY ${order} LIMIT ${sql.raw(String(MAX_SCANNED))}) WHERE json IS NOT NULL LIMIT ${p.limit}`
  const isFull = sql`(SELECT count(*) FROM (SELECT 1 FROM ${scanned(sql`1`)})) = ${p.limit}`
  return [
    orm.select({ json: sql<string>`json` }).from(scanned(summary)),
    // The last thread read, if the listed ones do not fill the page.
    orm.select({ created_at: sql<number>`created_at`, id: sql<string>`id` }).from(
      sql`(SELECT created_at, id FROM ${emailThreads} WHERE ${follows} ORDER BY ${order}
          LIMIT iif(${isFull}, 0, 1) OFFSET ${sql.raw(String(MAX_SCANNED - 1))})`,
    ),
  ]
})

/** Lists threads, newest created first. `after` is the `next` of the previous page, null when none follows. */
export async function listThreads({ companyId, db }: CompanyContext, query: ThreadList, after: CursorPosition | null) {
  const { account_email: accountEmail, deleted, updated_since: updatedSince = 0, ...paged } = query
  const { per_page: limit, cursor: _cursor, ...unused } = paged
  unused satisfies Record<string, never>
  const [createdAt = null, id = null] = after ?? [Number.MAX_SAFE_INTEGER, '']
  const listed = JSON.stringify(DELETED[deleted])
  const values = { companyId, accountEmail, listed, updatedSince, createdAt, id, limit: limit + 1 }
  const [found, [end]] = await db.read(page(values))
  const rows = found.map(({ json }) => decode(json))
  const shown = rows.slice(0, limit)
  const last = rows.length > limit ? shown.at(-1) : end
  return { rows: shown, next: last ? [last.created_at, last.id] : null }
}

const deletion = prepareNamed((p: Placeholders<Actor | Key, KeyName>) => {
  const threadId = sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)})`
  const isFound = sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${isLive(p)})`
  const values = { deleted: true, updated_at: sql`${p.now}`, revision: sql`${emailThreads.revision} + 1` }
  return {
    audit: auditEntry(p, 'email_thread.delete', threadId, isFound),
    thread: orm.update(emailThreads).set(values).where(isLive(p)),
    result: resultStatement(p, sql`SELECT ${summary} FROM ${emailThreads} WHERE ${isThread(p)} AND changes() > 0`),
  }
})

/** Soft-deletes a thread, which keeps its content. The result is undefined without one that is not deleted yet. */
export function threadDeletionOf(context: RequestContext, key: ThreadKey): Write<ThreadSummaryRow | undefined> {
  return {
    statements: deletion({ ...writerOf(context), ...key }),
    isDeletion: true,
    read: (result) => (result === null ? undefined : decode(result)),
  }
}

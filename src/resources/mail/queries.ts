import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { objectOfThread } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { emailThreads } from '../../kernel/db/schema.ts'

/** Identifies a thread within its company; the email is lower-case. */
export type ThreadKey = Record<'legacyThreadId' | 'accountEmail', string>

export type Key = 'companyId' | keyof ThreadKey

const { content, text_bytes: _texts, stored_bytes: _stored, ...columns } = getTableColumns(emailThreads)

/** The columns of a thread without its content. */
export const threadColumns = columns

export type ThreadRow = Omit<typeof emailThreads.$inferSelect, 'content' | 'text_bytes' | 'stored_bytes'>

/** Larger stored content is read only when there is memory for it. */
const READ_AT_ONCE_BYTES = 262_144

/** Raise the leading number whenever the form of the response changes. */
const etag = sql<string>`'"1.' || ${emailThreads.id} || '.' || ${emailThreads.revision} || '"'`

const thread = prepare((p: Placeholders<Key | 'knownEtags'>) => {
  const isKnown = sql`EXISTS (SELECT 1 FROM json_each(${p.knownEtags}) WHERE value IN ('*', ${etag}))`
  const isSmall = sql`octet_length(${content}) <= ${sql.raw(String(READ_AT_ONCE_BYTES))}`
  return orm
    .select({
      ...columns,
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

const largeContent = prepare((p: Placeholders<'companyId' | 'id' | 'contentHash'>) =>
  orm
    .select({ content })
    .from(emailThreads)
    .where(sql`id = ${p.id} AND company_id = ${p.companyId} AND content_hash = ${p.contentHash}`),
)

/** Reads content of a row, in base64; nothing if it was replaced or moved to R2. */
export async function readContent({ companyId, db }: CompanyContext, row: Pick<ThreadRow, 'id' | 'content_hash'>) {
  const [[found]] = await db.read([largeContent({ companyId, id: row.id, contentHash: row.content_hash })])
  return found?.content ?? null
}

export const isThread = (p: Placeholders<Key>): SQL =>
  sql`${emailThreads.company_id} = ${p.companyId} AND ${emailThreads.legacy_thread_id} = ${p.legacyThreadId}
    AND ${emailThreads.account_email} = ${p.accountEmail}`

export const isLive = (p: Placeholders<Key>) => sql`${isThread(p)} AND ${emailThreads.deleted} = 0`

const mark = prepare((p: Placeholders<'companyId' | 'id' | 'now'>) =>
  orm
    .update(emailThreads)
    .set({ content_used_at: sql`${p.now}` })
    .where(sql`id = ${p.id} AND company_id = ${p.companyId} AND content_used_at < ${p.now}`),
)

const DAY_MS = 86_400_000

/** Records the use of content in a row, at most once a day, so the record may be a day early. */
export async function markUsed({ companyId, db, now }: CompanyContext & { now: number }, row: ThreadRow) {
  if (row.content_used_at < now - DAY_MS) await db.writeIdempotent([mark({ companyId, id: row.id, now })])
}

import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { insertRow, objectOfThread } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { emailThreadObjects, emailThreadSegments, emailThreads, emailThreadUploads } from '../../kernel/db/schema.ts'
import { ApiError } from '../../kernel/http/errors.ts'
import { parseObject, REPLACED_MS, type StoredObject, sumOf } from './objects.ts'
import type { Key, Segment } from './queries.ts'
import { MAX_DATABASE_BYTES } from './segments.ts'

// The database's records of the objects in R2: see `objects.ts`.

const DAY_MS = 24 * 3_600_000

/** An announced object is removed after this time unless a thread names it. No request takes that long. */
export const WRITING_MS = 3_600_000

/** Limits a company's objects being written: those of aborted requests are removed after an hour. */
const MAX_WRITING = 128

const announcement = prepare(
  (p: Placeholders<'companyId' | 'id' | 'contentHash' | 'bytes' | 'lengths' | 'removeAt'>) => {
    const values = {
      id: p.id,
      company_id: p.companyId,
      content_hash: p.contentHash,
      bytes: p.bytes,
      segments: p.lengths,
      remove_at: p.removeAt,
    }
    const writing = sql`(SELECT count(*) FROM email_thread_objects WHERE company_id = ${p.companyId} AND state = 'writing')`
    // A retry after a transient failure may find the row, and must still return it.
    return insertRow(emailThreadObjects, values, sql`WHERE ${writing} < ${sql.raw(String(MAX_WRITING))}`)
      .onConflictDoUpdate({ target: emailThreadObjects.id, set: { remove_at: sql`excluded.remove_at` } })
      .returning({ id: emailThreadObjects.id })
  },
)

/** Announces an object before it is written. @throws ApiError 503 when too many are being written */
export async function announceObject({ companyId, db, now }: RequestContext, object: StoredObject): Promise<void> {
  const { id, content_hash: contentHash, lengths } = object
  const values = { companyId, id, contentHash, bytes: sumOf(lengths), lengths: JSON.stringify(lengths) }
  const [rows] = await db.writeIdempotent([announcement({ ...values, removeAt: now + WRITING_MS })])
  if (rows.length === 0) throw new ApiError('unavailable', { headers: { 'Retry-After': '60' } })
}

const withdrawal = prepare((p: Placeholders<'companyId' | 'id' | 'removeAt'>) =>
  orm
    .update(emailThreadObjects)
    .set({ state: 'removing', remove_at: sql`${p.removeAt}` })
    .where(sql`company_id = ${p.companyId} AND id = ${p.id} AND state = 'writing'`),
)

/**
 * Gives an unnamed object to the sweep; no later write can name it.
 *
 * @param isWritten whether R2 has it: otherwise it may appear late, and is removed when that is no longer possible
 */
export async function withdrawObject({ companyId, db, now }: RequestContext, id: string, isWritten: boolean) {
  await db.writeIdempotent([withdrawal({ companyId, id, removeAt: isWritten ? now : now + WRITING_MS })])
}

/** Ends the naming of a thread's object. @param threadId selects its id, if its content was replaced */
export function endNaming(p: Placeholders<'companyId' | 'now'>, threadId: SQL) {
  const removeAt = sql`${p.now} + ${sql.raw(String(REPLACED_MS))}`
  return orm
    .update(emailThreadObjects)
    .set({ state: 'replaced', thread_id: null, remove_at: removeAt })
    .where(sql`thread_id = ${threadId} AND company_id = ${p.companyId}`)
}

/** Names an object that is being written. @param threadId selects the id of the thread, if its content is the object's */
export function nameObject(p: Placeholders<'companyId' | 'newId'>, threadId: SQL) {
  return orm
    .update(emailThreadObjects)
    .set({ state: 'stored', thread_id: threadId, remove_at: null })
    .where(sql`id = ${p.newId} AND company_id = ${p.companyId} AND state = 'writing' AND ${threadId} IS NOT NULL`)
}

/** Fails and so rolls back its batch unless the thread names the object: the sweep may have taken it. */
export function requireObject(p: Placeholders<'newId'>, threadId: SQL) {
  const isNamed = sql`EXISTS (SELECT 1 FROM email_thread_objects AS o WHERE o.id = ${p.newId} AND o.thread_id = email_threads.id)`
  return orm.update(emailThreads).set({ content_hash: sql`NULL` }).where(sql`id = ${threadId} AND NOT ${isNamed}`)
}

/** The database's own message when {@link requireObject} failed. */
export const OBJECT_LOST = 'NOT NULL constraint failed: email_threads.content_hash'

/** Whether the row's content is in R2 only because nobody used it: a write brings it back. */
export const WAS_MOVED = sql`EXISTS (SELECT 1 FROM email_thread_objects AS o WHERE o.thread_id = email_threads.id
  AND o.company_id = email_threads.company_id AND o.bytes <= ${sql.raw(String(MAX_DATABASE_BYTES))})`

const mark = prepare((p: Placeholders<'companyId' | 'id' | 'now'>) =>
  orm
    .update(emailThreads)
    .set({ content_used_at: sql`${p.now}` })
    .where(sql`id = ${p.id} AND company_id = ${p.companyId} AND content_used_at < ${p.now}`),
)

/** Records the use of content in the database, at most once a day, so the record may be a day early. */
export async function markUsed(
  { companyId, db, now }: CompanyContext & { now: number },
  { id, content_used_at }: { id: string; content_used_at: number },
): Promise<void> {
  if (content_used_at < now - DAY_MS) await db.writeIdempotent([mark({ companyId, id, now })])
}

const byThread = prepare((p: Placeholders<'companyId' | 'id'>) =>
  orm
    .select({
      company_id: emailThreads.company_id,
      content_hash: emailThreads.content_hash,
      object: objectOfThread.as('object'),
    })
    .from(emailThreads)
    .where(sql`email_threads.id = ${p.id} AND email_threads.company_id = ${p.companyId}`),
)

/** Finds the object to which the sweep moved content during a read; null if the content was replaced. */
export async function findMoved({ companyId, db }: CompanyContext, row: { id: string; content_hash: string }) {
  const [[found]] = await db.read([byThread({ companyId, id: row.id })])
  return found?.content_hash === row.content_hash ? parseObject(found) : null
}

// Segments of texts over the limit of a batch are uploaded to the database before the batch.

/** Limits a company's uploaded segments to about 240 MB outside its quota: the sweep drops aborted ones. */
const MAX_UPLOADS = 128

const upload = prepare((p: Placeholders<'companyId' | 'newId' | 'field' | 'position' | 'data' | 'now'>) => {
  const { company_id, id, field, position } = emailThreadUploads
  const target = [company_id, id, field, position]
  const values = { ...p, company_id: p.companyId, id: p.newId, created_at: p.now }
  const uploads = sql`(SELECT count(*) FROM email_thread_uploads WHERE company_id = ${p.companyId})`
  // A retry after a transient failure may find the row, and must still return it.
  return insertRow(emailThreadUploads, values, sql`WHERE ${uploads} < ${sql.raw(String(MAX_UPLOADS))}`)
    .onConflictDoUpdate({ target, set: { data: sql`excluded.data` } })
    .returning({ position })
})

export const moveUpload = prepare((p: Placeholders<Key | 'newId'>) =>
  insertRow(
    emailThreadSegments,
    { thread_id: sql`t.id`, field: sql`u.field`, position: sql`u.position`, data: sql`u.data` },
    sql`FROM email_thread_uploads AS u, email_threads AS t
      WHERE u.company_id = ${p.companyId} AND u.id = ${p.newId} AND t.company_id = ${p.companyId}
        AND t.legacy_thread_id = ${p.legacyThreadId} AND t.account_email = ${p.accountEmail}
        AND (u.field <> 'content' OR t.content_revision = t.revision)`,
  ),
)

export const dropUpload = prepare((p: Placeholders<'companyId' | 'newId'>) =>
  orm.delete(emailThreadUploads).where(sql`company_id = ${p.companyId} AND id = ${p.newId}`),
)

/** Uploads segments and releases their data here. @throws ApiError 503 for too many uploads under way */
export async function uploadSegments(
  { companyId, now, db }: RequestContext,
  newId: string,
  segments: readonly Segment[],
) {
  const [first, ...rest] = segments.flatMap(({ field, position, data }) =>
    typeof data !== 'string' ? [] : [upload({ companyId, newId, field, position, data, now })],
  )
  const uploaded = first ? await db.writeIdempotent([first, ...rest]) : []
  if (uploaded.some((rows) => rows.length === 0)) {
    await db.write([dropUpload({ companyId, newId })])
    throw new ApiError('unavailable', { headers: { 'Retry-After': '60' } })
  }
  for (const segment of segments) segment.data = null
}

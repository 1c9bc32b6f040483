import { type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { insertRow } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { emailThreadObjects, emailThreads } from '../../kernel/db/schema.ts'
import { ApiError } from '../../kernel/http/errors.ts'
import { MAX_DATABASE_BYTES } from './content.ts'
import { REPLACED_MS, type StoredObject } from './objects.ts'

// The database's records of the objects in R2: see `objects.ts`.

/** An announced object is removed after this time unless a thread names it. No request takes that long. */
export const WRITING_MS = 3_600_000

/** Limits a company's objects being written: those of aborted requests are removed after an hour. */
const MAX_WRITING = 128

const announcement = prepare((p: Placeholders<'companyId' | 'id' | 'contentHash' | 'bytes' | 'removeAt'>) => {
  const values = {
    id: p.id,
    company_id: p.companyId,
    content_hash: p.contentHash,
    bytes: p.bytes,
    remove_at: p.removeAt,
  }
  const writing = sql`(SELECT count(*) FROM email_thread_objects WHERE company_id = ${p.companyId} AND state = 'writing')`
  // A retry after a transient failure may find the row, and must still return it.
  return insertRow(emailThreadObjects, values, sql`WHERE ${writing} < ${sql.raw(String(MAX_WRITING))}`)
    .onConflictDoUpdate({ target: emailThreadObjects.id, set: { remove_at: sql`excluded.remove_at` } })
    .returning({ id: emailThreadObjects.id })
})

/** Announces an object before it is written. @throws ApiError 503 when too many are being written */
export async function announceObject(
  { companyId, db, now }: CompanyContext & { now: number },
  object: StoredObject,
  bytes: number,
) {
  const { id, content_hash: contentHash } = object
  const [rows] = await db.writeIdempotent([
    announcement({ companyId, id, contentHash, bytes, removeAt: now + WRITING_MS }),
  ])
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
export async function withdrawObject(
  { companyId, db, now }: CompanyContext & { now: number },
  id: string,
  isWritten: boolean,
) {
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

/**
 * Gives an announced object to a thread, or fails and so rolls back its batch: the sweep may have taken it.
 *
 * @param threadId selects the thread's id, if this batch wrote its content
 */
export function nameObject(p: Placeholders<'companyId' | 'newId'>, threadId: SQL) {
  const isNamed = sql`EXISTS (SELECT 1 FROM email_thread_objects AS o WHERE o.id = ${p.newId} AND o.thread_id = email_threads.id)`
  return [
    orm
      .update(emailThreadObjects)
      .set({ state: 'stored', thread_id: threadId, remove_at: null })
      .where(sql`id = ${p.newId} AND company_id = ${p.companyId} AND state = 'writing' AND ${threadId} IS NOT NULL`),
    orm
      .update(emailThreads)
      .set({ content_hash: sql`NULL` })
      .where(sql`id = ${threadId} AND company_id = ${p.companyId} AND NOT ${isNamed}`),
  ] as const
}

/** The database's own message when {@link nameObject} failed. */
export const OBJECT_LOST = 'NOT NULL constraint failed: email_threads.content_hash'

/** Whether the row's content is in R2 only because nobody used it: a write brings it back. */
export const WAS_MOVED = sql`EXISTS (SELECT 1 FROM email_thread_objects AS o WHERE o.thread_id = email_threads.id
  AND o.company_id = email_threads.company_id AND o.bytes <= ${sql.raw(String(MAX_DATABASE_BYTES))})`

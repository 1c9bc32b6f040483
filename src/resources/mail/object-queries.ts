import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders } from '../../kernel/db/client.ts'
import { insertJsonRows, insertRow } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { isSettled, refuseUnsettled } from '../../kernel/db/placement.ts'
import { emailThreadObjects, emailThreads } from '../../kernel/db/schema.ts'
import { ApiError } from '../../kernel/http/errors.ts'
import { MAX_DATABASE_BYTES, REPLACED_MS, type StoredObject } from './content.ts'

// The database's records of the objects in R2: see `content.ts`.

/** `now` is in milliseconds since the epoch. */
type Timed = { now: number }

/** An announced object is removed after this time unless a thread names it. No request takes that long. */
const WRITING_MS = 3_600_000

/** Limits a company's objects being written: those of aborted requests are removed after an hour. */
const MAX_WRITING = 128

/** Announces an object before it is written. @throws ApiError 503 when too many are being written */
export async function announceObject(
  { companyId, db, now }: CompanyContext & Timed,
  object: StoredObject,
  bytes: number,
) {
  const writing = sql`(SELECT count(*) FROM email_thread_objects WHERE company_id = ${companyId} AND state = 'writing')`
  const row = { ...object, bytes, remove_at: now + WRITING_MS }
  const [rows] = await db.writeIdempotent([
    // A retry after a transient failure may find the row, and must still return it.
    insertRow(emailThreadObjects, row, sql`WHERE ${writing} < ${MAX_WRITING}`)
      .onConflictDoUpdate({ target: emailThreadObjects.id, set: { remove_at: sql`excluded.remove_at` } })
      .returning({ id: emailThreadObjects.id }),
  ])
  if (rows.length === 0) throw new ApiError('unavailable', { headers: { 'Retry-After': '60' } })
}

/**
 * Gives an unnamed object to the sweep; no later write can name it.
 *
 * @param isWritten whether R2 has it: otherwise it may appear late, and is removed when that is no longer possible
 */
export async function withdrawObject({ companyId, db, now }: CompanyContext & Timed, id: string, isWritten: boolean) {
  await db.writeIdempotent([
    orm
      .update(emailThreadObjects)
      .set({ state: 'removing', remove_at: isWritten ? now : now + WRITING_MS })
      .where(sql`company_id = ${companyId} AND id = ${id} AND state = 'writing'`),
  ])
}

/** Releases objects whose content was replaced: the sweep removes them later. */
function replaceObjects(now: Placeholder | number, isReplaced: SQL) {
  const removeAt = sql`${now} + ${sql.raw(String(REPLACED_MS))}`
  return orm
    .update(emailThreadObjects)
    .set({ state: 'replaced', thread_id: null, remove_at: removeAt })
    .where(isReplaced)
}

/** Ends the naming of a thread's object. @param threadId selects its id, if its content was replaced */
export function endNaming(p: Placeholders<'companyId' | 'now'>, threadId: SQL) {
  return replaceObjects(p.now, sql`thread_id = ${threadId} AND company_id = ${p.companyId}`)
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

// The sweep works across companies; those under move are skipped until their move ends.
const OF_SETTLED = isSettled(sql`company_id`)

/** Content unused for 30 days moves to R2: the recorded use may be a day early. */
const UNUSED_MS = 31 * 24 * 3_600_000

export const PAGE_THREADS = 20
/** R2 removes at most 1,000 objects in a call. */
export const REMOVED_AT_ONCE = 500

/** The object that is to replace the content of a thread's row. */
export interface Move extends StoredObject {
  thread_id: string
  content_revision: number
  bytes: number
}

/** Lists threads with unused content, the longest unused first, each with the id of its new object. */
export async function listUnused({ db, now }: CompanyContext & Timed): Promise<Move[]> {
  const { id: thread_id, company_id, content_hash, content_revision } = emailThreads
  const padding = sql`(substr(content, -1) = '=') + (substr(content, -2) = '==')`
  const bytes = sql<number>`octet_length(content) / 4 * 3 - (${padding})`.as('bytes')
  const [rows] = await db.read([
    orm
      .select({ thread_id, company_id, content_hash, content_revision, bytes })
      .from(emailThreads)
      .where(sql`content IS NOT NULL AND content_used_at <= ${now - UNUSED_MS} AND ${OF_SETTLED}`)
      .orderBy(emailThreads.content_used_at)
      .limit(PAGE_THREADS),
  ])
  return rows.map((row) => ({ ...row, id: crypto.randomUUID() }))
}

/** Announces objects: see `content.ts`. Fails if the writes of one of the companies are refused by now. */
export async function announceMoves({ db, now }: CompanyContext & Timed, moves: readonly Move[]): Promise<void> {
  const rows = moves.map(({ id, company_id, content_hash, bytes }) => {
    return [id, company_id, content_hash, bytes, 'writing', null, now + WRITING_MS]
  })
  await db.writeIdempotent([
    refuseUnsettled(moves.map(({ company_id }) => company_id)),
    insertJsonRows(emailThreadObjects, JSON.stringify(rows)).onConflictDoNothing(),
  ])
}

/**
 * Replaces the content of rows by their objects, unless it was used or replaced meanwhile. The threads keep their
 * revision, since readers see no change.
 *
 * @returns how many threads were moved
 */
export async function nameMoves({ db, now }: CompanyContext & Timed, moves: readonly Move[]): Promise<number> {
  const rows = JSON.stringify(moves.map(({ id, thread_id, content_revision }) => [id, thread_id, content_revision]))
  const unused = sql`SELECT m.value ->> 0 AS object, t.id AS thread FROM json_each(${rows}) AS m
    CROSS JOIN email_threads AS t ON t.id = m.value ->> 1 AND t.content_revision = m.value ->> 2
    WHERE t.content IS NOT NULL AND t.content_used_at <= ${now - UNUSED_MS} AND ${isSettled(sql`t.company_id`)}
      AND EXISTS (SELECT 1 FROM email_thread_objects AS o WHERE o.id = m.value ->> 0 AND o.state = 'writing')`
  const named = sql`(SELECT thread_id FROM email_thread_objects
    WHERE id IN (SELECT value ->> 0 FROM json_each(${rows})) AND state = 'stored')`
  const [, , rowsMoved] = await db.write([
    replaceObjects(now, sql`thread_id IN (SELECT thread FROM (${unused}))`),
    orm
      .update(emailThreadObjects)
      .set({ state: 'stored', thread_id: sql`u.thread`, remove_at: null })
      .from(sql`(${unused}) AS u`)
      .where(sql`email_thread_objects.id = u.object`),
    orm.update(emailThreads).set({ content: null }).where(sql`id IN ${named}`).returning({ id: emailThreads.id }),
  ])
  return rowsMoved.length
}

const isAmong = (ids: readonly string[]) =>
  sql`id IN (SELECT value FROM json_each(${JSON.stringify(ids)})) AND ${OF_SETTLED}`

/** Skips threads for another 30 days. */
export async function postponeMoves({ db, now }: CompanyContext & Timed, moves: readonly Move[]): Promise<void> {
  const isUnread = isAmong(moves.map(({ thread_id }) => thread_id))
  await db.writeIdempotent([orm.update(emailThreads).set({ content_used_at: now }).where(isUnread)])
}

/** Marks unnamed objects, which no write can name from then on. @returns those to remove now */
export async function markRemovals({ db, now }: CompanyContext & Timed): Promise<StoredObject[]> {
  const { id, company_id, content_hash } = emailThreadObjects
  const due = sql`SELECT id FROM email_thread_objects
    WHERE remove_at IS NOT NULL AND remove_at <= ${now} AND ${OF_SETTLED} ORDER BY remove_at LIMIT ${REMOVED_AT_ONCE}`
  const [rows] = await db.writeIdempotent([
    orm
      .update(emailThreadObjects)
      .set({ state: 'removing' })
      .where(sql`id IN (${due}) AND thread_id IS NULL`)
      .returning({ id, company_id, content_hash }),
  ])
  return rows
}

/** Ends announcements of objects that could not be written. Their `remove_at` stays, since they may appear late. */
export async function withdrawMoves({ db }: CompanyContext & Timed, moves: readonly Move[]): Promise<void> {
  const isAnnounced = sql`${isAmong(moves.map(({ id }) => id))} AND state = 'writing'`
  await db.writeIdempotent([orm.update(emailThreadObjects).set({ state: 'removing' }).where(isAnnounced)])
}

/** Removes the records of objects that R2 has removed. */
export async function forgetObjects({ db }: CompanyContext & Timed, objects: readonly StoredObject[]): Promise<void> {
  const isRemoved = sql`${isAmong(objects.map(({ id }) => id))} AND state = 'removing'`
  await db.writeIdempotent([orm.delete(emailThreadObjects).where(isRemoved)])
}

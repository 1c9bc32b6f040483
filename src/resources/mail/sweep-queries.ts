import { type SQL, sql } from 'drizzle-orm'
import { orm } from '../../kernel/db/client.ts'
import { insertJsonRows } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { isSettled } from '../../kernel/db/placement.ts'
import { emailThreadObjects, emailThreadSegments, emailThreads, IN_OBJECT } from '../../kernel/db/schema.ts'
import { WRITING_MS } from './object-queries.ts'
import { REPLACED_MS, type StoredObject, sumOf } from './objects.ts'

// The sweep works across companies; those under move are skipped until their move ends.

const OF_SETTLED = isSettled(sql`company_id`)

/** Content unused for 30 days moves to R2: the recorded use may be a day early. */
const UNUSED_MS = 31 * 24 * 3_600_000

/** Rows backfilled per sweep. */
const BACKFILLED = 1_000

/** Backfills a missing last use with the last write. */
export async function backfillUse({ db }: CompanyContext): Promise<void> {
  const unknown = sql`SELECT id FROM email_threads WHERE content_used_at = 0 AND ${OF_SETTLED} LIMIT ${sql.raw(String(BACKFILLED))}`
  await db.writeIdempotent([
    orm
      .update(emailThreads)
      .set({ content_used_at: sql`max(updated_at, 1)` })
      .where(sql`id IN (${unknown}) AND content_used_at = 0`),
  ])
}

/** A thread whose content moves; `lengths` are the segments' bytes in R2, without base64. */
export interface UnusedThread {
  id: string
  company_id: number
  content_hash: string
  content_revision: number
  lengths: number[]
}

/** Lists threads with unused content, the longest unused first. */
export async function listUnused({ db }: CompanyContext, nowMs: number, limit: number): Promise<UnusedThread[]> {
  const { id, company_id, content_hash, content_revision } = emailThreads
  const bytes = sql`octet_length(data) / 4 * 3 - (substr(data, -1) = '=') - (substr(data, -2) = '==')`
  const segments = sql<string>`(SELECT json_group_array(json_array(position, ${bytes})) FROM email_thread_segments
    WHERE thread_id = email_threads.id AND field = 'content')`
  const [rows] = await db.read([
    orm
      .select({ id, company_id, content_hash, content_revision, segments: segments.as('segments') })
      .from(emailThreads)
      // Revision 0 marks a thread whose import is incomplete.
      .where(sql`content_used_at BETWEEN 1 AND ${nowMs - UNUSED_MS} AND revision > 0 AND ${OF_SETTLED}`)
      .orderBy(emailThreads.content_used_at)
      .limit(limit),
  ])
  return rows.map(({ segments, ...row }) => {
    const sorted = (JSON.parse(segments) as [number, number][]).sort(([a], [b]) => a - b)
    return { ...row, lengths: sorted.map(([, length]) => length) }
  })
}

/** Reads one segment of content. @throws Error when it no longer exists */
export async function readContent({ db }: CompanyContext, thread: UnusedThread, position: number): Promise<Uint8Array> {
  const { id, company_id, content_revision } = thread
  const [[segment]] = await db.read([
    orm
      .select({ data: emailThreadSegments.data })
      .from(emailThreadSegments)
      .where(
        sql`thread_id = ${id} AND field = 'content' AND position = ${position} AND EXISTS (SELECT 1 FROM email_threads
          WHERE id = ${id} AND company_id = ${company_id} AND content_revision = ${content_revision})`,
      ),
  ])
  if (!segment) throw new Error('The content was replaced while it was moved.')
  return Uint8Array.fromBase64(segment.data)
}

/** Announces the objects of threads: see `objects.ts`. Fails if one of the companies was frozen a moment ago. */
export async function announceMoves(
  { db }: CompanyContext,
  objects: readonly StoredObject[],
  nowMs: number,
): Promise<void> {
  const rows = objects.map(({ id, company_id, content_hash, lengths }) => {
    return [id, company_id, content_hash, sumOf(lengths), JSON.stringify(lengths), 'writing', null, nowMs + WRITING_MS]
  })
  await db.writeIdempotent([insertJsonRows(emailThreadObjects, JSON.stringify(rows)).onConflictDoNothing()])
}

/**
 * Replaces the segments of threads by their objects, unless content was used or replaced meanwhile. The threads keep
 * their revision, since readers see no change.
 *
 * @param moved `[object id, thread]` of each written object
 * @returns how many threads were moved
 */
export async function nameMoves(
  { db }: CompanyContext,
  moved: readonly (readonly [string, UnusedThread])[],
  nowMs: number,
) {
  const rows = moved.map(([object, { id, content_revision }]) => [object, id, content_revision])
  const unused = sql`SELECT m.value ->> 0 AS object, t.id AS thread FROM json_each(${JSON.stringify(rows)}) AS m
    CROSS JOIN email_threads AS t ON t.id = m.value ->> 1 AND t.content_revision = m.value ->> 2
    WHERE t.content_used_at BETWEEN 1 AND ${nowMs - UNUSED_MS} AND ${isSettled(sql`t.company_id`)}
      AND EXISTS (SELECT 1 FROM email_thread_objects AS o WHERE o.id = m.value ->> 0 AND o.state = 'writing')`
  const objects = JSON.stringify(moved.map(([object]) => object))
  const named = sql`(SELECT thread_id FROM email_thread_objects
    WHERE id IN (SELECT value FROM json_each(${objects})) AND state = 'stored')`
  const [, , , rowsMoved] = await db.write([
    orm
      .update(emailThreadObjects)
      .set({ state: 'replaced', thread_id: null, remove_at: sql`${nowMs + REPLACED_MS}` })
      .where(sql`thread_id IN (SELECT thread FROM (${unused}))`),
    orm
      .update(emailThreadObjects)
      .set({ state: 'stored', thread_id: sql`u.thread`, remove_at: null })
      .from(sql`(${unused}) AS u`)
      .where(sql`email_thread_objects.id = u.object`),
    orm.delete(emailThreadSegments).where(sql`field = 'content' AND thread_id IN ${named}`),
    orm
      .update(emailThreads)
      .set({ content_used_at: IN_OBJECT })
      .where(sql`id IN ${named}`)
      .returning({ id: emailThreads.id }),
  ])
  return rowsMoved.length
}

/** Skips threads without content to move, permanently or for another 30 days. */
export async function skipThreads(
  { db }: CompanyContext,
  threads: readonly UnusedThread[],
  nowMs: number,
): Promise<void> {
  const ids = JSON.stringify(threads.map(({ id }) => id))
  const hasObject = sql`EXISTS (SELECT 1 FROM email_thread_objects AS o
    WHERE o.thread_id = email_threads.id AND o.content_hash = email_threads.content_hash)`
  await db.writeIdempotent([
    orm
      .update(emailThreads)
      .set({ content_used_at: sql`iif(${hasObject}, ${sql.raw(String(IN_OBJECT))}, ${nowMs})` })
      .where(sql`id IN (SELECT value FROM json_each(${ids})) AND ${OF_SETTLED}`),
  ])
}

/** Marks unnamed objects, which no write can name from then on. @returns those to remove now */
export async function markRemovals({ db }: CompanyContext, nowMs: number, limit: number) {
  const { id, company_id, content_hash } = emailThreadObjects
  const due: SQL = sql`SELECT id FROM email_thread_objects
    WHERE remove_at IS NOT NULL AND remove_at <= ${nowMs} AND ${OF_SETTLED} ORDER BY remove_at LIMIT ${limit}`
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
export async function withdrawMoves({ db }: CompanyContext, ids: readonly string[]): Promise<void> {
  await db.writeIdempotent([
    orm
      .update(emailThreadObjects)
      .set({ state: 'removing' })
      .where(sql`id IN (SELECT value FROM json_each(${JSON.stringify(ids)})) AND state = 'writing' AND ${OF_SETTLED}`),
  ])
}

/** Removes the records of objects that R2 has removed. */
export async function forgetObjects({ db }: CompanyContext, objects: readonly { id: string }[]): Promise<void> {
  const ids = JSON.stringify(objects.map(({ id }) => id))
  await db.writeIdempotent([
    orm
      .delete(emailThreadObjects)
      .where(sql`id IN (SELECT value FROM json_each(${ids})) AND state = 'removing' AND ${OF_SETTLED}`),
  ])
}

import { type SQL, sql } from 'drizzle-orm'
import { orm } from '../../kernel/db/client.ts'
import { insertJsonRows } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { isSettled, refuseUnsettled } from '../../kernel/db/placement.ts'
import { emailThreadObjects, emailThreads } from '../../kernel/db/schema.ts'
import { WRITING_MS } from './object-queries.ts'
import { REPLACED_MS, type StoredObject } from './objects.ts'

// The sweep works across companies; those under move are skipped until their move ends.
const OF_SETTLED = isSettled(sql`company_id`)

/** Content unused for 30 days moves to R2: the recorded use may be a day early. */
const UNUSED_MS = 31 * 24 * 3_600_000

export const PAGE_THREADS = 20
/** R2 removes at most 1,000 objects in a call. */
export const REMOVED_AT_ONCE = 500

export type UnusedThread = Awaited<ReturnType<typeof listUnused>>[number]

export interface Move {
  thread: UnusedThread
  object: StoredObject
}

/** Lists threads with unused content, the longest unused first. */
export async function listUnused({ db }: CompanyContext, nowMs: number) {
  const { id, company_id, content_hash, content_revision } = emailThreads
  const padding = sql`(substr(content, -1) = '=') + (substr(content, -2) = '==')`
  const bytes = sql<number>`octet_length(content) / 4 * 3 - (${padding})`
  const [rows] = await db.read([
    orm
      .select({ id, company_id, content_hash, content_revision, bytes: bytes.as('bytes') })
      .from(emailThreads)
      .where(sql`content IS NOT NULL AND content_used_at <= ${nowMs - UNUSED_MS} AND ${OF_SETTLED}`)
      .orderBy(emailThreads.content_used_at)
      .limit(PAGE_THREADS),
  ])
  return rows
}

/** Announces the objects of threads: see `objects.ts`. Fails if the writes of one of the companies are refused by now. */
export async function announceMoves({ db }: CompanyContext, moves: readonly Move[], nowMs: number): Promise<void> {
  const rows = moves.map(({ object: { id, company_id, content_hash }, thread: { bytes } }) => {
    return [id, company_id, content_hash, bytes, 'writing', null, nowMs + WRITING_MS]
  })
  await db.writeIdempotent([
    refuseUnsettled(moves.map(({ object }) => object.company_id)),
    insertJsonRows(emailThreadObjects, JSON.stringify(rows)).onConflictDoNothing(),
  ])
}

/**
 * Replaces the content of rows by their objects, unless it was used or replaced meanwhile. The threads keep their
 * revision, since readers see no change.
 *
 * @returns how many threads were moved
 */
export async function nameMoves({ db }: CompanyContext, moves: readonly Move[], nowMs: number): Promise<number> {
  const rows = moves.map(({ object, thread: { id, content_revision } }) => [object.id, id, content_revision])
  const unused = sql`SELECT m.value ->> 0 AS object, t.id AS thread FROM json_each(${JSON.stringify(rows)}) AS m
    CROSS JOIN email_threads AS t ON t.id = m.value ->> 1 AND t.content_revision = m.value ->> 2
    WHERE t.content IS NOT NULL AND t.content_used_at <= ${nowMs - UNUSED_MS} AND ${isSettled(sql`t.company_id`)}
      AND EXISTS (SELECT 1 FROM email_thread_objects AS o WHERE o.id = m.value ->> 0 AND o.state = 'writing')`
  const named = sql`(SELECT thread_id FROM email_thread_objects
    WHERE id IN (SELECT value ->> 0 FROM json_each(${JSON.stringify(rows)})) AND state = 'stored')`
  const [, , rowsMoved] = await db.write([
    orm
      .update(emailThreadObjects)
      .set({ state: 'replaced', thread_id: null, remove_at: sql`${nowMs + REPLACED_MS}` })
      .where(sql`thread_id IN (SELECT thread FROM (${unused}))`),
    orm
      .update(emailThreadObjects)
      .set({ state: 'stored', thread_id: sql`u.thread`, remove_at: null })
      .from(sql`(${unused}) AS u`)
      .where(sql`email_thread_objects.id = u.object`),
    orm.update(emailThreads).set({ content: null }).where(sql`id IN ${named}`).returning({ id: emailThreads.id }),
  ])
  return rowsMoved.length
}

/** Skips threads for another 30 days. */
export async function postponeMoves({ db }: CompanyContext, moves: readonly Move[], nowMs: number): Promise<void> {
  const ids = JSON.stringify(moves.map(({ thread }) => thread.id))
  await db.writeIdempotent([
    orm
      .update(emailThreads)
      .set({ content_used_at: nowMs })
      .where(sql`id IN (SELECT value FROM json_each(${ids})) AND ${OF_SETTLED}`),
  ])
}

/** Marks unnamed objects, which no write can name from then on. @returns those to remove now */
export async function markRemovals({ db }: CompanyContext, nowMs: number): Promise<StoredObject[]> {
  const { id, company_id, content_hash } = emailThreadObjects
  const due: SQL = sql`SELECT id FROM email_thread_objects
    WHERE remove_at IS NOT NULL AND remove_at <= ${nowMs} AND ${OF_SETTLED} ORDER BY remove_at LIMIT ${REMOVED_AT_ONCE}`
  const [rows] = await db.writeIdempotent([
    orm
      .update(emailThreadObjects)
      .set({ state: 'removing' })
      .where(sql`id IN (${due}) AND thread_id IS NULL`)
      .returning({ id, company_id, content_hash }),
  ])
  return rows
}

const isAmong = (objects: readonly { id: string }[]) =>
  sql`id IN (SELECT value FROM json_each(${JSON.stringify(objects.map(({ id }) => id))}))`

/** Ends announcements of objects that could not be written. Their `remove_at` stays, since they may appear late. */
export async function withdrawMoves({ db }: CompanyContext, moves: readonly Move[]): Promise<void> {
  const isAnnounced = sql`${isAmong(moves.map(({ object }) => object))} AND state = 'writing' AND ${OF_SETTLED}`
  await db.writeIdempotent([orm.update(emailThreadObjects).set({ state: 'removing' }).where(isAnnounced)])
}

/** Removes the records of objects that R2 has removed. */
export async function forgetObjects({ db }: CompanyContext, objects: readonly StoredObject[]): Promise<void> {
  const isRemoved = sql`${isAmong(objects)} AND state = 'removing' AND ${OF_SETTLED}`
  await db.writeIdempotent([orm.delete(emailThreadObjects).where(isRemoved)])
}

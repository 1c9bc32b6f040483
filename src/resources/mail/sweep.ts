import { sql } from 'drizzle-orm'
import { openDatabase, orm } from '../../kernel/db/client.ts'
import { insertJsonRows } from '../../kernel/db/columns.ts'
import { isSettled, refuseUnsettled } from '../../kernel/db/placement.ts'
import { emailThreadObjects, emailThreads } from '../../kernel/db/schema.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import { log, nameOf } from '../../kernel/http/errors.ts'
import { objectKey, putObject, type StoredObject } from './content.ts'
import { readContent } from './queries.ts'
import { replaceObjects, setObjects, WRITING_MS } from './write-queries.ts'

/** Content unused for 30 days moves to R2: the recorded use may be a day early. */
const UNUSED_MS = 31 * 24 * 3_600_000

/** Limits one sweep to 200 threads, so 57,600 a day. */
const MAX_PAGES = 10
const PAGE_THREADS = 20
/** No page starts after this time. */
const MOVING_MS = 30_000
/** Threads moved in parallel: each holds its content in memory. */
const SIDE_BY_SIDE = 4

const MAX_REMOVALS = 5
/** R2 removes at most 1,000 objects in a call. */
const REMOVED_AT_ONCE = 500

/** The sweep works across companies: a statement names them by its rows. `now` is in milliseconds since the epoch. */
type Context = { db: ReturnType<typeof openDatabase>; now: number }

// Companies under move are skipped until their move ends.
const OF_SETTLED = isSettled(sql`company_id`)

const isAmong = (ids: readonly string[]) =>
  sql`id IN (SELECT value FROM json_each(${JSON.stringify(ids)})) AND ${OF_SETTLED}`

/**
 * Moves mail contents of one database that nobody used for 30 days to R2, and removes unnamed objects. A failure is
 * logged, and the next sweep retries.
 */
export async function sweepMailContents(binding: D1Database, bucket: R2Bucket, nowMs: number): Promise<void> {
  const context = { db: openDatabase(binding), now: nowMs }
  try {
    const removed = await removeObjects(context, bucket)
    const moved = await moveUnused(context, bucket)
    if (removed + moved > 0) log('mail_contents', { removed, moved })
  } catch (error) {
    log('mail_contents_failed', { reason: nameOf(error) }, 'error')
  }
}

/** Marks unnamed objects, which no write can name from then on, and removes them and their records. */
async function removeObjects({ db, now }: Context, bucket: R2Bucket): Promise<number> {
  const { id, company_id, content_hash } = emailThreadObjects
  const due = sql`SELECT id FROM email_thread_objects
    WHERE remove_at IS NOT NULL AND remove_at <= ${now} AND ${OF_SETTLED} ORDER BY remove_at LIMIT ${REMOVED_AT_ONCE}`
  const isDue = sql`id IN (${due}) AND thread_id IS NULL`
  let removed = 0
  for (let round = 0; round < MAX_REMOVALS; round++) {
    const [objects] = await db.writeIdempotent([
      setObjects({ state: 'removing' }, isDue).returning({ id, company_id, content_hash }),
    ])
    if (objects.length > 0) {
      await withDeadline(bucket.delete(objects.map(objectKey)), BUDGET_MS.storage)
      const isRemoved = sql`${isAmong(objects.map(({ id }) => id))} AND state = 'removing'`
      await db.writeIdempotent([orm.delete(emailThreadObjects).where(isRemoved)])
      removed += objects.length
    }
    if (objects.length < REMOVED_AT_ONCE) break
  }
  return removed
}

async function moveUnused(context: Context, bucket: R2Bucket): Promise<number> {
  const endMs = Date.now() + MOVING_MS
  let moved = 0
  for (let page = 0; page < MAX_PAGES && Date.now() < endMs; page++) {
    const moves = await listUnused(context)
    if (moves.length > 0) moved += await moveThreads(context, bucket, moves)
    if (moves.length < PAGE_THREADS) break
  }
  return moved
}

/** The object that is to replace the content of a thread's row. */
interface Move extends StoredObject {
  thread_id: string
  content_revision: number
  bytes: number
}

/** Lists threads with unused content, the longest unused first, each with the id of its new object. */
async function listUnused({ db, now }: Context): Promise<Move[]> {
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

/**
 * Announces the objects, writes them and names them: see `content.ts`.
 *
 * @throws Error when no thread could be written, or the writes of one of the companies are refused by now
 */
async function moveThreads(context: Context, bucket: R2Bucket, moves: readonly Move[]): Promise<number> {
  const { db, now } = context
  const announced = moves.map(({ id, company_id, content_hash, bytes }) => {
    return [id, company_id, content_hash, bytes, 'writing', null, now + WRITING_MS]
  })
  await db.writeIdempotent([
    refuseUnsettled(moves.map(({ company_id }) => company_id)),
    insertJsonRows(emailThreadObjects, JSON.stringify(announced)).onConflictDoNothing(),
  ])
  const written: Move[] = []
  for (let at = 0; at < moves.length; at += SIDE_BY_SIDE) {
    const group = moves.slice(at, at + SIDE_BY_SIDE)
    const results = await Promise.allSettled(group.map((move) => copyContent(context, bucket, move)))
    written.push(...group.filter((_, index) => results[index]?.status === 'fulfilled'))
    if (results.every(({ status }) => status === 'rejected')) break
  }
  const unwritten = moves.filter((move) => !written.includes(move))
  if (unwritten.length > 0) {
    // `remove_at` stays: the object may appear late.
    const isUnwritten = sql`${isAmong(unwritten.map(({ id }) => id))} AND state = 'writing'`
    await db.writeIdempotent([setObjects({ state: 'removing' }, isUnwritten)])
  }
  if (written.length === 0) throw new Error('R2 or the database failed.')
  if (unwritten.length > 0) {
    // Skipped for another 30 days: otherwise unreadable content would come first in every sweep.
    const isUnread = isAmong(unwritten.map(({ thread_id }) => thread_id))
    await db.writeIdempotent([orm.update(emailThreads).set({ content_used_at: now }).where(isUnread)])
  }
  return nameMoves(context, written)
}

async function copyContent({ db }: Context, bucket: R2Bucket, move: Move): Promise<void> {
  const { company_id: companyId, thread_id: id, content_hash } = move
  const content = await readContent({ companyId, db }, { id, content_hash })
  if (content === null) throw new Error('The content was replaced while it was moved.')
  await putObject(bucket, move, [Uint8Array.fromBase64(content)])
}

/**
 * Replaces the content of rows by their objects, unless it was used or replaced meanwhile. The threads keep their
 * revision, since readers see no change.
 *
 * @returns how many threads were moved
 */
async function nameMoves({ db, now }: Context, moves: readonly Move[]): Promise<number> {
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

import { openDatabase } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import { log, nameOf } from '../../kernel/http/log.ts'
import { objectKey, putObject, sumOf } from './objects.ts'
import {
  announceMoves,
  backfillUse,
  forgetObjects,
  listUnused,
  markRemovals,
  nameMoves,
  readContent,
  skipThreads,
  type UnusedThread,
  withdrawMoves,
} from './sweep-queries.ts'

/** Limits one sweep to 200 threads, so 57,600 a day, and to 200 MB plus one page. */
const PAGE_THREADS = 20
const MAX_PAGES = 10
const MAX_BYTES = 200_000_000
/** No page starts after this time. */
const MOVING_MS = 30_000
/** Threads moved in parallel: each holds one segment in memory. */
const SIDE_BY_SIDE = 4

/** R2 removes at most 1,000 objects in a call. */
const REMOVED_AT_ONCE = 500
const MAX_REMOVALS = 5

/**
 * Moves mail contents of one database that nobody used for 30 days to R2, and removes unnamed objects. A failure is
 * logged, and the next sweep retries.
 */
export async function sweepMailContents(binding: D1Database, bucket: R2Bucket, nowMs: number): Promise<void> {
  const context = { companyId: 0, db: openDatabase(binding) }
  try {
    const removed = await removeObjects(context, bucket, nowMs)
    const moved = await moveUnused(context, bucket, nowMs)
    if (removed + moved > 0) log('mail_contents', { removed, moved })
  } catch (error) {
    log('mail_contents_failed', { reason: nameOf(error) }, 'error')
  }
}

async function removeObjects(context: CompanyContext, bucket: R2Bucket, nowMs: number): Promise<number> {
  let removed = 0
  for (let round = 0; round < MAX_REMOVALS; round++) {
    const objects = await markRemovals(context, nowMs, REMOVED_AT_ONCE)
    if (objects.length > 0) {
      await withDeadline(bucket.delete(objects.map(objectKey)), BUDGET_MS.storage)
      await forgetObjects(context, objects)
      removed += objects.length
    }
    if (objects.length < REMOVED_AT_ONCE) break
  }
  return removed
}

async function moveUnused(context: CompanyContext, bucket: R2Bucket, nowMs: number): Promise<number> {
  const endMs = Date.now() + MOVING_MS
  await backfillUse(context)
  let moved = 0
  let bytes = 0
  for (let page = 0; page < MAX_PAGES && bytes < MAX_BYTES && Date.now() < endMs; page++) {
    const unused = await listUnused(context, nowMs, PAGE_THREADS)
    const empty = unused.filter(({ lengths }) => lengths.length === 0)
    if (empty.length > 0) await skipThreads(context, empty, nowMs)
    const threads = unused.filter(({ lengths }) => lengths.length > 0)
    if (threads.length > 0) moved += await moveThreads(context, bucket, threads, nowMs)
    bytes += sumOf(threads.flatMap(({ lengths }) => lengths))
    if (unused.length < PAGE_THREADS) break
  }
  return moved
}

/** @throws Error when no thread could be written */
async function moveThreads(context: CompanyContext, bucket: R2Bucket, threads: readonly UnusedThread[], nowMs: number) {
  const moves = threads.map((thread) => ({ thread, object: { ...thread, id: crypto.randomUUID() } }))
  const objects = moves.map(({ object }) => object)
  await announceMoves(context, objects, nowMs)
  const written: [string, UnusedThread][] = []
  const failed: UnusedThread[] = []
  for (let at = 0; at < moves.length; at += SIDE_BY_SIDE) {
    const group = moves.slice(at, at + SIDE_BY_SIDE)
    const puts = group.map(({ thread, object }) => putObject(bucket, object, segmentsOf(context, thread)))
    const results = await Promise.allSettled(puts)
    for (const [index, { thread, object }] of group.entries()) {
      if (results[index]?.status === 'fulfilled') written.push([object.id, thread])
      else failed.push(thread)
    }
    if (results.every(({ status }) => status === 'rejected')) break
  }
  const ids = new Set(written.map(([id]) => id))
  const unwritten = objects.flatMap(({ id }) => (ids.has(id) ? [] : [id]))
  if (unwritten.length > 0) await withdrawMoves(context, unwritten)
  if (written.length === 0) throw new Error('R2 or the database failed.')
  const moved = await nameMoves(context, written, nowMs)
  // Otherwise unreadable content would come first in every sweep.
  if (failed.length > 0) await skipThreads(context, failed, nowMs)
  return moved
}

async function* segmentsOf(context: CompanyContext, thread: UnusedThread): AsyncGenerator<Uint8Array> {
  for (const position of thread.lengths.keys()) yield await readContent(context, thread, position)
}

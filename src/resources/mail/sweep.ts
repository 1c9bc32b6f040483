import { openDatabase } from '../../kernel/db/client.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import { log, nameOf } from '../../kernel/http/log.ts'
import { objectKey, putObject } from './content.ts'
import {
  announceMoves,
  forgetObjects,
  listUnused,
  type Move,
  markRemovals,
  nameMoves,
  PAGE_THREADS,
  postponeMoves,
  REMOVED_AT_ONCE,
  withdrawMoves,
} from './object-queries.ts'
import { readContent } from './queries.ts'

/** Limits one sweep to 200 threads, so 57,600 a day. */
const MAX_PAGES = 10
/** No page starts after this time. */
const MOVING_MS = 30_000
/** Threads moved in parallel: each holds its content in memory. */
const SIDE_BY_SIDE = 4

const MAX_REMOVALS = 5

type Context = Parameters<typeof listUnused>[0]

/**
 * Moves mail contents of one database that nobody used for 30 days to R2, and removes unnamed objects. A failure is
 * logged, and the next sweep retries.
 */
export async function sweepMailContents(binding: D1Database, bucket: R2Bucket, nowMs: number): Promise<void> {
  const context = { companyId: 0, db: openDatabase(binding), now: nowMs }
  try {
    const removed = await removeObjects(context, bucket)
    const moved = await moveUnused(context, bucket)
    if (removed + moved > 0) log('mail_contents', { removed, moved })
  } catch (error) {
    log('mail_contents_failed', { reason: nameOf(error) }, 'error')
  }
}

async function removeObjects(context: Context, bucket: R2Bucket): Promise<number> {
  let removed = 0
  for (let round = 0; round < MAX_REMOVALS; round++) {
    const objects = await markRemovals(context)
    if (objects.length > 0) {
      await withDeadline(bucket.delete(objects.map(objectKey)), BUDGET_MS.storage)
      await forgetObjects(context, objects)
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

/** @throws Error when no thread could be written */
async function moveThreads(context: Context, bucket: R2Bucket, moves: readonly Move[]): Promise<number> {
  await announceMoves(context, moves)
  const written: Move[] = []
  for (let at = 0; at < moves.length; at += SIDE_BY_SIDE) {
    const group = moves.slice(at, at + SIDE_BY_SIDE)
    const results = await Promise.allSettled(group.map((move) => copyContent(context, bucket, move)))
    written.push(...group.filter((_, index) => results[index]?.status === 'fulfilled'))
    if (results.every(({ status }) => status === 'rejected')) break
  }
  const unwritten = moves.filter((move) => !written.includes(move))
  if (unwritten.length > 0) await withdrawMoves(context, unwritten)
  if (written.length === 0) throw new Error('R2 or the database failed.')
  // Otherwise unreadable content would come first in every sweep.
  if (unwritten.length > 0) await postponeMoves(context, unwritten)
  return nameMoves(context, written)
}

async function copyContent({ db }: Context, bucket: R2Bucket, move: Move): Promise<void> {
  const { company_id: companyId, thread_id: id, content_hash } = move
  const content = await readContent({ companyId, db }, { id, content_hash })
  if (content === null) throw new Error('The content was replaced while it was moved.')
  await putObject(bucket, move, [Uint8Array.fromBase64(content)])
}

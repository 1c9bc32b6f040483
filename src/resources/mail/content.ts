import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { pipeline, Readable } from 'node:stream'
import { createGunzip, createGzip, gzipSync } from 'node:zlib'
import { sql } from 'drizzle-orm'
import { type Database, orm } from '../../kernel/db/client.ts'
import { insertRow } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { isSettled } from '../../kernel/db/placement.ts'
import { emailThreadObjects } from '../../kernel/db/schema.ts'
import { unavailable } from '../../kernel/http/errors.ts'
import { BUDGET_MS, log, nameOf, SMALL_BODY_BYTES, withDeadline } from '../../kernel/http/isolate.ts'

// A thread's arrays, compressed, are in its row or in the deployment's own R2 bucket, never in a company's storage.

/**
 * Larger compressed content is written to R2. In base64 beside four texts of 150,000 bytes it takes 1.94 MB of D1's
 * 2,000,000 bytes for a row.
 */
export const MAX_DATABASE_BYTES = 1_000_000

/** Plain iteration of a body of R2 reads 4 KiB at a time. */
export const CHUNK_BYTES = 262_144

/** Level 1 shrinks HTML mail to a seventh at 200 MB a second. */
const LEVEL = 1

/** Compresses the joined pieces. A stream takes a millisecond more, and holds a chunk of large content at a time. */
export async function compress(pieces: readonly Uint8Array[]): Promise<Uint8Array[]> {
  if (lengthOf(pieces) < SMALL_BODY_BYTES) return [gzipSync(Buffer.concat(pieces), { level: LEVEL })]
  const stream = createGzip({ level: LEVEL, chunkSize: CHUNK_BYTES })
  return Array.fromAsync(pipeline(Readable.from(pieces), stream, ignore))
}

/** Decompresses on demand: no more than two chunks wait for the reader. For small content `gunzipSync` is faster. */
export function decompress(content: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  return pipeline(content, createGunzip({ chunkSize: CHUNK_BYTES }), ignore)
}

/** A reader of the stream gets its errors. */
function ignore(): void {}

export function hashOf(pieces: readonly Uint8Array[]): string {
  const hash = createHash('sha256')
  for (const piece of pieces) hash.update(piece)
  return hash.digest('hex')
}

export function lengthOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((bytes, { length }) => bytes + length, 0)
}

/** Objects stay this long after the last thread named them: backups name them for 35 days, Time Travel for 30. */
export const REPLACED_MS = 43 * 24 * 3_600_000

/**
 * An object is written once, under a unique key, between two writes of the database: the first announces it, the second
 * names it and fails unless it is still announced. The sweep removes only objects that it has marked before, which ends
 * their announcement: so a late write can never name a removed object.
 */
export type StoredObject = Pick<typeof emailThreadObjects.$inferSelect, 'id' | 'company_id' | 'content_hash'>

/** No route of files reaches `mail/`: their keys begin with `orders/`. */
function objectKey({ id, company_id, content_hash }: StoredObject): string {
  return `mail/${company_id}/${content_hash}/${id}`
}

export function parseObjectKey(key: string) {
  const [, , content_hash = '', id = ''] = key.split('/')
  return { id, content_hash }
}

/** An announced object is removed after this time unless a thread names it. No request takes that long. */
const WRITING_MS = 15 * 60_000

/** Limits a company's objects being written, those of failed requests among them. */
const MAX_WRITING = 500

/**
 * Returns the base64 of content for its row; undefined for large content, which is announced and written to R2.
 *
 * @throws ApiError 503 when too many objects are being written, or R2 fails
 */
export async function storeContent(
  { companyId, db, now }: CompanyContext & { now: number },
  bucket: R2Bucket,
  object: StoredObject,
  content: readonly Uint8Array[],
): Promise<string | undefined> {
  const bytes = lengthOf(content)
  if (bytes <= MAX_DATABASE_BYTES) return Buffer.concat(content).toString('base64')
  const writing = sql`(SELECT count(*) FROM email_thread_objects WHERE company_id = ${companyId} AND state = 'writing')`
  const row = { ...object, bytes, remove_at: now + WRITING_MS }
  const [rows] = await db.writeIdempotent([
    // A retry after a transient failure may find the row, and must still return it.
    insertRow(emailThreadObjects, row, sql`WHERE ${writing} < ${MAX_WRITING}`)
      .onConflictDoUpdate({ target: emailThreadObjects.id, set: { remove_at: sql`excluded.remove_at` } })
      .returning({ id: emailThreadObjects.id }),
  ])
  if (rows.length === 0) throw unavailable(60)
  await putObject(bucket, object, content)
  return undefined
}

/** Writes an object in chunks. @throws ApiError 503 when R2 fails or takes too long */
async function putObject(bucket: R2Bucket, object: StoredObject, content: readonly Uint8Array[]): Promise<void> {
  const { readable, writable } = new FixedLengthStream(lengthOf(content))
  const writer = writable.getWriter()
  const send = async () => {
    for (const chunk of content) await writer.write(chunk)
    await writer.close()
  }
  try {
    await withDeadline(Promise.all([bucket.put(objectKey(object), readable), send()]), BUDGET_MS.storage)
  } catch (error) {
    void writer.abort(error).catch(() => undefined)
    throw unavailable(10, { cause: `R2 did not store mail content: ${nameOf(error)}` })
  }
}

/** Reads an object on demand, in chunks; null if R2 lost it. @throws ApiError 503 when R2 fails or takes too long */
export async function openObject(bucket: R2Bucket, object: StoredObject, request_id: string | undefined) {
  const get = () => bucket.get(objectKey(object))
  // A failure of R2 often passes.
  const found = await withDeadline(get().catch(get), BUDGET_MS.storage).catch((error: unknown) => {
    throw unavailable(10, { cause: `R2 did not return mail content: ${nameOf(error)}` })
  })
  if (!found) log('mail_content_missing', { request_id, company_id: object.company_id, object_id: object.id }, 'error')
  return found && chunksOf(found.body)
}

async function* chunksOf(body: ReadableStream): AsyncGenerator<Uint8Array> {
  const reader = body.getReader({ mode: 'byob' })
  try {
    for (;;) {
      const { value, done } = await reader.readAtLeast(CHUNK_BYTES, new Uint8Array(CHUNK_BYTES))
      if (value?.length) yield value
      if (done) return
    }
  } finally {
    void reader.cancel().catch(() => undefined)
  }
}

const MAX_REMOVALS = 5
/** R2 removes at most 1,000 objects in a call. */
const REMOVED_AT_ONCE = 500

/**
 * Marks unnamed objects of one database, which no write can name from then on, and removes them and their records. A
 * failure is logged, and the next sweep retries.
 */
export async function sweepMailContents(db: Database, bucket: R2Bucket, now: number): Promise<void> {
  const { id, company_id, content_hash } = emailThreadObjects
  // Companies under move are skipped until their move ends.
  const isOfSettled = isSettled(sql`company_id`)
  const due = sql`SELECT id FROM email_thread_objects
    WHERE remove_at IS NOT NULL AND remove_at <= ${now} AND ${isOfSettled} ORDER BY remove_at LIMIT ${REMOVED_AT_ONCE}`
  const isDue = sql`id IN (${due}) AND thread_id IS NULL`
  try {
    for (let round = 0; round < MAX_REMOVALS; round++) {
      const marked = orm.update(emailThreadObjects).set({ state: 'removing' }).where(isDue)
      const [objects] = await db.writeIdempotent([marked.returning({ id, company_id, content_hash })])
      if (objects.length === 0) return
      await withDeadline(bucket.delete(objects.map(objectKey)), BUDGET_MS.storage)
      const ids = JSON.stringify(objects.map(({ id }) => id))
      const isRemoved = sql`id IN (SELECT value FROM json_each(${ids})) AND state = 'removing' AND ${isOfSettled}`
      await db.writeIdempotent([orm.delete(emailThreadObjects).where(isRemoved)])
      log('mail_contents', { removed: objects.length })
    }
  } catch (error) {
    log('mail_contents_failed', { reason: nameOf(error) }, 'error')
  }
}

import { eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { actorOf, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareBatch } from '../../kernel/db/client.ts'
import { assignments, insertRow, type RowOf } from '../../kernel/db/columns.ts'
import { databaseMessage } from '../../kernel/db/failures.ts'
import { checkMailQuotas, checkQuota, quotaRefusal, throwQuotaRefusal } from '../../kernel/db/quota.ts'
import { companies, emailThreadSegments, emailThreads, IN_OBJECT } from '../../kernel/db/schema.ts'
import { LruCache } from '../../kernel/http/cache.ts'
import { ApiError } from '../../kernel/http/errors.ts'
import { describeBytes } from '../../kernel/http/messages.ts'
import {
  announceObject,
  dropUpload,
  endNaming,
  moveUpload,
  nameObject,
  OBJECT_LOST,
  requireObject,
  uploadSegments,
  WAS_MOVED,
  withdrawObject,
} from './object-queries.ts'
import { putObject, type StoredObject } from './objects.ts'
import { IN_SEGMENTS, isThread, type Key, type Segment, selectSegments, type ThreadKey } from './queries.ts'
import { compressSegments, MAX_DATABASE_BYTES, toSegments } from './segments.ts'
import { contentText, TEXT_FIELDS, type TextField, type ThreadInput } from './thread-input.ts'

/** Texts with more bytes are stored in segments. */
const INLINE_BYTES = 100_000

/** Limits the segments in one batch: more are uploaded before. */
const BATCH_BYTES = 4_000_000

/**
 * The stored content hashes last seen, by company and legacy id, then by mailbox: a hint that each statement checks.
 */
const knownHashes = new LruCache<string, ReadonlyMap<string, string>>({ maxWeight: 10_000 })

const { company_id, legacy_thread_id, account_email, content_hash } = emailThreads
const HASH_COLUMNS = { company_id, legacy_thread_id, account_email, content_hash }

/** Remembers a thread's stored content. */
export const rememberHash = (row: RowOf<typeof HASH_COLUMNS>): void => {
  const key = `${row.company_id}/${row.legacy_thread_id}`
  knownHashes.set(key, new Map(knownHashes.get(key)).set(row.account_email, row.content_hash))
}

const storedHashes = prepare((p: Placeholders<'companyId' | 'legacyThreadId'>) =>
  orm
    .select(HASH_COLUMNS)
    .from(emailThreads)
    .where(sql`${company_id} = ${p.companyId} AND ${legacy_thread_id} = ${p.legacyThreadId}`)
    .limit(100),
)

/** Reads the stored hashes of a legacy id, of at most 100 mailboxes, unless this isolate knows any. */
export async function prefetchHashes({ companyId, db }: RequestContext, legacyThreadId: string): Promise<void> {
  if (knownHashes.get(`${companyId}/${legacyThreadId}`)) return
  // Without the hint the content is sent, and the batch detects that it is stored.
  const [hashes] = await db.read([storedHashes({ companyId, legacyThreadId })]).catch(() => [[]])
  hashes?.forEach(rememberHash)
}

type Write = { [Name in keyof ReturnType<typeof valuesOf>]: Placeholder } & Partial<Placeholders<'contentUsedAt'>>

const touch = prepare((p: Write) =>
  orm
    .update(emailThreads)
    .set({ ...sentColumns(p), revision: sql`${emailThreads.revision} + 1` })
    // The quota is checked when bytes are written: here they only replace as many.
    .where(
      sql`${isThread(p)} AND content_hash = ${p.content_hash} AND NOT ${WAS_MOVED}
        AND ${storedTextBytes(p)} = ${p.sentTextBytes}
        AND ${IN_SEGMENTS} NOT IN (coalesce(mail_thread_id, ''), coalesce(subject, ''), coalesce(snippet, ''), coalesce(mail_history_id, ''))`,
    )
    .returning(),
)

/**
 * Updates all but the content; undefined unless that is stored for certain and the texts are inline and of equal size.
 */
export async function touchThread(context: RequestContext, key: ThreadKey, input: ThreadInput) {
  const known = knownHashes.get(`${context.companyId}/${key.legacyThreadId}`)?.get(key.accountEmail)
  if (known !== input.content.hash || TEXT_FIELDS.some((field) => isLarge(input.texts[field]))) return undefined
  const values = valuesOf(context, key, input)
  const [[row]] = await context.db
    .writeIdempotent([touch(values), checkQuota(batchOf(values))])
    .catch(throwQuotaRefusal)
  if (!row) return undefined
  rememberHash(row)
  context.announceChange()
  return row
}

/** The statements of {@link writeThread}, without those of segments. */
const replaceThread = prepareBatch((p: Write) => {
  const columns = sentColumns(p)
  const { revision, content_revision } = emailThreads
  const key = { company_id: p.companyId, legacy_thread_id: p.legacyThreadId, account_email: p.accountEmail }
  const content_used_at = sql`${p.contentUsedAt}`
  const first = { revision: 1, content_revision: 1, content_used_at }
  const created = { ...columns, ...key, ...first, id: p.newId, created_at: p.now }
  return [
    auditEntry(p, 'email_thread.write', sql`coalesce(${idOf(p)}, ${p.newId})`, sql`NOT ${isStored(p)}`),
    orm.delete(emailThreadSegments).where(
      sql`thread_id = ${idOf(p)} AND (field IN (SELECT value FROM json_each(${p.sentTexts}))
        OR (field = 'content' AND NOT ${isStored(p)}))`,
    ),
    // Without a condition, ON CONFLICT would be parsed as part of a join.
    insertRow(emailThreads, created, sql`WHERE true`)
      .onConflictDoUpdate({
        target: [company_id, legacy_thread_id, account_email],
        set: {
          ...columns,
          revision: sql`${revision} + 1`,
          content_revision: sql`iif(${isStored(p)}, ${content_revision}, ${revision} + 1)`,
          content_used_at: sql`iif(${isStored(p)}, max(${emailThreads.content_used_at}, ${p.now}), ${content_used_at})`,
        },
      })
      .returning(),
    selectSegments(idOf(p), sql`field <> 'content'`),
  ]
})

const insertSegment = prepare((p: Placeholders<Key | 'field' | 'position' | 'data'>) =>
  // If this batch writes the content, its revision is the thread's.
  insertRow(
    emailThreadSegments,
    { thread_id: sql`id`, field: p.field, position: p.position, data: p.data },
    sql`FROM ${emailThreads} WHERE ${isThread(p)} AND (${p.field} <> 'content' OR content_revision = revision)`,
  ),
)

/** Selects the thread's id, if this batch wrote its content. */
const written = (p: Placeholders<Key>) =>
  sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)} AND content_revision = revision)`

const endNamingOfWritten = prepare((p: Placeholders<Key | 'now'>) => endNaming(p, written(p)))

/** Gives the object to the thread, or fails the batch. */
const nameWritten = prepareBatch((p: Placeholders<Key | 'newId'>) => [
  nameObject(p, written(p)),
  requireObject(p, written(p)),
])

/** Identifies the batch for the check of quotas. */
const batchOf = ({ companyId, tokenId, now }: ReturnType<typeof actorOf>) => ({ companyId, tokenId, now })

/**
 * Compresses the sent fields: content over {@link MAX_DATABASE_BYTES} goes to R2, and texts over the limit of a batch
 * are uploaded.
 *
 * @returns nothing of it references the body; `heldBytes` are in memory until the thread is written
 */
export async function compressThread(context: RequestContext, key: ThreadKey, input: ThreadInput) {
  const { companyId: company_id } = context
  const values = valuesOf(context, key, input)
  const content = Array.from(compressSegments(contentText(input.content)))
  const bytes = lengthOf(content)
  const object: StoredObject | null =
    bytes > MAX_DATABASE_BYTES
      ? { id: values.newId, company_id, content_hash: input.content.hash, lengths: content.map(({ length }) => length) }
      : null
  const segments = content.map((compressed, position): Segment => {
    const data = object ? compressed : compressed.toBase64()
    return { field: 'content', position, bytes: data.length, data }
  })
  const texts: Segment[] = []
  const contentBytes = object ? 0 : segments.reduce((sum, segment) => sum + segment.bytes, 0)
  let batchBytes = contentBytes
  for (const [field, text] of Object.entries(input.texts)) {
    if (!isLarge(text)) continue
    let position = 0
    for (const data of toSegments([text])) {
      if (batchBytes + data.length > BATCH_BYTES) {
        await uploadSegments(context, values.newId, texts)
        batchBytes = contentBytes
      }
      texts.push({ field, position: position++, bytes: data.length, data })
      batchBytes += data.length
    }
  }
  return {
    values: { ...values, contentUsedAt: object ? IN_OBJECT : context.now },
    segments: [...segments, ...texts],
    object,
    content,
    // The batch repeats its segments as JSON.
    heldBytes: (object ? bytes : 0) + 2 * batchBytes,
  }
}

/** Writes content to R2, so that {@link writeThread} can name it. @throws ApiError 503 when that fails */
export async function storeContent(context: RequestContext, { object, content }: CompressedThread): Promise<void> {
  if (!object) return
  await announceObject(context, object)
  await putObject(context.mailContents, object, content).catch((error: unknown) => {
    // Otherwise the object would count as under way for an hour.
    context.waitUntil(withdrawObject(context, object.id, false).catch(() => undefined))
    throw error
  })
}

type CompressedThread = Awaited<ReturnType<typeof compressThread>>

/**
 * Creates the thread or replaces the sent fields in one transaction. Content that is already stored is not written.
 *
 * @returns the row, and the segments of the texts that were not sent
 * @throws ApiError 413 when the company would exceed a quota; nothing is changed then
 */
export async function writeThread(context: RequestContext, { values, segments, object }: CompressedThread) {
  const { db, announceChange, waitUntil } = context
  const isUploaded = segments.some(({ field, data }) => field !== 'content' && data === null)
  // An upload is moved once, so a repeated batch would not find it.
  const write = isUploaded ? db.write : db.writeIdempotent
  const withdraw = () => {
    if (object) waitUntil(withdrawObject(context, object.id, true).catch(() => undefined))
  }
  const [, , [row], otherSegments] = await write([
    ...replaceThread(values),
    ...segments.flatMap(({ field, position, data }) =>
      typeof data === 'string' ? [insertSegment({ ...values, field, position, data })] : [],
    ),
    ...(isUploaded ? [moveUpload(values), dropUpload(values)] : []),
    endNamingOfWritten(values),
    ...(object ? nameWritten(values) : []),
    checkMailQuotas(batchOf(values)),
  ]).catch(async (error) => {
    withdraw()
    const message = databaseMessage(error)
    if (message.includes(OBJECT_LOST)) throw new ApiError('unavailable', { headers: { 'Retry-After': '10' } })
    const refusal = quotaRefusal(error)
    if (!refusal && !message.includes('mail quota exceeded')) throw error
    const ofMail = await overQuota(context, values)
    throw refusal ?? ofMail
  })
  if (!row) throw new Error('An upsert returned no row.')
  // The content was already stored.
  if (row.content_revision !== row.revision) withdraw()
  rememberHash(row)
  announceChange()
  return { row, otherSegments }
}

/** Checks the quotas after a batch that was certainly rolled back. */
async function overQuota({ db, companyId }: RequestContext, values: CompressedThread['values']): Promise<ApiError> {
  const quota = orm.select({ bytes: companies.mail_quota_bytes }).from(companies).where(eq(companies.id, companyId))
  const [[found]] = await db.write([quota, dropUpload(values)])
  const limit_bytes = found?.bytes ?? 0
  const message = `The thread would exceed the company’s quota of stored mail, ${describeBytes(limit_bytes)}`
  return new ApiError('too_large', { message, details: { reason: 'storage_quota', limit_bytes } })
}

const idOf = (p: Placeholders<Key>) => sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)})`
const isStored = (p: Placeholders<Key | 'content_hash'>) =>
  sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${isThread(p)} AND content_hash = ${p.content_hash} AND NOT ${WAS_MOVED})`

/** Sums the bytes that the sent texts take in the row. */
function storedTextBytes(p: Write): SQL {
  const sent = TEXT_FIELDS.filter((field) => p[field] !== undefined)
  return sent.reduce((sum, field) => sql`${sum} + octet_length(coalesce(${sql.raw(field)}, ''))`, sql`0`)
}

/** The sent columns, and those that every write sets. */
function sentColumns(p: Write) {
  return assignments(emailThreads, { ...p, updated_at: p.now, deleted: sql`0` })
}

/** The values of the {@link Write} statements. An omitted text or time is absent, so its column stays. */
function valuesOf(context: RequestContext, key: ThreadKey, { texts, times, content }: ThreadInput) {
  const inline = (text: Uint8Array) => (isLarge(text) ? IN_SEGMENTS : new TextDecoder().decode(text))
  const columns = Object.entries(texts).map(([field, text]) => [field, text && inline(text)])
  return {
    ...actorOf(context),
    ...key,
    newId: crypto.randomUUID(),
    content_hash: content.hash,
    content_bytes: lengthOf(contentText(content)),
    message_count: content.messages.count,
    ...(Object.fromEntries(columns) as Partial<Record<TextField, string | null>>),
    sentTexts: JSON.stringify(Object.keys(texts)),
    sentTextBytes: lengthOf(Object.values(texts)),
    ...times,
    last_synced_at: times.last_synced_at ?? context.now,
  }
}

function lengthOf(pieces: readonly (Uint8Array | null)[]): number {
  return pieces.reduce((bytes, piece) => bytes + (piece?.length ?? 0), 0)
}

function isLarge(text: Uint8Array | null | undefined): text is Uint8Array {
  return !!text && text.length > INLINE_BYTES
}

import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { actorOf, auditEntry } from '../db/audit.ts'
import { databaseMessage, orm, type Placeholders, prepare, prepareBatch } from '../db/client.ts'
import { assignments, insertRow } from '../db/columns.ts'
import { companies, emailThreadSegments, emailThreads } from '../db/schema.ts'
import { LruCache } from '../http/cache.ts'
import { ApiError } from '../http/errors.ts'
import {
  IN_SEGMENTS,
  isThread,
  type Key,
  type Segment,
  selectSegments,
  type ThreadKey,
  type ThreadRow,
} from './queries.ts'
import { toSegments } from './segments.ts'
import { contentText, TEXT_FIELDS, type TextField, type ThreadInput } from './thread-input.ts'
import { dropUpload, moveUpload, uploadSegments } from './upload-queries.ts'

const decoder = new TextDecoder()

/** A text of more bytes than this is stored in segments. */
const INLINE_BYTES = 100_000

/** Of the segments in one batch, which needs as much again as JSON: more are uploaded before. */
export const BATCH_BYTES = 4_000_000

/**
 * The content hashes that this isolate last saw stored, by company and legacy id, then by mailbox. Only a hint: the
 * statement that relies on it checks the stored hash.
 */
const knownHashes = new LruCache<string, ReadonlyMap<string, string>>({ maxWeight: 10_000 })

type StoredHash = Pick<ThreadRow, 'company_id' | 'legacy_thread_id' | 'account_email' | 'content_hash'>

/** Remembers which content of a thread is stored. */
export const rememberHash = ({ company_id, legacy_thread_id, account_email, content_hash }: StoredHash): void => {
  const key = `${company_id}/${legacy_thread_id}`
  knownHashes.set(key, new Map(knownHashes.get(key)).set(account_email, content_hash))
}

const storedHashes = prepare((p: Placeholders<'companyId' | 'legacyThreadId'>) => {
  const { company_id, legacy_thread_id, account_email, content_hash } = emailThreads
  return orm
    .select({ company_id, legacy_thread_id, account_email, content_hash })
    .from(emailThreads)
    .where(sql`${company_id} = ${p.companyId} AND ${legacy_thread_id} = ${p.legacyThreadId}`)
    .limit(100)
})

/** Reads the hashes that are stored under a legacy id, of at most 100 mailboxes, unless this isolate knows any. */
export async function prefetchHashes({ companyId, db }: RequestContext, legacyThreadId: string): Promise<void> {
  if (knownHashes.get(`${companyId}/${legacyThreadId}`)) return
  try {
    const [hashes] = await db.read([storedHashes({ companyId, legacyThreadId })])
    hashes.forEach(rememberHash)
  } catch {
    // Without the hint the content is sent, and the batch finds that it is stored.
  }
}

type Write = { [Name in keyof ReturnType<typeof valuesOf>]: Placeholder }

const touch = prepare((p: Write) =>
  orm
    .update(emailThreads)
    .set({ ...sentColumns(p), revision: sql`${emailThreads.revision} + 1` })
    .where(
      // The quota is checked where bytes are written: here they only replace as many.
      sql`${isThread(p)} AND content_hash = ${p.content_hash} AND ${storedTextBytes(p)} = ${p.sentTextBytes}
        AND ${IN_SEGMENTS} NOT IN (coalesce(mail_thread_id, ''), coalesce(subject, ''), coalesce(snippet, ''), coalesce(mail_history_id, ''))`,
    )
    .returning(),
)

/**
 * Updates a thread whose content is the one sent, without writing the content.
 *
 * @returns undefined, and nothing is changed, where this isolate does not know that the content is stored, it was
 *   replaced since, a text is or was in segments, or the texts have another size
 */
export async function touchThread(context: RequestContext, key: ThreadKey, input: ThreadInput) {
  const known = knownHashes.get(`${context.companyId}/${key.legacyThreadId}`)?.get(key.accountEmail)
  if (known !== input.content.hash || TEXT_FIELDS.some((field) => isLarge(input.texts[field]))) return undefined
  const [[row]] = await context.db.writeIdempotent([touch(valuesOf(context, key, input))])
  if (row) rememberHash(row)
  return row
}

/** The statements of {@link writeThread}, but for the segments. */
const replaceThread = prepareBatch((p: Write) => {
  const columns = sentColumns(p)
  const { revision, content_revision, content_hash } = emailThreads
  return [
    auditEntry(p, 'email_thread.write', sql`coalesce(${idOf(p)}, ${p.newId})`, sql`NOT ${isStored(p)}`),
    orm.delete(emailThreadSegments).where(
      sql`thread_id = ${idOf(p)} AND (field IN (SELECT value FROM json_each(${p.sentTexts}))
        OR (field = 'content' AND NOT ${isStored(p)}))`,
    ),
    insertRow(
      emailThreads,
      {
        ...columns,
        id: p.newId,
        company_id: p.companyId,
        legacy_thread_id: p.legacyThreadId,
        account_email: p.accountEmail,
        revision: 1,
        content_revision: 1,
        created_at: p.now,
      },
      // Without a condition, ON CONFLICT would be parsed as part of a join.
      sql`WHERE true`,
    )
      .onConflictDoUpdate({
        target: [emailThreads.company_id, emailThreads.legacy_thread_id, emailThreads.account_email],
        set: {
          ...columns,
          revision: sql`${revision} + 1`,
          content_revision: sql`CASE WHEN ${content_hash} = ${p.content_hash} THEN ${content_revision} ELSE ${revision} + 1 END`,
        },
      })
      .returning(),
    selectSegments(idOf(p), sql`field <> 'content'`),
  ]
})

const insertSegment = prepare((p: Placeholders<Key | 'field' | 'position' | 'data'>) =>
  // Content is written by this batch or not at all: only then is its revision the thread's.
  insertRow(
    emailThreadSegments,
    { thread_id: sql`id`, field: p.field, position: p.position, data: p.data },
    sql`FROM ${emailThreads} WHERE ${isThread(p)} AND (${p.field} <> 'content' OR content_revision = revision)`,
  ),
)

// A trigger undoes the whole batch when it raised the stored bytes above the quota.
const checkQuota = prepare((p: Placeholders<'companyId'>) =>
  orm
    .update(companies)
    .set({ mail_bytes_checked: sql`mail_bytes` })
    .where(sql`id = ${p.companyId} AND mail_bytes_checked <> mail_bytes`),
)

/**
 * Compresses what was sent, and uploads it on the way where it is more than one batch should hold. The result references
 * nothing of the body; `pendingBytes` are the stored bytes of the segments that are not uploaded.
 */
export async function compressThread(context: RequestContext, key: ThreadKey, input: ThreadInput) {
  const values = valuesOf(context, key, input)
  const large = TEXT_FIELDS.flatMap((field) =>
    isLarge(input.texts[field]) ? [{ field, text: [input.texts[field]] }] : [],
  )
  const segments: Segment[] = []
  let pendingBytes = 0
  for (const { field, text } of [{ field: 'content', text: contentText(input.content) }, ...large]) {
    let position = 0
    for (const data of toSegments(text)) {
      if (pendingBytes + data.length > BATCH_BYTES) {
        await uploadSegments(context, values.newId, segments)
        pendingBytes = 0
      }
      segments.push({ field, position: position++, bytes: data.length, data })
      pendingBytes += data.length
    }
  }
  return { values, segments, pendingBytes }
}

/**
 * Creates the thread, or replaces what was sent of it, in one transaction. Content that is stored already is not written.
 *
 * @returns the row, and the segments of the texts that were not sent
 * @throws ApiError 413 when the company's mail would exceed its quota; nothing is changed then
 */
export async function writeThread(
  context: RequestContext,
  { values, segments }: Awaited<ReturnType<typeof compressThread>>,
) {
  const { db } = context
  const isUploaded = segments.some(({ data }) => data === null)
  // An upload is moved once: a repeated batch would not find it.
  const write = isUploaded ? db.write : db.writeIdempotent
  const [, , [row], otherSegments] = await write([
    ...replaceThread(values),
    ...segments.flatMap(({ field, position, data }) =>
      data === null ? [] : [insertSegment({ ...values, field, position, data })],
    ),
    ...(isUploaded ? [moveUpload(values), dropUpload(values)] : []),
    checkQuota(values),
  ]).catch(async (error) => {
    if (!databaseMessage(error).includes('mail quota exceeded')) throw error
    throw await quotaError(context, values.newId)
  })
  if (!row) throw new Error('An upsert returned no row.')
  rememberHash(row)
  return { row, otherSegments }
}

const quotaOf = prepare((p: Placeholders<'companyId'>) =>
  orm.select({ limit_bytes: companies.mail_quota_bytes }).from(companies).where(sql`id = ${p.companyId}`),
)

/** Also drops the upload of the batch, which was undone for certain. */
async function quotaError({ companyId, db }: RequestContext, newId: string): Promise<ApiError> {
  const [[quota]] = await db.write([quotaOf({ companyId }), dropUpload({ companyId, newId })])
  const limit_bytes = quota?.limit_bytes ?? 0
  return new ApiError('too_large', {
    message: `The thread would exceed the company's quota of ${limit_bytes} stored bytes`,
    details: { reason: 'storage_quota', limit_bytes },
  })
}

function idOf(p: Placeholders<Key>): SQL {
  return sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)})`
}

function isStored(p: Placeholders<Key | 'content_hash'>): SQL {
  return sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${isThread(p)} AND content_hash = ${p.content_hash})`
}

/** Bytes in the row of the texts that were sent. */
function storedTextBytes(p: Write): SQL {
  return TEXT_FIELDS.filter((field) => p[field] !== undefined).reduce(
    (sum, field) => sql`${sum} + octet_length(coalesce(${sql.raw(field)}, ''))`,
    sql`0`,
  )
}

/** The columns that were sent, and those that every write sets. */
function sentColumns(p: Write) {
  return assignments(emailThreads, { ...p, updated_at: p.now, deleted: sql`0` })
}

/** What the {@link Write} statements are filled with. A text or time that was not sent is absent: its column stays. */
function valuesOf(context: RequestContext, key: ThreadKey, { texts, times, content }: ThreadInput) {
  const inline = (text: Uint8Array) => (isLarge(text) ? IN_SEGMENTS : decoder.decode(text))
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

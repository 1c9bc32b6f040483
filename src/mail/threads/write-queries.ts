import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../context.ts'
import { type Actor, actorOf, auditEntry } from '../../db/audit.ts'
import { databaseMessage, orm, type Placeholders, prepare } from '../../db/client.ts'
import { given, insertRow } from '../../db/columns.ts'
import { companies, emailThreadSegments, emailThreads, emailThreadUploads } from '../../db/schema.ts'
import { ApiError } from '../../http/errors.ts'
import { contentBytes, contentText, TEXT_FIELDS, type TextField, type ThreadInput } from './input.ts'
import { IN_SEGMENTS, isThread, type Key, type Segment, segmentsOf, type ThreadKey, type ThreadRow } from './queries.ts'
import { toSegments } from './segments.ts'

const decoder = new TextDecoder()

/** A text of more bytes than this stands in segments. */
const INLINE_BYTES = 100_000

type Write = Placeholders<
  Key | 'now' | 'contentHash' | 'contentBytes' | 'messageCount' | 'lastSyncedAt' | 'sentTextBytes',
  'mailThreadId' | 'subject' | 'snippet' | 'mailHistoryId' | 'firstMessageAt' | 'lastMessageAt'
>

const touch = prepare((p: Write) =>
  orm
    .update(emailThreads)
    .set({ ...given(columnsOf(p)), revision: sql`${emailThreads.revision} + 1` })
    .where(
      // The quota is checked where bytes are written: here they only replace as many.
      sql`${isThread(p)} AND content_hash = ${p.contentHash} AND ${storedTextBytes(p)} = ${p.sentTextBytes}
        AND ${IN_SEGMENTS} NOT IN (coalesce(mail_thread_id, ''), coalesce(subject, ''), coalesce(snippet, ''), coalesce(mail_history_id, ''))`,
    )
    .returning(),
)

/**
 * Updates a thread whose content is the one sent, without writing the content.
 *
 * @returns undefined, and nothing is changed, where the stored content is another, a text is or was in segments, or the
 *   texts have another size
 */
export async function touchThread(
  context: RequestContext,
  key: ThreadKey,
  input: ThreadInput,
  contentHash: string,
): Promise<ThreadRow | undefined> {
  if (TEXT_FIELDS.some((field) => isLarge(input.texts[field]))) return undefined
  const [[row]] = await context.db.writeIdempotent([touch(valuesOf(context, key, input, contentHash))])
  return row
}

type Replacement = Write & Placeholders<Actor | 'newId' | 'sentTexts'>

/** The statements of {@link writeThread}. */
const replacement = {
  audit: prepare((p: Replacement) =>
    auditEntry(p, 'email_thread.write', sql`coalesce(${idOf(p)}, ${p.newId})`, sql`NOT ${isStored(p)}`),
  ),
  oldSegments: prepare((p: Replacement) =>
    orm.delete(emailThreadSegments).where(
      sql`thread_id = ${idOf(p)} AND (field IN (SELECT value FROM json_each(${p.sentTexts}))
        OR (field = 'content' AND NOT ${isStored(p)}))`,
    ),
  ),
  row: prepare((p: Replacement) => {
    const columns = given(columnsOf(p))
    return orm
      .insert(emailThreads)
      .values({
        ...columns,
        id: p.newId,
        company_id: p.companyId,
        legacy_thread_id: p.legacyThreadId,
        account_email: p.accountEmail,
        content_hash: p.contentHash,
        content_bytes: p.contentBytes,
        message_count: p.messageCount,
        last_synced_at: p.lastSyncedAt,
        revision: 1,
        content_revision: 1,
        created_at: p.now,
        updated_at: p.now,
      })
      .onConflictDoUpdate({
        target: [emailThreads.company_id, emailThreads.legacy_thread_id, emailThreads.account_email],
        set: {
          ...columns,
          content_hash: sql`${p.contentHash}`,
          content_bytes: sql`${p.contentBytes}`,
          revision: sql`${emailThreads.revision} + 1`,
          content_revision: sql`CASE WHEN ${emailThreads.content_hash} = ${p.contentHash} THEN ${emailThreads.content_revision} ELSE ${emailThreads.revision} + 1 END`,
        },
      })
      .returning()
  }),
  otherSegments: prepare((p: Replacement) => segmentsOf(idOf(p), sql`field <> 'content'`)),
  segment: prepare((p: Placeholders<Key | 'field' | 'position' | 'data' | 'isContent'>) =>
    // Content is written by this batch or not at all: only then is its revision the thread's.
    orm.insert(emailThreadSegments).select(
      sql`SELECT id, ${p.field}, ${p.position}, ${p.data} FROM ${emailThreads}
        WHERE ${isThread(p)} AND (${p.isContent} = 0 OR content_revision = revision)`,
    ),
  ),
  // A trigger undoes the whole batch when it raised the stored bytes above the quota.
  quota: prepare((p: Placeholders<'companyId'>) =>
    orm
      .update(companies)
      .set({ mail_bytes_checked: sql`mail_bytes` })
      .where(sql`id = ${p.companyId} AND mail_bytes_checked <> mail_bytes`),
  ),
}

/** A thread as it is written. Nothing of it is a part of the body that it was made from. */
export interface NewThread {
  key: ThreadKey
  values: ReturnType<typeof valuesOf> & { newId: string; sentTexts: string }
  /** Without data where they are uploaded already. */
  segments: Segment[]
}

/** Compresses what was sent, and uploads it on the way where it is more than one batch should hold. */
export async function newThread(
  context: RequestContext,
  key: ThreadKey,
  input: ThreadInput,
  contentHash: string,
): Promise<NewThread> {
  const sent = TEXT_FIELDS.filter((field) => input.texts[field] !== undefined)
  const newId = crypto.randomUUID()
  const values = { ...valuesOf(context, key, input, contentHash), newId, sentTexts: JSON.stringify(sent) }
  const segments: Segment[] = []
  for (const segment of segmentsOfInput(input)) {
    const ready = segments.filter(({ data }) => data !== null)
    if (storedBytes(ready) + segment.bytes > BATCH_BYTES) await uploadSegments(context, newId, ready)
    segments.push(segment)
  }
  return { key, values, segments }
}

/** One after another: each is compressed when it is asked for. */
function* segmentsOfInput({ content, texts }: ThreadInput): Generator<Segment> {
  const large = TEXT_FIELDS.flatMap((field) => (isLarge(texts[field]) ? [{ field, text: [texts[field]] }] : []))
  for (const { field, text } of [{ field: 'content', text: contentText(content) }, ...large]) {
    let position = 0
    for (const data of toSegments(text)) yield { field, position: position++, bytes: data.length, data }
  }
}

/**
 * Makes the thread, or replaces what was sent of it, in one transaction. Content that is stored already is left alone.
 *
 * @returns the row, and the segments of the texts that were not sent
 * @throws ApiError 413 when the company's mail would take more than its quota; nothing is changed then
 */
export async function writeThread(
  context: RequestContext,
  { key, values: threadValues, segments }: NewThread,
): Promise<{ row: ThreadRow; otherSegments: Segment[] }> {
  const { companyId, db } = context
  const values = { ...actorOf(context), ...threadValues }
  const { newId } = values
  const isUploaded = segments.some(({ data }) => data === null)
  // An upload is moved once: repeated, the batch would not find it any more.
  const write = isUploaded ? db.write : db.writeIdempotent
  const [, , [row], otherSegments] = await write([
    replacement.audit(values),
    replacement.oldSegments(values),
    replacement.row(values),
    replacement.otherSegments(values),
    ...segments.flatMap(({ field, position, data }) => {
      const isContent = Number(field === 'content')
      return data === null ? [] : [replacement.segment({ companyId, ...key, field, position, data, isContent })]
    }),
    ...(isUploaded ? [moveUpload({ companyId, ...key, newId }), dropUpload({ companyId, newId })] : []),
    replacement.quota({ companyId }),
  ]).catch(async (error) => {
    throw isOverQuota(error) ? await overQuota(context, newId) : error
  })
  if (!row) throw new Error('An upsert returned no row.')
  return { row, otherSegments }
}

export const storedBytes = (segments: readonly Segment[]): number => segments.reduce((sum, { bytes }) => sum + bytes, 0)

/** Of segments in one batch, which takes as much again as JSON: more are uploaded before. */
export const BATCH_BYTES = 4_000_000

/**
 * Segments that uploads of one company may have at once, about 240 MB: requests that are aborted on the way leave theirs
 * to the sweep, outside the quota.
 */
const UPLOADS_MAX = 128

/** Seconds after which a refused upload may be tried again. */
const UPLOAD_RETRY_SECONDS = 60

const upload = prepare((p: Placeholders<'companyId' | 'newId' | 'field' | 'position' | 'data' | 'now'>) =>
  insertRow(
    emailThreadUploads,
    { company_id: p.companyId, id: p.newId, field: p.field, position: p.position, data: p.data, created_at: p.now },
    sql`WHERE (SELECT count(*) FROM email_thread_uploads WHERE company_id = ${p.companyId}) < ${sql.raw(`${UPLOADS_MAX}`)}`,
  )
    // Repeated after a passing failure it may be there already, and must still be returned.
    .onConflictDoUpdate({
      target: [
        emailThreadUploads.company_id,
        emailThreadUploads.id,
        emailThreadUploads.field,
        emailThreadUploads.position,
      ],
      set: { data: sql`excluded.data` },
    })
    .returning({ position: emailThreadUploads.position }),
)

const moveUpload = prepare((p: Placeholders<Key | 'newId'>) =>
  orm.insert(emailThreadSegments).select(
    sql`SELECT t.id, u.field, u.position, u.data FROM email_thread_uploads AS u, email_threads AS t
      WHERE u.company_id = ${p.companyId} AND u.id = ${p.newId} AND t.company_id = ${p.companyId}
        AND t.legacy_thread_id = ${p.legacyThreadId} AND t.account_email = ${p.accountEmail}
        AND (u.field <> 'content' OR t.content_revision = t.revision)`,
  ),
)

const dropUpload = prepare((p: Placeholders<'companyId' | 'newId'>) =>
  orm.delete(emailThreadUploads).where(sql`company_id = ${p.companyId} AND id = ${p.newId}`),
)

/**
 * Puts segments where the last batch finds them; their data is dropped here.
 *
 * @throws ApiError 503 while the company has too many uploads under way
 */
async function uploadSegments(context: RequestContext, newId: string, segments: readonly Segment[]): Promise<void> {
  const { companyId, now, db } = context
  const [first, ...rest] = segments.map(({ field, position, data }) =>
    upload({ companyId, newId, field, position, data, now }),
  )
  const uploaded = first ? await db.writeIdempotent([first, ...rest]) : []
  if (uploaded.some((rows) => rows.length === 0)) {
    await db.write([dropUpload({ companyId, newId })])
    throw new ApiError('unavailable', { headers: { 'Retry-After': String(UPLOAD_RETRY_SECONDS) } })
  }
  for (const segment of segments) segment.data = null
}

function isOverQuota(error: unknown): boolean {
  return databaseMessage(error).includes('mail quota exceeded')
}

const quotaOf = prepare((p: Placeholders<'companyId'>) =>
  orm.select({ limitBytes: companies.mail_quota_bytes }).from(companies).where(sql`id = ${p.companyId}`),
)

/** Its batch is undone for certain, so what was uploaded for it can go. */
async function overQuota({ companyId, db }: RequestContext, newId: string): Promise<ApiError> {
  const [[quota]] = await db.write([quotaOf({ companyId }), dropUpload({ companyId, newId })])
  const limit_bytes = quota?.limitBytes ?? 0
  return new ApiError('too_large', {
    message: `The company's email threads may take ${limit_bytes} stored bytes; with this one they would take more.`,
    details: { reason: 'storage_quota', limit_bytes },
  })
}

function idOf(p: Placeholders<Key>): SQL {
  return sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)})`
}

function isStored(p: Placeholders<Key | 'contentHash'>): SQL {
  return sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${isThread(p)} AND content_hash = ${p.contentHash})`
}

/** Bytes in the row of the texts that were sent. */
function storedTextBytes({ mailThreadId, subject, snippet, mailHistoryId }: Write): SQL {
  const texts = { mail_thread_id: mailThreadId, subject, snippet, mail_history_id: mailHistoryId }
  return TEXT_FIELDS.filter((field) => texts[field] !== undefined).reduce(
    (sum, field) => sql`${sum} + octet_length(coalesce(${sql.raw(field)}, ''))`,
    sql`0`,
  )
}

/** The columns of every write, and those of the texts and times that were sent. */
function columnsOf(p: Write) {
  return {
    mail_thread_id: p.mailThreadId,
    subject: p.subject,
    snippet: p.snippet,
    mail_history_id: p.mailHistoryId,
    first_message_at: p.firstMessageAt,
    last_message_at: p.lastMessageAt,
    message_count: p.messageCount,
    last_synced_at: p.lastSyncedAt,
    updated_at: p.now,
    deleted: sql`0`,
  }
}

/** What {@link columnsOf} and the conditions stand for. */
function valuesOf({ companyId, now }: RequestContext, key: ThreadKey, input: ThreadInput, contentHash: string) {
  const { first_message_at, last_message_at, last_synced_at } = input.times
  const texts = inlineTexts(input.texts)
  return {
    companyId,
    ...key,
    now,
    contentHash,
    contentBytes: contentBytes(input.content),
    messageCount: input.content.messages.count,
    lastSyncedAt: last_synced_at ?? now,
    mailThreadId: texts.mail_thread_id,
    subject: texts.subject,
    snippet: texts.snippet,
    mailHistoryId: texts.mail_history_id,
    sentTextBytes: TEXT_FIELDS.reduce((bytes, field) => bytes + (input.texts[field]?.length ?? 0), 0),
    firstMessageAt: first_message_at,
    lastMessageAt: last_message_at,
  }
}

function inlineTexts(texts: ThreadInput['texts']): Partial<Record<TextField, string | null>> {
  const inline = (text: Uint8Array) => (isLarge(text) ? IN_SEGMENTS : decoder.decode(text))
  return Object.fromEntries(Object.entries(texts).map(([field, text]) => [field, text && inline(text)]))
}

function isLarge(text: Uint8Array | null | undefined): text is Uint8Array {
  return !!text && text.length > INLINE_BYTES
}

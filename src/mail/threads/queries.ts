import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { actorOf, auditEntry } from '../../db/audit.ts'
import { type Database, orm } from '../../db/client.ts'
import { emailThreadSegments, emailThreads } from '../../db/schema.ts'
import type { RequestContext } from '../../http/context.ts'
import { TEXT_FIELDS, type TextField, type ThreadInput } from './input.ts'
import type { Version } from './known-content.ts'
import { toSegments } from './segments.ts'

/** What names a thread beside its company. */
export interface ThreadKey {
  legacyThreadId: string
  /** Lower-case. */
  accountEmail: string
}

/** A stored segment of a thread. */
export interface Segment {
  field: string
  data: string
}

/** A text of more bytes than this stands in segments; its column then holds {@link IN_SEGMENTS}, which no JSON is. */
const INLINE_BYTES = 100_000
export const IN_SEGMENTS = '@'

const COLUMNS = {
  mail_thread_id: 'mailThreadId',
  subject: 'subject',
  snippet: 'snippet',
  mail_history_id: 'mailHistoryId',
} as const satisfies Record<TextField, keyof typeof emailThreads.$inferSelect>

/** Part of every ETag: raise it whenever the form of the answer changes. */
const ANSWER_FORM = 1

const etag = sql<string>`'"' || ${sql.raw(String(ANSWER_FORM))} || '.' || ${emailThreads.id} || '.' || ${emailThreads.revision} || '"'`

export type ThreadRow = typeof emailThreads.$inferSelect

/**
 * A thread that is not deleted, and its segments; none when its ETag is among `knownEtags`, so that nothing large is
 * read for an answer without a body.
 */
export async function findThread(
  db: Database,
  companyId: number,
  key: ThreadKey,
  knownEtags: string[] | '*',
): Promise<{ row: ThreadRow & { etag: string }; segments: Segment[]; isKnown: boolean } | undefined> {
  const isLive = sql`${isThread(companyId, key)} AND ${emailThreads.deleted} = 0`
  const isWanted =
    knownEtags === '*' ? sql`0` : sql`${etag} NOT IN (SELECT value FROM json_each(${JSON.stringify(knownEtags)}))`
  const [[row], segments] = await db.read([
    orm
      .select({ ...getTableColumns(emailThreads), etag: etag.as('etag') })
      .from(emailThreads)
      .where(isLive),
    segmentsOf(sql`(SELECT id FROM ${emailThreads} WHERE ${isLive} AND ${isWanted})`),
  ])
  return row && { row, segments, isKnown: knownEtags === '*' || knownEtags.includes(row.etag) }
}

/** What is stored under this id, for at most 100 mailboxes. */
export async function findVersions(db: Database, companyId: number, legacyThreadId: string): Promise<Version[]> {
  const [versions] = await db.read([
    orm
      .select({ accountEmail: emailThreads.accountEmail, contentHash: emailThreads.contentHash })
      .from(emailThreads)
      .where(sql`company_id = ${companyId} AND legacy_thread_id = ${legacyThreadId}`)
      .limit(100),
  ])
  return versions
}

/**
 * Updates a thread whose content is the one sent, without writing the content.
 *
 * @returns undefined, and nothing is changed, where the stored content is another or a text is or was in segments
 */
export async function touchThread(
  context: RequestContext,
  key: ThreadKey,
  input: ThreadInput,
  contentHash: string,
): Promise<ThreadRow | undefined> {
  if (TEXT_FIELDS.some((field) => isLarge(input.texts[field]))) return undefined
  const { db, companyId } = context
  const [[row]] = await db.writeRepeatably([
    orm
      .update(emailThreads)
      .set({ ...columnsOf(context, input), revision: sql`${emailThreads.revision} + 1` })
      .where(
        sql`${isThread(companyId, key)} AND content_hash = ${contentHash}
          AND ${IN_SEGMENTS} NOT IN (coalesce(mail_thread_id, ''), coalesce(subject, ''), coalesce(snippet, ''), coalesce(mail_history_id, ''))`,
      )
      .returning(),
  ])
  return row
}

/**
 * Makes the thread, or replaces what was sent of it, in one transaction. Content that is stored already is left alone.
 *
 * @returns the row, and the segments of its texts
 */
export async function writeThread(
  context: RequestContext,
  key: ThreadKey,
  input: ThreadInput,
  contentHash: string,
): Promise<{ row: ThreadRow; segments: Segment[] }> {
  const { db, companyId, now } = context
  const newId = crypto.randomUUID()
  const isThis = isThread(companyId, key)
  const id = sql`(SELECT id FROM ${emailThreads} WHERE ${isThis})`
  const isStored = sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${isThis} AND content_hash = ${contentHash})`
  const sent = TEXT_FIELDS.filter((field) => input.texts[field] !== undefined)
  const columns = columnsOf(context, input)

  const [, , [row], segments] = await db.writeRepeatably([
    auditEntry(actorOf(context), 'email_thread.write', sql`coalesce(${id}, ${newId})`, sql`NOT ${isStored}`),
    orm.delete(emailThreadSegments).where(
      sql`thread_id = ${id} AND (field IN (SELECT value FROM json_each(${JSON.stringify(sent)}))
        OR (field = 'content' AND NOT ${isStored}))`,
    ),
    orm
      .insert(emailThreads)
      .values({
        ...columns,
        id: newId,
        companyId,
        ...key,
        contentHash,
        revision: 1,
        contentRevision: 1,
        createdAt: now,
      })
      .onConflictDoUpdate({
        target: [emailThreads.companyId, emailThreads.legacyThreadId, emailThreads.accountEmail],
        set: {
          ...columns,
          contentHash,
          revision: sql`${emailThreads.revision} + 1`,
          contentRevision: sql`CASE WHEN ${emailThreads.contentHash} = ${contentHash} THEN ${emailThreads.contentRevision} ELSE ${emailThreads.revision} + 1 END`,
        },
      })
      .returning(),
    segmentsOf(id, sql`field <> 'content'`),
    // Written by this batch or not at all: only then is the content's revision the thread's.
    ...insertSegments('content', input.content, sql`${isThis} AND content_revision = revision`),
    ...sent.flatMap((field) => {
      const text = input.texts[field]
      return isLarge(text) ? insertSegments(field, [text], isThis) : []
    }),
  ])
  if (!row) throw new Error('An upsert returned no row.')
  return { row, segments }
}

function isThread(companyId: number, { legacyThreadId, accountEmail }: ThreadKey): SQL {
  return sql`${emailThreads.companyId} = ${companyId} AND ${emailThreads.legacyThreadId} = ${legacyThreadId}
    AND ${emailThreads.accountEmail} = ${accountEmail}`
}

function segmentsOf(threadId: SQL, condition: SQL = sql`1`) {
  return orm
    .select({ field: emailThreadSegments.field, data: emailThreadSegments.data })
    .from(emailThreadSegments)
    .where(sql`thread_id = ${threadId} AND ${condition}`)
    .orderBy(emailThreadSegments.field, emailThreadSegments.position)
}

function insertSegments(field: string, text: readonly Uint8Array[], isThis: SQL) {
  return Array.from(toSegments(text), (data, position) =>
    orm
      .insert(emailThreadSegments)
      .select(sql`SELECT id, ${field}, ${position}, ${data} FROM ${emailThreads} WHERE ${isThis}`),
  )
}

/** The columns of every write, and those of the texts and times that were sent. */
function columnsOf({ now }: RequestContext, input: ThreadInput) {
  const texts = TEXT_FIELDS.filter((field) => input.texts[field] !== undefined)
  const { first_message_at, last_message_at, last_synced_at } = input.times
  return {
    ...Object.fromEntries(texts.map((field) => [COLUMNS[field], inlineText(input.texts[field] ?? null)])),
    ...(first_message_at !== undefined && { firstMessageAt: first_message_at }),
    ...(last_message_at !== undefined && { lastMessageAt: last_message_at }),
    messageCount: input.messageCount,
    lastSyncedAt: last_synced_at ?? now,
    updatedAt: now,
    deleted: false,
  }
}

function inlineText(text: Uint8Array | null): string | null {
  if (text === null) return null
  return isLarge(text) ? IN_SEGMENTS : new TextDecoder().decode(text)
}

function isLarge(text: Uint8Array | null | undefined): text is Uint8Array {
  return !!text && text.length > INLINE_BYTES
}

import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { actorOf, auditEntry } from '../../db/audit.ts'
import { type Database, orm, type Placeholders, prepare } from '../../db/client.ts'
import { given } from '../../db/columns.ts'
import { emailThreadSegments, emailThreads } from '../../db/schema.ts'
import type { RequestContext } from '../../http/context.ts'
import { contentText, TEXT_FIELDS, type ThreadInput } from './input.ts'
import type { Version } from './known-content.ts'
import { toSegments } from './segments.ts'

/** What names a thread beside its company. */
export interface ThreadKey {
  legacyThreadId: string
  /** Lower-case. */
  accountEmail: string
}

const decoder = new TextDecoder()

type Key = 'companyId' | keyof ThreadKey

/** A stored segment of a thread. */
export interface Segment {
  field: string
  data: string
}

/** A text of more bytes than this stands in segments; its column then holds {@link IN_SEGMENTS}, which no JSON is. */
const INLINE_BYTES = 100_000
export const IN_SEGMENTS = '@'

/** Part of every ETag: raise it whenever the form of the answer changes. */
const ANSWER_FORM = 1

const etag = sql<string>`'"' || ${sql.raw(String(ANSWER_FORM))} || '.' || ${emailThreads.id} || '.' || ${emailThreads.revision} || '"'`

export type ThreadRow = typeof emailThreads.$inferSelect

const threadRow = prepare((p: Placeholders<Key>) =>
  orm
    .select({ ...getTableColumns(emailThreads), etag: etag.as('etag') })
    .from(emailThreads)
    .where(isLive(p)),
)

const segmentsOfThread = prepare((p: Placeholders<Key | 'isKnown' | 'knownEtags'>) => {
  const isWanted = sql`${p.isKnown} = 0 AND ${etag} NOT IN (SELECT value FROM json_each(${p.knownEtags}))`
  return segmentsOf(sql`(SELECT id FROM ${emailThreads} WHERE ${isLive(p)} AND ${isWanted})`)
})

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
  const isAny = knownEtags === '*'
  const [[row], segments] = await db.read([
    threadRow({ companyId, ...key }),
    segmentsOfThread({
      companyId,
      ...key,
      isKnown: Number(isAny),
      knownEtags: JSON.stringify(isAny ? [] : knownEtags),
    }),
  ])
  return row && { row, segments, isKnown: isAny || knownEtags.includes(row.etag) }
}

const versionsOf = prepare((p: Placeholders<'companyId' | 'legacyThreadId'>) =>
  orm
    .select({ accountEmail: emailThreads.accountEmail, contentHash: emailThreads.contentHash })
    .from(emailThreads)
    .where(sql`company_id = ${p.companyId} AND legacy_thread_id = ${p.legacyThreadId}`)
    .limit(100),
)

/** What is stored under this id, for at most 100 mailboxes. */
export async function findVersions(db: Database, companyId: number, legacyThreadId: string): Promise<Version[]> {
  const [versions] = await db.read([versionsOf({ companyId, legacyThreadId })])
  return versions
}

type Write = Placeholders<
  Key | 'now' | 'contentHash' | 'messageCount' | 'lastSyncedAt',
  'mailThreadId' | 'subject' | 'snippet' | 'mailHistoryId' | 'firstMessageAt' | 'lastMessageAt'
>

const touch = prepare((p: Write) =>
  orm
    .update(emailThreads)
    .set({ ...given(columnsOf(p)), revision: sql`${emailThreads.revision} + 1` })
    .where(
      sql`${isThread(p)} AND content_hash = ${p.contentHash}
        AND ${IN_SEGMENTS} NOT IN (coalesce(mail_thread_id, ''), coalesce(subject, ''), coalesce(snippet, ''), coalesce(mail_history_id, ''))`,
    )
    .returning(),
)

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
  const [[row]] = await context.db.writeRepeatably([touch(valuesOf(context, key, input, contentHash))])
  return row
}

type Replacement = Write & Placeholders<'newId' | 'tokenId' | 'requestId' | 'sentTexts'>

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
        companyId: p.companyId,
        legacyThreadId: p.legacyThreadId,
        accountEmail: p.accountEmail,
        contentHash: p.contentHash,
        messageCount: p.messageCount,
        lastSyncedAt: p.lastSyncedAt,
        revision: 1,
        contentRevision: 1,
        createdAt: p.now,
        updatedAt: p.now,
      })
      .onConflictDoUpdate({
        target: [emailThreads.companyId, emailThreads.legacyThreadId, emailThreads.accountEmail],
        set: {
          ...columns,
          contentHash: sql`${p.contentHash}`,
          revision: sql`${emailThreads.revision} + 1`,
          contentRevision: sql`CASE WHEN ${emailThreads.contentHash} = ${p.contentHash} THEN ${emailThreads.contentRevision} ELSE ${emailThreads.revision} + 1 END`,
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
  const sent = TEXT_FIELDS.filter((field) => input.texts[field] !== undefined)
  const values = {
    ...actorOf(context),
    ...valuesOf(context, key, input, contentHash),
    newId: crypto.randomUUID(),
    sentTexts: JSON.stringify(sent),
  }
  const insertSegments = (field: string, text: readonly Uint8Array[]) =>
    Array.from(toSegments(text), (data, position) =>
      replacement.segment({
        companyId: context.companyId,
        ...key,
        field,
        position,
        data,
        isContent: Number(field === 'content'),
      }),
    )

  const [, , [row], segments] = await context.db.writeRepeatably([
    replacement.audit(values),
    replacement.oldSegments(values),
    replacement.row(values),
    replacement.otherSegments(values),
    ...insertSegments('content', contentText(input.content)),
    ...sent.flatMap((field) => {
      const text = input.texts[field]
      return isLarge(text) ? insertSegments(field, [text]) : []
    }),
  ])
  if (!row) throw new Error('An upsert returned no row.')
  return { row, segments }
}

function isThread(p: Placeholders<Key>): SQL {
  return sql`${emailThreads.companyId} = ${p.companyId} AND ${emailThreads.legacyThreadId} = ${p.legacyThreadId}
    AND ${emailThreads.accountEmail} = ${p.accountEmail}`
}

function isLive(p: Placeholders<Key>): SQL {
  return sql`${isThread(p)} AND ${emailThreads.deleted} = 0`
}

function idOf(p: Placeholders<Key>): SQL {
  return sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)})`
}

function isStored(p: Placeholders<Key | 'contentHash'>): SQL {
  return sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${isThread(p)} AND content_hash = ${p.contentHash})`
}

function segmentsOf(threadId: SQL, condition: SQL = sql`1`) {
  return orm
    .select({ field: emailThreadSegments.field, data: emailThreadSegments.data })
    .from(emailThreadSegments)
    .where(sql`thread_id = ${threadId} AND ${condition}`)
    .orderBy(emailThreadSegments.field, emailThreadSegments.position)
}

/** The columns of every write, and those of the texts and times that were sent. */
function columnsOf(p: Write) {
  const { mailThreadId, subject, snippet, mailHistoryId, firstMessageAt, lastMessageAt } = p
  const { messageCount, lastSyncedAt, now: updatedAt } = p
  const texts = { mailThreadId, subject, snippet, mailHistoryId }
  return { ...texts, firstMessageAt, lastMessageAt, messageCount, lastSyncedAt, updatedAt, deleted: sql`0` }
}

/** What {@link columnsOf} and the conditions stand for. */
function valuesOf({ companyId, now }: RequestContext, key: ThreadKey, input: ThreadInput, contentHash: string) {
  const { mail_thread_id, subject, snippet, mail_history_id } = input.texts
  const { first_message_at, last_message_at, last_synced_at } = input.times
  return {
    companyId,
    ...key,
    now,
    contentHash,
    messageCount: input.content.messages.count,
    lastSyncedAt: last_synced_at ?? now,
    mailThreadId: inlineText(mail_thread_id),
    subject: inlineText(subject),
    snippet: inlineText(snippet),
    mailHistoryId: inlineText(mail_history_id),
    firstMessageAt: first_message_at,
    lastMessageAt: last_message_at,
  }
}

function inlineText(text: Uint8Array | null | undefined): string | null | undefined {
  if (!text) return text
  return isLarge(text) ? IN_SEGMENTS : decoder.decode(text)
}

function isLarge(text: Uint8Array | null | undefined): text is Uint8Array {
  return !!text && text.length > INLINE_BYTES
}

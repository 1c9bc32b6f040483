import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { type Database, orm, type Placeholders, prepare } from '../../db/client.ts'
import { emailThreadSegments, emailThreads } from '../../db/schema.ts'
import type { Version } from './known-content.ts'

/** What names a thread beside its company. */
export interface ThreadKey {
  legacyThreadId: string
  /** Lower-case. */
  accountEmail: string
}

export type Key = 'companyId' | keyof ThreadKey

/** A stored segment of a thread. */
export interface Segment {
  field: string
  position: number
  /** Stored bytes. */
  bytes: number
  /** Null where it is not read yet, or not needed any more. */
  data: string | null
}

/** A column of a text that stands in segments holds this, which no JSON is. */
export const IN_SEGMENTS = '@'

/** The segments of a thread are read with its row when all of them have fewer stored bytes than this together. */
export const READ_AT_ONCE_BYTES = 262_144

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
 * read for an answer without a body. Of a large thread they are without data: see {@link readSegments}.
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

type OfRevision = Placeholders<'companyId' | 'id' | 'revision' | 'contentRevision' | 'field' | 'first' | 'last'>

const dataOfRevision = prepare((p: OfRevision) =>
  orm
    .select({ data: emailThreadSegments.data })
    .from(emailThreadSegments)
    .where(
      sql`thread_id = ${p.id} AND field = ${p.field} AND position BETWEEN ${p.first} AND ${p.last}
        AND EXISTS (SELECT 1 FROM ${emailThreads} WHERE id = ${p.id} AND company_id = ${p.companyId}
          AND (revision = ${p.revision} OR (${p.field} = 'content' AND content_revision = ${p.contentRevision})))`,
    )
    .orderBy(emailThreadSegments.position),
)

/**
 * Reads the data of segments that follow one another in one field.
 *
 * @throws Error when the thread was replaced since its row was read: what was sent of it cannot be completed
 */
export async function readSegments(
  db: Database,
  { company_id: companyId, id, revision, content_revision: contentRevision }: ThreadRow,
  segments: readonly Segment[],
): Promise<void> {
  const [first, last] = [segments[0], segments.at(-1)]
  if (!first || !last) return
  const { field } = first
  const range = { field, first: first.position, last: last.position }
  const [rows] = await db.read([dataOfRevision({ companyId, id, revision, contentRevision, ...range })])
  if (rows.length !== segments.length) throw new Error('The thread was replaced while it was sent.')
  for (const [index, { data }] of rows.entries()) Object.assign(segments[index] ?? {}, { data })
}

const versionsOf = prepare((p: Placeholders<'companyId' | 'legacyThreadId'>) =>
  orm
    .select({ account_email: emailThreads.account_email, content_hash: emailThreads.content_hash })
    .from(emailThreads)
    .where(sql`company_id = ${p.companyId} AND legacy_thread_id = ${p.legacyThreadId}`)
    .limit(100),
)

/** What is stored under this id, for at most 100 mailboxes. */
export async function findVersions(db: Database, companyId: number, legacyThreadId: string): Promise<Version[]> {
  const [versions] = await db.read([versionsOf({ companyId, legacyThreadId })])
  return versions
}

export const isThread = (p: Placeholders<Key>): SQL =>
  sql`${emailThreads.company_id} = ${p.companyId} AND ${emailThreads.legacy_thread_id} = ${p.legacyThreadId}
    AND ${emailThreads.account_email} = ${p.accountEmail}`

function isLive(p: Placeholders<Key>): SQL {
  return sql`${isThread(p)} AND ${emailThreads.deleted} = 0`
}

/** In the order of field and position. Without data where all of the thread's are large together. */
export const segmentsOf = (threadId: SQL, condition: SQL = sql`1`) => {
  const storedBytes = sql`(SELECT sum(octet_length(data)) FROM ${emailThreadSegments} WHERE thread_id = ${threadId})`
  return orm
    .select({
      field: emailThreadSegments.field,
      position: emailThreadSegments.position,
      bytes: sql<number>`octet_length(data)`.as('bytes'),
      data: sql<
        string | null
      >`CASE WHEN ${storedBytes} <= ${sql.raw(String(READ_AT_ONCE_BYTES))} THEN ${emailThreadSegments.data} END`.as(
        'd',
      ),
    })
    .from(emailThreadSegments)
    .where(sql`thread_id = ${threadId} AND ${condition}`)
    .orderBy(emailThreadSegments.field, emailThreadSegments.position)
}

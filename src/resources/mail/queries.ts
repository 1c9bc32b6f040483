import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { objectOfThread } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { emailThreadSegments, emailThreads } from '../../kernel/db/schema.ts'
import { parseObject } from './objects.ts'

/** Identifies a thread within its company; the email is lower-case. */
export type ThreadKey = Record<'legacyThreadId' | 'accountEmail', string>

export type Key = 'companyId' | keyof ThreadKey

export type ThreadRow = typeof emailThreads.$inferSelect

/** A stored segment of a thread. */
export interface Segment {
  field: string
  position: number
  /** Stored bytes of the segment. */
  bytes: number
  /** Base64, or bytes from R2. Null before the read, or when the data is no longer needed. */
  data: string | Uint8Array | null
}

/** The value of a text's column while segments hold the text; it equals no JSON text. */
export const IN_SEGMENTS = '@'

/** Segments with fewer stored bytes in total are read together with the row. */
export const READ_AT_ONCE_BYTES = 262_144

/** Raise the leading number whenever the form of the response changes. */
const etag = sql<string>`'"1.' || ${emailThreads.id} || '.' || ${emailThreads.revision} || '"'`

const threadRow = prepare((p: Placeholders<Key>) =>
  orm
    .select({ ...getTableColumns(emailThreads), etag: etag.as('etag'), object: objectOfThread.as('object') })
    .from(emailThreads)
    .where(isLive(p)),
)

const threadSegments = prepare((p: Placeholders<Key | 'knownEtags'>) =>
  selectSegments(sql`(SELECT id FROM ${emailThreads} WHERE ${isLive(p)}
    AND NOT EXISTS (SELECT 1 FROM json_each(${p.knownEtags}) WHERE value IN ('*', ${etag})))`),
)

/**
 * Finds a live thread and its segments: none if `knownEtags` has its ETag or `*`, and without data if they are large.
 * Content in R2 has its segments in the `object`.
 */
export async function findThread({ companyId, db }: CompanyContext, key: ThreadKey, knownEtags: string[]) {
  const [[row], segments] = await db.read([
    threadRow({ companyId, ...key }),
    threadSegments({ companyId, ...key, knownEtags: JSON.stringify(knownEtags) }),
  ])
  const isKnown = knownEtags.some((known) => known === '*' || known === row?.etag)
  return row && { row, segments, object: parseObject(row), isKnown }
}

type OfRevision = Placeholders<'companyId' | 'id' | 'revision' | 'content_revision' | 'field' | 'first' | 'last'>

const segmentData = prepare((p: OfRevision) =>
  orm
    .select({ data: emailThreadSegments.data })
    .from(emailThreadSegments)
    .where(
      sql`thread_id = ${p.id} AND field = ${p.field} AND position BETWEEN ${p.first} AND ${p.last}
        AND EXISTS (SELECT 1 FROM ${emailThreads} WHERE id = ${p.id} AND company_id = ${p.companyId}
          AND (revision = ${p.revision} OR (${p.field} = 'content' AND content_revision = ${p.content_revision})))`,
    )
    .orderBy(emailThreadSegments.position),
)

/** Reads the data of consecutive segments of one field. @returns false when they no longer exist */
export async function readSegments(
  { companyId, db }: CompanyContext,
  { id, revision, content_revision }: ThreadRow,
  segments: readonly Segment[],
): Promise<boolean> {
  const [first, last] = [segments[0], segments.at(-1)]
  if (!first || !last) return true
  const range = { field: first.field, first: first.position, last: last.position }
  const [rows] = await db.read([segmentData({ companyId, id, revision, content_revision, ...range })])
  if (rows.length !== segments.length) return false
  for (const [index, { data }] of rows.entries()) Object.assign(segments[index] ?? {}, { data })
  return true
}

export const isThread = (p: Placeholders<Key>): SQL =>
  sql`${emailThreads.company_id} = ${p.companyId} AND ${emailThreads.legacy_thread_id} = ${p.legacyThreadId}
    AND ${emailThreads.account_email} = ${p.accountEmail}`

export const isLive = (p: Placeholders<Key>) => sql`${isThread(p)} AND ${emailThreads.deleted} = 0`

/** Selects segments by field and position, without data if those of the thread are large together. */
export const selectSegments = (threadId: SQL, condition: SQL = sql`1`) => {
  const storedBytes = sql`(SELECT sum(octet_length(data)) FROM ${emailThreadSegments} WHERE thread_id = ${threadId})`
  const isSmall = sql`${storedBytes} <= ${sql.raw(String(READ_AT_ONCE_BYTES))}`
  return orm
    .select({
      field: emailThreadSegments.field,
      position: emailThreadSegments.position,
      bytes: sql<number>`octet_length(data)`.as('bytes'),
      data: sql<string | null>`CASE WHEN ${isSmall} THEN ${emailThreadSegments.data} END`.as('d'),
    })
    .from(emailThreadSegments)
    .where(sql`thread_id = ${threadId} AND ${condition}`)
    .orderBy(emailThreadSegments.field, emailThreadSegments.position)
}

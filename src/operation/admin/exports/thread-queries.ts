import { getTableColumns, sql } from 'drizzle-orm'
import { orm } from '../../../kernel/db/client.ts'
import { objectOfThread } from '../../../kernel/db/columns.ts'
import type { CompanyContext } from '../../../kernel/db/context.ts'
import { emailThreadSegments, emailThreads } from '../../../kernel/db/schema.ts'

/** Limits a page to this many threads and stored bytes. A larger thread gets a page of its own. */
const PAGE_THREADS = 100
const PAGE_BYTES = 1_000_000

/** Identifies a thread within its company, in the order of an export. */
export type ThreadPlace = readonly [legacyThreadId: string, accountEmail: string]

/**
 * Lists one page of threads after another, and their segments by field and position. If a large thread is a page of its
 * own, its segments have no data: see {@link readSegment}.
 */
export async function listThreads({ companyId, db }: CompanyContext, [legacyThreadId, accountEmail]: ThreadPlace) {
  const { legacy_thread_id, account_email, id } = emailThreads
  // Revision 0 marks a thread whose import is incomplete.
  const isOf = sql`company_id = ${companyId} AND revision > 0`
  const stored = sql`SELECT sum(octet_length(data)) FROM email_thread_segments WHERE thread_id = ${id}`
  const page = sql`SELECT id, legacy_thread_id, account_email, text_bytes + coalesce((${stored}), 0) AS bytes
    FROM ${emailThreads} WHERE ${isOf} AND (legacy_thread_id, account_email) > (${legacyThreadId}, ${accountEmail})
    ORDER BY legacy_thread_id, account_email LIMIT ${PAGE_THREADS}`
  const running = sql`SELECT id, sum(bytes) OVER (ORDER BY legacy_thread_id, account_email) AS total, bytes FROM (${page})`
  const [sizes] = await db.read([
    orm
      .select({ id: sql<string>`id`, total: sql<number>`total`.as('total') })
      .from(sql`(${running})`)
      .where(sql`total - bytes < ${PAGE_BYTES}`),
  ])
  // The last thread that begins within the page may be large: it becomes the next page.
  const ofPage = sizes.filter(({ total }, index) => index === 0 || total <= PAGE_BYTES)
  const isLarge = (ofPage[0]?.total ?? 0) > PAGE_BYTES
  const ids = sql`(SELECT value FROM json_each(${JSON.stringify(ofPage.map((row) => row.id))}))`
  const [rows, segments] = await db.read([
    orm
      .select({ ...getTableColumns(emailThreads), object: objectOfThread.as('object') })
      .from(emailThreads)
      .where(sql`${isOf} AND id IN ${ids}`)
      .orderBy(legacy_thread_id, account_email),
    orm
      .select({
        thread_id: emailThreadSegments.thread_id,
        field: emailThreadSegments.field,
        position: emailThreadSegments.position,
        data: isLarge ? sql<null>`NULL`.as('none') : emailThreadSegments.data,
      })
      .from(emailThreadSegments)
      .where(sql`thread_id IN ${ids} AND EXISTS (SELECT 1 FROM email_threads WHERE id = thread_id AND ${isOf})`)
      .orderBy(emailThreadSegments.thread_id, emailThreadSegments.field, emailThreadSegments.position),
  ])
  const segmentsOf = Map.groupBy(segments, ({ thread_id }) => thread_id)
  return rows.map((row) => ({ row, segments: segmentsOf.get(row.id) ?? [] }))
}

export type ExportedThread = Awaited<ReturnType<typeof listThreads>>[number]

/** Reads the data of one segment. @throws Error when the thread was changed since it was listed */
export async function readSegment(
  { companyId, db }: CompanyContext,
  { id, revision }: ExportedThread['row'],
  { field, position }: ExportedThread['segments'][number],
): Promise<string> {
  const isCurrent = sql`EXISTS (SELECT 1 FROM email_threads WHERE id = ${id} AND company_id = ${companyId}
    AND revision = ${revision})`
  const [[segment]] = await db.read([
    orm
      .select({ data: emailThreadSegments.data })
      .from(emailThreadSegments)
      .where(sql`thread_id = ${id} AND field = ${field} AND position = ${position} AND ${isCurrent}`),
  ])
  if (!segment) throw new Error('The thread was changed while it was exported.')
  return segment.data
}

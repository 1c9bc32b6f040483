import { sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { orm, type Placeholders, prepare } from '../db/client.ts'
import { insertRow } from '../db/columns.ts'
import { emailThreadSegments, emailThreadUploads } from '../db/schema.ts'
import { ApiError } from '../http/errors.ts'
import type { Key, Segment } from './queries.ts'

/**
 * Segments that uploads of one company may have at once, about 240 MB: aborted requests leave theirs to the sweep,
 * outside the quota.
 */
const MAX_UPLOADS = 128

/** Seconds after which a refused upload may be retried. */
const UPLOAD_RETRY_SECONDS = 60

const upload = prepare((p: Placeholders<'companyId' | 'newId' | 'field' | 'position' | 'data' | 'now'>) => {
  const { company_id, id, field, position } = emailThreadUploads
  return (
    insertRow(
      emailThreadUploads,
      { company_id: p.companyId, id: p.newId, field: p.field, position: p.position, data: p.data, created_at: p.now },
      sql`WHERE (SELECT count(*) FROM email_thread_uploads WHERE company_id = ${p.companyId}) < ${sql.raw(String(MAX_UPLOADS))}`,
    )
      // Repeated after a transient failure it may exist already, and must still be returned.
      .onConflictDoUpdate({ target: [company_id, id, field, position], set: { data: sql`excluded.data` } })
      .returning({ position })
  )
})

export const moveUpload = prepare((p: Placeholders<Key | 'newId'>) =>
  insertRow(
    emailThreadSegments,
    { thread_id: sql`t.id`, field: sql`u.field`, position: sql`u.position`, data: sql`u.data` },
    sql`FROM email_thread_uploads AS u, email_threads AS t
      WHERE u.company_id = ${p.companyId} AND u.id = ${p.newId} AND t.company_id = ${p.companyId}
        AND t.legacy_thread_id = ${p.legacyThreadId} AND t.account_email = ${p.accountEmail}
        AND (u.field <> 'content' OR t.content_revision = t.revision)`,
  ),
)

export const dropUpload = prepare((p: Placeholders<'companyId' | 'newId'>) =>
  orm.delete(emailThreadUploads).where(sql`company_id = ${p.companyId} AND id = ${p.newId}`),
)

/**
 * Stores the segments that still have data where the last batch finds them, and drops their data here.
 *
 * @throws ApiError 503 while the company has too many uploads under way
 */
export async function uploadSegments(
  { companyId, now, db }: RequestContext,
  newId: string,
  segments: readonly Segment[],
): Promise<void> {
  const [first, ...rest] = segments.flatMap(({ field, position, data }) =>
    data === null ? [] : [upload({ companyId, newId, field, position, data, now })],
  )
  const uploaded = first ? await db.writeIdempotent([first, ...rest]) : []
  if (uploaded.some((rows) => rows.length === 0)) {
    await db.write([dropUpload({ companyId, newId })])
    throw new ApiError('unavailable', { headers: { 'Retry-After': String(UPLOAD_RETRY_SECONDS) } })
  }
  for (const segment of segments) segment.data = null
}

import { sql } from 'drizzle-orm'
import { type CompanyContext, orm } from '../db/client.ts'
import { insertRow } from '../db/columns.ts'
import { emailThreadSegments, emailThreads } from '../db/schema.ts'
import type { StoredThread } from './threads.ts'

/**
 * Statements that load an absent thread with the segments of this part. Until its last segment is there, the thread is
 * hidden and has the revision 0, which no other has: if somebody writes it meanwhile, theirs stays.
 */
export function loadThread({ companyId }: CompanyContext, { segments, segment_count, ...thread }: StoredThread) {
  const { company_id, legacy_thread_id, account_email } = emailThreads
  const hidden = { revision: 0, content_revision: 0, content_hash: '', deleted: true }
  const isLoading = sql`${emailThreads.id} = ${thread.id} AND ${company_id} = ${companyId} AND ${emailThreads.revision} = 0`
  const stored = sql`(SELECT count(*) FROM email_thread_segments WHERE thread_id = ${thread.id})`
  return [
    orm
      .insert(emailThreads)
      .values({ ...thread, ...hidden, company_id: companyId })
      .onConflictDoNothing({ target: [company_id, legacy_thread_id, account_email] }),
    ...segments.map(({ field, position, data }) =>
      insertRow(
        emailThreadSegments,
        { thread_id: thread.id, field, position, data },
        sql`FROM ${emailThreads} WHERE ${isLoading}`,
      ).onConflictDoNothing(),
    ),
    orm
      .update(emailThreads)
      .set({
        revision: thread.revision,
        content_revision: thread.content_revision,
        content_hash: thread.content_hash,
        deleted: thread.deleted,
      })
      .where(sql`${isLoading} AND ${stored} = ${segment_count}`),
  ] as const
}

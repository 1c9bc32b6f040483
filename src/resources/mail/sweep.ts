import { sql } from 'drizzle-orm'
import { type Database, orm } from '../../kernel/db/client.ts'
import { isSettled } from '../../kernel/db/placement.ts'
import { emailThreadObjects } from '../../kernel/db/schema.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/bounds.ts'
import { log, nameOf } from '../../kernel/http/errors.ts'
import { objectKey } from './content.ts'

const MAX_REMOVALS = 5
/** R2 removes at most 1,000 objects in a call. */
const REMOVED_AT_ONCE = 500

// Companies under move are skipped until their move ends.
const OF_SETTLED = isSettled(sql`company_id`)

/**
 * Marks unnamed objects of one database, which no write can name from then on, and removes them and their records. A
 * failure is logged, and the next sweep retries.
 */
export async function sweepMailContents(db: Database, bucket: R2Bucket, now: number): Promise<void> {
  const { id, company_id, content_hash } = emailThreadObjects
  const due = sql`SELECT id FROM email_thread_objects
    WHERE remove_at IS NOT NULL AND remove_at <= ${now} AND ${OF_SETTLED} ORDER BY remove_at LIMIT ${REMOVED_AT_ONCE}`
  const isDue = sql`id IN (${due}) AND thread_id IS NULL`
  try {
    for (let round = 0; round < MAX_REMOVALS; round++) {
      const marked = orm.update(emailThreadObjects).set({ state: 'removing' }).where(isDue)
      const [objects] = await db.writeIdempotent([marked.returning({ id, company_id, content_hash })])
      if (objects.length === 0) return
      await withDeadline(bucket.delete(objects.map(objectKey)), BUDGET_MS.storage)
      const ids = JSON.stringify(objects.map(({ id }) => id))
      const isRemoved = sql`id IN (SELECT value FROM json_each(${ids})) AND state = 'removing' AND ${OF_SETTLED}`
      await db.writeIdempotent([orm.delete(emailThreadObjects).where(isRemoved)])
      log('mail_contents', { removed: objects.length })
    }
  } catch (error) {
    log('mail_contents_failed', { reason: nameOf(error) }, 'error')
  }
}

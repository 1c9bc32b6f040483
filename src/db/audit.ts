import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../http/context.ts'
import { auditLog } from './schema.ts'

/**
 * A statement for the batch of a change: who did what. `entityId` may be SQL that reads an id made in the same batch;
 * nothing is written where `when` does not hold.
 */
export function auditEntry(
  context: Pick<RequestContext, 'db' | 'companyId' | 'token' | 'requestId' | 'now'>,
  action: string,
  entityId: SQL,
  when: SQL = sql`1`,
) {
  const { db, companyId, token, requestId, now } = context
  return db.orm
    .insert(auditLog)
    .select(
      sql`SELECT NULL, ${companyId}, ${token.id}, ${requestId}, ${action}, CAST(${entityId} AS INTEGER), ${now} WHERE ${when}`,
    )
}

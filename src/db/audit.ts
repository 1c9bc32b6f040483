import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../http/context.ts'
import { orm, type Placeholders } from './client.ts'
import { auditLog } from './schema.ts'

/** Who changes something, and when. */
export function actorOf({ companyId, token, requestId, now }: RequestContext) {
  return { companyId, tokenId: token.id, requestId, now }
}

export type Actor = keyof ReturnType<typeof actorOf>

/**
 * A statement for the batch of a change: who did what. `entityId`, a number or text, may be SQL that reads an id made in
 * the same batch; nothing is written where `when` does not hold.
 */
export function auditEntry(
  { companyId, tokenId, requestId, now }: Placeholders<Actor>,
  action: string,
  entityId: SQL,
  when: SQL = sql`1`,
) {
  // A number comes as a floating-point one, whose text would end in `.0`.
  const id = sql`(SELECT CASE typeof(value) WHEN 'real' THEN CAST(value AS INTEGER) ELSE value END FROM (SELECT ${entityId} AS value))`
  return orm
    .insert(auditLog)
    .select(sql`SELECT NULL, ${companyId}, ${tokenId}, ${requestId}, ${action}, ${id}, ${now} WHERE ${when}`)
}

import { sql } from 'drizzle-orm'
import { orm } from '../../db/client.ts'
import { adminLog, auditLog } from '../../db/schema.ts'
import type { AdminContext } from '../context.ts'

export interface AuditRow {
  id: number
  at: number
  actor: string
  token_id: number | null
  action: string
  entity_id: string
  address: string | null
  request_id: string
}

/** Newest first. @param before the id before which the page begins */
export async function listAdminEntries({ companyId, db }: AdminContext, before: number, limit: number) {
  const { company_id: _, ...columns } = { ...adminLog }
  const [rows] = await db.read([
    orm
      .select({
        id: columns.id,
        at: columns.at,
        actor: columns.actor,
        token_id: sql<null>`NULL`.as('token_id'),
        action: columns.action,
        entity_id: columns.entity_id,
        address: columns.address,
        request_id: columns.request_id,
      })
      .from(adminLog)
      .where(sql`company_id = ${companyId} AND id < ${before}`)
      .orderBy(sql`id DESC`)
      .limit(limit),
  ])
  return rows satisfies AuditRow[]
}

/** The same, of the changes by tokens. */
export async function listApiEntries({ companyId, db }: AdminContext, before: number, limit: number) {
  const [rows] = await db.read([
    orm
      .select({
        id: auditLog.id,
        at: auditLog.at,
        actor: sql<string>`'token'`.as('actor'),
        token_id: auditLog.token_id,
        action: auditLog.action,
        entity_id: auditLog.entity_id,
        address: sql<null>`NULL`.as('address'),
        request_id: auditLog.request_id,
      })
      .from(auditLog)
      .where(sql`company_id = ${companyId} AND id < ${before}`)
      .orderBy(sql`id DESC`)
      .limit(limit),
  ])
  return rows satisfies AuditRow[]
}

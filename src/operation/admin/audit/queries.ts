import { sql } from 'drizzle-orm'
import { orm } from '../../../kernel/db/client.ts'
import { adminLog, auditLog } from '../../../kernel/db/schema.ts'
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

/** Lists the newest entries first. @param before the id before which the page begins */
export async function listAdminEntries({ companyId, directory: db }: AdminContext, before: number, limit: number) {
  const { id, at, actor, action, entity_id, address, request_id } = adminLog
  const [rows] = await db.read([
    orm
      .select({ id, at, actor, token_id: sql<null>`NULL`.as('token_id'), action, entity_id, address, request_id })
      .from(adminLog)
      .where(sql`company_id = ${companyId} AND id < ${before}`)
      .orderBy(sql`id DESC`)
      .limit(limit),
  ])
  return rows satisfies AuditRow[]
}

/** Lists changes made with API tokens. */
export async function listApiEntries({ companyId, db }: AdminContext, before: number, limit: number) {
  const { id, at, token_id, action, entity_id, request_id } = auditLog
  const [actor, address] = [sql<string>`'token'`.as('actor'), sql<null>`NULL`.as('address')]
  const [rows] = await db.read([
    orm
      .select({ id, at, actor, token_id, action, entity_id, address, request_id })
      .from(auditLog)
      .where(sql`company_id = ${companyId} AND id < ${before}`)
      .orderBy(sql`id DESC`)
      .limit(limit),
  ])
  return rows satisfies AuditRow[]
}

import { sql } from 'drizzle-orm'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm, statement } from '../../../kernel/db/client.ts'
import { accountingConnections, integrations } from '../../../kernel/db/schema.ts'
import type { IntegrationsFile } from '../../copies/seed/integrations-file.ts'
import { planIntegrations, throwConflict } from '../../copies/seed/load.ts'
import type { AdminContext } from '../context.ts'

export type IntegrationRow = typeof integrations.$inferSelect

/** Lists the company's integrations, credentials encrypted, with the state of its accounting connection. */
export async function listIntegrations({ companyId, db }: AdminContext) {
  const [rows, [connection]] = await db.read([
    orm.select().from(integrations).where(sql`company_id = ${companyId}`).orderBy(integrations.kind),
    orm.select().from(accountingConnections).where(sql`company_id = ${companyId}`),
  ])
  return { rows, connection: connection ?? null }
}

/**
 * Also ends a stop of accounting deliveries, which unchanged values would leave.
 *
 * @param kept the stored credentials, where the integration has the same ones
 * @throws ApiError 409 if others are stored by now
 */
export async function putIntegration(context: AdminContext, kind: string, file: IntegrationsFile, kept?: string) {
  const { companyId, db } = context
  const statements = await planIntegrations(context, file)
  const write = db.writeIdempotent([
    statement(sql`SELECT json_extract('{}', 'credentials changed') FROM integrations
      WHERE company_id = ${companyId} AND kind = ${kind} AND credentials <> ${kept ?? null}`),
    adminEntry(context, 'integrations.put', kind),
    ...statements,
    orm
      .update(accountingConnections)
      .set({ stopped_for: null })
      .where(sql`company_id = ${companyId} AND ${kind} = 'accounting_sync'`),
  ])
  await write.catch(throwConflict)
}

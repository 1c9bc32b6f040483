import { sql } from 'drizzle-orm'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm } from '../../../kernel/db/client.ts'
import { accountingConnections, integrations } from '../../../kernel/db/schema.ts'
import type { IntegrationsFile } from '../../copies/seed/integrations-file.ts'
import { planIntegrations } from '../../copies/seed/load.ts'
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

/** Also ends a stop of accounting deliveries, which unchanged values would leave. */
export async function putIntegration(context: AdminContext, kind: string, integration: IntegrationsFile) {
  const { companyId, db, env, now } = context
  const load = { companyId, db, now, credentialsKey: env.CREDENTIALS_KEY }
  const statements = await planIntegrations(load, integration)
  await db.writeIdempotent([
    adminEntry(context, 'integrations.put', kind),
    ...statements,
    orm
      .update(accountingConnections)
      .set({ stopped_for: null })
      .where(sql`company_id = ${companyId} AND ${kind} = 'accounting_sync'`),
  ])
}

import { type SQL, sql } from 'drizzle-orm'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm, statement } from '../../../kernel/db/client.ts'
import { isPresent } from '../../../kernel/db/placement.ts'
import { accountingConnections, accountingOutbox, integrations } from '../../../kernel/db/schema.ts'
import type { IntegrationsFile } from '../../copies/seed/integrations-file.ts'
import { planIntegrations, throwConflict } from '../../copies/seed/load.ts'
import type { AdminContext } from '../context.ts'
import { isListed, type ListQuery, type Page } from '../queries.ts'

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
    statement(sql`UPDATE accounting_connections SET stopped_for = NULL
      WHERE company_id = ${companyId} AND ${kind} = 'accounting_sync'`),
  ])
  await write.catch(throwConflict)
}

/** Null while the delivery does not take the event: see `findDue`. */
const nextAttempt = sql<number | null>`(SELECT max(accounting_outbox.next_attempt_at, coalesce(a.paused_until, 0))
  FROM companies AS c JOIN integrations AS i ON i.company_id = c.id AND i.kind = 'accounting_sync' AND i.enabled = 1
  LEFT JOIN accounting_connections AS a ON a.company_id = c.id
  WHERE c.id = accounting_outbox.company_id AND accounting_outbox.state IN ('pending', 'sent')
    AND c.suspended = 0 AND c.deliveries_paused = 0 AND a.stopped_for IS NOT i.updated_at)`

const { id, company_id, order_id, operation, state, attempts, last_error } = accountingOutbox
const eventColumns = {
  ...{ id, company_id, order_id, operation, state, attempts, last_error },
  next_attempt_at: nextAttempt.as('next_attempt_at'),
  ...{ created_at: accountingOutbox.created_at, updated_at: accountingOutbox.updated_at },
}

export type EventRow = Awaited<ReturnType<typeof listEvents>>[number]

/** An event in flight counts as pending. */
export async function listEvents(context: AdminContext, { query, after, limit }: Page<ListQuery>) {
  const { state } = query
  const isIn = state === 'pending' ? sql`state IN ('pending', 'sent')` : state ? sql`state = ${state}` : sql`1`
  const isMeant = sql`state <> 'done' AND id > ${after[0] ?? 0} AND ${isPresent(sql`company_id`)}
    AND ${isListed(context, query)} AND ${isIn}`
  const by = query.id === undefined ? sql`INDEXED BY accounting_outbox_of_order` : sql``
  const page = sql`SELECT id FROM accounting_outbox ${by} WHERE ${isMeant} ORDER BY id LIMIT ${limit}`
  const [rows] = await context.db.read([
    orm.select(eventColumns).from(accountingOutbox).where(sql`id IN (${page})`).orderBy(accountingOutbox.id),
  ])
  return rows
}

/** Links a client to a customer and retries its parked and dead events. @returns null without such a client */
export async function linkCustomer(context: AdminContext, clientId: number, customerId: string) {
  const { companyId, db } = context
  const isGivenUp = sql`company_id = ${companyId} AND state IN ('parked', 'dead') AND state <> 'done' AND order_id > 0
    AND order_id IN (SELECT id FROM orders WHERE company_id = ${companyId} AND client_id = ${clientId})`
  const [[client], , , , [due]] = await db.writeIdempotent([
    statement<{ client_id: number; company_name: string }>(sql`UPDATE clients
      SET accounting_customer_id = ${customerId}, accounting_customer_linked = 1
      WHERE company_id = ${companyId} AND id = ${clientId} RETURNING id AS client_id, company_name`),
    adminEntry(context, 'clients.link_customer', clientId, sql`changes() > 0`),
    ...resend(context, isGivenUp),
  ])
  return client ? { ...client, customer_id: customerId, retried: due?.count ?? 0 } : null
}

/** Retries the undelivered events with an id or a state. @returns how many there are */
export async function retryEvents(context: AdminContext, by: 'id' | 'state', values: readonly (number | string)[]) {
  const isMeant = sql`${sql.raw(by)} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`
  const condition = sql`company_id = ${context.companyId} AND state <> 'done' AND order_id > 0 AND ${isMeant}`
  const [, , [due]] = await context.db.writeIdempotent([
    ...resend(context, condition),
    adminEntry(context, 'accounting_events.retry', values.join(), sql`changes() > 0`),
  ])
  return due?.count ?? 0
}

/**
 * Makes events due and clears the stop or pause of their company. An event in flight keeps its request, which the
 * accounting system may have applied; since it goes first, it becomes due with the others of its order. The last
 * statement counts the events that were meant, also in a second run.
 */
function resend({ companyId, now }: AdminContext, condition: SQL) {
  const undelivered = sql`company_id = ${companyId} AND state <> 'done' AND order_id > 0`
  const meantOrders = sql`SELECT order_id FROM accounting_outbox WHERE ${condition}`
  return [
    statement(sql`UPDATE accounting_connections SET stopped_for = NULL, paused_until = 0, reason = NULL
      WHERE company_id = ${companyId} AND EXISTS (${meantOrders})`),
    statement(sql`UPDATE accounting_outbox SET state = iif(state = 'sent', 'sent', 'pending'),
        attempts = 0, stale_attempts = 0, next_attempt_at = ${now}, updated_at = ${now}
      WHERE ${undelivered} AND ((${condition}) OR (state = 'sent' AND order_id IN (${meantOrders})))`),
    statement<{ count: number }>(sql`SELECT count(*) AS count FROM accounting_outbox
      WHERE ${undelivered} AND updated_at = ${now} AND (state = 'pending' OR ${condition})`),
  ] as const
}

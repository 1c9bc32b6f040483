import { type SQL, sql } from 'drizzle-orm'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm, statement } from '../../../kernel/db/client.ts'
import { isPresent } from '../../../kernel/db/placement.ts'
import { type changes, webhookDeliveries, webhookEndpoints } from '../../../kernel/db/schema.ts'
import { removeSome } from '../../copies/restore.ts'
import type { AdminContext } from '../context.ts'
import { isListed, type ListQuery, type Page } from '../queries.ts'

export const MAX_ENDPOINTS = 10

const lastChange = sql`(SELECT c.last_change FROM companies AS c WHERE c.id = webhook_endpoints.company_id)`
const nextKept = sql`(SELECT min(f.sequence) FROM changes AS f
  WHERE f.company_id = webhook_endpoints.company_id AND f.sequence > webhook_endpoints.position)`
const countWaiting = sql`SELECT count(*) FROM (SELECT company_id, sequence FROM webhook_deliveries AS w
  WHERE w.company_id = webhook_endpoints.company_id AND w.endpoint_id = webhook_endpoints.id LIMIT 1000) AS d`
const waitingRemoved = sql`(${countWaiting}
  WHERE NOT EXISTS (SELECT 1 FROM changes AS f WHERE f.company_id = d.company_id AND f.sequence = d.sequence))`

const { id, company_id, url, secret, event_types, enabled, disabled_reason, created_at, updated_at } = webhookEndpoints
const columns = {
  ...{ id, company_id, url, secret, event_types, enabled, disabled_reason, created_at, updated_at },
  replaying: sql<boolean>`replay_end IS NOT NULL`.mapWith(Boolean).as('replaying'),
  behind: sql<number>`max(0, ${lastChange} - position)`.as('behind'),
  waiting: sql<number>`(${countWaiting})`.as('waiting'),
  removed_changes: sql<number>`max(0, coalesce(${nextKept} - 1, ${lastChange}) - position) + ${waitingRemoved}`.as(
    'removed_changes',
  ),
}

const isEndpoint = (companyId: number, id: string) => sql`company_id = ${companyId} AND id = ${id}`
const isOfEndpoint = (companyId: number, id: string) => sql`company_id = ${companyId} AND endpoint_id = ${id}`
const selectEndpoint = (where: SQL) => orm.select(columns).from(webhookEndpoints).where(where)

export type EndpointRow = Awaited<ReturnType<typeof listEndpoints>>[number]

export async function listEndpoints(context: AdminContext, { query, after, limit }: Page<ListQuery>) {
  const [afterCompany = 0, afterTime = 0, afterId = ''] = after
  const isMeant = sql`${isListed(context, query)} AND ${isPresent(sql`company_id`)}
    AND (company_id, created_at, id) > (${afterCompany}, ${afterTime}, ${afterId})`
  const [rows] = await context.db.read([selectEndpoint(isMeant).orderBy(sql`company_id, created_at, id`).limit(limit)])
  return rows
}

export async function findEndpoint({ companyId, db }: AdminContext, id: string): Promise<EndpointRow | null> {
  const [[row]] = await db.read([selectEndpoint(isEndpoint(companyId, id))])
  return row ?? null
}

type NewEndpoint = Pick<typeof webhookEndpoints.$inferSelect, 'id' | 'url' | 'secret' | 'event_types'>

/** @returns the endpoint, which starts at the company's last change; null if the company has 10 */
export async function createEndpoint(context: AdminContext, { id, url, secret, event_types }: NewEndpoint) {
  const { companyId, db, now } = context
  const [, , [row]] = await db.writeIdempotent([
    statement(sql`INSERT INTO webhook_endpoints
        (company_id, id, url, secret, event_types, position, initial_failures, created_at, updated_at)
      SELECT ${companyId}, ${id}, ${url}, ${secret}, ${JSON.stringify(event_types)},
        (SELECT last_change FROM companies WHERE id = ${companyId}), 0, ${now}, ${now}
      WHERE (SELECT count(*) FROM webhook_endpoints WHERE company_id = ${companyId}) < ${MAX_ENDPOINTS}
      ON CONFLICT DO NOTHING`),
    adminEntry(context, 'webhooks.create', id, sql`changes() > 0`),
    selectEndpoint(isEndpoint(companyId, id)),
  ])
  return row ?? null
}

type EndpointChange = Partial<Pick<typeof webhookEndpoints.$inferSelect, 'url' | 'event_types' | 'enabled'>>

/** Makes waiting retries due when the endpoint is enabled or gets a new address. */
export async function updateEndpoint(context: AdminContext, id: string, change: EndpointChange) {
  const { companyId, db, now } = context
  const isMeant = isEndpoint(companyId, id)
  const hasNewUrl = sql`url <> ${change.url ?? null}`
  const enables = Number(change.enabled === true)
  const values = {
    ...change,
    ...(change.enabled !== undefined && { disabled_reason: null }),
    // Resetting the count gives a new address its own attempts, and one that never succeeded a fresh start.
    initial_failures: sql`iif(${hasNewUrl}, 0, initial_failures * (1 - ${enables}))`,
    updated_at: now,
  }
  const [, , , [row]] = await db.writeIdempotent([
    statement(sql`UPDATE webhook_deliveries SET attempts = 0, first_attempt_at = NULL, next_attempt_at = ${now}
      WHERE ${isOfEndpoint(companyId, id)} AND next_attempt_at >= 0
        AND EXISTS (SELECT 1 FROM webhook_endpoints WHERE ${isMeant} AND (${hasNewUrl} OR ${enables}))`),
    orm.update(webhookEndpoints).set(values).where(isMeant),
    adminEntry(context, `webhooks.update:${Object.keys(change).sort().join()}`, id, sql`changes() > 0`),
    selectEndpoint(isMeant),
  ])
  return row ?? null
}

/** @returns the address of the deleted endpoint; null if it does not exist */
export async function deleteEndpoint(context: AdminContext, id: string): Promise<string | null> {
  const { companyId, db } = context
  // Others wait for each removal. The last one takes what came meanwhile.
  let isEmpty = false
  while (!isEmpty) isEmpty = await removeSome(context, 'webhook_deliveries', sql`endpoint_id = ${id}`)
  const [, [row]] = await db.write([
    orm.delete(webhookDeliveries).where(isOfEndpoint(companyId, id)),
    orm.delete(webhookEndpoints).where(isEndpoint(companyId, id)).returning({ url: webhookEndpoints.url }),
    adminEntry(context, 'webhooks.delete', id, sql`changes() > 0`),
  ])
  return row?.url ?? null
}

/** @returns the endpoint; null if its secrets are no longer the `present` ones */
export async function replaceSecret(context: AdminContext, id: string, present: string, secret: string) {
  const { companyId, db, now } = context
  const isMeant = isEndpoint(companyId, id)
  const [, , [row]] = await db.writeIdempotent([
    orm.update(webhookEndpoints).set({ secret, updated_at: now }).where(sql`${isMeant} AND secret = ${present}`),
    adminEntry(context, 'webhooks.rotate_secret', id, sql`changes() > 0`),
    selectEndpoint(sql`${isMeant} AND secret = ${secret}`),
  ])
  return row ?? null
}

/** Selects the first change at a time or later. Sequences have no gaps, so halving finds it without an index by time. */
function firstAt(companyId: number, time: SQL) {
  const end = (name: 'min' | 'max') =>
    sql`(SELECT ${sql.raw(name)}(sequence) FROM changes WHERE company_id = ${companyId})`
  return sql`(WITH RECURSIVE half (low, high) AS (SELECT ${end('min')}, ${end('max')} + 1 UNION ALL
    SELECT iif(at < ${time}, sequence + 1, low), iif(at < ${time}, high, sequence) FROM half
    JOIN changes ON company_id = ${companyId} AND sequence = (low + high) / 2 WHERE low < high) SELECT max(low) FROM half)`
}

/**
 * Starts to deliver the changes of a time span again that the endpoint was already sent.
 *
 * @returns whether there are any and no replay was under way, and the endpoint as it is now; null if it does not exist
 */
export async function startReplay(context: AdminContext, id: string, from: number, to: number) {
  const { companyId, db } = context
  const own = (column: string) =>
    sql`(SELECT ${sql.raw(column)} FROM webhook_endpoints WHERE ${isEndpoint(companyId, id)})`
  const first = firstAt(companyId, sql`max(${from}, ${own('created_at')})`)
  const last = sql`min(${firstAt(companyId, sql`${to}`)} - 1, ${own('position')})`
  const [started, , [endpoint]] = await db.write([
    statement(sql`UPDATE webhook_endpoints SET replay_position = s.first - 1, replay_end = s.last
      FROM (SELECT ${first} AS first, ${last} AS last) AS s
      WHERE ${isEndpoint(companyId, id)} AND replay_end IS NULL AND s.first <= s.last RETURNING id`),
    adminEntry(context, 'webhooks.replay', id, sql`changes() > 0`),
    selectEndpoint(isEndpoint(companyId, id)),
  ])
  return endpoint ? { isStarted: started.length > 0, endpoint } : null
}

/** Lists the failed changes and those queued behind them. @returns null if the endpoint does not exist */
export async function listDeliveries({ companyId, db }: AdminContext, id: string, { after, limit }: Page) {
  const { sequence, type, entity_id, attempts, first_attempt_at, next_attempt_at, last_error } = webhookDeliveries
  const shown = { sequence, type, entity_id, attempts, first_attempt_at, next_attempt_at, last_error, operation }
  const isMeant = sql`${isOfEndpoint(companyId, id)} AND sequence > ${after[0] ?? 0}`
  const [[endpoint], rows] = await db.read([
    orm.select({ id: webhookEndpoints.id }).from(webhookEndpoints).where(isEndpoint(companyId, id)),
    orm.select(shown).from(webhookDeliveries).where(isMeant).orderBy(sequence).limit(limit),
  ])
  return endpoint ? rows : null
}

/** The operation is null once the change has left the feed. */
const operation = sql<typeof changes.$inferSelect.operation | null>`(SELECT c.operation FROM changes AS c
  WHERE c.company_id = webhook_deliveries.company_id AND c.sequence = webhook_deliveries.sequence)`.as('operation')

import { type SQL, sql } from 'drizzle-orm'
import { orm, statement } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type webhookDeliveries, webhookEndpoints } from '../../kernel/db/schema.ts'
import type { ChangeRow } from '../../resources/changes/present.ts'

/** A round reads this many changes of the feed, and as many stored ones, a few of each of this many objects. */
export const ROUND_CHANGES = 64
const ROUND_OBJECTS = 16

export type EndpointRow = typeof webhookEndpoints.$inferSelect

/** A change to deliver. Its operation is missing once it has left the feed. */
export interface Item extends Omit<ChangeRow, 'operation'> {
  operation: ChangeRow['operation'] | null
  /** Columns of `webhook_deliveries`; 0 and null for a change from the feed. */
  attempts: number
  first_attempt_at: number | null
  /** Whether it is in `webhook_deliveries`. */
  isStored: boolean
  /** For a change from the feed: a change of its object is in `webhook_deliveries`, in a replay perhaps a later one. */
  isBehind: boolean
}

export async function listEnabledEndpoints({ companyId, db }: CompanyContext): Promise<string[]> {
  const company = sql`SELECT 1 FROM companies WHERE id = ${companyId} AND suspended = 0 AND deliveries_paused = 0`
  const isEnabled = sql`company_id = ${companyId} AND enabled = 1 AND EXISTS (${company})`
  const [endpoints] = await db.read([orm.select({ id: webhookEndpoints.id }).from(webhookEndpoints).where(isEnabled)])
  return endpoints.map(({ id }) => id)
}

const isOfEndpoint = (companyId: number, endpointId: string) =>
  sql`company_id = ${companyId} AND endpoint_id = ${endpointId}`

const selectQueue = (companyId: number, endpointId: string) =>
  statement<{ failing: number; nextAt: number | null }>(sql`
    SELECT coalesce(sum(attempts > 0), 0) AS failing, min(next_attempt_at) AS nextAt FROM webhook_deliveries
    WHERE ${isOfEndpoint(companyId, endpointId)} AND next_attempt_at >= 0`)

/** Columns of an object's change, named `d`, of the feed's row `source`, and of its thread. */
const itemColumns = (source: SQL) => sql`d.type, d.entity_id, d.sequence, ${source}.operation, ${source}.version,
  ${source}.at, ${source}.old_status_id, ${source}.new_status_id, t.account_email, t.legacy_thread_id`

/**
 * Loads a round: the queue's due changes and the feed's next ones, each in order. Null if the endpoint is disabled or
 * deleted by now.
 */
export async function loadRound({ companyId, db }: CompanyContext, endpointId: string, nowMs: number) {
  const isEndpoint = sql`company_id = ${companyId} AND id = ${endpointId}`
  const positionOf = (column: string) => sql`(SELECT ${sql.raw(column)} FROM webhook_endpoints WHERE ${isEndpoint})`
  const isStored = isOfEndpoint(companyId, endpointId)
  const dueObjects = sql`SELECT type, entity_id FROM webhook_deliveries WHERE ${isStored}
    AND next_attempt_at IS NOT NULL AND next_attempt_at <= ${nowMs}
    GROUP BY type, entity_id ORDER BY min(next_attempt_at) LIMIT ${ROUND_OBJECTS}`
  const withThread = sql`LEFT JOIN email_threads AS t
    ON d.type = 'email_threads' AND t.id = d.entity_id AND t.company_id = ${companyId}`
  const [[endpoint], [queue], due, feed] = await db.read([
    orm.select().from(webhookEndpoints).where(sql`${isEndpoint} AND enabled = 1`),
    selectQueue(companyId, endpointId),
    statement<Omit<Item, 'isStored' | 'isBehind'>>(sql`SELECT ${itemColumns(sql`c`)}, d.attempts, d.first_attempt_at
      FROM (${dueObjects}) AS due CROSS JOIN webhook_deliveries AS d ON d.company_id = ${companyId}
        AND d.endpoint_id = ${endpointId} AND d.type = due.type AND d.entity_id = due.entity_id
        AND d.sequence IN (SELECT sequence FROM webhook_deliveries
          WHERE ${isStored} AND type = due.type AND entity_id = due.entity_id
          ORDER BY sequence LIMIT ${ROUND_CHANGES / ROUND_OBJECTS})
      LEFT JOIN changes AS c ON c.company_id = ${companyId} AND c.sequence = d.sequence ${withThread}
      ORDER BY d.sequence LIMIT ${ROUND_CHANGES}`),
    statement<ChangeRow & { is_behind: number }>(sql`SELECT ${itemColumns(sql`d`)}, EXISTS (
        SELECT 1 FROM webhook_deliveries WHERE ${isStored} AND type = d.type AND entity_id = d.entity_id) AS is_behind
      FROM changes AS d ${withThread}
      WHERE d.company_id = ${companyId} AND d.sequence > ${positionOf('coalesce(replay_position, position)')}
        AND d.sequence <= ${positionOf('iif(replay_position IS NULL, 9e15, replay_end)')}
      ORDER BY d.sequence LIMIT ${ROUND_CHANGES}`),
  ])
  if (!endpoint) return null
  return {
    endpoint,
    failing: queue?.failing ?? 0,
    due: due.map((row): Item => ({ ...row, isStored: true, isBehind: false })),
    feed: feed.map(({ is_behind, ...row }): Item => {
      return { ...row, attempts: 0, first_attempt_at: null, isStored: false, isBehind: is_behind === 1 }
    }),
  }
}

export interface Outcome {
  done: Item[]
  /** Changes to store, with their state. One without a `next_attempt_at` is only inserted, never updated. */
  kept: (Item & Pick<typeof webhookDeliveries.$inferSelect, 'next_attempt_at' | 'last_error'>)[]
  /** Changes of objects whose next stored change, if any, can be delivered now. */
  released: Item[]
  progress: Partial<Pick<EndpointRow, 'position' | 'replay_position' | 'replay_end'>>
  initial_failures: number | null
  disabledReason: string | null
}

/** Stores a round, all or nothing; nothing if the endpoint was deleted meanwhile. */
export async function saveRound(
  { companyId, db }: CompanyContext,
  { id: endpointId, updated_at, position, replay_end }: EndpointRow,
  { done, kept, released, progress, initial_failures, disabledReason }: Outcome,
  nowMs: number,
) {
  const isEndpoint = sql`company_id = ${companyId} AND id = ${endpointId}`
  const isStored = isOfEndpoint(companyId, endpointId)
  // Earlier failures neither delay nor disable an endpoint that was enabled again or got a new address since the load,
  // but a change that waited behind another and failed must get its time: the other is done.
  const isUnchanged = sql`${isEndpoint} AND updated_at = ${updated_at}`
  const disabled = disabledReason !== null && { enabled: false, disabled_reason: disabledReason, updated_at: nowMs }
  const [, , , , , , [queue]] = await db.writeIdempotent([
    statement(sql`DELETE FROM webhook_deliveries WHERE ${isStored} AND (type, entity_id, sequence) IN (
      SELECT value ->> 'type', value ->> 'entity_id', value ->> 'sequence' FROM json_each(${JSON.stringify(done)}))`),
    // A change without a time waits for a stored one. A recovery removes that, and gives the endpoint a new position.
    statement(sql`INSERT INTO webhook_deliveries (company_id, endpoint_id, type, entity_id, sequence,
        attempts, first_attempt_at, next_attempt_at, last_error)
      SELECT ${companyId}, ${endpointId}, value ->> 'type', value ->> 'entity_id', value ->> 'sequence',
        value ->> 'attempts', value ->> 'first_attempt_at', value ->> 'next_attempt_at', value ->> 'last_error'
      FROM json_each(${JSON.stringify(kept)}) WHERE EXISTS (SELECT 1 FROM webhook_endpoints WHERE ${isEndpoint}
        AND (value ->> 'next_attempt_at' IS NOT NULL OR position = ${position}))
      ON CONFLICT DO UPDATE SET attempts = excluded.attempts, first_attempt_at = excluded.first_attempt_at,
        next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error
      WHERE excluded.next_attempt_at IS NOT NULL AND (webhook_deliveries.next_attempt_at IS NULL
        OR EXISTS (SELECT 1 FROM webhook_endpoints WHERE ${isUnchanged}))`),
    // A replay may store changes before a failed one. Once such a change fails too, only it is retried.
    statement(sql`UPDATE webhook_deliveries AS d SET attempts = 0, first_attempt_at = NULL, next_attempt_at = NULL
      WHERE ${isStored} AND next_attempt_at >= 0 AND EXISTS (
        SELECT 1 FROM webhook_deliveries AS w WHERE ${isStored} AND next_attempt_at IS NOT NULL
          AND w.type = d.type AND w.entity_id = d.entity_id AND w.sequence < d.sequence)`),
    statement(sql`UPDATE webhook_deliveries SET next_attempt_at = ${nowMs} WHERE ${isStored} AND next_attempt_at IS NULL
      AND (type, entity_id, sequence) IN (SELECT value ->> 'type', value ->> 'entity_id', (SELECT min(sequence)
        FROM webhook_deliveries WHERE ${isStored} AND type = value ->> 'type' AND entity_id = value ->> 'entity_id')
        FROM json_each(${JSON.stringify(released)}))`),
    // Drizzle requires a column. A replay that was replaced meanwhile stays at its beginning, a new feed at its end.
    orm
      .update(webhookEndpoints)
      .set({ position, ...progress })
      .where(sql`${isEndpoint} AND position = ${position} AND (${replay_end} IS NULL OR replay_end = ${replay_end})`),
    orm
      .update(webhookEndpoints)
      .set({ initial_failures, ...disabled })
      .where(sql`${isUnchanged} AND (initial_failures IS NOT ${initial_failures} OR ${disabledReason} IS NOT NULL)`),
    selectQueue(companyId, endpointId),
  ])
  return { failing: queue?.failing ?? 0, nextAt: queue?.nextAt ?? null }
}

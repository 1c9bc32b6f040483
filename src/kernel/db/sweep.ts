import { type SQL, sql } from 'drizzle-orm'
import type { Env } from '../../env.ts'
import { type Database, openDatabase, orm, type Statements, startUse, statement } from './client.ts'
import { forEachDatabase, isHere, isSettled } from './placement.ts'
import { storedBytes } from './refusals.ts'
import { accountingOutbox, adminLog, apiTokens, auditLog, changes, idempotencyKeys, STORED_BYTES } from './schema.ts'

// The work of the cron trigger: no other code reads a whole database, across companies.

const DAY_MS = 86_400_000
const DAYS = { admin_log: 400, api_tokens: 400, audit_log: 90, changes: 31, accounting_outbox: 7 }

export const IDEMPOTENCY_TTL_MS = DAY_MS

/** Rows that one statement removes while others wait. */
const CHUNK_ROWS = 3_000

/** Removes expired rows and recounts some companies. */
export async function sweepRows(env: Env, nowMs: number): Promise<void> {
  const limits = removalLimits()
  await forEachDatabase(env, async (db) => {
    await removeExpiredRows(db, nowMs, limits)
    await recountDaily(db, nowMs)
  })
}

/**
 * Limits the removals of one sweep over all databases. D1 allows 1,000 statements; 700 remove 300,000 rows of each table,
 * as many as 200 tokens write at their limit.
 */
const removalLimits = () => ({ statements: 700, endMs: Date.now() + 60_000 })

/** Limits the companies that one sweep starts of a database: an invocation makes at most 1,000 calls. */
const STARTED_AT_ONCE = 100

/** Some companies whose deliveries run, with a row `t` of a table for which `isDue` holds. */
async function listDelivering(db: Database, table: 'integrations' | 'webhook_endpoints', isDue: SQL) {
  const [rows] = await db.read([
    statement<{ id: number }>(sql`SELECT DISTINCT t.company_id AS id FROM ${sql.raw(table)} AS t JOIN companies
      ON companies.id = t.company_id AND companies.suspended = 0 AND companies.deliveries_paused = 0 AND ${isHere}
      WHERE ${isDue} ORDER BY random() LIMIT ${STARTED_AT_ONCE}`),
  ])
  return rows.map(({ id }) => id)
}

/** Some companies with an accounting event that is due and may be delivered. */
export function listDueCompanies(db: Database, nowMs: number): Promise<number[]> {
  const isDue = sql`t.kind = 'accounting_sync' AND t.enabled = 1
    AND EXISTS (SELECT 1 FROM accounting_outbox AS o WHERE o.company_id = t.company_id
      AND o.state IN ('pending', 'sent') AND o.next_attempt_at <= ${nowMs})
    AND NOT EXISTS (SELECT 1 FROM accounting_connections AS c WHERE c.company_id = t.company_id
      AND (c.stopped_for = t.updated_at OR c.paused_until > ${nowMs}))`
  return listDelivering(db, 'integrations', isDue)
}

/** Some companies with changes that are to be delivered to a webhook endpoint now. */
export function listWebhookCompanies(db: Database, nowMs: number): Promise<number[]> {
  const isDue = sql`t.enabled = 1 AND (companies.last_change > t.position OR t.replay_end IS NOT NULL
    OR EXISTS (SELECT 1 FROM webhook_deliveries AS d WHERE d.company_id = t.company_id AND d.endpoint_id = t.id
      AND d.next_attempt_at IS NOT NULL AND d.next_attempt_at <= ${nowMs}))`
  return listDelivering(db, 'webhook_endpoints', isDue)
}

/** Limits the count of a gauge and so its cost; a gauge at the limit means that or more. */
const GAUGE_MAX = 10_000

/** Backups are daily, and one that fails is retried for hours. */
const BACKUP_OVERDUE_MS = 1.5 * DAY_MS

/** The fields of the gauge line, in a list of one. The oldest event has the lowest id of those that may be delivered. */
export async function readGauges(binding: D1Database, nowMs: number) {
  const use = startUse()
  const isWaiting = sql`state IN ('pending', 'sent')`
  const delivering = sql`SELECT i.company_id FROM integrations AS i JOIN companies AS c ON c.id = i.company_id
    WHERE i.kind = 'accounting_sync' AND i.enabled = 1 AND c.suspended = 0 AND c.deliveries_paused = 0 AND NOT EXISTS
      (SELECT 1 FROM accounting_connections AS a WHERE a.company_id = i.company_id AND a.stopped_for = i.updated_at)`
  const counted = sql`SELECT count(*) FILTER (WHERE ${isWaiting}) AS pending,
    count(*) FILTER (WHERE state = 'parked') AS parked, count(*) FILTER (WHERE state = 'dead') AS dead,
    min(id) FILTER (WHERE ${isWaiting} AND company_id IN (${delivering})) AS oldest
    FROM (SELECT id, state, company_id FROM accounting_outbox WHERE state <> 'done' LIMIT ${GAUGE_MAX})`
  const age = sql`(${nowMs} - (SELECT created_at FROM accounting_outbox WHERE id = oldest)) / 1000.0`
  const countRows = (rows: SQL) => sql<number>`(SELECT count(*) FROM (${rows} LIMIT ${GAUGE_MAX}))`
  const isNearQuota = sql`(${storedBytes} > 0.8 * companies.storage_quota_bytes
    OR companies.mail_bytes > 0.8 * companies.mail_quota_bytes)`
  const isOverdue = sql`coalesce(companies.backed_up_at, companies.created_at) < ${nowMs - BACKUP_OVERDUE_MS}`
  const gauges = orm
    .select({
      events_pending: sql<number>`pending`.as('events_pending'),
      events_parked: sql<number>`parked`.as('events_parked'),
      events_dead: sql<number>`dead`.as('events_dead'),
      oldest_pending_seconds: sql<number>`coalesce(max(0, round(${age})), 0)`.as('oldest_pending_seconds'),
      webhooks_disabled: countRows(sql`SELECT 1 FROM webhook_endpoints WHERE enabled = 0`).as('webhooks_disabled'),
      deliveries_pending: countRows(sql`SELECT 1 FROM webhook_deliveries`).as('deliveries_pending'),
      companies_near_quota: countRows(sql`SELECT 1 FROM companies WHERE ${isHere} AND ${isNearQuota}`).as('near_quota'),
      backups_overdue: countRows(sql`SELECT 1 FROM companies WHERE ${isHere} AND ${isOverdue}`).as('backups_overdue'),
    })
    .from(sql`(${counted})`)
  const [rows] = await openDatabase(binding, { use }).read([gauges])
  return rows.map((row) => ({ ...row, database_bytes: use.sizeBytes }))
}

/**
 * Selects each company's oldest rows of a table whose `key` ascends without gaps: no index by time is needed. It reads
 * one row more than it selects of each company. The joins keep the order of their tables, which SQLite would turn around
 * without statistics.
 */
function oldestBefore(table: 'audit_log' | 'changes', key: 'id' | 'sequence', nowMs: number) {
  const [name, column] = [sql.raw(table), sql.raw(key)]
  const isOld = sql`r.at < ${nowMs - DAYS[table] * DAY_MS}`
  return sql`WITH RECURSIVE old(company_id, key) AS (
    SELECT c.id, r.${column} FROM companies AS c CROSS JOIN ${name} AS r ON r.company_id = c.id
        AND r.${column} = (SELECT min(${column}) FROM ${name} WHERE company_id = c.id)
      WHERE ${isOld} AND ${isSettled(sql`c.id`)}
    UNION ALL SELECT r.company_id, r.${column} FROM old CROSS JOIN ${name} AS r
      ON r.company_id = old.company_id AND r.${column} = old.key + 1 WHERE ${isOld}
    LIMIT ${CHUNK_ROWS}) SELECT company_id, key FROM old`
}

export async function removeExpiredRows(db: Database, nowMs: number, limits = removalLimits()): Promise<void> {
  const ofSettled = isSettled(sql`company_id`)
  const delivered = sql`id IN (SELECT id FROM accounting_outbox WHERE state = 'done'
    AND updated_at < ${nowMs - DAYS.accounting_outbox * DAY_MS} AND ${ofSettled} ORDER BY updated_at LIMIT ${CHUNK_ROWS})`
  // Rows are in the order of their creation, but for those that were moved here.
  const keys = sql`rowid IN (SELECT rowid FROM (SELECT rowid, created_at FROM idempotency_keys
      WHERE ${ofSettled} ORDER BY rowid LIMIT ${CHUNK_ROWS}) WHERE created_at < ${nowMs - IDEMPOTENCY_TTL_MS})`
  const entries = sql`id IN (SELECT id FROM admin_log
    WHERE at < ${nowMs - DAYS.admin_log * DAY_MS} ORDER BY at LIMIT ${CHUNK_ROWS})`
  const oldEntries = oldestBefore('audit_log', 'id', nowMs)
  const recordExpired = statement(sql`UPDATE companies SET audit_expired = expired.last
    FROM (SELECT company_id, max(key) AS last FROM (${oldEntries}) GROUP BY company_id) AS expired
    WHERE companies.id = expired.company_id`)
  const oldChanges = sql`(company_id, sequence) IN (${oldestBefore('changes', 'sequence', nowMs)})`
  // No index has their ends: one statement reads some at a random place, far more than are made until the next sweep.
  const tokens = sql`id IN (SELECT id FROM (SELECT id, revoked_at, expires_at FROM api_tokens
      WHERE id >= (SELECT abs(random() % max(1, max(id) - ${CHUNK_ROWS})) FROM api_tokens) ORDER BY id LIMIT ${CHUNK_ROWS})
    WHERE min(coalesce(revoked_at, 9e15), coalesce(expires_at, 9e15)) < ${nowMs - DAYS.api_tokens * DAY_MS})`
  await db.writeIdempotent([orm.delete(apiTokens).where(tokens)])
  // The last statement of each removes a chunk. Tables take turns, so that none waits for another.
  const removals: Statements[] = [
    [orm.delete(adminLog).where(entries)],
    [recordExpired, orm.delete(auditLog).where(sql`(company_id, id) IN (${oldEntries})`)],
    [orm.delete(changes).where(oldChanges)],
    [uncountResults(keys), orm.delete(idempotencyKeys).where(keys)],
    [orm.delete(accountingOutbox).where(delivered)],
  ]
  for (let batch = removals.shift(); batch; batch = removals.shift()) {
    limits.statements -= batch.length
    if (limits.statements < 0 || Date.now() >= limits.endMs) return
    const removed = (await db.writeIdempotent(batch)).at(-1) as D1Result
    if (removed.meta.changes >= CHUNK_ROWS) removals.push(batch)
  }
}

/** Subtracts idempotent results that the same batch removes next. */
export function uncountResults(rows: SQL) {
  return statement(sql`UPDATE companies SET stored_bytes = companies.stored_bytes - removed.bytes FROM (
      SELECT company_id, sum(stored_bytes) AS bytes FROM idempotency_keys WHERE ${rows} GROUP BY company_id) AS removed
    WHERE companies.id = removed.company_id`)
}

export function recountOf(companyId: number, nowMs: number) {
  const sums = Object.keys(STORED_BYTES).map((name) => {
    const isOf = `company_id = companies.id${name === 'accounting_outbox' ? " AND state <> 'done' AND order_id > 0" : ''}`
    return `coalesce((SELECT sum(stored_bytes) FROM ${name} WHERE ${isOf}), 0)`
  })
  const text = `UPDATE companies SET stored_bytes = ${sums.join(' + ')}, recounted_at = ? WHERE id = ?`
  return statement(text, nowMs, companyId)
}

/** Companies recounted by one sweep, every 5 minutes: 1,024 take less than a day. */
const RECOUNTED_AT_ONCE = 4
/** A recount of 2 GB takes seconds, for which the other companies wait: a larger company's triggers must do. */
const RECOUNTED_MAX_BYTES = 200_000_000

/** Recounts some companies, each once a day, for rows written without triggers. In any order: one may always fail. */
export async function recountDaily(db: Database, nowMs: number): Promise<void> {
  const [due] = await db.read([
    statement<{ id: number }>(sql`SELECT id FROM companies WHERE ${isHere} AND (recounted_at IS NULL
      OR (recounted_at < ${nowMs - DAY_MS} AND stored_bytes <= ${RECOUNTED_MAX_BYTES}))
      ORDER BY random() LIMIT ${RECOUNTED_AT_ONCE}`),
  ])
  for (const { id } of due) await db.writeIdempotent([recountOf(id, nowMs)])
}

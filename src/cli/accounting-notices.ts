import { and, asc, eq, type SQL, sql } from 'drizzle-orm'
import { accountingConnections, accountingOutbox, integrations } from '../db/schema.ts'
import { CommandError } from './command.ts'
import type { CommandDatabase } from './database.ts'

export const NOTICE_STATES = ['pending', 'parked', 'dead'] as const

export interface NoticeFilter {
  /** `pending` holds those whose call is under way too. Null: all that are not done. */
  state: (typeof NOTICE_STATES)[number] | null
  companyId: number | null
}

const LIST_LIMIT = 500

/** Notices that are not done, oldest first, at most 500; `total` counts all of them. */
export async function listNotices({ orm }: CommandDatabase, { state, companyId }: NoticeFilter) {
  const condition = and(
    sql`state <> 'done'`,
    state === null ? undefined : sql`CASE state WHEN 'sent' THEN 'pending' ELSE state END = ${state}`,
    companyId === null ? undefined : eq(accountingOutbox.company_id, companyId),
  )
  const rows = await orm
    .select()
    .from(accountingOutbox)
    .where(condition)
    .orderBy(asc(accountingOutbox.id))
    .limit(LIST_LIMIT)
  const [count] = await orm.select({ total: sql<number>`count(*)` }).from(accountingOutbox).where(condition)
  return { rows, total: count?.total ?? 0 }
}

export type NoticeRow = Awaited<ReturnType<typeof listNotices>>['rows'][number]
export type HeldCompany = Awaited<ReturnType<typeof listHeldCompanies>>[number]

/** Companies whose accounting system is not called now: stopped until connected again, or paused for a while. */
export async function listHeldCompanies({ orm }: CommandDatabase, companyId: number | null, now: number) {
  const isStopped = sql<number>`${accountingConnections.stopped_for} = ${integrations.updated_at}`
  const isPaused = sql`${accountingConnections.paused_until} > ${now}`
  return orm
    .select({
      companyId: accountingConnections.company_id,
      isStopped: sql<number>`coalesce(${isStopped}, 0)`,
      pausedUntil: accountingConnections.paused_until,
      reason: accountingConnections.reason,
    })
    .from(accountingConnections)
    .innerJoin(
      integrations,
      and(eq(integrations.company_id, accountingConnections.company_id), eq(integrations.kind, 'accounting_sync')),
    )
    .where(
      and(
        sql`(${isStopped} OR ${isPaused})`,
        companyId === null ? undefined : eq(accountingConnections.company_id, companyId),
      ),
    )
    .orderBy(asc(accountingConnections.company_id))
}

/**
 * Has one notice sent again. A stop or pause of its company ends, since somebody asks for it.
 *
 * @throws CommandError when there is none, or it is done
 */
export async function retryNotice(database: CommandDatabase, id: number, now: number): Promise<NoticeRow> {
  const [row] = await database.orm.select().from(accountingOutbox).where(eq(accountingOutbox.id, id))
  if (!row) throw new CommandError(`There is no notice ${id}.`)
  if (row.state === 'done') throw new CommandError(`Notice ${id} is done: delivered, or covered by a later one.`)
  await retry(database, sql`id = ${id} AND state <> 'done'`, now)
  return row
}

/** Has all dead notices sent again, of one company or of all, and tells how many. */
export async function retryDead(database: CommandDatabase, companyId: number | null, now: number): Promise<number> {
  return retryAll(
    database,
    companyId === null ? sql`state = 'dead'` : sql`state = 'dead' AND company_id = ${companyId}`,
    now,
  )
}

/** The same for the parked and dead ones of a client's orders. */
export async function retryOrdersOf(
  database: CommandDatabase,
  companyId: number,
  clientId: number,
  now: number,
): Promise<number> {
  const ofClient = sql`SELECT id FROM orders WHERE company_id = ${companyId} AND client_id = ${clientId}`
  const condition = sql`company_id = ${companyId} AND order_id IN (${ofClient}) AND state <> 'done' AND state IN ('parked', 'dead')`
  return retryAll(database, condition, now)
}

async function retryAll(database: CommandDatabase, condition: SQL, now: number): Promise<number> {
  const [count] = await database.orm.select({ total: sql<number>`count(*)` }).from(accountingOutbox).where(condition)
  if (count && count.total > 0) await retry(database, condition, now)
  return count?.total ?? 0
}

/** A call under way keeps its request id and body, for it may have been applied; any other is made anew. */
async function retry({ orm, write }: CommandDatabase, condition: SQL, now: number): Promise<void> {
  await write([
    orm
      .update(accountingConnections)
      .set({ stopped_for: null, paused_until: 0, reason: null })
      .where(sql`company_id IN (SELECT company_id FROM accounting_outbox WHERE ${condition})`),
    orm
      .update(accountingOutbox)
      .set({
        state: sql`CASE state WHEN 'sent' THEN 'sent' ELSE 'pending' END`,
        attempts: 0,
        stale_attempts: 0,
        next_attempt_at: now,
        updated_at: now,
      })
      .where(condition),
  ])
}

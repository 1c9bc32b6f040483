import { sql } from 'drizzle-orm'
import { type Administrator, adminEntry } from '../../kernel/db/audit.ts'
import { orm, statement } from '../../kernel/db/client.ts'
import { insertRow, named } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { DIRECTORY, freeSlot, isHere } from '../../kernel/db/placement.ts'
import { changes, companies, emailThreads, webhookDeliveries } from '../../kernel/db/schema.ts'
import { hasContent } from './read-queries.ts'
import { LAST_IDS, type Row, SEQUENCES, SETTINGS, type Sequences } from './tables.ts'
import { raiseTo } from './write-queries.ts'

const REMOVED_ROWS = 2_000
const KEYS = { changes: 'sequence', webhook_deliveries: 'endpoint_id, type, entity_id, sequence' }

const sequenceColumns = sql.raw(SEQUENCES.join(', '))

/**
 * Lists a database's companies, in any order: at most 1,024, the slots of its full-text tables. A row of another one
 * than the directory has there is of an interrupted creation.
 */
export async function listCompanies({ db, directory = db }: CompanyContext, name: string) {
  const isPlaced = sql`coalesce(${companies.database}, ${DIRECTORY}) = ${name}`
  const read = directory.read([orm.select({ id: companies.id }).from(companies).where(isPlaced)])
  // While the directory fails, the other databases are served as if all were placed.
  const placed = await read.then(([rows]) => new Set(rows.map(({ id }) => id))).catch(() => null)
  const select = sql`SELECT id, backed_up_at, ${sequenceColumns} FROM companies WHERE ${isHere} ORDER BY random()`
  const [rows] = await db.read([statement<{ id: number; backed_up_at: number | null } & Sequences>(select)])
  return rows.filter(({ id }) => placed?.has(id) ?? true)
}

export async function recordBackup({ companyId, db }: CompanyContext, atMs: number): Promise<void> {
  await db.writeIdempotent([orm.update(companies).set({ backed_up_at: atMs }).where(sql`id = ${companyId}`)])
}

/** Ends tokens, by their hashes, at a time or earlier; a past time revokes them. @returns how many were revoked */
export async function endTokens({ db, directory = db }: CompanyContext, ends: readonly (readonly [string, number])[]) {
  const nowMs = Date.now()
  const from = sql`json_each(${JSON.stringify(ends)}) AS e`
  const isToken = sql`token_hash = e.value ->> 0 AND revoked_at IS NULL`
  const endedAt = sql`CAST(e.value ->> 1 AS INTEGER)`
  const revoked = sql`${isToken} AND ${endedAt} <= ${nowMs}`
  const expiring = sql`${isToken} AND ${endedAt} > ${nowMs} AND coalesce(expires_at, 9e15) > ${endedAt}`
  const [rows] = await directory.read([statement(sql`SELECT token_hash FROM api_tokens, ${from} WHERE ${revoked}`)])
  await directory.writeIdempotent([
    statement(sql`UPDATE api_tokens SET expires_at = ${endedAt} FROM ${from} WHERE ${expiring}`),
    statement(sql`UPDATE api_tokens SET revoked_at = ${endedAt} FROM ${from} WHERE ${revoked}`),
  ])
  return rows.length
}

/** @param ids those of email threads, as JSON */
export async function hasOthersThreads({ companyId, db }: CompanyContext, ids: string): Promise<boolean> {
  const isOthers = sql`id IN (SELECT value FROM json_each(${ids})) AND company_id <> ${companyId}`
  const [rows] = await db.read([orm.select({ id: emailThreads.id }).from(emailThreads).where(isOthers).limit(1)])
  return rows.length > 0
}

const SUSPENDED = { suspended: sql`1`, deliveries_paused: sql`1` }

/** Suspends a company that may be resumed during its restore. @returns false if Time Travel has removed it */
export async function suspendAgain({ companyId, db }: CompanyContext): Promise<boolean> {
  const suspend = orm.update(companies).set(SUSPENDED).where(sql`id = ${companyId}`)
  const [rows] = await db.writeIdempotent([suspend.returning({ id: companies.id })])
  return rows.length > 0
}

/**
 * Suspends a company without data, or creates it in the directory's slot, else its previous one, else a free one. Its
 * last ids are raised: a request that is let in until the suspension takes effect must not get an id of the backup, nor
 * must its audit entry. A repeated call may find rows of such requests.
 *
 * @returns false if the company has data
 */
export async function openForRestore(
  { companyId, db, slot }: CompanyContext & { slot: number | null },
  company: Row,
  by: Administrator,
  backup: string,
): Promise<boolean> {
  const { name, mail_quota_bytes, storage_quota_bytes, created_at, updated_at } = company
  const placed = { ...SUSPENDED, id: companyId, slot: freeSlot(slot ?? Number(company.slot)) }
  const isMissing = sql`WHERE NOT EXISTS (SELECT 1 FROM companies WHERE id = ${companyId})`
  const [, opened] = await db.writeIdempotent([
    insertRow(companies, { ...placed, name, mail_quota_bytes, storage_quota_bytes, created_at, updated_at }, isMissing),
    orm
      .update(companies)
      .set({ ...SUSPENDED, ...raiseTo([...LAST_IDS, 'audit_expired'], company) })
      .where(sql`id = ${companyId} AND ((suspended AND deliveries_paused) OR NOT ${hasContent({ companyId })})`)
      .returning({ id: companies.id }),
    adminEntry(by, 'company.restore', backup, sql`changes() > 0`),
  ])
  return opened.length > 0
}

/** Removes up to 2,000 rows of the company: of its feed, or deliveries. @returns whether none are left */
export async function removeSome({ companyId, db }: CompanyContext, table: keyof typeof KEYS, isMeant = sql`1`) {
  const [key, rows] = [sql.raw(KEYS[table]), sql`FROM ${named(table)} WHERE company_id = ${companyId} AND ${isMeant}`]
  const removal = sql`DELETE ${rows} AND (${key}) IN (SELECT ${key} ${rows} LIMIT ${REMOVED_ROWS}) RETURNING sequence`
  const [removed] = await db.writeIdempotent([statement(removal)])
  return removed.length < REMOVED_ROWS
}

/**
 * Raises the company's sequences past all known values and restarts its feed after them: every cursor expires, and
 * webhooks send changes from now on. `company` also sets its other columns.
 */
export async function raiseSequences({ companyId, db }: CompanyContext, sequences: Sequences, company: Row | null) {
  const isCompany = sql`id = ${companyId}`
  const isOf = sql`company_id = ${companyId}`
  // The sweep recounts the company, which may take longer than this batch may.
  const raised = { ...raiseTo(SEQUENCES, sequences), recounted_at: sql`min(recounted_at, 0)` }
  const [, , , , [row]] = await db.writeIdempotent([
    orm.update(companies).set(raised).where(isCompany),
    orm.delete(changes).where(isOf),
    orm.delete(webhookDeliveries).where(isOf),
    statement(sql`UPDATE webhook_endpoints SET replay_position = NULL, replay_end = NULL,
      position = (SELECT last_change FROM companies WHERE ${isCompany}) WHERE ${isOf}`),
    statement<Sequences>(sql`SELECT ${sequenceColumns} FROM companies WHERE ${isCompany}`),
    ...(company ? [orm.update(companies).set(settings(company)).where(isCompany)] : []),
  ])
  return row ?? sequences
}

function settings(company: Row) {
  const names = [...SETTINGS, 'created_at', 'updated_at'].filter((name) => company[name] !== undefined)
  // Restored entries may have expired meanwhile.
  const raised = raiseTo(['audit_expired'], company)
  return { ...Object.fromEntries(names.map((name) => [name, sql`${company[name] ?? null}`])), ...raised }
}

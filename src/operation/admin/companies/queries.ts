import { sql } from 'drizzle-orm'
import type { Input } from '../../../kernel/api/contract.ts'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { openDatabase, orm } from '../../../kernel/db/client.ts'
import { bindingOf, DIRECTORY, placementColumns, syncDirectory } from '../../../kernel/db/placement.ts'
import { storedBytes } from '../../../kernel/db/quota.ts'
import { companies } from '../../../kernel/db/schema.ts'
import { log, nameOf } from '../../../kernel/http/errors.ts'
import type { AdminContext } from '../context.ts'
import type { Page } from '../queries.ts'
import type * as contract from './contract.ts'

const { id, name, currency, suspended, accounting_sync_enabled, deliveries_paused } = companies
const { mail_quota_bytes, storage_quota_bytes, client_count, order_count, mail_bytes, created_at, updated_at } =
  companies
const columns = {
  ...{ id, name, currency, suspended, accounting_sync_enabled, deliveries_paused },
  ...{ mail_quota_bytes, storage_quota_bytes, client_count, order_count, mail_bytes, created_at, updated_at },
  stored_bytes: storedBytes.as('stored'),
}

/** Lists the directory's companies, each with the counters of its own database. */
export async function listCompanies({ directory, env, requestId }: AdminContext, { after, limit }: Page) {
  const [placed] = await directory.read([
    orm
      .select({ ...columns, ...placementColumns })
      .from(companies)
      .where(sql`id > ${after[0] ?? 0}`)
      .orderBy(companies.id)
      .limit(limit),
  ])
  const elsewhere = Map.groupBy(
    placed.filter(({ database }) => database !== DIRECTORY),
    ({ database }) => database,
  )
  const counts = Array.from(elsewhere, async ([database, rows]) => {
    const ids = JSON.stringify(rows.map(({ id }) => id))
    const isListed = sql`id IN (SELECT value FROM json_each(${ids}))`
    try {
      const [counted] = await openDatabase(bindingOf(env, database)).read([
        orm.select(columns).from(companies).where(isListed),
      ])
      return counted
    } catch (error) {
      // The directory's rows are listed without counters instead.
      log('companies_uncounted', { request_id: requestId, database, error: nameOf(error) }, 'error')
      return []
    }
  })
  const byId = new Map((await Promise.all(counts)).flat().map((row) => [row.id, row]))
  return placed.map(({ slot: _, ...row }) => ({ ...row, ...byId.get(row.id), suspended: row.suspended }))
}

export async function findNextCompany({ directory: db }: AdminContext, after: number): Promise<number | null> {
  const [[row]] = await db.read([
    orm.select({ id: companies.id }).from(companies).where(sql`id > ${after}`).orderBy(companies.id).limit(1),
  ])
  return row?.id ?? null
}

export async function readCompany({ companyId, db, directory, database }: AdminContext) {
  const isCompany = sql`id = ${companyId}`
  const [[[row]], [[placed]]] = await Promise.all([
    db.read([orm.select(columns).from(companies).where(isCompany)]),
    // Its row refuses tokens.
    directory.read([orm.select({ suspended }).from(companies).where(isCompany)]),
  ])
  return row ? { ...row, ...placed, database } : null
}

export async function updateCompany(context: AdminContext, change: Input<typeof contract.updateCompany>['body']) {
  const { companyId, db, database, now } = context
  const [, [row]] = await db.writeIdempotent([
    adminEntry(context, `companies.update:${Object.keys(change).sort().join()}`, companyId),
    orm
      .update(companies)
      .set({ ...change, updated_at: now })
      .where(sql`id = ${companyId}`)
      .returning(columns),
  ])
  // The directory's row refuses tokens. If this request is interrupted here, its caller must repeat it.
  await syncDirectory(context, Object.keys(change))
  return row ? { ...row, database } : null
}

import { and, eq, ne, type SQL, sql } from 'drizzle-orm'
import type { SqliteRemoteDatabase } from 'drizzle-orm/sqlite-proxy'
import { selectRow } from '../db/columns.ts'
import {
  artworks,
  catalogItems,
  clients,
  companies,
  invoiceItems,
  invoices,
  orderStatuses,
  orders,
  payments,
  taxes,
  threadContexts,
} from '../db/schema.ts'
import { CommandError } from './command.ts'
import type { CommandDatabase, Query } from './database.ts'
import { chunkJson, insertAbsent, insertOrReplace } from './load-rows.ts'
import { planIntegrations } from './plan-integrations.ts'
import { describeIssues, type SeedFile } from './seed-file.ts'
import { findBadReferences, findDuplicates } from './seed-references.ts'
import { toArtworkRows, toCatalogRow, toClientRow, toInvoiceRows, toOrderRow } from './seed-rows.ts'

type Orm = SqliteRemoteDatabase

/**
 * Loads one company in one transaction. Clients, orders and what hangs on them are inserted only where they are absent,
 * so that nothing is undone that the API changed since; all else, which only a file can change, is set to the file.
 *
 * @param name of the file, for complaints
 * @param keys the deployment's `CREDENTIALS_KEY`; needed only for integrations
 * @returns what the file holds, in one line
 * @throws CommandError, having changed nothing, when the file contradicts itself or the database
 */
export async function loadSeed(
  database: CommandDatabase,
  file: SeedFile,
  name: string,
  keys: string | null,
  now: number,
): Promise<string> {
  const issues = findDuplicates(file)
  if (issues.length === 0) issues.push(...(await findBadReferences(database.orm, file)))
  if (issues.length > 0) throw new CommandError(describeIssues(name, issues))

  const queries = await planSeed(database.orm, file, keys, now)
  await database.write(queries).catch((error: unknown) => {
    throw explainConflict(error, name) ?? error
  })
  return summarize(file)
}

async function planSeed(orm: Orm, file: SeedFile, keys: string | null, now: number): Promise<Query[]> {
  const companyId = file.company.id
  return [
    ...planCompany(orm, file.company, now),
    ...planStatuses(orm, file),
    ...insertOrReplace(
      orm,
      taxes,
      [taxes.company_id, taxes.id],
      file.taxes.map(({ tax_code_id, ...tax }) => ({
        company_id: companyId,
        ...tax,
        accounting_tax_code_id: tax_code_id,
      })),
    ),
    ...insertAbsent(
      orm,
      clients,
      [clients.company_id, clients.id],
      file.clients.map((client) => toClientRow(companyId, client, now)),
    ),
    ...(await planOrders(orm, file, now)),
    ...insertOrReplace(
      orm,
      catalogItems,
      [catalogItems.company_id, catalogItems.id],
      file.catalog_items.map((item) => toCatalogRow(companyId, item)),
    ),
    ...(await planThreadContexts(orm, file, now)),
    ...(await planIntegrations(orm, companyId, file.integrations, keys, now)),
  ]
}

function planCompany(orm: Orm, company: SeedFile['company'], now: number): Query[] {
  const { id, name } = company
  const { accounting_sync_enabled: accountingSyncEnabled, suspended, mail_quota_bytes: mailQuotaBytes } = company
  const values = { name, accountingSyncEnabled, suspended, mailQuotaBytes }
  const differs = sql`(${companies.name} <> ${name} OR ${companies.accounting_sync_enabled} <> ${sql.param(accountingSyncEnabled, companies.accounting_sync_enabled)} OR ${companies.suspended} <> ${sql.param(suspended, companies.suspended)} OR ${companies.mail_quota_bytes} <> ${mailQuotaBytes})`
  return [
    orm
      .update(companies)
      .set({ ...values, updated_at: now })
      .where(and(eq(companies.id, id), differs)),
    orm.insert(companies).select(
      selectRow(
        companies,
        {
          id,
          slot: sql`coalesce(max(slot) + 1, 0)`,
          name,
          accounting_sync_enabled: sql.param(accountingSyncEnabled, companies.accounting_sync_enabled).getSQL(),
          suspended: sql.param(suspended, companies.suspended).getSQL(),
          mail_quota_bytes: mailQuotaBytes,
          created_at: now,
          updated_at: now,
        },
        sql`FROM ${companies} HAVING NOT EXISTS (SELECT 1 FROM ${companies} WHERE id = ${id})`,
      ),
    ),
  ]
}

function planStatuses(orm: Orm, file: SeedFile): Query[] {
  const companyId = file.company.id
  const rows = file.order_statuses.map((status, index) => ({
    company_id: companyId,
    id: status.id,
    title: status.title,
    color: status.color,
    workflow_key: status.workflow_key,
    position: status.position ?? index + 1,
    is_default: status.is_default,
    deleted: status.deleted,
  }))
  const chosen = rows.find((row) => row.is_default)
  const ofOthers =
    chosen &&
    and(eq(orderStatuses.company_id, companyId), ne(orderStatuses.id, chosen.id), eq(orderStatuses.is_default, true))
  return [
    ...(ofOthers ? [orm.update(orderStatuses).set({ is_default: false }).where(ofOthers)] : []),
    ...insertOrReplace(orm, orderStatuses, [orderStatuses.company_id, orderStatuses.id], rows),
  ]
}

async function planOrders(orm: Orm, file: SeedFile, now: number): Promise<Query[]> {
  const companyId = file.company.id
  const rows = file.orders.map((order) => toOrderRow(companyId, order, now))
  const numberOf = await startNumbering(orm, file)
  const billed = file.orders.flatMap(({ invoice }, index) => {
    const row = rows[index]
    return invoice && row ? [toInvoiceRows(row, invoice, invoice.number ?? numberOf())] : []
  })
  return [
    ...insertAbsent(orm, orders, [orders.company_id, orders.id], rows),
    ...insertAbsent(
      orm,
      artworks,
      [artworks.company_id, artworks.id],
      file.orders.flatMap((order) => toArtworkRows(companyId, order)),
    ),
    ...insertAbsent(
      orm,
      invoices,
      [invoices.company_id, invoices.id],
      billed.map(({ invoice }) => invoice),
    ),
    ...insertAbsent(
      orm,
      invoiceItems,
      [invoiceItems.company_id, invoiceItems.id],
      billed.flatMap(({ items }) => items),
    ),
    ...insertAbsent(
      orm,
      payments,
      [payments.company_id, payments.id],
      billed.flatMap((rows) => rows.payments),
    ),
  ]
}

/** Numbers for invoices that bring none: beyond the company's last and the file's highest. */
async function startNumbering(orm: Orm, file: SeedFile): Promise<() => string> {
  if (!file.orders.some(({ invoice }) => invoice && invoice.number === undefined)) return () => ''
  const [company] = await orm
    .select({ last: companies.last_invoice_number })
    .from(companies)
    .where(eq(companies.id, file.company.id))
  let last = company?.last ?? 1000
  for (const { invoice } of file.orders) {
    if (invoice?.number !== undefined && /^\d{1,15}$/.test(invoice.number))
      last = Math.max(last, Number(invoice.number))
  }
  return () => {
    last += 1
    return String(last)
  }
}

/** Times left out: now when the context is new, else as they are, and `updated_at` now when anything else differs. */
async function planThreadContexts(orm: Orm, file: SeedFile, now: number): Promise<Query[]> {
  const companyId = file.company.id
  const ids = file.thread_contexts.map((context) => context.thread_id)
  const stored = new Map<string, typeof threadContexts.$inferSelect>()
  for (const chunk of chunkJson(ids)) {
    const isAsked = and(eq(threadContexts.company_id, companyId), isIn(threadContexts.thread_id.getSQL(), chunk))
    for (const row of await orm.select().from(threadContexts).where(isAsked)) stored.set(row.thread_id, row)
  }
  const json = (value: unknown) => (value === undefined || value === null ? null : JSON.stringify(value))
  const rows = file.thread_contexts.map((context) => {
    const before = stored.get(context.thread_id)
    const row = {
      company_id: companyId,
      thread_id: context.thread_id,
      legacy_thread_id: context.legacy_thread_id,
      sender_email: context.sender_email,
      client_id: context.client_id,
      client_data: json(context.client_data),
      clients_data: json(context.clients_data),
      orders_data: json(context.orders_data),
      selected_order_id: context.selected_order_id,
      participant_emails: json(context.participant_emails),
      participants_data: json(context.participants_data),
      fetched_at: context.fetched_at ?? before?.fetched_at ?? now,
    }
    const isSame = before && JSON.stringify({ ...row, updated_at: before.updated_at }) === JSON.stringify(before)
    return { ...row, updated_at: context.updated_at ?? (isSame ? before.updated_at : now) }
  })
  return insertOrReplace(orm, threadContexts, [threadContexts.company_id, threadContexts.thread_id], rows)
}

function isIn(column: SQL, chunk: string): SQL {
  return sql`${column} IN (SELECT value FROM json_each(${chunk}))`
}

/** What the database refuses and a check before could not see. */
function explainConflict(error: unknown, name: string): CommandError | null {
  const message = error instanceof Error ? error.message : ''
  const [, what] = /UNIQUE constraint failed: invoices\.company_id, invoices\.(number|project_id)/.exec(message) ?? []
  if (what === 'number') {
    return new CommandError(`${name}: an invoice number is already that of another invoice in the database.`)
  }
  if (what === 'project_id') return new CommandError(`${name}: an order already has another invoice in the database.`)
  if (message.includes('companies_slot'))
    return new CommandError(`${name}: the database is full: it takes 1,024 companies.`)
  return null
}

function summarize(file: SeedFile): string {
  const invoiceList = file.orders.flatMap(({ invoice }) => (invoice ? [invoice] : []))
  const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0)
  const parts: [number, string, string][] = [
    [file.order_statuses.length, 'status', 'statuses'],
    [file.taxes.length, 'tax', 'taxes'],
    [file.clients.length, 'client', 'clients'],
    [file.orders.length, 'order', 'orders'],
    [invoiceList.length, 'invoice', 'invoices'],
    [sum(invoiceList.map(({ items }) => items.length)), 'line', 'lines'],
    [sum(invoiceList.map((invoice) => invoice.payments.length)), 'payment', 'payments'],
    [sum(file.orders.map((order) => order.artworks.length)), 'artwork', 'artworks'],
    [file.catalog_items.length, 'catalogue item', 'catalogue items'],
    [file.thread_contexts.length, 'thread context', 'thread contexts'],
    [Object.values(file.integrations).filter(Boolean).length, 'integration', 'integrations'],
  ]
  const list = parts.filter(([count]) => count > 0).map(([count, one, many]) => `${count} ${count === 1 ? one : many}`)
  return `Loaded company ${file.company.id} (${file.company.name})${list.length > 0 ? `: ${list.join(', ')}` : ''}.`
}

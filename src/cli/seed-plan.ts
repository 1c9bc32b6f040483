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
      [taxes.companyId, taxes.id],
      file.taxes.map(({ tax_code_id: accountingTaxCodeId, ...tax }) => ({ companyId, ...tax, accountingTaxCodeId })),
    ),
    ...insertAbsent(
      orm,
      clients,
      [clients.companyId, clients.id],
      file.clients.map((client) => toClientRow(companyId, client, now)),
    ),
    ...(await planOrders(orm, file, now)),
    ...insertOrReplace(
      orm,
      catalogItems,
      [catalogItems.companyId, catalogItems.id],
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
  const differs = sql`(${companies.name} <> ${name} OR ${companies.accountingSyncEnabled} <> ${sql.param(accountingSyncEnabled, companies.accountingSyncEnabled)} OR ${companies.suspended} <> ${sql.param(suspended, companies.suspended)} OR ${companies.mailQuotaBytes} <> ${mailQuotaBytes})`
  return [
    orm
      .update(companies)
      .set({ ...values, updatedAt: now })
      .where(and(eq(companies.id, id), differs)),
    orm.insert(companies).select(
      selectRow(
        companies,
        {
          id,
          slot: sql`coalesce(max(slot) + 1, 0)`,
          name,
          accountingSyncEnabled: sql.param(accountingSyncEnabled, companies.accountingSyncEnabled).getSQL(),
          suspended: sql.param(suspended, companies.suspended).getSQL(),
          mailQuotaBytes,
          createdAt: now,
          updatedAt: now,
        },
        sql`FROM ${companies} HAVING NOT EXISTS (SELECT 1 FROM ${companies} WHERE id = ${id})`,
      ),
    ),
  ]
}

function planStatuses(orm: Orm, file: SeedFile): Query[] {
  const companyId = file.company.id
  const rows = file.order_statuses.map((status, index) => ({
    companyId,
    id: status.id,
    title: status.title,
    color: status.color,
    workflowKey: status.workflow_key,
    position: status.position ?? index + 1,
    isDefault: status.is_default,
    deleted: status.deleted,
  }))
  const chosen = rows.find((row) => row.isDefault)
  const ofOthers =
    chosen &&
    and(eq(orderStatuses.companyId, companyId), ne(orderStatuses.id, chosen.id), eq(orderStatuses.isDefault, true))
  return [
    ...(ofOthers ? [orm.update(orderStatuses).set({ isDefault: false }).where(ofOthers)] : []),
    ...insertOrReplace(orm, orderStatuses, [orderStatuses.companyId, orderStatuses.id], rows),
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
    ...insertAbsent(orm, orders, [orders.companyId, orders.id], rows),
    ...insertAbsent(
      orm,
      artworks,
      [artworks.companyId, artworks.id],
      file.orders.flatMap((order) => toArtworkRows(companyId, order)),
    ),
    ...insertAbsent(
      orm,
      invoices,
      [invoices.companyId, invoices.id],
      billed.map(({ invoice }) => invoice),
    ),
    ...insertAbsent(
      orm,
      invoiceItems,
      [invoiceItems.companyId, invoiceItems.id],
      billed.flatMap(({ items }) => items),
    ),
    ...insertAbsent(
      orm,
      payments,
      [payments.companyId, payments.id],
      billed.flatMap((rows) => rows.payments),
    ),
  ]
}

/** Numbers for invoices that bring none: beyond the company's last and the file's highest. */
async function startNumbering(orm: Orm, file: SeedFile): Promise<() => string> {
  if (!file.orders.some(({ invoice }) => invoice && invoice.number === undefined)) return () => ''
  const [company] = await orm
    .select({ last: companies.lastInvoiceNumber })
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
    const isAsked = and(eq(threadContexts.companyId, companyId), isIn(threadContexts.threadId.getSQL(), chunk))
    for (const row of await orm.select().from(threadContexts).where(isAsked)) stored.set(row.threadId, row)
  }
  const json = (value: unknown) => (value === undefined || value === null ? null : JSON.stringify(value))
  const rows = file.thread_contexts.map((context) => {
    const before = stored.get(context.thread_id)
    const row = {
      companyId,
      threadId: context.thread_id,
      legacyThreadId: context.legacy_thread_id,
      senderEmail: context.sender_email,
      clientId: context.client_id,
      clientData: json(context.client_data),
      clientsData: json(context.clients_data),
      ordersData: json(context.orders_data),
      selectedOrderId: context.selected_order_id,
      participantEmails: json(context.participant_emails),
      participantsData: json(context.participants_data),
      fetchedAt: context.fetched_at ?? before?.fetchedAt ?? now,
    }
    const isSame = before && JSON.stringify({ ...row, updatedAt: before.updatedAt }) === JSON.stringify(before)
    return { ...row, updatedAt: context.updated_at ?? (isSame ? before.updatedAt : now) }
  })
  return insertOrReplace(orm, threadContexts, [threadContexts.companyId, threadContexts.threadId], rows)
}

function isIn(column: SQL, chunk: string): SQL {
  return sql`${column} IN (SELECT value FROM json_each(${chunk}))`
}

/** What the database refuses and a check before could not see. */
function explainConflict(error: unknown, name: string): CommandError | null {
  const message = error instanceof Error ? error.message : ''
  const [, what] = /UNIQUE constraint failed: invoices\.company_id, invoices\.(number|order_id)/.exec(message) ?? []
  if (what === 'number') {
    return new CommandError(`${name}: an invoice number is already that of another invoice in the database.`)
  }
  if (what === 'order_id') return new CommandError(`${name}: an order already has another invoice in the database.`)
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

import { and, eq, getTableColumns, gt, inArray, type SQL, sql } from 'drizzle-orm'
import type { SQLiteColumn } from 'drizzle-orm/sqlite-core'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm } from '../../../kernel/db/client.ts'
import { objectOfThread } from '../../../kernel/db/columns.ts'
import type { CompanyContext } from '../../../kernel/db/context.ts'
import {
  artworks,
  catalogItems,
  clients,
  companies,
  emailThreads,
  integrations,
  invoiceItems,
  invoices,
  orderStatuses,
  orders,
  payments,
  taxes,
  threadContexts,
} from '../../../kernel/db/schema.ts'
import type { AdminContext } from '../context.ts'

/** Limits a page to this many rows and estimated bytes. A larger row gets a page of its own. */
const PAGE_ROWS = 200
const PAGE_BYTES = 500_000

/** Records the start of an export in the audit log. */
export async function recordExport(context: AdminContext): Promise<void> {
  await context.directory.write([adminEntry(context, 'companies.export', context.companyId)])
}

export async function readCompany({ companyId, db }: CompanyContext) {
  const [[company]] = await db.read([orm.select().from(companies).where(eq(companies.id, companyId))])
  return company
}

export async function listIntegrations({ companyId, db }: CompanyContext) {
  const { kind, enabled, base_url, settings } = integrations
  const [rows] = await db.read([
    orm
      .select({ kind, enabled, base_url, settings })
      .from(integrations)
      .where(eq(integrations.company_id, companyId))
      .orderBy(kind),
  ])
  return rows
}

const NUMBERED = { clients, taxes, order_statuses: orderStatuses, catalog_items: catalogItems }
type Numbered = typeof NUMBERED

/** Lists one page of a table's rows after an id, by id. */
export async function listRows<Name extends keyof Numbered>(
  { companyId, db }: CompanyContext,
  name: Name,
  after: number,
): Promise<Numbered[Name]['$inferSelect'][]> {
  const table: Numbered[keyof Numbered] = NUMBERED[name]
  const isNext = and(eq(table.company_id, companyId), gt(table.id, after))
  const [rows] = await db.read([orm.select().from(table).where(isNext).orderBy(table.id).limit(PAGE_ROWS)])
  return rows as Numbered[Name]['$inferSelect'][]
}

/** Lists one page of thread contexts after a thread id, by thread id. */
export async function listContexts({ companyId, db }: CompanyContext, after: string) {
  const { thread_id, client_data, clients_data, orders_data, participants_data } = threadContexts
  const bytes = bytesOf(client_data, clients_data, orders_data, participants_data)
  const page = sql`SELECT ${thread_id} AS key, ${bytes} AS bytes FROM ${threadContexts}
    WHERE company_id = ${companyId} AND thread_id > ${after} ORDER BY thread_id LIMIT ${PAGE_ROWS}`
  const [rows] = await db.read([
    orm
      .select()
      .from(threadContexts)
      .where(sql`company_id = ${companyId} AND thread_id IN (${firstBytes(page)})`)
      .orderBy(thread_id),
  ])
  return rows
}

/** Lists one page of orders after an id, with their invoices, lines and payments. */
export async function listOrders({ companyId, db }: CompanyContext, after: number) {
  const ofOrder = sql`SELECT sum(300 + ${bytesOf(invoiceItems.description)}) FROM ${invoices} JOIN ${invoiceItems}
      ON ${invoiceItems.company_id} = ${invoices.company_id} AND ${invoiceItems.invoice_id} = ${invoices.id}
    WHERE ${invoices.company_id} = ${companyId} AND ${invoices.project_id} = ${orders.id}`
  const bytes = sql`1000 + ${bytesOf(orders.description, orders.client_notes)} + coalesce((${ofOrder}), 0)`
  const page = sql`SELECT ${orders.id} AS key, ${bytes} AS bytes FROM ${orders}
    WHERE ${orders.company_id} = ${companyId} AND ${orders.id} > ${after} ORDER BY ${orders.id} LIMIT ${PAGE_ROWS}`
  const [keys] = await db.read([orm.select({ id: sql<number>`key` }).from(sql`(${firstBytes(page)})`)])
  if (keys.length === 0) return []

  const ids = sql`(SELECT value FROM json_each(${JSON.stringify(keys.map(({ id }) => id))}))`
  const invoiceIds = sql`(SELECT id FROM invoices WHERE company_id = ${companyId} AND project_id IN ${ids})`
  const [found, itsInvoices, items, itsPayments, itsArtworks] = await db.read([
    orm
      .select()
      .from(orders)
      .where(and(eq(orders.company_id, companyId), inArray(orders.id, ids)))
      .orderBy(orders.id),
    orm
      .select()
      .from(invoices)
      .where(and(eq(invoices.company_id, companyId), inArray(invoices.project_id, ids))),
    orm
      .select()
      .from(invoiceItems)
      .where(and(eq(invoiceItems.company_id, companyId), inArray(invoiceItems.invoice_id, invoiceIds)))
      .orderBy(invoiceItems.invoice_id, invoiceItems.position, invoiceItems.id),
    orm
      .select()
      .from(payments)
      .where(and(eq(payments.company_id, companyId), inArray(payments.invoice_id, invoiceIds)))
      .orderBy(payments.invoice_id, payments.id),
    orm
      .select()
      .from(artworks)
      .where(and(eq(artworks.company_id, companyId), inArray(artworks.project_id, ids)))
      .orderBy(artworks.project_id, artworks.id),
  ])
  const [ofOrders, itemsOf, paymentsOf, artworksOf] = [
    Map.groupBy(itsInvoices, ({ project_id }) => project_id),
    Map.groupBy(items, ({ invoice_id }) => invoice_id),
    Map.groupBy(itsPayments, ({ invoice_id }) => invoice_id),
    Map.groupBy(itsArtworks, ({ project_id }) => project_id),
  ]
  return found.map((order) => {
    const [invoice] = ofOrders.get(order.id) ?? []
    return {
      order,
      artworks: artworksOf.get(order.id) ?? [],
      invoice: invoice && {
        ...invoice,
        items: itemsOf.get(invoice.id) ?? [],
        payments: paymentsOf.get(invoice.id) ?? [],
      },
    }
  })
}

export type OrderWithParts = Awaited<ReturnType<typeof listOrders>>[number]

/** Sums the bytes of texts. */
function bytesOf(...columns: SQLiteColumn[]): SQL {
  return sql.join(
    columns.map((column) => sql`octet_length(coalesce(${column}, ''))`),
    sql` + `,
  )
}

/** Selects the first keys of a page, up to the page's limit of bytes. @param page selects `key` and `bytes` */
function firstBytes(page: SQL): SQL {
  const running = sql`SELECT key, sum(bytes) OVER (ORDER BY key) - bytes AS before FROM (${page})`
  return sql`SELECT key FROM (${running}) WHERE before < ${PAGE_BYTES}`
}

/** Limits a page to this many threads and stored bytes. Only a larger thread exceeds it. */
const PAGE_THREADS = 100
const THREAD_BYTES = 1_000_000

/** Identifies a thread within its company, in the order of an export. */
export type ThreadPlace = readonly [legacyThreadId: string, accountEmail: string]

/** Lists one page of threads after another. */
export async function listThreads({ companyId, db }: CompanyContext, [legacyThreadId, accountEmail]: ThreadPlace) {
  const { legacy_thread_id, account_email } = emailThreads
  const isOf = sql`company_id = ${companyId}`
  const page = sql`SELECT id, legacy_thread_id, account_email, text_bytes AS bytes
    FROM ${emailThreads} WHERE ${isOf} AND (legacy_thread_id, account_email) > (${legacyThreadId}, ${accountEmail})
    ORDER BY legacy_thread_id, account_email LIMIT ${PAGE_THREADS}`
  const running = sql`SELECT id, sum(bytes) OVER (ORDER BY legacy_thread_id, account_email) AS total,
    row_number() OVER (ORDER BY legacy_thread_id, account_email) AS number FROM (${page})`
  const [rows] = await db.read([
    orm
      .select({ ...getTableColumns(emailThreads), object: objectOfThread.as('object') })
      .from(emailThreads)
      .where(sql`${isOf} AND id IN (SELECT id FROM (${running}) WHERE number = 1 OR total <= ${THREAD_BYTES})`)
      .orderBy(legacy_thread_id, account_email),
  ])
  return rows
}

export type ExportedThread = Awaited<ReturnType<typeof listThreads>>[number]

import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { SqliteRemoteDatabase } from 'drizzle-orm/sqlite-proxy'
import { clients, companies, invoices, orderStatuses, taxes } from '../db/schema.ts'
import { chunkJson } from './load-rows.ts'
import type { SeedFile, SeedIssue } from './seed-file.ts'

type Path = readonly PropertyKey[]

/** What the file says twice. */
export function findDuplicates(file: SeedFile): SeedIssue[] {
  const issues: SeedIssue[] = []
  const seen = new Map<string, Set<unknown>>()

  function note(list: string, value: unknown, path: Path): void {
    const values = seen.get(list) ?? new Set()
    seen.set(list, values)
    if (values.has(value)) issues.push({ path, message: `${String(path.at(-1))} ${String(value)} is given twice` })
    values.add(value)
  }

  for (const list of ['order_statuses', 'taxes', 'clients', 'orders', 'catalog_items'] as const) {
    file[list].forEach(({ id }, index) => {
      note(list, id, [list, index, 'id'])
    })
  }
  file.orders.forEach(({ invoice, artworks }, index) => {
    const path = ['orders', index]
    artworks.forEach(({ id }, at) => {
      note('artworks', id, [...path, 'artworks', at, 'id'])
    })
    if (!invoice) return
    note('invoices', invoice.id, [...path, 'invoice', 'id'])
    if (invoice.number !== undefined) note('numbers', invoice.number, [...path, 'invoice', 'number'])
    invoice.items.forEach(({ id }, at) => {
      note('items', id, [...path, 'invoice', 'items', at, 'id'])
    })
    invoice.payments.forEach(({ id }, at) => {
      note('payments', id, [...path, 'invoice', 'payments', at, 'id'])
    })
  })
  file.thread_contexts.forEach(({ thread_id }, index) => {
    note('thread_contexts', thread_id, ['thread_contexts', index, 'thread_id'])
  })
  const defaults = file.order_statuses.findLastIndex((status) => status.is_default)
  if (file.order_statuses.filter((status) => status.is_default).length > 1) {
    issues.push({ path: ['order_statuses', defaults, 'is_default'], message: 'only one status can be the default' })
  }
  return issues
}

interface Reference {
  id: number
  path: Path
}

/** References to a client, status or tax that neither the file nor the company in the database has. */
export async function findBadReferences(orm: SqliteRemoteDatabase, file: SeedFile): Promise<SeedIssue[]> {
  const companyId = file.company.id
  const references: Record<'client' | 'status' | 'tax', Reference[]> = { client: [], status: [], tax: [] }
  file.orders.forEach((order, index) => {
    references.client.push({ id: order.client_id, path: ['orders', index, 'client_id'] })
    if (order.order_status_id !== null) {
      references.status.push({ id: order.order_status_id, path: ['orders', index, 'order_status_id'] })
    }
    if (order.invoice?.tax_id)
      references.tax.push({ id: order.invoice.tax_id, path: ['orders', index, 'invoice', 'tax_id'] })
  })
  const [company] = await orm.select({ id: companies.id }).from(companies).where(eq(companies.id, companyId))

  const lists = [
    { what: 'client', known: file.clients, table: clients, asked: references.client },
    { what: 'order status', known: file.order_statuses, table: orderStatuses, asked: references.status },
    { what: 'tax', known: file.taxes, table: taxes, asked: references.tax },
  ] as const
  const issues: SeedIssue[] = []
  for (const { what, known, table, asked } of lists) {
    const ids = new Set(known.map(({ id }) => id))
    const open = new Set(asked.map(({ id }) => id).filter((id) => !ids.has(id)))
    for (const chunk of company ? chunkJson(open) : []) {
      const rows = await orm
        .select({ id: table.id })
        .from(table)
        .where(and(eq(table.company_id, companyId), sql`${table.id} IN ${listed(chunk)}`))
      for (const { id } of rows) ids.add(id)
    }
    for (const { id, path } of asked) {
      if (!ids.has(id)) issues.push({ path, message: `there is no ${what} ${id}, in the file or in the database` })
    }
  }
  return issues.concat(company ? await findForeignInvoices(orm, file) : [])
}

/** Invoices whose id belongs to another order already: their lines must not end up there. */
async function findForeignInvoices(orm: SqliteRemoteDatabase, file: SeedFile): Promise<SeedIssue[]> {
  const places = new Map(
    file.orders.flatMap(({ id, invoice }, index) => (invoice ? [[invoice.id, { orderId: id, index }] as const] : [])),
  )
  const issues: SeedIssue[] = []
  for (const chunk of chunkJson(places.keys())) {
    const rows = await orm
      .select({ id: invoices.id, orderId: invoices.project_id })
      .from(invoices)
      .where(and(eq(invoices.company_id, file.company.id), sql`${invoices.id} IN ${listed(chunk)}`))
    for (const { id, orderId } of rows) {
      const place = places.get(id)
      if (place && place.orderId !== orderId) {
        const message = `invoice ${id} belongs to order ${orderId} in the database`
        issues.push({ path: ['orders', place.index, 'invoice', 'id'], message })
      }
    }
  }
  return issues
}

function listed(chunk: string): SQL {
  return sql`(SELECT value FROM json_each(${chunk}))`
}

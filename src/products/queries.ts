import { and, desc, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import { type Database, orm } from '../db/client.ts'
import { itemColumns } from '../db/columns.ts'
import { catalogItems, integrations, invoiceItems, invoices } from '../db/schema.ts'
import { idOf, inSlot, wordsMatch } from '../db/search.ts'
import type { CatalogItemRow, InvoiceItemRow } from './present.ts'
import type { SupplierName } from './suppliers/supplier.ts'

const FOUND_MAX = 50
const SAMPLE = 20

const NONE = sql`0`

const { enabled, base_url: baseUrl, credentials, updated_at: updatedAt } = getTableColumns(integrations)
const integrationColumns = {
  kind: sql<SupplierName>`${integrations.kind}`.as('supplier'),
  enabled,
  baseUrl,
  credentials,
  updatedAt,
}

interface Company {
  companyId: number
  companySlot: number
}

/** A supplier's integration as it is stored: the credentials are encrypted. */
export interface IntegrationRow {
  kind: SupplierName
  enabled: boolean
  baseUrl: string
  credentials: string
  /** Milliseconds since the epoch; raised by every change of the row. */
  updatedAt: number
}

/**
 * The sources that are wanted of the database, and the company's supplier integrations, in one round trip. A blank `q`
 * filters nothing.
 */
export async function searchOwn(
  db: Database,
  company: Company,
  q: string,
  wanted: { local: boolean; lines: boolean },
): Promise<{ items: CatalogItemRow[]; lines: InvoiceItemRow[]; suppliers: IntegrationRow[] }> {
  const [items, lines, suppliers] = await db.read([
    wanted.local ? findItems(company, q) : orm.select().from(catalogItems).where(NONE),
    wanted.lines ? findLines(company, q) : orm.select(itemColumns).from(invoiceItems).where(NONE),
    supplierIntegrations(company.companyId),
  ])
  return { items, lines, suppliers }
}

function findItems({ companyId, companySlot }: Company, q: string) {
  const match = wordsMatch(q)
  const live = sql`${catalogItems.company_id} = ${companyId} AND ${catalogItems.deleted} = 0`
  if (match === null) {
    return orm.select().from(catalogItems).where(live).orderBy(desc(catalogItems.id)).limit(SAMPLE)
  }
  return orm
    .select(getTableColumns(catalogItems))
    .from(sql`catalog_items_fts`)
    .innerJoin(catalogItems, sql`${catalogItems.id} = ${idOf(sql`catalog_items_fts.rowid`)}`)
    .where(and(hits('catalog_items_fts', match, companySlot), live))
    .orderBy(sql`catalog_items_fts.rowid DESC`)
    .limit(FOUND_MAX)
}

function findLines({ companyId, companySlot }: Company, q: string) {
  const match = wordsMatch(q)
  if (match === null) return orm.select(itemColumns).from(invoiceItems).where(NONE)
  return orm
    .select(itemColumns)
    .from(sql`invoice_items_fts`)
    .innerJoin(invoiceItems, sql`${invoiceItems.id} = ${idOf(sql`invoice_items_fts.rowid`)}`)
    .where(
      and(hits('invoice_items_fts', match, companySlot), sql`${invoiceItems.company_id} = ${companyId} AND ${isLive}`),
    )
    .orderBy(sql`invoice_items_fts.rowid DESC`)
    .limit(FOUND_MAX)
}

export async function findInvoiceItem(db: Database, companyId: number, id: number) {
  const [[row]] = await db.read([
    orm
      .select(itemColumns)
      .from(invoiceItems)
      .where(and(eq(invoiceItems.company_id, companyId), eq(invoiceItems.id, id), isLive)),
  ])
  return row
}

/** A line is gone when it is deleted or its invoice is. */
const isLive = sql`${invoiceItems.deleted} = 0 AND EXISTS (SELECT 1 FROM ${invoices}
  WHERE ${invoices.company_id} = ${invoiceItems.company_id} AND ${invoices.id} = ${invoiceItems.invoice_id} AND ${invoices.deleted} = 0)`

function hits(table: 'catalog_items_fts' | 'invoice_items_fts', match: string, slot: number): SQL {
  const name = sql.raw(table)
  return sql`${name} MATCH ${match} AND ${name}.rowid ${inSlot(slot)}`
}

function supplierIntegrations(companyId: number) {
  return orm
    .select(integrationColumns)
    .from(integrations)
    .where(and(eq(integrations.company_id, companyId), sql`${integrations.kind} IN ('supplier_a', 'supplier_b')`))
}

export async function findIntegration(
  db: Database,
  companyId: number,
  kind: SupplierName,
): Promise<IntegrationRow | undefined> {
  const [[row]] = await db.read([
    orm
      .select(integrationColumns)
      .from(integrations)
      .where(and(eq(integrations.company_id, companyId), eq(integrations.kind, kind))),
  ])
  return row
}

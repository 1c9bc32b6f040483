import { and, desc, eq, getTableColumns, inArray, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { type CompanyContext, orm } from '../db/client.ts'
import { itemColumns } from '../db/columns.ts'
import { catalogItems, integrations, invoiceItems, invoices } from '../db/schema.ts'
import { idOf, inSlot, wordsMatch } from '../db/search.ts'
import { type SupplierName, supplierNames } from './suppliers/registry.ts'

const MAX_FOUND = 50
/** How many of the newest items a blank search lists. */
const NEWEST = 20

const NOTHING = sql`0`

/** A supplier's integration as it is stored: the credentials are encrypted, and every change raises `updated_at`. */
export type Integration = typeof integrations.$inferSelect

/** A line is hidden when it is deleted or its invoice is. */
const isVisibleLine = sql`${invoiceItems.deleted} = 0 AND EXISTS (SELECT 1 FROM ${invoices}
  WHERE ${invoices.company_id} = ${invoiceItems.company_id} AND ${invoices.id} = ${invoiceItems.invoice_id} AND ${invoices.deleted} = 0)`

/** The wanted sources of the database, and the integrations of the company's suppliers, in one round trip. */
export async function searchOwn(context: RequestContext, q: string, wanted: { local: boolean; lines: boolean }) {
  const { companyId, db } = context
  const [items, lines, supplierIntegrations] = await db.read([
    wanted.local ? findItems(context, q) : orm.select().from(catalogItems).where(NOTHING),
    wanted.lines ? findLines(context, q) : orm.select(itemColumns).from(invoiceItems).where(NOTHING),
    orm
      .select()
      .from(integrations)
      .where(and(eq(integrations.company_id, companyId), inArray(integrations.kind, supplierNames))),
  ])
  return { items, lines, integrations: supplierIntegrations }
}

function findItems({ companyId, token }: RequestContext, q: string) {
  const match = wordsMatch(q)
  const isVisible = sql`${catalogItems.company_id} = ${companyId} AND ${catalogItems.deleted} = 0`
  if (match === null) {
    return orm.select().from(catalogItems).where(isVisible).orderBy(desc(catalogItems.id)).limit(NEWEST)
  }
  return orm
    .select(getTableColumns(catalogItems))
    .from(sql`catalog_items_fts`)
    .innerJoin(catalogItems, sql`${catalogItems.id} = ${idOf(sql`catalog_items_fts.rowid`)}`)
    .where(and(isHit('catalog_items_fts', match, token.companySlot), isVisible))
    .orderBy(sql`catalog_items_fts.rowid DESC`)
    .limit(MAX_FOUND)
}

function findLines({ companyId, token }: RequestContext, q: string) {
  const match = wordsMatch(q)
  if (match === null) return orm.select(itemColumns).from(invoiceItems).where(NOTHING)
  const isVisible = sql`${invoiceItems.company_id} = ${companyId} AND ${isVisibleLine}`
  return orm
    .select(itemColumns)
    .from(sql`invoice_items_fts`)
    .innerJoin(invoiceItems, sql`${invoiceItems.id} = ${idOf(sql`invoice_items_fts.rowid`)}`)
    .where(and(isHit('invoice_items_fts', match, token.companySlot), isVisible))
    .orderBy(sql`invoice_items_fts.rowid DESC`)
    .limit(MAX_FOUND)
}

function isHit(index: 'catalog_items_fts' | 'invoice_items_fts', match: string, slot: number): SQL {
  const name = sql.raw(index)
  return sql`${name} MATCH ${match} AND ${name}.rowid ${inSlot(slot)}`
}

export async function findInvoiceItem({ db, companyId }: CompanyContext, id: number) {
  const isItem = and(eq(invoiceItems.company_id, companyId), eq(invoiceItems.id, id), isVisibleLine)
  const [[row]] = await db.read([orm.select(itemColumns).from(invoiceItems).where(isItem)])
  return row
}

export async function findIntegration({ db, companyId }: CompanyContext, kind: SupplierName) {
  const isIntegration = and(eq(integrations.company_id, companyId), eq(integrations.kind, kind))
  const [[row]] = await db.read([orm.select().from(integrations).where(isIntegration)])
  return row
}

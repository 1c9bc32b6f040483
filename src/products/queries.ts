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

/** A supplier's integration, its credentials encrypted; every change raises `updated_at`. */
export type Integration = typeof integrations.$inferSelect

/** A line is hidden when it is deleted or its invoice is. */
const isVisibleLineOf = (companyId: number) => sql`${invoiceItems.company_id} = ${companyId}
  AND ${invoiceItems.deleted} = 0 AND EXISTS (SELECT 1 FROM ${invoices}
  WHERE ${invoices.company_id} = ${invoiceItems.company_id} AND ${invoices.id} = ${invoiceItems.invoice_id} AND ${invoices.deleted} = 0)`

/** The requested sources of the database, and the integrations of the company's suppliers, in one round trip. */
export async function searchOwn(context: RequestContext, q: string, isWanted: (source: 'local' | 'lines') => boolean) {
  const match = wordsMatch(q)
  const linesMatch = isWanted('lines') ? match : null
  const [items, lines, integrations] = await context.db.read([
    isWanted('local') ? findItems(context, match) : orm.select().from(catalogItems).where(NOTHING),
    linesMatch ? findLines(context, linesMatch) : orm.select(itemColumns).from(invoiceItems).where(NOTHING),
    selectIntegrations(context, supplierNames),
  ])
  return { items, lines, integrations }
}

/** The newest items where there is nothing to match. */
function findItems({ companyId, token }: RequestContext, match: string | null) {
  const isVisible = sql`${catalogItems.company_id} = ${companyId} AND ${catalogItems.deleted} = 0`
  if (match === null) {
    return orm.select().from(catalogItems).where(isVisible).orderBy(desc(catalogItems.id)).limit(NEWEST)
  }
  return orm
    .select(getTableColumns(catalogItems))
    .from(sql`catalog_items_fts`)
    .innerJoin(catalogItems, sql`${catalogItems.id} = ${idOf(sql`catalog_items_fts.rowid`)}`)
    .where(and(isHit(sql`catalog_items_fts`, match, token.companySlot), isVisible))
    .orderBy(sql`catalog_items_fts.rowid DESC`)
    .limit(MAX_FOUND)
}

function findLines({ companyId, token }: RequestContext, match: string) {
  return orm
    .select(itemColumns)
    .from(sql`invoice_items_fts`)
    .innerJoin(invoiceItems, sql`${invoiceItems.id} = ${idOf(sql`invoice_items_fts.rowid`)}`)
    .where(and(isHit(sql`invoice_items_fts`, match, token.companySlot), isVisibleLineOf(companyId)))
    .orderBy(sql`invoice_items_fts.rowid DESC`)
    .limit(MAX_FOUND)
}

function isHit(index: SQL, match: string, slot: number): SQL {
  return sql`${index} MATCH ${match} AND ${index}.rowid ${inSlot(slot)}`
}

export async function findInvoiceItem({ db, companyId }: CompanyContext, id: number) {
  const isItem = and(eq(invoiceItems.id, id), isVisibleLineOf(companyId))
  const [[row]] = await db.read([orm.select(itemColumns).from(invoiceItems).where(isItem)])
  return row
}

export async function findIntegration(context: CompanyContext, kind: SupplierName) {
  const [[row]] = await context.db.read([selectIntegrations(context, [kind])])
  return row
}

function selectIntegrations({ companyId }: CompanyContext, kinds: SupplierName[]) {
  const isWanted = and(eq(integrations.company_id, companyId), inArray(integrations.kind, kinds))
  return orm.select().from(integrations).where(isWanted)
}

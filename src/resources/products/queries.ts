import { and, desc, eq, getTableColumns, inArray, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { OWN_SLOT, orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { COLUMNS } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { catalogItems, integrations, invoiceItems, invoices } from '../../kernel/db/schema.ts'
import { idOf, inSlot, wordsSearch } from '../../kernel/db/search.ts'
import { type SupplierName, suppliers } from './contract.ts'

const { invoice_items: lineColumns } = COLUMNS

const MAX_FOUND = 50
const NEWEST = 20
const NOTHING = sql`0`
const KINDS = Object.values(suppliers).map(({ name }) => name)

/** A supplier's integration with encrypted credentials; every change raises `updated_at`. */
export type Integration = typeof integrations.$inferSelect

/** A line is hidden when its invoice is deleted. */
const isVisibleLineOf = (companyId: number | Placeholder) =>
  sql`${invoiceItems.company_id} = ${companyId} AND EXISTS (SELECT 1 FROM ${invoices}
  WHERE ${invoices.company_id} = ${invoiceItems.company_id} AND ${invoices.id} = ${invoiceItems.invoice_id} AND ${invoices.deleted} = 0)`

/** Reads the requested sources of the database, and the integrations of the company's suppliers, in one round trip. */
export async function searchOwn(context: RequestContext, q: string, isWanted: (source: 'local' | 'lines') => boolean) {
  const words = wordsSearch(q)
  const { companyId } = context
  const search = words && { companyId, slot: OWN_SLOT, ...words }
  const newest = orm.select().from(catalogItems).where(isVisibleItemOf(companyId)).orderBy(desc(catalogItems.id))
  const items = search ? matchingItems(search) : newest.limit(NEWEST)
  const [local, lines, integrations] = await context.db.read([
    isWanted('local') ? items : orm.select().from(catalogItems).where(NOTHING),
    isWanted('lines') && search ? matchingLines(search) : orm.select(lineColumns).from(invoiceItems).where(NOTHING),
    selectIntegrations(context, KINDS),
  ])
  return { items: local, lines, integrations }
}

const isVisibleItemOf = (companyId: number | Placeholder) =>
  sql`${catalogItems.company_id} = ${companyId} AND ${catalogItems.deleted} = 0`

type Search = Placeholders<'companyId' | 'slot' | 'match', 'compared'>

const matchingItems = prepare((p: Search) =>
  orm
    .select(getTableColumns(catalogItems))
    .from(sql`catalog_items_fts`)
    .innerJoin(catalogItems, sql`${catalogItems.id} = ${idOf(sql`catalog_items_fts.rowid`)}`)
    .where(and(isHit(sql`catalog_items_fts`, sql`${catalogItems.search_text}`, p), isVisibleItemOf(p.companyId)))
    .orderBy(sql`catalog_items_fts.rowid DESC`)
    .limit(MAX_FOUND),
)

const matchingLines = prepare((p: Search) =>
  orm
    .select(lineColumns)
    .from(sql`invoice_items_fts`)
    .innerJoin(invoiceItems, sql`${invoiceItems.id} = ${idOf(sql`invoice_items_fts.rowid`)}`)
    .where(and(isHit(sql`invoice_items_fts`, sql`${invoiceItems.search_text}`, p), isVisibleLineOf(p.companyId)))
    .orderBy(sql`invoice_items_fts.rowid DESC`)
    .limit(MAX_FOUND),
)

function isHit(index: SQL, text: SQL, { match, slot, compared }: Search): SQL {
  const lacks = sql`EXISTS (SELECT 1 FROM json_each(${compared}) WHERE instr(${text}, value) = 0)`
  return sql`${index} MATCH ${match} AND ${index}.rowid ${inSlot(slot)} ${compared ? sql`AND NOT ${lacks}` : sql``}`
}

export async function findInvoiceItem({ db, companyId }: CompanyContext, id: number) {
  const isItem = and(eq(invoiceItems.id, id), isVisibleLineOf(companyId))
  const [[row]] = await db.read([orm.select(lineColumns).from(invoiceItems).where(isItem)])
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

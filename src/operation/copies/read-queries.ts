import { type SQL, sql } from 'drizzle-orm'
import { type Database, statement } from '../../kernel/db/client.ts'
import { columnsOf, named } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { CONTENT, DIRECTORY_TABLES, type Key, type Row, type TablePlan, UNITS } from './tables.ts'

// The reader of all copies: a page of a table by key, the children of its rows, and what has changed since.

/** Limits the rows of a page. It ends with the row by which its texts have so many bytes. */
export const PAGE_ROWS = 500
const PAGE_BYTES = 1_000_000

const list = (elements: readonly SQL[]) => sql.join([...elements], sql`, `)

/** The columns that identify a row, at least one. */
const keysOf = ({ key, idColumn = 'id' }: TablePlan) =>
  key.length > 0 ? key.map((name) => named(name === 'id' ? idColumn : name)) : [named('company_id')]

/** Narrows a condition to the rows after a key, or up to it. */
const narrow = (plan: TablePlan, where: SQL, sign: '>' | '<=', key: Key | null) =>
  key ? sql`${where} AND (${list(keysOf(plan))}) ${sql.raw(sign)} (${list(key.map((each) => sql`${each}`))})` : where

export const databaseOf = ({ db, directory = db }: CompanyContext, table: string): Database =>
  DIRECTORY_TABLES.includes(table) ? directory : db

const ofCompany = ({ companyId }: CompanyContext, { where = '1' }: Pick<TablePlan, 'where'>): SQL =>
  sql`company_id = ${companyId} AND (${sql.raw(where)})`

export function isAmong(context: CompanyContext, plan: TablePlan, keys: readonly Key[]): SQL {
  const keyColumns = keysOf(plan)
  const read = keyColumns.map((_, index) => sql.raw(`e.value ->> ${index}`))
  // An update also has rows that it no longer sets.
  const selected = ofCompany(context, plan.columns ? {} : plan)
  return sql`${selected} AND (${list(keyColumns)}) IN (
    SELECT ${list(read)} FROM json_each(${JSON.stringify(keys)}) AS e)`
}

/** Selects the children of rows. @param ids a query or list of the rows' ids */
export function isChildOf(context: CompanyContext, { owner, ...child }: TablePlan, ids: SQL): SQL {
  if (!owner) return sql`0`
  const invoices = sql`SELECT id FROM invoices WHERE company_id = ${context.companyId} AND project_id IN (${ids})`
  // The plus leaves the company's index of objects aside: with it, each page of threads would walk all of them.
  const plus = sql.raw(owner === 'thread_id' ? '+' : '')
  return sql`${plus}${ofCompany(context, child)} AND ${named(owner)} IN (${owner === 'invoice_id' ? invoices : ids})`
}

function selectRows(plan: TablePlan, where: SQL) {
  const { idColumn = 'id', owner } = plan
  const order = owner ? [named(owner), ...keysOf(plan)] : keysOf(plan)
  const selected = columnsOf(plan).map(({ name }) => sql`${named(name === 'id' ? idColumn : name)} AS ${named(name)}`)
  return statement<Row>(sql`SELECT ${list(selected)} FROM ${named(plan.table)} WHERE ${where} ORDER BY ${list(order)}`)
}

export const keyOf = ({ key }: Pick<TablePlan, 'key'>, row: Row): Key => key.map((name) => row[name] ?? null)

/** The bytes of a row, of which its texts may be the most. */
function weigh(plan: TablePlan): SQL {
  const texts = columnsOf(plan).filter(({ dataType }) => dataType === 'string' || dataType === 'json')
  const lengths = texts.map(({ name }) => sql`coalesce(octet_length(${named(name)}), 0)`)
  return sql.join([sql`300`, ...lengths], sql` + `)
}

/** Finds the key at which a page ends, with the rows' children: null where no more follow. */
async function findEnd(context: CompanyContext, plan: TablePlan, where: SQL): Promise<Key | null> {
  const { table, children, pageRows = PAGE_ROWS } = plan
  const keys = list(keysOf(plan))
  const weights = children.map((child) => {
    const isChild = isChildOf(context, child, sql`${named(table)}.id`)
    return sql`coalesce((SELECT sum(${weigh(child)}) FROM ${named(child.table)} WHERE ${isChild}), 0)`
  })
  const bytes = sql.join([weigh(plan), ...weights], sql` + `)
  // The rows behind the page are not weighed, and their long texts not read.
  const [[end]] = await databaseOf(context, table).read([
    statement<{ row_key: string }>(sql`SELECT row_key FROM (SELECT json_array(${keys}) AS row_key,
      row_number() OVER (ORDER BY ${keys}) AS number, sum(bytes) OVER (ORDER BY ${keys}) AS total
      FROM (SELECT ${keys}, ${bytes} AS bytes FROM ${named(table)} WHERE ${where} ORDER BY ${keys} LIMIT ${pageRows}))
      WHERE number = ${pageRows} OR total >= ${PAGE_BYTES} LIMIT 1`),
  ])
  return end ? JSON.parse(end.row_key) : null
}

/**
 * Reads the rows after a key, in the order of keys, with their children. One batch reads them all, so that each row is
 * as of the same moment as its children. Without a key the company has at most one.
 *
 * @param where includes the company
 * @returns the page's rows, these by table with their children, and the key after which the next page begins; null at the end
 */
export async function readPage(context: CompanyContext, plan: TablePlan, after: Key | null, where?: SQL) {
  const isNext = narrow(plan, where ?? ofCompany(context, plan), '>', after)
  const next = await findEnd(context, plan, isNext)
  const isOnPage = narrow(plan, isNext, '<=', next)
  const ids = sql`SELECT id FROM ${named(plan.table)} WHERE ${isOnPage}`
  const selects = plan.children.map((child) => selectRows(child, isChildOf(context, child, ids)))
  const read = await databaseOf(context, plan.table).read([selectRows(plan, isOnPage), ...selects])
  const tables = [plan, ...plan.children].map((each, index) => ({ plan: each, rows: read[index] ?? [] }))
  return { rows: read[0], tables, next }
}

/** Reads page after page. @param read gets the key after which a page begins */
export async function* pagesOf<Page extends { next: Key | null }>(read: (after: Key | null) => Promise<Page>) {
  let after: Key | null = null
  do {
    const page: Page = await read(after)
    yield page
    after = page.next
  } while (after)
}

/** Lists the keys of rows that changed after a sequence, and the sequence after which the next page begins; null at the end. */
export async function readChanged({ companyId, db }: CompanyContext, { table }: TablePlan, [after = 0]: Key) {
  const [rows] = await db.read([
    statement<{ sequence: number; id: number }>(sql`SELECT sequence, CAST(entity_id AS INTEGER) AS id FROM changes
      WHERE company_id = ${companyId} AND sequence > ${after} AND type = ${table} ORDER BY sequence LIMIT ${PAGE_ROWS}`),
  ])
  const ids = new Set(rows.map(({ id }) => id))
  const last = rows.length === PAGE_ROWS ? rows.at(-1) : undefined
  const next: Key | null = last ? [last.sequence] : null
  return { copied: Array.from(ids, (id): Key => [id]), removed: [], next }
}

/** Limits the stamps of one page. Each is a row of its own, as all would be longer than a value of D1 may be. */
const STAMPS = 4_000

/**
 * Reads one page of the stamps by which changed rows are found.
 *
 * @param until the last key that belongs to it
 * @returns the stamps by the keys of rows as JSON, and the last key if more may follow
 */
export async function readStamps(context: CompanyContext, plan: TablePlan, after: Key | null, until: Key | null) {
  const keys = list(keysOf(plan))
  const isNext = narrow(plan, ofCompany(context, plan), '>', after)
  const columns = list(columnsOf(plan).map(({ name }) => named(name)))
  const value = plan.stamp ? sql.raw(plan.stamp) : sql`json_array(${columns})`
  const [rows] = await context.db.read([
    statement<{ row_key: string; stamp: string }>(sql`SELECT json_array(${keys}) AS row_key,
      CAST(${value} AS TEXT) AS stamp FROM ${named(plan.table)} WHERE ${narrow(plan, isNext, '<=', until)}
      ORDER BY ${keys} LIMIT ${STAMPS}`),
  ])
  const last = rows.length === STAMPS ? rows.at(-1) : undefined
  const next: Key | null = last ? JSON.parse(last.row_key) : null
  return { stamps: new Map(rows.map(({ row_key, stamp }) => [row_key, stamp])), next }
}

/** @returns the row of `companies`, its last change, and the first one that the feed has, or will have */
export async function readCompany({ companyId, db }: CompanyContext) {
  const [[company], [feed]] = await db.read([
    statement<Row>('SELECT * FROM companies WHERE id = ?', companyId),
    statement<{ oldest: number | null }>('SELECT min(sequence) AS oldest FROM changes WHERE company_id = ?', companyId),
  ])
  const lastChange = Number(company?.last_change ?? 0)
  return { company, lastChange, oldestChange: feed?.oldest ?? lastChange + 1 }
}

/** Counts the company's rows in each table of a backup, by the names of lines. */
export async function countRows(context: CompanyContext): Promise<Record<string, number>> {
  const counts = UNITS.map(async ({ name, table, ...unit }) => {
    const text = sql`SELECT count(*) AS count FROM ${named(table)} WHERE ${ofCompany(context, unit)}`
    const [[row]] = await databaseOf(context, table).read([statement<{ count: number }>(text)])
    return [name, row?.count ?? 0] as const
  })
  return Object.fromEntries(await Promise.all(counts))
}

export function hasContent({ companyId }: Pick<CompanyContext, 'companyId'>): SQL {
  const exists = CONTENT.map((name) => sql`EXISTS (SELECT 1 FROM ${named(name)} WHERE company_id = ${companyId})`)
  return sql`(${sql.join(exists, sql` OR `)})`
}

export async function isEmpty(context: CompanyContext): Promise<boolean> {
  const [[row]] = await context.db.read([statement<{ any: number }>(sql`SELECT ${hasContent(context)} AS "any"`)])
  return row?.any === 0
}

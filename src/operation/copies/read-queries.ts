import { type SQL, sql } from 'drizzle-orm'
import { type Database, statement } from '../../kernel/db/client.ts'
import { columnsOf, named, tableOf } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { CONTENT, DIRECTORY_TABLES, type Key, type Line, type Row, type TablePlan, UNITS } from './tables.ts'

// The reader of all copies: a page of a table by key, the parts of its rows, and what has changed since.

/** Limits the rows of a page. It ends with the row by which its texts have so many bytes. */
const PAGE_ROWS = 500
const PAGE_BYTES = 1_000_000

export type Sink = (plan: TablePlan, lines: Line[]) => Promise<void> | void

const list = (parts: readonly SQL[]) => sql.join([...parts], sql`, `)

/** The columns that identify a row, at least one. */
const keysOf = ({ key, idColumn = 'id' }: TablePlan) =>
  key.length > 0 ? key.map((name) => named(name === 'id' ? idColumn : name)) : [named('company_id')]

const compare = (plan: TablePlan, sign: '>' | '<=', key: Key) =>
  sql`(${list(keysOf(plan))}) ${sql.raw(sign)} (${list(key.map((each) => sql`${each}`))})`

export const databaseOf = ({ db, directory = db }: CompanyContext, table: string): Database =>
  DIRECTORY_TABLES.includes(table) ? directory : db

const ofCompany = ({ companyId }: CompanyContext, { where = '1' }: Pick<TablePlan, 'where'>): SQL =>
  sql`company_id = ${companyId} AND (${sql.raw(where)})`

export function isAmong(context: CompanyContext, plan: TablePlan, keys: readonly Key[]): SQL {
  const keyColumns = keysOf(plan)
  const read = keyColumns.map((_, index) => sql.raw(`e.value ->> ${index}`))
  // An update also has rows that it no longer sets.
  const selected = ofCompany(context, plan.isUpdate ? {} : plan)
  return sql`${selected} AND (${list(keyColumns)}) IN (
    SELECT ${list(read)} FROM json_each(${JSON.stringify(keys)}) AS e)`
}

export function ofOwners(context: CompanyContext, { owner, ...part }: TablePlan, ids: readonly Row['id'][]): SQL {
  if (!owner) return sql`0`
  const given = sql`SELECT value FROM json_each(${JSON.stringify(ids)})`
  const owners = owner.through
    ? sql`SELECT t.id FROM ${named(owner.through)} AS t WHERE t.company_id = ${context.companyId} AND t.project_id IN (${given})`
    : given
  return sql`${ofCompany(context, part)} AND ${named(owner.column)} IN (${owners})`
}

function ownerFields({ companyId }: CompanyContext, { owner }: TablePlan): Record<string, SQL> {
  if (!owner) return {}
  const column = named(owner.column)
  const of_id = owner.through
    ? sql`(SELECT t.project_id FROM ${named(owner.through)} AS t WHERE t.company_id = ${companyId} AND t.id = ${column})`
    : column
  const of_version = sql`(SELECT o.${named(owner.version)} FROM ${named(owner.table)} AS o
    WHERE o.company_id = ${companyId} AND o.id = ${of_id})`
  return { of_id, of_version }
}

/**
 * Reads the rows after a key, in the order of keys. Without a key the company has at most one.
 *
 * @param where includes the company
 * @returns the lines, and the key after which the next page begins; null at the end
 */
async function readPage(context: CompanyContext, plan: TablePlan, after: Key | null, where = ofCompany(context, plan)) {
  const { companyId } = context
  const { pageRows = PAGE_ROWS, idColumn = 'id', partBytes = '0' } = plan
  const [table, columns, keys] = [tableOf(plan.table), columnsOf(plan), list(keysOf(plan))]
  const texts = columns.filter(({ dataType }) => dataType === 'string' || dataType === 'json')
  const lengths = texts.map(({ name }) => sql`coalesce(octet_length(${named(name)}), 0)`)
  const bytes = sql.join([sql`200`, sql.raw(partBytes), ...lengths], sql` + `)
  const fields = {
    ...Object.fromEntries(columns.map(({ name }) => [name, named(name === 'id' ? idColumn : name)])),
    ...ownerFields(context, plan),
    page_bytes: bytes,
  }
  const selected = list(Object.entries(fields).map(([name, value]) => sql`${value} AS ${named(name)}`))
  const isNext = after ? sql`${where} AND ${compare(plan, '>', after)}` : where
  const first = (fields: SQL, limit: SQL) =>
    sql`SELECT ${fields} FROM ${table} WHERE ${isNext} ORDER BY ${keys} LIMIT ${limit}`
  // The rows behind the page are not weighed, and their long texts not read.
  const full = sql`SELECT number FROM (SELECT row_number() OVER (ORDER BY ${keys}) AS number,
    sum(bytes) OVER (ORDER BY ${keys}) AS total FROM (${first(sql`${keys}, ${bytes} AS bytes`, sql`${pageRows}`)}))
    WHERE total >= ${PAGE_BYTES} LIMIT 1`
  const isOnPage = sql`company_id = ${companyId} AND (${keys}) IN (
    ${first(keys, sql`coalesce((${full}), ${pageRows})`)})`
  const [rows] = await databaseOf(context, plan.table).read([
    statement<Row>(sql`SELECT ${selected} FROM ${table} WHERE ${isOnPage} ORDER BY ${keys}`),
  ])
  let total = 0
  const lines = rows.map(({ page_bytes, of_id = null, of_version, ...row }): Line => {
    total += Number(page_bytes)
    return { name: plan.name, row, ...(plan.owner && { of: [of_id, Number(of_version)] }) }
  })
  const last = lines.at(-1)?.row
  const hasMore = plan.key.length > 0 && (lines.length === pageRows || total >= PAGE_BYTES)
  return { lines, next: hasMore && last ? keyOf(plan, last) : null }
}

export const keyOf = ({ key }: Pick<TablePlan, 'key'>, row: Row): Key => key.map((name) => row[name] ?? null)

export async function copyPage(context: CompanyContext, plan: TablePlan, after: Key | null, sink: Sink, where?: SQL) {
  const page = await readPage(context, plan, after, where)
  if (page.lines.length === 0) return page
  await sink(plan, page.lines)
  const ids = page.lines.map(({ row: { id = null } }) => id)
  for (const part of plan.parts) {
    // In the order of the index that finds an owner's parts: by the key, each page would walk the company's whole table.
    const ordered = { ...part, key: [...new Set([part.owner?.column ?? 'id', ...part.key])] }
    const isPart = ofOwners(context, part, ids)
    await copyRows(context, ordered, isPart, (_, lines) => sink(part, lines))
  }
  return page
}

/** Rows that change while they are read are read up to this often: a torn order would be copied without its parts. */
const MAX_READS = 50

/** Copies a page. Rows that change meanwhile are read again, with their parts: the last read counts. */
export async function copyWholePage(context: CompanyContext, plan: TablePlan, after: Key | null, sink: Sink) {
  const { version = '' } = plan
  const versions = new Map<string, string>()
  const watch: Sink = async (each, lines) => {
    await sink(each, lines)
    if (each !== plan || plan.parts.length === 0) return
    for (const { row } of lines) versions.set(JSON.stringify(keyOf(plan, row)), String(row[version]))
  }
  const page = await copyPage(context, plan, after, watch)
  const last = keyOf(plan, page.lines.at(-1)?.row ?? {})
  for (let reads = 1; versions.size > 0 && reads < MAX_READS; reads++) {
    const { stamps } = await readStamps(context, { ...plan, stamp: version }, after, last)
    const changed = [...stamps.keys()].filter((key) => stamps.get(key) !== versions.get(key))
    if (changed.length === 0) break
    const keys = changed.map((key): Key => JSON.parse(key))
    await copyRows(context, plan, isAmong(context, plan, keys), watch)
  }
  return page
}

/** Copies all rows that a condition selects, page by page, each page with its parts. */
export async function copyRows(context: CompanyContext, plan: TablePlan, where: SQL, sink: Sink): Promise<void> {
  let after: Key | null = null
  do after = (await copyPage(context, plan, after, sink, where)).next
  while (after)
}

/** Lists the keys of rows that changed after a sequence, the last change's, and the next page's key; null at the end. */
export async function readChanged(
  { companyId, db }: CompanyContext,
  { table, pageRows = PAGE_ROWS }: TablePlan,
  [after = 0]: Key,
) {
  const [rows] = await db.read([
    statement<{ sequence: number; id: number }>(sql`SELECT sequence, CAST(entity_id AS INTEGER) AS id FROM changes
      WHERE company_id = ${companyId} AND sequence > ${after} AND type = ${table} ORDER BY sequence LIMIT ${pageRows}`),
  ])
  const sequence = rows.at(-1)?.sequence ?? Number(after)
  const ids = new Set(rows.map(({ id }) => id))
  const next: Key | null = rows.length === pageRows ? [sequence] : null
  return { copied: Array.from(ids, (id): Key => [id]), removed: [], next, sequence }
}

/** Limits the stamps of one page. Each is a row of its own, as all would be longer than a value of D1 may be. */
const STAMPS = 4_000
type Stamp = { row_key: string; stamp: string }

/**
 * Reads one page of the stamps by which changed rows are found.
 *
 * @param until the last key that belongs to it
 * @returns the stamps by the keys of rows as JSON, and the last key if more may follow
 */
export async function readStamps(context: CompanyContext, plan: TablePlan, after: Key | null, until: Key | null) {
  const keys = list(keysOf(plan))
  const conditions = [ofCompany(context, plan)]
  if (after) conditions.push(compare(plan, '>', after))
  if (until) conditions.push(compare(plan, '<=', until))
  const stamp = plan.stamp ?? plan.version
  const value = stamp ? sql.raw(stamp) : sql`json_array(${list(columnsOf(plan).map(({ name }) => named(name)))})`
  const [rows] = await context.db.read([
    statement<Stamp>(sql`SELECT json_array(${keys}) AS row_key, CAST(${value} AS TEXT) AS stamp
      FROM ${named(plan.table)} WHERE ${sql.join(conditions, sql` AND `)} ORDER BY ${keys} LIMIT ${STAMPS}`),
  ])
  const last = rows.length === STAMPS ? rows.at(-1) : undefined
  const next: Key | null = last ? JSON.parse(last.row_key) : null
  return { stamps: new Map(rows.map(({ row_key, stamp }) => [row_key, stamp])), next }
}

export async function readCompany({ companyId, db }: CompanyContext) {
  const [[company], [feed]] = await db.read([
    statement<Row>('SELECT * FROM companies WHERE id = ?', companyId),
    statement<{ oldest: number | null }>('SELECT min(sequence) AS oldest FROM changes WHERE company_id = ?', companyId),
  ])
  return { company, oldestChange: feed?.oldest ?? null }
}

/** Counts the company's rows in each table of a backup, by the names of lines. */
export async function countRows(context: CompanyContext): Promise<Record<string, number>> {
  const groups = Map.groupBy(UNITS, ({ table }) => databaseOf(context, table))
  const counts = Array.from(groups, async ([db, units]) => {
    const [first, ...rest] = units.map(({ table, where = '1' }) => {
      const text = `SELECT count(*) AS count FROM ${table} WHERE company_id = ? AND (${where})`
      return statement<{ count: number }>(text, context.companyId)
    })
    const results = first ? await db.read([first, ...rest]) : []
    return units.map(({ name }, index) => [name, results[index]?.[0]?.count ?? 0] as const)
  })
  return Object.fromEntries((await Promise.all(counts)).flat())
}

export function hasContent({ companyId }: CompanyContext): SQL {
  const exists = CONTENT.map((name) => sql`EXISTS (SELECT 1 FROM ${named(name)} WHERE company_id = ${companyId})`)
  return sql`(${sql.join(exists, sql` OR `)})`
}

export async function isEmpty(context: CompanyContext): Promise<boolean> {
  const [[row]] = await context.db.read([statement<{ any: number }>(sql`SELECT ${hasContent(context)} AS "any"`)])
  return row?.any === 0
}

import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { type Database, orm } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { changes, companies } from '../../kernel/db/schema.ts'
import { columnsOf, named, tableOf } from '../../kernel/db/tables.ts'
import type { Line, Row, Value } from './format.ts'
import { CONTENT, DIRECTORY_TABLES, type PartPlan, TABLES, type TablePlan } from './tables.ts'

/** Limits the rows of a page and the bytes of its texts. Only a larger single row exceeds it. */
const PAGE_ROWS = 500
const PAGE_BYTES = 2_000_000

const list = (parts: readonly SQL[]) => sql.join([...parts], sql`, `)

/** Chooses the database that has a table of the company. */
export function databaseOf({ db, directory = db }: CompanyContext, table: string): Database {
  return DIRECTORY_TABLES.includes(table) ? directory : db
}

/** The rows of a table. Without a key the company has at most one. */
interface Source {
  plan: Pick<TablePlan, 'table' | 'key' | 'columns' | 'without' | 'pageRows'>
  where: SQL
  /** Columns read besides the row, by name. */
  extra?: Record<string, SQL>
}

type Key = Value[]

/** Reads the page of rows after a key. @returns the rows, and the last key if more may follow */
async function readPage(context: CompanyContext, { plan, where, extra = {} }: Source, after: Key | null) {
  const db = databaseOf(context, plan.table)
  const table = tableOf(plan.table)
  const limit = plan.pageRows ?? PAGE_ROWS
  const columns = columnsOf(plan)
  const keys = plan.key.map(named)
  const compare = (sign: '>' | '<=', key: Key) =>
    keys.length === 0 ? sql`1` : sql`(${list(keys)}) ${sql.raw(sign)} (${list(key.map((each) => sql`${each}`))})`
  const isBehind = after ? sql`${where} AND ${compare('>', after)}` : where
  const order = keys.length === 0 ? sql`1` : list(keys)
  const texts = columns.filter((column) => column.dataType === 'string' || column.dataType === 'json')
  const bytes = sql.join(
    [sql`200`, ...texts.map(({ name }) => sql`coalesce(octet_length(${named(name)}), 0)`)],
    sql` + `,
  )
  const keyFields = Object.fromEntries(plan.key.map((name) => [name, sql<Value>`${named(name)}`.as(name)]))
  const [sizes] = await db.read([
    orm
      .select({ ...keyFields, bytes: sql<number>`${bytes}`.as('bytes') })
      .from(table)
      .where(isBehind)
      .orderBy(order)
      .limit(limit),
  ])
  let total = 0
  const tooMany = sizes.findIndex((row, index) => {
    total += Number(row.bytes)
    return total > PAGE_BYTES && index > 0
  })
  const shown = tooMany === -1 ? sizes : sizes.slice(0, tooMany)
  const last = shown.at(-1) as Row | undefined
  if (!last) return { rows: [], next: null }
  const lastKey = plan.key.map((name): Value => last[name] ?? null)
  const fields = Object.fromEntries([
    ...columns.map(({ name }) => [name, sql<Value>`${named(name)}`.as(name)]),
    ...Object.entries(extra).map(([name, value]) => [name, sql<Value>`${value}`.as(name)]),
  ])
  const [rows] = await db.read([
    orm
      .select(fields)
      .from(table)
      .where(sql`${isBehind} AND ${compare('<=', lastKey)}`)
      .orderBy(order),
  ])
  const hasMore = keys.length > 0 && (tooMany !== -1 || sizes.length === limit)
  return { rows: rows as Row[], next: hasMore ? lastKey : null }
}

/** Reads all pages of rows; at least one, which may be empty. */
export async function* readPages(context: CompanyContext, source: Source): AsyncGenerator<Row[]> {
  for (let after: Key | null = null, isFirst = true; isFirst || after; isFirst = false) {
    const { rows, next } = await readPage(context, source, after)
    yield rows
    after = next
  }
}

/** Reads one page of a table's rows, and the key after which the next begins; null at the end. */
export async function readTable(context: CompanyContext, plan: TablePlan, after: Key | null) {
  const { rows, next } = await readPage(context, { plan, where: ofCompany(context, plan) }, after)
  return { lines: rows.map((row): Line => ({ name: plan.name, row })), next }
}

/** A row of a table with a feed: its id and its version. */
export type Version = [id: Value, version: number]

/** Names the rows of a table that changed after a sequence, the last one's, and the next page's; null at the end. */
export async function readChanged(
  { companyId, db }: CompanyContext,
  { feed, pageRows = PAGE_ROWS }: TablePlan,
  after: number,
  upTo: number,
) {
  const [rows] = await db.read([
    orm
      .select({ sequence: changes.sequence, id: changes.entity_id })
      .from(changes)
      .where(
        sql`company_id = ${companyId} AND sequence > ${after} AND sequence <= ${upTo} AND type = ${feed?.type ?? ''}`,
      )
      .orderBy(changes.sequence)
      .limit(pageRows),
  ])
  const last = rows.at(-1)?.sequence ?? null
  return { ids: [...new Set(rows.map(({ id }) => id))], last, next: rows.length === pageRows ? last : null }
}

/** The rows of a table with these ids, page by page. */
export async function* readRows(context: CompanyContext, plan: TablePlan, ids: readonly Value[]) {
  // The cast gives ids the type of the column, number or text.
  const isGiven = sql`id IN (SELECT CAST(value AS ${sql.raw(plan.table === 'email_threads' ? 'TEXT' : 'INTEGER')})
    FROM json_each(${JSON.stringify(ids)}))`
  const where = sql`company_id = ${context.companyId} AND ${isGiven}`
  for await (const rows of readPages(context, { plan, where })) {
    yield rows.map((row): Line => ({ name: plan.name, row }))
  }
}

/** Reads the parts of rows with a feed, each with its owner and the owner's version at that moment. */
export async function* readParts(context: CompanyContext, plan: TablePlan, part: PartPlan, ids: readonly Value[]) {
  const { companyId } = context
  const given = sql`SELECT value FROM json_each(${JSON.stringify(ids)})`
  const owner = named(part.owner)
  const through = part.through && named(part.through)
  const ownerId = through
    ? sql`(SELECT t.project_id FROM ${through} AS t WHERE t.company_id = ${companyId} AND t.id = ${owner})`
    : owner
  const isGiven = through
    ? sql`${owner} IN (SELECT t.id FROM ${through} AS t WHERE t.company_id = ${companyId} AND t.project_id IN (${given}))`
    : sql`${owner} IN (${given})`
  const version = sql`(SELECT o.${named(plan.feed?.version ?? '')} FROM ${named(plan.table)} AS o
    WHERE o.company_id = ${companyId} AND o.id = ${ownerId})`
  const source = {
    // In the order of the index that finds an owner's parts: by the key, each page would walk the company's whole table.
    plan: { ...part, name: part.table, key: [...new Set([part.owner, ...part.key])] },
    where: sql`company_id = ${companyId} AND ${isGiven}`,
    extra: { of_id: ownerId, of_version: version },
  }
  for await (const rows of readPages(context, source)) {
    yield rows.map(({ of_id = null, of_version, ...row }): Line => {
      return { name: part.table, row, of: [of_id, Number(of_version)] }
    })
  }
}

/** Selects the rows whose version has changed. */
export async function findChangedSince(context: CompanyContext, plan: TablePlan, versions: readonly Version[]) {
  const table = tableOf(plan.table)
  const column = named(plan.feed?.version ?? '')
  const [rows] = await context.db.read([
    orm
      .select({ id: sql<Value>`v.value ->> 0`.as('id') })
      .from(sql`json_each(${JSON.stringify(versions)}) AS v CROSS JOIN ${table} AS o`)
      .where(sql`o.company_id = ${context.companyId} AND o.id = v.value ->> 0 AND o.${column} <> v.value ->> 1`),
  ])
  return rows.map(({ id }) => id)
}

/** Reads the company's row, its feed's oldest change and the newest migration; null if the company does not exist. */
export async function readCompany({ companyId, db }: CompanyContext) {
  const fields = Object.values(getTableColumns(companies)).map(({ name }) => [
    name,
    sql<Value>`${named(name)}`.as(name),
  ])
  const [[company], [feed], [migration]] = await db.read([
    orm.select(Object.fromEntries(fields)).from(companies).where(sql`id = ${companyId}`),
    orm
      .select({ oldest: sql<number | null>`min(sequence)`.as('oldest') })
      .from(changes)
      .where(sql`company_id = ${companyId}`),
    orm
      .select({ name: sql<string>`name`.as('name') })
      .from(sql`d1_migrations`)
      .orderBy(sql`id DESC`)
      .limit(1),
  ])
  if (!company) return null
  return {
    company: company as Row,
    oldestChange: feed?.oldest ?? null,
    schema: migration?.name ?? '',
  }
}

/** Selects the company's rows of a table. @param source `where` is SQL of this project */
export function ofCompany({ companyId }: CompanyContext, source: { table: string; where?: string | undefined }): SQL {
  return sql`company_id = ${companyId} AND (${sql.raw(source.where ?? '1')})`
}

/** Counts the company's rows, by the names of lines. */
export async function countRows(context: CompanyContext, names: readonly string[]) {
  const isOfDirectory = (name: string) => DIRECTORY_TABLES.includes(name)
  const ordered = [...names.filter(isOfDirectory), ...names.filter((name) => !isOfDirectory(name))]
  const counts = ordered.map((name) => {
    const plan = TABLES.find((each) => each.name === name)
    const part = TABLES.flatMap(({ feed }) => feed?.parts ?? []).find((each) => each.table === name)
    const table = plan?.table ?? name
    return orm
      .select({ count: sql<number>`count(*)`.as('count') })
      .from(tableOf(table))
      .where(ofCompany(context, { table, where: plan?.where ?? part?.where }))
  })
  const split = ordered.filter(isOfDirectory).length
  const read = async (db: Database, [first, ...rest]: typeof counts) => (first ? db.read([first, ...rest]) : [])
  const results = (
    await Promise.all([
      read(databaseOf(context, 'members'), counts.slice(0, split)),
      read(context.db, counts.slice(split)),
    ])
  ).flat(1)
  return Object.fromEntries(ordered.map((name, index) => [name, results[index]?.[0]?.count ?? 0]))
}

/** Whether the company has no contents. */
export async function isEmpty({ companyId, db }: CompanyContext): Promise<boolean> {
  const exists = CONTENT.map((name) => sql`EXISTS (SELECT 1 FROM ${named(name)} WHERE company_id = ${companyId})`)
  const [[row]] = await db.read([
    orm.select({ any: sql<number>`${sql.join(exists, sql` OR `)}`.as('any') }).from(sql`(SELECT 1)`),
  ])
  return row?.any === 0
}

/** Records the time of a backup. */
export async function recordBackup({ companyId, db }: CompanyContext, atMs: number): Promise<void> {
  await db.writeIdempotent([orm.update(companies).set({ backed_up_at: atMs }).where(sql`id = ${companyId}`)])
}

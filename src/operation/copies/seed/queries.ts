import { eq, getTableColumns, getTableName, or, sql } from 'drizzle-orm'
import type { SQLiteColumn, SQLiteTable } from 'drizzle-orm/sqlite-core'
import { orm, statement } from '../../../kernel/db/client.ts'
import type { CompanyContext } from '../../../kernel/db/context.ts'
import { freeSlot } from '../../../kernel/db/placement.ts'
import { companies, integrations, orderStatuses } from '../../../kernel/db/schema.ts'
import { LAST_IDS, SETTINGS } from '../tables.ts'
import { raiseTo } from '../write-queries.ts'
import type { SeedFile } from './file.ts'
import { chunkJson, type KnownIds, NAMES, type Name, REFERENCES, type Rows, TABLES, UNIQUE } from './rows.ts'

/** The context of a load: its company must be the file's. */
export interface LoadContext extends CompanyContext {
  /** The time of the load, which is the default of omitted times. */
  now: number
  /** The deployment's `CREDENTIALS_KEY`, needed only for integrations. */
  credentialsKey: string
}

export async function readStored({ companyId, db }: CompanyContext) {
  const [[company], connections] = await db.read([
    orm.select({ number: companies.last_invoice_number }).from(companies).where(eq(companies.id, companyId)),
    orm.select().from(integrations).where(eq(integrations.company_id, companyId)),
  ])
  return { company, connections }
}

/**
 * Selects from a list of JSON values, in statements of bounded size: `?1` is an array of them, `?2` the company. A table
 * is joined by CROSS JOIN, which SQLite never reorders: otherwise it may read the whole list for each row of the table.
 */
function selectEach<Row>({ companyId }: CompanyContext, list: unknown[], text: string) {
  return chunkJson(list).map((chunk) => statement<Row>(text, chunk, companyId))
}

/** Selects references to rows that are neither in the file, nor known, nor in the database. */
export function selectBadReferences(context: CompanyContext, rows: Rows, known: KnownIds) {
  return REFERENCES.flatMap(([from, field, to]) => {
    const given = new Set<unknown>([null, ...rows[to].map(({ id }) => id), ...(known[to] ?? [])])
    const pairs = rows[from].map((row) => [row.id, Reflect.get(row, field)]).filter(([, target]) => !given.has(target))
    const text = `SELECT '\`${field}\` of ${TABLES[from].noun} ' || (value ->> 0) || ': there is no ${TABLES[to].noun} '
        || (value ->> 1) || ', in the file or in the database' AS issue
      FROM json_each(?1) WHERE NOT EXISTS (SELECT 1 FROM ${to} WHERE company_id = ?2 AND id = value ->> 1)`
    return selectEach<{ issue: string }>(context, pairs, text)
  })
}

/** Selects constraints that new rows of the file would violate, since another row has the value. */
export function selectConflicts(context: CompanyContext, rows: Rows) {
  return [...UNIQUE, { name: 'invoices', field: 'project_id' } as const].flatMap(({ name, field }) => {
    const pairs = rows[name].map((row) => [row.id, Reflect.get(row, field)]).filter(([, value]) => value != null)
    const text = `SELECT '${name}.company_id, ${name}.${field}' AS "constraint", value ->> 1 AS taken
      FROM json_each(?1) CROSS JOIN ${name} AS other WHERE other.company_id = ?2 AND other.${field} = value ->> 1
        AND NOT EXISTS (SELECT 1 FROM ${name} AS own WHERE own.company_id = ?2 AND own.id = value ->> 0) LIMIT 1`
    return selectEach<{ constraint: string; taken: string | number }>(context, pairs, text)
  })
}

/** Columns derived from others, or raised with every change. */
const DERIVED = /_key$|_digits$|_linked$|^(company_id|id|search_text|text_bytes|stored_bytes|updated_at|version)$/

/** An existing row, a comma list of the columns that differ from the file, and the value of its column `own`. */
export type Compared = { name: Name; id: number; columns: string; own: number }

/** Selects the existing rows of clients and orders. */
export function selectDifferences(context: LoadContext, file: SeedFile, rows: Rows) {
  const unnumbered = new Set(file.orders.map(({ invoice }) => invoice?.number === undefined && invoice?.id))
  // A field left open by the file cannot differ; the accounting sync finds customers by itself.
  const isOpen = (row: object, column: string, value = Reflect.get(row, column)) =>
    value === undefined ||
    (/^created_(at|date)$/.test(column) && Reflect.get(row, 'created_at') === context.now) ||
    (column === 'number' && unnumbered.has(Reflect.get(row, 'id'))) ||
    (column === 'accounting_customer_id' && value === null)
  return NAMES.flatMap((name) => {
    const { own } = TABLES[name]
    if (own === null) return []
    const table: SQLiteTable = TABLES[name].table
    const columns = Object.values(getTableColumns(table)).filter((column) => !DERIVED.test(column.name))
    const given = rows[name].map((row) => [
      Reflect.get(row, 'id'),
      ...columns.map((column) => (isOpen(row, column.name) ? [] : [toDriver(column, row)])),
    ])
    const names = columns.map(({ name }, index) => {
      const element = `'$[${index + 1}][0]'`
      return `iif(json_type(value, ${element}) IS NOT NULL AND t.${name} IS NOT value ->> ${element}, '${name},', '')`
    })
    const text = `SELECT '${name}' AS name, t.id AS id, ${names.join(' || ')} AS columns, t.${own} AS own
      FROM json_each(?1) CROSS JOIN ${getTableName(table)} AS t
      WHERE t.company_id = ?2 AND t.id = value ->> 0 ORDER BY 2`
    return selectEach<Compared>(context, given, text)
  })
}

/** Replaces the settings that the file has, raises last ids, and clears the default status if the file has one. */
export function saveCompany({ companyId, now }: LoadContext, { company, order_statuses }: SeedFile) {
  const slot = sql<number>`coalesce((SELECT slot FROM companies WHERE id = ${companyId}), ${freeSlot()})`
  const times = { created_at: company.created_at ?? now, updated_at: company.updated_at ?? company.created_at ?? now }
  const replaced = Object.fromEntries(SETTINGS.map((name) => [name, company[name]]))
  const differences = SETTINGS.flatMap((name) => {
    const value = company[name]
    return value === undefined ? [] : sql`${companies[name]} <> ${sql.param(value, companies[name])}`
  })
  // An empty company becomes the file's, so that an import is equal to its export.
  const isFiles = company.created_at === undefined ? sql`0` : sql`${companies.last_change} = 0`
  const updated_at = sql`CASE WHEN ${isFiles} THEN ${times.updated_at} WHEN ${or(...differences)} THEN ${now}
    ELSE ${companies.updated_at} END`
  const created_at = sql`iif(${isFiles}, ${times.created_at}, ${companies.created_at})`
  const raised = raiseTo(LAST_IDS, company)
  const number = company.last_invoice_number ?? companies.last_invoice_number
  const last_invoice_number = sql`iif(${isFiles}, ${number}, ${raised.last_invoice_number})`
  const set = { ...replaced, ...raised, last_invoice_number, created_at, updated_at }
  const chosen = order_statuses.find((status) => status.is_default)?.id
  const isOtherDefault = sql`company_id = ${companyId} AND is_default AND id <> ${chosen ?? sql`id`}`
  const row = { ...company, slot, ...times }
  return [
    orm.insert(companies).values(row).onConflictDoUpdate({ target: companies.id, set }),
    orm.update(orderStatuses).set({ is_default: false }).where(isOtherDefault),
  ] as const
}

function toDriver(column: SQLiteColumn, row: object): unknown {
  const value = Reflect.get(row, column.name) ?? column.default ?? null
  return value === null ? null : column.mapToDriverValue(value)
}

/**
 * Statements that insert rows of a table. Without a column `own` they replace different ones, where a defaulted time of
 * `now` alone is no difference. With it they fail where a request has created a row with an id of the file since the
 * comparison: its parts would be that row's. Each takes hundreds of rows as one JSON parameter.
 */
export function loadRows(
  { companyId, now }: Pick<LoadContext, 'companyId' | 'now'>,
  { table, key, own }: { table: SQLiteTable; key: string; own: string | null },
  rows: object[],
) {
  const columns = Object.values(getTableColumns(table)).filter((column) => !column.generated)
  const values = rows.map((row) => columns.map((column) => toDriver(column, row)))
  const names = columns.map(({ name }) => name)
  const read = names.map((name, index) => (name === 'company_id' ? '?2' : `value ->> ${index}`))
  const target = getTableName(table)
  const changing = names.filter((name) => !['company_id', 'version', key].includes(name))
  const set = changing.map((name) => {
    const kept = `iif(excluded.${name} = ${now}, ${target}.${name}, excluded.${name})`
    return `${name} = ${name === 'fetched_at' ? kept : `excluded.${name}`}`
  })
  if (names.includes('version')) set.push(`version = ${target}.version + 1`)
  const differences = changing.map((name) => {
    const isTime = name === 'fetched_at' || name === 'updated_at'
    return `excluded.${name} ${isTime ? `NOT IN (${now}, ${target}.${name})` : `IS NOT ${target}.${name}`}`
  })
  // Where the batch runs again after a lost response, the row is the file's own: with all of its parts, if unchanged.
  const isChanged = names.includes('version') ? ` OR excluded.version <> ${target}.version` : ''
  const change = own
    ? `${own} = json_extract('{}', 'created meanwhile') WHERE excluded.${own} <> ${target}.${own}${isChanged}`
    : `${set.join(', ')} WHERE ${differences.join(' OR ')}`
  // Without a condition, ON CONFLICT would be parsed as part of a join.
  const text = `INSERT INTO ${target} (${names.join(', ')}) SELECT ${read.join(', ')} FROM json_each(?1) WHERE true
    ON CONFLICT (company_id, ${key}) DO UPDATE SET ${change}`
  return chunkJson(values).map((chunk) => statement(text, chunk, companyId))
}

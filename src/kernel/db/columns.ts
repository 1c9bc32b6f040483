import { Column, getTableColumns, getTableName, is, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type SQLiteColumn, SQLiteReal, SQLiteTable } from 'drizzle-orm/sqlite-core'
import { orm } from './client.ts'
import * as schema from './schema.ts'
import { artworks, clients, invoiceItems, invoices, orderStatuses, orders, payments, taxes } from './schema.ts'

type Columns<T extends SQLiteTable> = T['_']['columns']

function columnsBut<T extends SQLiteTable, K extends keyof Columns<T>>(table: T, ...hidden: (readonly K[])[]) {
  const names = new Set<unknown>(hidden.flat())
  const shown = Object.entries(getTableColumns(table)).filter(([name]) => !names.has(name))
  return Object.fromEntries(shown) as Omit<Columns<T>, K>
}

export type RowOf<T extends Record<string, SQLiteColumn>> = {
  [K in keyof T]: T[K]['_']['data'] | (T[K]['_']['notNull'] extends true ? never : null)
}

const COUNTED = ['text_bytes', 'stored_bytes'] as const

/** The columns of each table that its responses are made from. */
export const COLUMNS = {
  clients: columnsBut(
    clients,
    ['company_id', 'company_name_key', 'first_name_key', 'last_name_key', 'email_key', 'phone_key', 'phone_digits'],
    ['search_text', 'accounting_customer_id', 'accounting_customer_linked', ...COUNTED],
  ),
  orders: columnsBut(orders, ['company_id', 'title_key', 'number_key', ...COUNTED]),
  invoices: columnsBut(invoices, ['company_id', 'created_at', 'updated_at', 'stored_bytes']),
  invoice_items: columnsBut(invoiceItems, ['company_id', 'search_text', ...COUNTED]),
  payments: columnsBut(payments, ['company_id', 'stored_bytes']),
  artworks: columnsBut(artworks, ['company_id', 'stored_bytes']),
  taxes: columnsBut(taxes, ['company_id', 'deleted', 'accounting_tax_code_id']),
  order_statuses: columnsBut(orderStatuses, ['company_id', 'deleted']),
}

/**
 * The columns of a row as one JSON array: cheaper than many columns of several tables, and without clashes of names. D1
 * accepts at most 32 columns. Results of writes are stored so: a new column is the last one, and older results lack it.
 */
export function jsonRow<T extends Record<string, SQLiteColumn> & { id: SQLiteColumn }>(columns: T) {
  const names = Object.keys(columns)
  const list = Object.values<SQLiteColumn>(columns)
  // SQLite writes only 15 digits of a number into JSON; text has them all.
  const values = list.map((column) => (is(column, SQLiteReal) ? sql`printf('%!.17g', ${column})` : sql`${column}`))
  const array = sql`json_array(${sql.join(values, sql`, `)})`
  // Nested, since Drizzle strips the table from columns that are directly in a field.
  const arrayOrNull = sql`CASE WHEN ${columns.id} IS NOT NULL THEN ${array} END`
  const readers = list.map((column) => {
    if (is(column, SQLiteReal)) return Number
    return isPlain(column) ? undefined : (value: unknown) => column.mapFromDriverValue(value)
  })
  const defaults = list.map((column) => (column.notNull ? column.default : null))
  const decode = (json: string | unknown[]) => {
    const values: unknown[] = typeof json === 'string' ? JSON.parse(json) : json
    const row: Record<string, unknown> = {}
    // A loop, since this runs for each row of every response: three times as fast as entries.
    for (let index = 0; index < names.length; index++) {
      const value = values[index] ?? defaults[index] ?? null
      const reader = readers[index]
      row[names[index] as string] = value === null || !reader ? value : reader(value)
    }
    return row as RowOf<T>
  }
  return {
    row: sql<RowOf<T>>`${array}`.mapWith(decode),
    /** For an outer join: null when there is no row. */
    rowOrNull: sql`${arrayOrNull}`.mapWith((json: string): RowOf<T> | null => decode(json)),
    /** Takes the array also as it was parsed, where it is an element of other JSON. */
    decode,
    decodeOrNull: (values: unknown[] | null) => values && decode(values),
  }
}

const isPlain = (column: SQLiteColumn) => column.mapFromDriverValue === Column.prototype.mapFromDriverValue

/** Between the fields of a search text; `fold` removes it from input, so no match spans two fields. */
export const FIELD_SEPARATOR = '\u001f'

/**
 * The form in which text is compared: canonical composition, lower-cased then upper-cased, so that texts that differ only
 * in case are equal in any script (including final sigma and sharp s). The Turkish dotted capital equals `i`, as the
 * dotless small one does by itself. Control characters become spaces.
 */
export function fold(text: string): string {
  return text
    .normalize('NFC')
    .toLowerCase()
    .toUpperCase()
    .normalize('NFC')
    .replaceAll('\u0130', 'I')
    .replace(/\p{Cc}/gu, ' ')
}

export function searchText(fields: (string | null | undefined)[]): string {
  return fields.flatMap((field) => (field ? [fold(field)] : [])).join(FIELD_SEPARATOR)
}

/** So much of an invoice's lines is indexed: of each description, and of all lines together. */
const DESCRIPTION_INDEXED = 200
const INVOICE_INDEXED = 40_000

/** Adds the search texts of an invoice's lines: what a request may have the database index is bounded. */
export function withSearchTexts<T extends { title: string; description?: string | null | undefined }>(lines: T[]) {
  let left = INVOICE_INDEXED
  return lines.map((line) => {
    const { title, description } = line
    const start = Array.from((description ?? '').slice(0, 2 * DESCRIPTION_INDEXED)).slice(0, DESCRIPTION_INDEXED)
    const text = Array.from(searchText([title, start.join('')])).slice(0, left)
    left -= text.length
    return { ...line, search_text: text.join('') }
  })
}

type ClientText = 'company_name' | 'first_name' | 'last_name' | 'email' | 'phone'

/** Adds the columns in which a client is searched and looked up: of its given fields, since others do not change. */
export function withClientKeys<T extends Partial<Record<ClientText, string | null | undefined>>>(client: T) {
  const folded = <Name extends ClientText>(name: Name) => {
    const value = client[name]
    return typeof value === 'string' ? fold(value) : value
  }
  return {
    ...client,
    company_name_key: folded('company_name'),
    first_name_key: folded('first_name'),
    last_name_key: folded('last_name'),
    email_key: folded('email'),
    phone_key: folded('phone'),
    phone_digits: client.phone === undefined ? undefined : digitsOf(client.phone ?? ''),
  }
}

/** The digits of a text, full-width ones as ASCII. */
export function digitsOf(text: string): string {
  return text.normalize('NFKC').replaceAll(/[^0-9]/g, '')
}

/** Values by column; a missing column gets its default. */
type RowValues<T extends SQLiteTable> = {
  [Name in keyof Columns<T>]?: Placeholder | SQL | string | number | null | undefined
}

/** Inserts rows. Values that are no columns are ignored. @param rest of the `SELECT` of the values, such as `WHERE …` */
export function insertRow<T extends SQLiteTable>(table: T, values: RowValues<T>, rest: SQL) {
  const named = new Map<string, unknown>(Object.entries(values))
  const columns = Object.entries<SQLiteColumn>(getTableColumns(table)).filter(([, column]) => !column.generated)
  const selected = columns.map(([name, column]) => {
    const value = named.get(name)
    return sql`${value === undefined ? sql.param(column.default ?? null, column) : value}`
  })
  return orm.insert(table).select(sql`SELECT ${sql.join(selected, sql`, `)} ${rest}`)
}

export function assignments<T extends SQLiteTable>(table: T, values: Record<string, Placeholder | SQL | undefined>) {
  const names = Object.keys(getTableColumns(table))
  const entries = names.flatMap((name) => (values[name] ? [[name, sql`${values[name]}`]] : []))
  return Object.fromEntries(entries) as Partial<Record<keyof Columns<T>, SQL>>
}

/** @param source of a column's value, as SQL */
export const columnsFrom = <Name extends string>(source: (name: Name) => string, ...names: (readonly Name[])[]) =>
  Object.fromEntries(names.flat().map((name) => [name, sql.raw(source(name))])) as Record<Name, SQL>

const byName = Object.fromEntries(
  Object.values(schema).flatMap((table) => (is(table, SQLiteTable) ? [[getTableName(table) as string, table]] : [])),
)

export function tableOf(name: string): SQLiteTable {
  const table = byName[name]
  if (!table) throw new Error(`There is no table ${name}.`)
  return table
}

export const named = (name: string): SQL => sql.raw(`"${name}"`)

/** The columns of a table that are copied; the company is known. */
export function columnsOf(plan: { table: string; columns?: readonly string[]; without?: readonly string[] }) {
  const { table, columns, without = [] } = plan
  return Object.values(getTableColumns(tableOf(table))).filter(
    ({ name, generated }) =>
      !generated && name !== 'company_id' && !without.includes(name) && (columns?.includes(name) ?? true),
  )
}

import { getTableColumns, getTableName, is, type SQL, sql } from 'drizzle-orm'
import { SQLiteTable } from 'drizzle-orm/sqlite-core'
import * as schema from './schema.ts'

const byName = Object.fromEntries(
  Object.values(schema).flatMap((table) => (is(table, SQLiteTable) ? [[getTableName(table) as string, table]] : [])),
)

/** The table with this name in SQL. For code that treats all tables alike. */
export function tableOf(name: string): SQLiteTable {
  const table = byName[name]
  if (!table) throw new Error(`There is no table ${name}.`)
  return table
}

/** The names of all tables but those that Drizzle cannot express. */
export const TABLE_NAMES = Object.keys(byName)

/** A name in SQL. */
export const named = (name: string): SQL => sql.raw(`"${name}"`)

interface CopiedColumns {
  table: string
  columns?: readonly string[]
  without?: readonly string[]
}

/** The columns of a table that are copied; the company is known. */
export function columnsOf({ table, columns, without = [] }: CopiedColumns) {
  return Object.values(getTableColumns(tableOf(table))).filter(
    ({ name, generated }) =>
      !generated && name !== 'company_id' && !without.includes(name) && (columns?.includes(name) ?? true),
  )
}

import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { SQLiteTable } from 'drizzle-orm/sqlite-core'

type Columns<T extends SQLiteTable> = T['_']['columns']
type Aliased<T extends SQLiteTable> = {
  [K in keyof Columns<T>]: SQL.Aliased<T['$inferSelect'][K & keyof T['$inferSelect']]>
}

/**
 * All columns of a table under names of their own (`prefix_column`). A join needs it: rows of a D1 batch are objects,
 * so equal column names would overwrite each other and shift the rest.
 */
export function columnsAs<T extends SQLiteTable>(table: T, prefix: string): Aliased<T> {
  const columns = Object.entries(getTableColumns(table)).map(([key, column]) => [
    key,
    sql`${column}`.mapWith(column).as(`${prefix}_${column.name}`),
  ])
  return Object.fromEntries(columns)
}

/** The row of an outer join, or null where there was none: then its key is null. */
export function rowOrNull<T extends { id: unknown }>(row: T): T | null {
  return row.id === null ? null : row
}

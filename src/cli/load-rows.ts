import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { SQLiteColumn, SQLiteTable } from 'drizzle-orm/sqlite-core'
import type { SqliteRemoteDatabase } from 'drizzle-orm/sqlite-proxy'
import type { Query } from './database.ts'

/** Of JSON in one statement. As hex it still fits into the 100 KB that D1 takes. */
const CHUNK_BYTES = 40_000

/** Cuts JSON values into JSON arrays that each fit into one statement. */
export function chunkJson(values: Iterable<unknown>): string[] {
  const chunks: string[] = []
  let current: string[] = []
  let bytes = 0
  for (const value of values) {
    const text = JSON.stringify(value)
    const size = Buffer.byteLength(text) + 1
    if (bytes + size > CHUNK_BYTES && current.length > 0) {
      chunks.push(`[${current.join(',')}]`)
      current = []
      bytes = 0
    }
    current.push(text)
    bytes += size
  }
  if (current.length > 0) chunks.push(`[${current.join(',')}]`)
  return chunks
}

/** A column left out of a row takes the table's literal default. */
type Row<T extends SQLiteTable> = T['$inferInsert']

/**
 * Statements that insert rows and leave those alone whose key is there already. A statement takes hundreds of rows as
 * one JSON parameter.
 */
export function insertAbsent<T extends SQLiteTable>(
  orm: SqliteRemoteDatabase,
  table: T,
  key: SQLiteColumn[],
  rows: Row<T>[],
): Query[] {
  return selectRows(table, rows).map((rest) => orm.insert(table).select(rest).onConflictDoNothing({ target: key }))
}

/**
 * Statements that insert rows, and set those that are there to what is given when anything differs.
 *
 * @param stamps columns that are set with the others but make no difference by themselves
 */
export function insertOrReplace<T extends SQLiteTable>(
  orm: SqliteRemoteDatabase,
  table: T,
  key: SQLiteColumn[],
  rows: Row<T>[],
  stamps: SQLiteColumn[] = [],
): Query[] {
  const columns = Object.entries(getTableColumns(table)).filter(
    ([, column]) => isStored(column) && !key.includes(column),
  )
  const excluded = (column: SQLiteColumn) => sql`excluded.${sql.identifier(column.name)}`
  const set = Object.fromEntries(columns.map(([name, column]) => [name, excluded(column)]))
  const differences = columns
    .filter(([, column]) => !stamps.includes(column))
    .map(([, column]) => sql`${column} IS NOT ${excluded(column)}`)
  const setWhere = sql.join(differences, sql` OR `)
  return selectRows(table, rows).map((rest) =>
    orm
      .insert(table)
      .select(rest)
      .onConflictDoUpdate({ target: key, set: set as Partial<Row<T>>, setWhere }),
  )
}

/** One `SELECT` of all stored columns, in the table's order, for each chunk of rows. */
function selectRows<T extends SQLiteTable>(table: T, rows: Row<T>[]): SQL[] {
  const columns = Object.entries(getTableColumns(table)).filter(([, column]) => isStored(column))
  const fields = sql.join(
    columns.map((_, index) => sql.raw(`value ->> ${index}`)),
    sql`, `,
  )
  const values = rows.map((row) => {
    const given = new Map<string, unknown>(Object.entries(row))
    return columns.map(([name, column]) => toStored(column, given.get(name)))
  })
  // The condition keeps SQLite from reading ON CONFLICT as part of a join.
  return chunkJson(values).map((chunk) => sql`SELECT ${fields} FROM json_each(${chunk}) WHERE true`)
}

function isStored(column: SQLiteColumn): boolean {
  return column.generated === undefined
}

function toStored(column: SQLiteColumn, value: unknown): unknown {
  const given = value === undefined ? column.default : value
  return given === undefined || given === null ? null : column.mapToDriverValue(given)
}

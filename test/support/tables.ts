import { getTableName, is } from 'drizzle-orm'
import { SQLiteTable } from 'drizzle-orm/sqlite-core'
import * as schema from '../../src/kernel/db/schema.ts'

/** The names of all tables but those that Drizzle cannot express. */
export const TABLE_NAMES = Object.values(schema).flatMap((table) =>
  is(table, SQLiteTable) ? [getTableName(table)] : [],
)

/** Tables with the rows of a seed file, which an export has too. */
export const SEEDED =
  'order_statuses taxes clients orders invoices invoice_items payments artworks catalog_items thread_contexts'.split(
    ' ',
  )

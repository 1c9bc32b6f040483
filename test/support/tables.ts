import { getTableName, is } from 'drizzle-orm'
import { SQLiteTable } from 'drizzle-orm/sqlite-core'
import * as schema from '../../src/kernel/db/schema.ts'

/** The names of all tables but those that Drizzle cannot express. */
export const TABLE_NAMES = Object.values(schema).flatMap((table) =>
  is(table, SQLiteTable) ? [getTableName(table)] : [],
)

import type { Miniflare } from 'miniflare'

export type D1 = Awaited<ReturnType<Miniflare['getD1Database']>>

/** Inserts rows; the first has every column. */
export async function insert(db: D1, table: string, rows: readonly object[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {})
  const values = columns.map((column) => `value ->> '$.${column}'`)
  await db
    .prepare(`INSERT INTO ${table} (${columns}) SELECT ${values} FROM json_each(?)`)
    .bind(JSON.stringify(rows))
    .run()
}

/** As {@link insert}, of one company. */
export const insertOf = (db: D1, company_id: number, table: string, rows: readonly object[]) =>
  insert(
    db,
    table,
    rows.map((row) => ({ company_id, ...row })),
  )

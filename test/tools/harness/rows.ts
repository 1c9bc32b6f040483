import type { Miniflare } from 'miniflare'

export type D1 = Awaited<ReturnType<Miniflare['getD1Database']>>

/** Inserts rows of company 1, or of the one that they name; the first has every column. */
export async function insert(db: D1, table: string, given: readonly object[]): Promise<void> {
  const rows = given.map((row) => ({ company_id: 1, ...row }))
  const columns = Object.keys(rows[0] ?? {})
  const values = columns.map((column) => `value ->> '$.${column}'`)
  await db
    .prepare(`INSERT INTO ${table} (${columns}) SELECT ${values} FROM json_each(?)`)
    .bind(JSON.stringify(rows))
    .run()
}

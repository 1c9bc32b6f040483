import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Miniflare } from 'miniflare'
import { migrationStatements } from '../bench/worker.ts'

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

/** Names data that was filled once and is used again: other migrations, or another company, need other data. */
export function dataVersion(): string {
  const names = ['look-alike.ts', 'client-row.ts', '../bench/company.ts']
  const sources = names.map((name) => readFileSync(join(import.meta.dirname, name)))
  const hash = createHash('sha256').update(migrationStatements().join())
  for (const source of sources) hash.update(source)
  return hash.digest('hex').slice(0, 8)
}

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeAll, describe, expect, it } from 'vitest'
import { migrationStatements } from '../tools/bench/worker.ts'
import { fillLookAlike, LOOK_ALIKE } from '../tools/harness/look-alike.ts'

const TOOLS = join(import.meta.dirname, '../tools')

describe('the look-alike in front of every company that a tool measures', () => {
  const db = new DatabaseSync(':memory:')

  beforeAll(() => {
    for (const statement of migrationStatements()) db.exec(statement)
    fillLookAlike(db, LOOK_ALIKE)
  })

  it('has slot 0, and 1,500 clients and orders with the lowest ids', () => {
    const counts = `SELECT slot, client_count, order_count, last_client_id, last_order_id, last_invoice_number FROM companies`
    expect(db.prepare(counts).all()).toEqual([
      {
        ...{ slot: 0, client_count: 1_500, order_count: 1_500, last_client_id: 1_500, last_order_id: 1_500 },
        last_invoice_number: 2_500,
      },
    ])
    const search = 'SELECT count(*) AS hits FROM clients_fts WHERE clients_fts MATCH \'text : "EXAMPLE"\''
    expect(db.prepare(search).get()).toEqual({ hits: 1_495 })
  })

  it('leaves slot 0 to no other company', () => {
    const files = readdirSync(TOOLS, { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('.ts') && !name.startsWith('harness') && !name.includes('node_modules'),
    )
    const taking = files.filter((name) =>
      /INSERT INTO companies \(id, slot[^)]*\)\s+VALUES \([^,]+, 0,/.test(readFileSync(join(TOOLS, name), 'utf8')),
    )
    expect(taking).toEqual([])
  })
})

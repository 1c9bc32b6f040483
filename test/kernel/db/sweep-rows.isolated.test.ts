import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { removeExpiredRows } from '../../../src/kernel/db/sweep.ts'
import { mintCompany, sql } from '../../support/app.ts'
import { meterBindings } from '../../support/meter.ts'

const NOW = Date.UTC(2026, 10, 22, 12)

it('the removal of old rows reads few of a company that has none to remove, where SQLite has no statistics', async () => {
  const addRows = async (companyId: number, rows: number, at: number) => {
    for (const columns of [
      "audit_log (company_id, id, token_id, request_id, action, entity_id, at) SELECT ?1, i, 1, 'r', 'x', i, ?3",
      "changes (company_id, sequence, type, entity_id, operation, version, at) SELECT ?1, i, 'clients', i, 'update', 1, ?3",
    ]) {
      const numbers = 'WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)'
      await sql(`${numbers} INSERT INTO ${columns} FROM n`, companyId, rows, at)
    }
  }
  const measure = async () => {
    await removeExpiredRows(openDatabase(env.DB), NOW)
    const { id } = await mintCompany({ home: 'DB' })
    await addRows(id, 5, 0)
    const { env: metered, take } = meterBindings(env)
    await removeExpiredRows(openDatabase(metered.DB), NOW)
    expect(await sql('SELECT id FROM audit_log WHERE company_id = ?', id)).toEqual([])
    expect(await sql('SELECT sequence FROM changes WHERE company_id = ?', id)).toEqual([])
    return take().rowsRead
  }
  const alone = await measure()
  await addRows((await mintCompany({ home: 'DB' })).id, 5_000, NOW)
  expect(await sql("SELECT tbl FROM sqlite_stat1 WHERE tbl IN ('audit_log', 'changes')")).toEqual([])
  expect((await measure()) - alone).toBeLessThan(50)
})

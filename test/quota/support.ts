import { BYTES_A_ROW, STORED_BYTES } from '../../src/kernel/db/schema.ts'
import { rowsOf } from '../operation/copies/support.ts'
import { type Home, homeOf, mintCompany, sql, sqlIn, type TestCompany } from '../support/app.ts'
import { insert } from '../support/rows.ts'

/** A company that is not the first of its database, with a look-alike before it. */
export async function mintPair(): Promise<{ other: TestCompany; company: TestCompany }> {
  const other = await mintCompany({ home: 'DB' })
  return { other, company: await mintCompany({ home: 'DB' }) }
}

/** Gives companies an accounting system, so that writes make events. */
export async function connectAccounting(companies: readonly TestCompany[]): Promise<void> {
  const row = { kind: 'accounting_sync', enabled: 1, base_url: 'http://127.0.0.1:9', credentials: 'x', updated_at: 0 }
  for (const { id } of companies) await insert('integrations', { company_id: id, ...row })
}

/** What the company's row says, and the same counted from the rows that it is the sum of. */
export async function readStored(companyId: number, home: Home = homeOf(companyId)) {
  const sums = Object.keys(STORED_BYTES).map((table) => {
    return `(SELECT coalesce(sum(stored_bytes), 0) FROM ${table} WHERE company_id = ?1)`
  })
  const [row] = await sqlIn<{ counted: number; real: number }>(
    home,
    `SELECT stored_bytes AS counted, ${sums.join(' + ')} AS real FROM companies WHERE id = ?1`,
    companyId,
  )
  return row ?? { counted: -1, real: -2 }
}

/** The bytes of rows that are counted by their first and their last. */
export async function readRowBytes(companyId: number): Promise<number> {
  const [row] = await sql<Record<string, number>>(
    `SELECT (SELECT count(*) FROM changes WHERE company_id = ?1) AS changes,
      (SELECT count(*) FROM audit_log WHERE company_id = ?1) AS audit_log`,
    companyId,
  )
  return Object.entries(BYTES_A_ROW).reduce((sum, [table, bytes]) => sum + bytes * (row?.[table] ?? 0), 0)
}

/** Makes the company's quota smaller than what it stores by now. */
export async function fillQuota(companyId: number, bytes = 1): Promise<void> {
  await sql('UPDATE companies SET storage_quota_bytes = ?2 WHERE id = ?1', companyId, bytes)
}

/** The number of rows of the company in each of its tables. */
export async function countRows(companyId: number): Promise<Record<string, number>> {
  const rows = Object.entries(await rowsOf(companyId))
  return Object.fromEntries(rows.map(([table, { length }]) => [table, length]))
}

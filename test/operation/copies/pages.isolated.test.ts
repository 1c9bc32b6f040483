import { beforeAll, expect, it } from 'vitest'
import type { Manifest } from '../../../src/operation/copies/format.ts'
import { migrate, mintCompany, sql } from '../../support/app.ts'
import { backUp, manifestsOf } from './support.ts'

beforeAll(migrate)

const rowsOf = (manifest: Manifest | undefined, table: string) =>
  manifest?.parts.reduce((sum, { rows }) => sum + (rows[table] ?? 0), 0)

it('a backup has every row of a table of several pages once, and the next one only what was added to a log', async () => {
  await mintCompany()
  const { id, call } = await mintCompany({ home: 'DB' })
  await sql(
    `INSERT INTO taxes (company_id, id, name, rate)
     WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1001) SELECT ?, i, 'Tax', 5 FROM n`,
    id,
  )
  await call('POST', '/clients', { company_name: 'One' })
  await call('POST', '/clients', { company_name: 'Two' })
  await backUp(id)
  await call('POST', '/clients', { company_name: 'Three' })
  await backUp(id)
  const [full, increment] = await manifestsOf(id)
  expect(rowsOf(full, 'taxes')).toBe(1_002)
  expect(rowsOf(full, 'audit_log')).toBe(2)
  expect(rowsOf(increment, 'audit_log')).toBe(1)
  expect(rowsOf(increment, 'clients')).toBe(1)
})

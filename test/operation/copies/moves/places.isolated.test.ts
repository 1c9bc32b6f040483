import { expect, it, onTestFinished } from 'vitest'
import { sqlIn } from '../../../support/app.ts'
import { mintBeside } from '../support.ts'
import { move } from './support.ts'

it('a company comes back to its place in the directory where that is the only free one', async () => {
  const company = await mintBeside()
  await sqlIn(
    'DB',
    `INSERT INTO companies (id, slot, name, created_at, updated_at)
       WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 1023)
       SELECT 5000000 + i, i, 'x', 0, 0 FROM n WHERE i NOT IN (SELECT slot FROM companies)`,
  )
  onTestFinished(async () => void (await sqlIn('DB', 'DELETE FROM companies WHERE id BETWEEN 5000000 AND 5001023')))
  await move(company.id, 'DB_TWO')
  expect((await company.call('POST', '/clients', { company_name: 'Harbor' })).status).toBe(200)
  await move(company.id, 'DB')
  expect((await company.call('GET', '/clients?q=harbor')).body.data).toHaveLength(1)
})

import { expect, it } from 'vitest'
import { replaceTokens } from '../../src/cli/sample-company.ts'
import { connect } from '../../src/cli/target.ts'
import { smallShop } from '../support/small-shop.ts'
import { runHere, runSql, servedState, writeSeed } from './cli-support.ts'

it('starts of `dev` keep their newest tokens, and never fail for having made too many', async () => {
  const state = await servedState()
  for (const id of [6, 7]) await runHere('seed', [await writeSeed(smallShop(id)), '--state', state])
  const active = () =>
    runSql(
      state,
      `SELECT id, token_hash FROM api_tokens WHERE company_id = 7 AND name = 'sample (dev)' AND revoked_at IS NULL ORDER BY id`,
    )
  const add = (name: string, count: number, createdAt: number) =>
    runSql(
      state,
      `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at)
        WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ${count})
        SELECT 7, '${name}' || value, '${name}', '[]', ${createdAt} FROM n`,
    )
  await using service = await connect({ state })
  add('sample (dev)', 50, Date.now())
  for (let start = 1; start <= 3; start++) expect(await replaceTokens(service, 7)).toMatch(/^[0-9a-f]{64}$/)
  expect(active()).toHaveLength(21)

  // Those of its user stay, and leave one place.
  add('own', 49 - active().length, 0)
  runSql(state, `UPDATE api_tokens SET name = 'own' WHERE company_id = 7 AND revoked_at IS NULL`)
  await replaceTokens(service, 7)
  await replaceTokens(service, 7)
  expect(active()).toHaveLength(1)
})

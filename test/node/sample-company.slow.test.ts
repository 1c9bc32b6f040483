import { expect, it, onTestFinished, vi } from 'vitest'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { prepareSample, replaceTokens } from '../../src/cli/sample-company.ts'
import { claimState, connect } from '../../src/cli/target.ts'
import { startSimulators } from '../../src/simulators/start.ts'
import { smallShop } from '../support/small-shop.ts'
import { freshState, runHere, runSql, servedState, writeSeed } from './cli-support.ts'

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

it('a start completes a sample company that an interrupted one has loaded in part, and leaves a complete one', async () => {
  const state = await servedState(await freshState())
  const claim = await claimState(state)
  if (!('url' in claim)) throw new Error('It is not served.')
  const simulators = await startSimulators()
  onTestFinished(simulators.close)
  const start = () => prepareSample({ url: claim.url, token: readDevVars().ADMIN_TOKEN }, simulators.integrations)
  const count = (table: string) => runSql(state, `SELECT count(*) AS n FROM ${table} WHERE company_id = 1`)[0]?.n

  // All dates of the sample are other ones on another day.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3 * 86_400_000 })
  const real = fetch
  let parts = 0
  vi.stubGlobal('fetch', (url: URL, init: RequestInit) => {
    const isLoad = String(url).includes('/imports') && String(init.body).includes('"check":false')
    if (isLoad && ++parts > 1) return Promise.reject(new TypeError('stopped'))
    return real(url, init)
  })
  await expect(start()).rejects.toThrow('cannot be reached')
  vi.unstubAllGlobals()
  vi.useRealTimers()
  expect(count('orders')).toBeLessThan(80)

  await start()
  expect([count('orders'), count('integrations')]).toEqual([80, 3])
  expect(count('thread_contexts')).toBeGreaterThan(0)

  runSql(state, `UPDATE order_statuses SET title = 'own' WHERE company_id = 1 AND id = 1`)
  await start()
  expect(runSql(state, 'SELECT title FROM order_statuses WHERE company_id = 1 AND id = 1')).toEqual([{ title: 'own' }])
})

import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { openDatabase } from '../../src/kernel/db/client.ts'
import { continueMove } from '../../src/operation/copies/move.ts'
import { raiseSequences, removeSome } from '../../src/operation/copies/restore-queries.ts'
import { SEQUENCES, type Sequences } from '../../src/operation/copies/tables.ts'
import { backUp, restore, wipe } from '../operation/copies/support.ts'
import { operatorOf } from '../support/admin.ts'
import { type Home, mintCompany, sql } from '../support/app.ts'
import { meterBindings } from '../support/meter.ts'
import { readStored } from './support.ts'
import { openWorks, type Work } from './work.ts'

async function move(work: Work, to: Home, between: () => Promise<unknown>) {
  for (let count = 1; count < 500; count++) {
    const result = await continueMove(env, operatorOf(work.companyId), to, 0)
    if (result.done) break
    if (count % 3 === 0) await between()
  }
  work.home = to
}

async function begin(seed: number, steps: number) {
  const [look, work] = await openWorks(seed, Date.now())
  for (let at = 0; at < steps; at++) for (const each of [look, work]) await each.step()
  return { look, work, companyId: work.companyId }
}

const quotaOf = (companyId: number) => sql('SELECT storage_quota_bytes FROM companies WHERE id = ?', companyId)

async function expectExact({ companyId, home }: Work) {
  const { counted, real } = await readStored(companyId, home)
  expect(counted).toBe(real)
  expect(counted).toBeGreaterThan(10_000)
}

it.each([1, 2])(
  'a company’s stored bytes are right after it moved to another database and back while it was used (%i)',
  async (seed) => {
    const { work, look, companyId } = await begin(seed * 100, 40)
    await mintCompany({ home: 'DB_TWO' })
    for (const to of ['DB_TWO', 'DB'] as const) {
      await move(work, to, () => work.step().catch(() => undefined))
      await expectExact(work)
      for (let at = 0; at < 15; at++) await work.step()
      await expectExact(work)
      await expectExact(look)
    }
    expect(await quotaOf(companyId)).toEqual([{ storage_quota_bytes: 2_147_483_648 }])
  },
)

it('the end of a restore or a recovery does not read all rows of a company, which may be many', async () => {
  const [, company] = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB' })]
  const key = 'company_id, id, created_at, updated_at, company_name, company_name_key'
  await sql(
    `INSERT INTO clients (${key}) WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
     SELECT ?1, i, 0, 0, 'Acme', 'ACME' FROM n`,
    company.id,
  )
  await sql('UPDATE companies SET recounted_at = 5 WHERE id = ?', company.id)
  await removeSome({ companyId: company.id, db: openDatabase(env.DB) }, 'changes')
  const { env: metered, take } = meterBindings(env)
  const sequences = Object.fromEntries(SEQUENCES.map((name) => [name, 2_000])) as Sequences
  await raiseSequences({ companyId: company.id, db: openDatabase(metered.DB) }, sequences, null)
  expect(take().rowsRead).toBeLessThan(100)
  expect(await sql('SELECT recounted_at FROM companies WHERE id = ?', company.id)).toEqual([{ recounted_at: 0 }])
})

it('a company’s stored bytes and its quota are right after a restore', async () => {
  const { work, look, companyId } = await begin(7, 60)
  await sql('UPDATE companies SET storage_quota_bytes = 5000000 WHERE id = ?', companyId)
  await backUp(companyId)
  await wipe(companyId)
  expect(await restore(companyId, new Date(Date.now() + 1_000).toISOString())).toMatchObject({ done: true })
  await expectExact(work)
  for (let at = 0; at < 20; at++) await work.step()
  await expectExact(work)
  await expectExact(look)
  expect(await quotaOf(companyId)).toEqual([{ storage_quota_bytes: 5_000_000 }])
})

import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { moveFor } from '../../src/operation/copies/move.ts'
import { backUp, restore, wipe } from '../operation/copies/support.ts'
import { operatorOf } from '../support/admin.ts'
import { type Home, mintCompany, sql } from '../support/app.ts'
import { readStored } from './support.ts'
import { openWorks, type Work } from './work.ts'

async function move(work: Work, to: Home, between: () => Promise<unknown>) {
  for (let count = 1; count < 500; count++) {
    const result = await moveFor(env, operatorOf(work.companyId), to, 0)
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

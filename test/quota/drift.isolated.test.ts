import { env } from 'cloudflare:workers'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { openDatabase } from '../../src/kernel/db/client.ts'
import { readGauges, recountDaily, recountOf } from '../../src/kernel/db/sweep.ts'
import { sql } from '../support/app.ts'
import { fillQuota, mintPair, readStored } from './support.ts'
import { openWorks } from './work.ts'

const START_MS = Date.UTC(2026, 10, 1)

it('the stored bytes of a company are the sum of its rows after any writes, deletes and sweeps of two companies', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer(), fc.integer({ min: 1, max: 60 }), async (seed, steps) => {
      const works = await openWorks(seed, START_MS)
      for (let at = 0; at < steps; at++) {
        for (const work of works) {
          if (at === 40) await fillQuota(work.companyId, (await readStored(work.companyId)).counted)
          await work.step()
          const { counted, real } = await readStored(work.companyId)
          expect([at, counted]).toEqual([at, real])
        }
      }
      for (const { companyId } of works) {
        const before = await readStored(companyId)
        await openDatabase(env.DB).write([recountOf(companyId, START_MS)])
        expect(await readStored(companyId)).toEqual(before)
      }
    }),
    { numRuns: 6 },
  )
})

it('the stored bytes of a company are counted for the first time by the sweep, and once a day', async () => {
  const { other, company } = await mintPair()
  await company.call('POST', '/clients', { company_name: 'New' })
  const before = await readStored(company.id)
  await sql('UPDATE companies SET recounted_at = 9e15')
  await sql('UPDATE companies SET recounted_at = NULL, stored_bytes = 5 WHERE id = ?', company.id)
  await sql('UPDATE companies SET recounted_at = ?, stored_bytes = 5 WHERE id = ?', START_MS, other.id)
  await recountDaily(openDatabase(env.DB), START_MS + 86_000_000)
  expect(await readStored(company.id)).toEqual(before)
  expect((await readStored(other.id)).counted).toBe(5)
  await recountDaily(openDatabase(env.DB), START_MS + 87_000_000)
  expect((await readStored(other.id)).counted).toBe(0)
})

it('the stored bytes of a company are not counted again every day where a company stores much: other companies would wait for it', async () => {
  const { other, company } = await mintPair()
  await sql('UPDATE companies SET recounted_at = 9e15')
  const large = 'UPDATE companies SET recounted_at = ?, stored_bytes = 200000001 WHERE id = ?'
  await sql(large, null, other.id)
  await sql(large, 0, company.id)
  await recountDaily(openDatabase(env.DB), START_MS)
  expect((await readStored(other.id)).counted).toBe(0)
  expect((await readStored(company.id)).counted).toBe(200_000_001)
})

it('the stored bytes of a company are counted by and by while those of another company cannot be', async () => {
  const { other, company } = await mintPair()
  await sql('UPDATE companies SET recounted_at = 9e15')
  await sql('UPDATE companies SET recounted_at = NULL WHERE id = ?', other.id)
  await sql('UPDATE companies SET recounted_at = 0, stored_bytes = 5 WHERE id = ?', company.id)
  await sql(`CREATE TRIGGER failing BEFORE UPDATE OF recounted_at ON companies WHEN NEW.id = ${other.id}
    BEGIN SELECT raise(ABORT, 'failed'); END`)
  const recount = () => recountDaily(openDatabase(env.DB), START_MS).catch(() => undefined)
  for (let sweeps = 0; sweeps < 50; sweeps++) await recount()
  await sql('DROP TRIGGER failing')
  expect((await readStored(company.id)).counted).toBe(0)
})

it('the stored bytes of a company are in a gauge where they are above 80 % of the quota', async () => {
  const { company } = await mintPair()
  const near = async () => (await readGauges(env.DB, START_MS))[0]?.companies_near_quota ?? expect.fail('no gauges')
  const before = await near()
  await company.call('POST', '/clients', { company_name: 'New' })
  const { stored_bytes } = (await company.call('GET', '/me')).body.limits
  await fillQuota(company.id, Math.ceil(stored_bytes / 0.79))
  expect(await near()).toBe(before)
  await fillQuota(company.id, Math.floor(stored_bytes / 0.81))
  expect(await near()).toBe(before + 1)
  const nearMail = 'UPDATE companies SET storage_quota_bytes = 1e9, mail_quota_bytes = 10, mail_bytes = 9 WHERE id = ?'
  await sql(nearMail, company.id)
  expect(await near()).toBe(before + 1)
})

import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { manifestKey } from '../../../src/operation/copies/store.ts'
import { adminCall } from '../../support/admin.ts'
import { migrate, mintCompany } from '../../support/app.ts'
import { backUp, wipe } from '../copies/support.ts'

beforeAll(migrate)

it('a restore that cannot begin says why, each problem in its own words', async () => {
  await mintCompany()
  const { id, call } = await mintCompany()
  await call('POST', '/clients', { company_name: 'Acme' })
  const restore = async () => {
    const { status, body } = await adminCall('POST', `/companies/${id}/restore`, { from: '2099-01-01' })
    return [status, body.error?.message]
  }
  expect(await restore()).toEqual([404, 'There is no backup of this company that began until then'])
  await backUp(id)
  expect(await restore()).toEqual([409, 'The company has data: only an empty one can be restored'])

  // One that is complete is forgotten: the next begins anew.
  await wipe(id)
  let result = await adminCall('POST', `/companies/${id}/restore`, { from: '2099-01-01' })
  while (!result.body.done) result = await adminCall('POST', `/companies/${id}/restore`, { from: '2099-01-01' })
  expect(await restore()).toEqual([409, 'The company has data: only an empty one can be restored'])
})

it('a restore of a day leaves out a backup that began at the next midnight; one of that time has it', async () => {
  await mintCompany()
  const { id, call } = await mintCompany()
  await call('POST', '/clients', { company_name: 'Acme' })
  await env.BACKUPS.put(manifestKey(id, { at: '2026-01-31T00:00:00.000Z', kind: 'full' }), '{}')
  const statusOf = async (from: string) => (await adminCall('POST', `/companies/${id}/restore`, { from })).status
  // 404 where there is no backup; 409 where there is one, because the company has data.
  expect(await statusOf('2026-01-30')).toBe(404)
  expect(await statusOf('2026-01-30T23:59:59.999Z')).toBe(404)
  expect(await statusOf('2026-01-31T00:00:00Z')).toBe(409)
  expect(await statusOf('2026-01-31')).toBe(409)
})

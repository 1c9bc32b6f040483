import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { removeExpiredRows } from '../../../src/kernel/db/sweep.ts'
import { adminCall } from '../../support/admin.ts'
import { mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { backUp, bindObject, restore, wipe } from './support.ts'

const sweep = () => removeExpiredRows(openDatabase(env.DB), Date.now())
const change = (company: TestCompany) => company.call('POST', '/clients', { company_name: 'Acme' })

async function auditOf({ id }: TestCompany, query: string) {
  const { status, body } = await adminCall('GET', `/companies/${id}/audit?source=api&${query}`)
  expect(status).toBe(200)
  return body
}

/** A company with three entries that are older than 90 days. @returns also the cursor behind the first two */
async function begin() {
  const company = await mintCompany({ home: 'DB' })
  for (let times = 0; times < 3; times++) expect((await change(company)).status).toBe(200)
  const { data, pagination } = await auditOf(company, 'per_page=2')
  expect(data).toHaveLength(2)
  await sql('UPDATE audit_log SET at = 0 WHERE company_id = ?', company.id)
  return { company, cursor: pagination.next_cursor }
}

/** Expects that the next change is an entry in front of all earlier ones, which have expired. */
async function expectGoesOn({ company, cursor }: Awaited<ReturnType<typeof begin>>): Promise<void> {
  await sweep()
  expect((await auditOf(company, '')).data).toEqual([])
  expect((await change(company)).status).toBe(200)
  expect((await auditOf(company, '')).data).toEqual([expect.objectContaining({ action: 'client.create' })])
  // A cursor leads to older entries only.
  expect((await auditOf(company, `cursor=${cursor}`)).data).toEqual([])
}

it('a restore continues the audit trail behind the entries that had expired before the backup', async () => {
  const begun = await begin()
  const { id } = begun.company
  await sweep()
  await backUp(id)
  await wipe(id)
  expect(await restore(id)).toMatchObject({ done: true, differences: [] })
  await expectGoesOn(begun)
})

it('a restore continues the audit trail behind the entries that expire while it runs', async () => {
  const begun = await begin()
  const { id } = begun.company
  await backUp(id)
  await wipe(id)
  let sweeps = 0
  // The files are listed when all rows are restored.
  const { FILES } = wrapBindings(env, async (name, work) => {
    if (name === 'FILES.list') await sweep().then(() => sweeps++)
    return work()
  })
  await bindObject(id, Object.assign({}, env, { FILES }))
  await restore(id)
  expect(sweeps).toBeGreaterThan(0)
  await expectGoesOn(begun)
})

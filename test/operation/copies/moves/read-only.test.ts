import { beforeEach, expect, it } from 'vitest'
import { adminCall } from '../../../support/admin.ts'
import { type ApiResponse, mintCompany, sql, type TestCompany } from '../../../support/app.ts'
import { insert } from '../../../support/rows.ts'
import { stopTime } from '../../../support/time.ts'
import { dump, rowsOf } from '../../../support/two-companies.ts'

let company: TestCompany
let clientId: number

// A refusal of writes ends after 10 s.
beforeEach(stopTime)
beforeEach(async () => {
  company = await mintCompany()
  clientId = (await company.call('POST', '/clients', { company_name: 'Harbor' })).body.client.id
})

const guard = (state: string) =>
  insert('company_guards', { company_id: company.id, state, destination: 'DB_TWO', slot: 0, read_only_at: Date.now() })

const NAME = { company_name: 'a' }
const THREAD = { account_email: 'a@x.example', messages: [{ text: 'a' }] }
const BATCH = { operations: [{ method: 'POST', path: '/clients', body: NAME }] }
const FILE = { clients: [{ id: 900, company_name: 'Imported' }] }
const IMPORT = { hash: 'a'.repeat(64), part: 1, parts: 1 }
const ofAdmin = (method: string, path: string, body: object) =>
  adminCall(method, `/companies/${company.id}${path}`, body)

const WRITES: Record<string, () => Promise<ApiResponse>> = {
  'creating a client': () => company.call('POST', '/clients', NAME),
  'updating a client': () => company.call('PATCH', `/clients/${clientId}`, NAME),
  'creating an order': () => company.call('POST', '/orders', { title: 'a', client_id: clientId }),
  'storing a mail thread': () => company.call('PUT', '/mail/email-threads/t', THREAD),
  'storing a thread context': () => company.call('PUT', '/mail/threads/t', { client_id: clientId }),
  'changing the company': () => ofAdmin('PATCH', '', { name: 'Renamed' }),
  'an import': () =>
    ofAdmin('POST', '/imports', { ...IMPORT, file: { company: { id: company.id, name: 'Imported' }, ...FILE } }),
}

it.each(Object.entries(WRITES))('%s gets 503 with Retry-After while writes are refused', async (_, write) => {
  await guard('read_only')
  const before = rowsOf(await dump([company.id]), company.id)
  const refused = await write()
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '2'])
  expect(rowsOf(await dump([company.id]), company.id)).toEqual(before)
  expect((await company.call('GET', '/clients')).status).toBe(200)
  await sql('DELETE FROM company_guards')
  expect((await write()).status).toBe(200)
})

it('a batch changes nothing while writes are refused', async () => {
  await guard('read_only')
  const { status, body } = await company.call('POST', '/batch', BATCH)
  expect([status, body.error?.code ?? body.results?.[0]?.status]).toEqual(
    status === 503 ? [503, 'internal_error'] : [200, 503],
  )
  expect(await sql('SELECT id FROM clients WHERE company_id = ?', company.id)).toEqual([{ id: clientId }])
})

import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import type { AdminContext } from '../../../src/operation/admin/context.ts'
import { listFromEach } from '../../../src/operation/admin/queries.ts'
import { ADMIN_TOKEN, addMember, adminCall, adminCallWith, adminRequest, adminSend } from '../../support/admin.ts'
import { call, FREE_SLOT, freshId, type Home, mintCompany, mintToken, sqlIn } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { breakCalls, wrapBindings } from '../../support/wrap-bindings.ts'
import { backUp } from '../copies/support.ts'
import { partsOf } from './transfer-support.ts'

const client = { company_name: 'Harbor Rowing Club', email: 'crew@harbor.example', phone: '555 0100' }
const companiesIn = (home: Home, id: number) => sqlIn(home, 'SELECT name FROM companies WHERE id = ?', id)
const create = (body: object, bindings = {}) => adminCallWith(bindings, 'POST', '/companies', body)
/** A refusal whose message contains a text. */
const refusal = (status: number, text: string) => ({
  status,
  body: { error: { message: expect.stringContaining(text) } },
})

it('creates a company beside a database that is yet to be migrated, and names one that does not respond', async () => {
  const beside = (error: string) => create({ id: 1_000 + freshId() }, breakCalls(env, /^DB_TWO/, new Error(error)))
  expect((await beside('D1_ERROR: no such table: companies: SQLITE_ERROR')).status).toBe(200)
  expect(await beside('D1_ERROR: down')).toMatchObject(refusal(503, 'DB_TWO does not respond'))
})

it('creates a company in a database, with a token, members and settings', async () => {
  // Lower than those of other files, so that a list begins with it.
  const id = 7
  const far = { id, name: 'Far', database: 'DB_TWO' }
  expect(await create(far)).toMatchObject({ status: 200, body: far })
  expect((await create({ ...far, database: 'DB' })).status).toBe(409)
  const { token } = (await adminCall('POST', `/companies/${id}/tokens`, { name: 'a' })).body
  expect((await call(token, 'POST', '/clients', client)).status).toBe(200)
  const counted = await sqlIn('DB_TWO', 'SELECT client_count FROM companies WHERE id = ?', id)
  expect(counted).toEqual([{ client_count: 1 }])
  expect((await adminCall('GET', `/companies/${id}`)).body).toMatchObject({ database: 'DB_TWO', client_count: 1 })
  await addMember(id, 'far@example.com', 'owner')
  expect((await adminCall('GET', `/companies/${id}/members`)).body.data).toHaveLength(1)
  const hook = await adminCall('POST', `/companies/${id}/webhooks`, { url: 'https://1.1.1.1/a' })
  const { data: hooks } = (await adminCall('GET', `/webhooks?id=${hook.body.id}`)).body
  expect(hooks).toMatchObject([{ id: hook.body.id, company_id: id }])
  const [part] = partsOf({ company: { id, name: 'Far away' }, clients: [{ id: 900, company_name: 'Imported' }] })
  expect((await adminCall('POST', `/companies/${id}/imports`, part)).status).toBe(200)
  const { data } = (await adminCall('GET', '/companies?per_page=100')).body
  expect(data.find((each: { id: number }) => each.id === id)).toMatchObject({ name: 'Far away', client_count: 2 })
  const audit = (await adminCall('GET', `/companies/${id}/audit`)).body.data
  expect(audit.map((each: { action: string }) => each.action)).toEqual(
    expect.arrayContaining(['companies.create', 'tokens.create', 'companies.import']),
  )
  expect(await sqlIn('DB_TWO', 'SELECT count(*) AS left FROM admin_log')).toEqual([{ left: 0 }])
})

it('creates none over the rows of one that the directory has lost', async () => {
  const id = freshId()
  const [free] = await sqlIn<{ slot: number }>('DB_TWO', `SELECT ${FREE_SLOT} AS slot FROM companies`)
  await insert('companies', { id, name: 'Lost', slot: free?.slot ?? 0, created_at: 0, updated_at: 0 }, 'DB_TWO')
  const lost = { id: 1, company_id: id, company_name: 'a', company_name_key: 'A', created_at: 0, updated_at: 0 }
  await insert('clients', lost, 'DB_TWO')
  expect(await create({ id, database: 'DB_TWO' })).toMatchObject(refusal(409, 'the directory has lost'))
  expect(await companiesIn('DB', id)).toEqual([])
  for (const table of ['clients', 'changes']) await sqlIn('DB_TWO', `DELETE FROM ${table} WHERE company_id = ?`, id)
  await sqlIn('DB_TWO', 'DELETE FROM companies WHERE id = ?', id)
})

describe('refuses a company whose data is in a database while the directory has lost it:', () => {
  let id: number
  beforeEach(async () => {
    const there = await mintCompany({ home: 'DB_TWO' })
    id = there.id
    await there.call('POST', '/clients', client)
    await backUp(id)
    await adminCall('PATCH', `/companies/${id}`, { name: 'Harbor', suspended: true })
    const ofDirectory = ['api_tokens', 'members', 'admin_log']
    for (const table of ofDirectory) await sqlIn('DB', `DELETE FROM ${table} WHERE company_id = ?`, id)
    await sqlIn('DB', 'DELETE FROM companies WHERE id = ?', id)
  })

  const file = () => ({ company: { id, name: 'Imported' }, clients: [{ id: 1, company_name: 'Other' }] })
  const parts = () => ({ hash: 'b'.repeat(64), part: 1, parts: 1, file: file() })
  it.each<[string, () => ReturnType<typeof adminCall>]>([
    ['a creation in DB', () => create({ id })],
    ['a creation in the database itself', () => create({ id, database: 'DB_TWO' })],
    ['an adoption in DB', () => create({ id, adopt: true })],
    ['an import', () => adminCall('POST', `/companies/${id}/imports`, parts())],
    ['the check of an import', () => adminCall('POST', `/companies/${id}/imports`, { ...parts(), check: true })],
    ['a restore', () => adminCall('POST', `/companies/${id}/restore`, { from: '2099-01-01' })],
  ])('%s', async (_, send) => {
    expect(await send()).toMatchObject(refusal(409, '--database DB_TWO --adopt'))
    expect([await companiesIn('DB', id), await companiesIn('DB_TWO', id)]).toEqual([[], [{ name: 'Harbor' }]])
  })

  it('one that is adopted there is as it was', async () => {
    const adopted = { id, name: 'Harbor', database: 'DB_TWO' }
    expect(await create({ id, database: 'DB_TWO', adopt: true })).toMatchObject({ status: 200, body: adopted })
    const after = { ...adopted, suspended: true, client_count: 1 }
    expect((await adminCall('GET', `/companies/${id}`)).body).toMatchObject(after)
    expect((await call(await mintToken(id), 'GET', '/clients')).status).toBe(403)
    await adminCall('PATCH', `/companies/${id}`, { suspended: false })
    expect((await call(await mintToken(id), 'GET', '/clients')).body.data).toMatchObject([client])
    expect((await create({ id, database: 'DB_TWO', adopt: true })).status).toBe(409)
  })
})

it('adopts no company that has no data in the database', async () => {
  const id = freshId()
  const adopted = await create({ id, database: 'DB_TWO', adopt: true })
  expect(adopted).toMatchObject(refusal(409, 'DB_TWO has no data of company'))
  expect(await companiesIn('DB_TWO', id)).toEqual([])
})

it('says what to do where the directory has a company that its database has lost', async () => {
  const [lost, id] = [freshId(), freshId()]
  expect((await create({ id: lost, database: 'DB_TWO' })).status).toBe(200)
  await sqlIn('DB_TWO', 'DELETE FROM companies WHERE id = ?', lost)
  expect(await create({ id, database: 'DB_TWO' })).toMatchObject(refusal(409, 'set both back'))
  expect(await companiesIn('DB', id)).toEqual([])
  // Others get this place in other tests.
  await sqlIn('DB', 'DELETE FROM admin_log WHERE company_id = ?', lost)
  await sqlIn('DB', 'DELETE FROM companies WHERE id = ?', lost)
  await sqlIn('DB_TWO', 'DELETE FROM companies WHERE id = ?', id)
})

it('refuses a cursor of a list of all databases whose database is gone', async () => {
  const context = { env, companyId: 0 } as unknown as AdminContext
  const page = { after: ['1', 'DB_GONE'], limit: 1, query: { per_page: 1 } }
  await expect(listFromEach(context, page, async () => [])).rejects.toMatchObject({ kind: 'invalid_request' })
})

it.each([['DB'], ['DB_TWO'], ['DB', 'DB_TWO']])('creates a company once, with one entry: in %j', async (...names) => {
  const id = freshId()
  const created = await Promise.all([...names, ...names].map((database) => create({ id, database })))
  expect(created.map(({ status }) => status).sort()).toEqual([200, ...created.slice(1).map(() => 409)])
  const entries = await sqlIn('DB', 'SELECT action FROM admin_log WHERE company_id = ?', id)
  expect(entries).toEqual([{ action: 'companies.create' }])
})

it('tells whether tokens are refused where a suspension in another database was interrupted, then repeated and then ended', async () => {
  const one = await mintCompany({ home: 'DB_TWO' })
  let isStored = false
  const interrupted = wrapBindings(env, async (name, work) => {
    if (isStored && name === 'DB.batch') throw new Error('D1_ERROR: D1 DB is overloaded. Too many requests queued.')
    const result = await work()
    if (name === 'DB_TWO.batch') isStored = true
    return result
  })
  const change = { suspended: true, name: 'Renamed' }
  expect((await adminCallWith(interrupted, 'PATCH', `/companies/${one.id}`, change)).status).toBe(503)
  const findListed = async (query = ''): Promise<{ suspended: boolean }> => {
    const { data, pagination } = (await adminCall('GET', `/companies?per_page=100${query}`)).body
    const listed = data.find(({ id }: { id: number }) => id === one.id)
    return listed ?? findListed(`&cursor=${pagination.next_cursor}`)
  }
  const isSuspended = async () => {
    const { status } = await call(await mintToken(one.id), 'GET', '/clients')
    const read = (await adminCall('GET', `/companies/${one.id}`)).body
    return [read.suspended, (await findListed()).suspended, status]
  }
  expect(await isSuspended()).toEqual([false, false, 200])
  await adminCall('PATCH', `/companies/${one.id}`, change)
  expect(await isSuspended()).toEqual([true, true, 403])
  await adminCall('PATCH', `/companies/${one.id}`, { suspended: false })
  expect(await isSuspended()).toEqual([false, false, 200])
})

it('lists the databases, with the companies that have not left them', async () => {
  const { id: company_id } = await mintCompany({ home: 'DB_TWO' })
  await mintCompany({ home: 'DB_TWO' })
  const list = async () => (await adminCall('GET', '/databases')).body.data
  const [, before] = await list()
  const moved = { company_id, state: 'moved', destination: 'DB', slot: 1 }
  await insert('company_guards', moved, 'DB_TWO')
  const after = await list()
  expect(after.map(({ name }: { name: string }) => name)).toEqual(['DB', 'DB_TWO'])
  expect(after[1].companies).toBe(before.companies - 1)
  expect([after[1].companies > 0, after[1].size_bytes > 0]).toEqual([true, true])
  const { DB_TWO: _, ...without } = env
  const sent = adminRequest('GET', '/databases', undefined, { authorization: `Bearer ${ADMIN_TOKEN}` })
  expect((await adminSend(sent, without as Env)).body.data).toHaveLength(1)
})

it('refuses a database that the deployment does not have', async () => {
  expect(await create({ id: 7_000_002, database: 'DB_NONE' })).toMatchObject(refusal(400, 'DB or DB_TWO'))
  const { id } = await mintCompany()
  expect((await adminCall('POST', `/companies/${id}/move`, { database: 'CACHE' })).status).toBe(400)
})

import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { statement } from '../../../src/kernel/db/client.ts'
import { databaseFor } from '../../../src/kernel/db/placement.ts'
import type { AdminContext } from '../../../src/operation/admin/context.ts'
import { listFromEach } from '../../../src/operation/admin/queries.ts'
import { partsOf } from '../../operation/admin/import-support.ts'
import { sessionsOf } from '../../operation/copies/moves/support.ts'
import { backUp } from '../../operation/copies/support.ts'
import { ADMIN_TOKEN, addMember, adminCall, adminCallWith, adminRequest, adminSend } from '../../support/admin.ts'
import { call, freshId, mintCompany, mintToken, request, send, sqlIn, type TestCompany } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { logLines } from '../../support/log.ts'
import { insert } from '../../support/rows.ts'
import { breakCalls, wrapBindings } from '../../support/wrap-bindings.ts'

let here: TestCompany
let there: TestCompany

beforeEach(async () => {
  here = await mintCompany({ home: 'DB' })
  there = await mintCompany({ home: 'DB_TWO' })
})

const client = { company_name: 'Harbor Rowing Club', email: 'crew@harbor.example', phone: '555 0100' }

describe('a company in another database', () => {
  it('has its data there, and nothing of it in the directory', async () => {
    const { status, body } = await there.call('POST', '/clients', client)
    expect(status).toBe(200)
    expect(await sqlIn('DB_TWO', 'SELECT id FROM clients WHERE company_id = ?', there.id)).toEqual([
      { id: body.client.id },
    ])
    expect(await sqlIn('DB', 'SELECT id FROM clients WHERE company_id = ?', there.id)).toEqual([])
  })

  it('reads its account, and takes as many round trips one after the other', async () => {
    const { body } = await there.call('GET', '/me')
    expect(body.company).toEqual({ id: there.id, name: `Company ${there.id}`, currency: 'USD' })
    const [first, second] = await Promise.all(
      [here, there].map(({ token }) => measureHops(request(token, 'GET', '/clients'))),
    )
    expect(second?.depth).toBe(first?.depth)
    expect(second?.hops.map(({ name }) => name)).toContain('DB_TWO.batch')
  })

  it('has the export of its data in the audit trail at once', async () => {
    expect((await adminCall('GET', `/companies/${there.id}/export`)).status).toBe(200)
    const entries = "SELECT actor FROM admin_log WHERE company_id = ? AND action = 'companies.export'"
    expect(await sqlIn('DB', entries, there.id)).toEqual([{ actor: 'operator' }])
  })

  it('gets a bookmark that is of its database, and another database’s is ignored', async () => {
    const { headers } = await there.call('GET', '/clients')
    expect(headers.get('x-bookmark')).toMatch(/@DB_TWO$/)
    const mark = String(headers.get('x-bookmark'))
    const foreign = mark.replace('@DB_TWO', '')
    const sessions: unknown[] = []
    for (const sent of [mark, foreign]) {
      const get = request(there.token, 'GET', '/clients', undefined, { 'x-bookmark': sent })
      sessions.push(...(await sessionsOf('DB_TWO', get)).sessions)
    }
    expect(sessions).toEqual([foreign, 'first-primary'])
  })
})

const failing = breakCalls(env, /^DB_TWO\./, new Error('D1_ERROR: D1 DB is overloaded. Requests queued.'))

describe('a database that fails', () => {
  it.each(['GET', 'POST'])('answers %s of its companies with 503, and serves all others', async (method) => {
    const body = method === 'POST' ? { ...client, email: null } : undefined
    const refused = await send(request(there.token, method, '/clients', body), { env: failing })
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
    expect((await send(request(here.token, method, '/clients', body), { env: failing })).status).toBe(200)
  })
})

describe('a request of which a part was carried out', () => {
  it.each([
    ['POST', '/clients', { company_name: 'Lost' }, null],
    ['PUT', '/mail/email-threads/lost', { account_email: 'a@x.example', messages: [{ a: 1 }] }, '2'],
  ])('because only the response of the database was lost: %s %s', async (method, path, body, retryAfter) => {
    const losing = wrapBindings(env, async (name, work) => {
      const done = await work()
      if (name.startsWith('DB_TWO.')) throw new Error('D1_ERROR: Network connection lost.')
      return done
    })
    const response = await send(request(there.token, method, path, body), { env: losing })
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, retryAfter])
  })

  it('before the writes of its company were refused is not told that nothing was changed', async () => {
    const { id, token } = await mintCompany({ home: 'DB_TWO' })
    const of = (external_id: string) => ({ method: 'POST', path: '/clients', body: { company_name: 'A', external_id } })
    const { client } = (await call(token, 'POST', '/clients', of('other').body)).body
    expect((await call(token, 'POST', '/clients', of('taken').body)).status).toBe(200)
    const freeze = `INSERT INTO company_guards (company_id, state, destination, slot, read_only_at) VALUES (?, 'read_only', 'DB', 0, ?)`
    let writes = 0
    const freezing = wrapBindings(env, async (name, work) => {
      const done = await work()
      if (name === 'DB_TWO.batch' && ++writes === 1) await sqlIn('DB_TWO', freeze, id, Date.now())
      return done
    })
    // A change finds only in its own transaction that the id is taken: the creation is carried out before it.
    const taking = { method: 'PATCH', path: `/clients/${client.id}`, body: { external_id: 'taken' } }
    const operations = { operations: [of('free'), taking] }
    const response = await send(request(token, 'POST', '/batch', operations), { env: freezing })
    const rows = await sqlIn('DB_TWO', 'SELECT external_id FROM clients WHERE company_id = ? ORDER BY id', id)
    expect(rows.map(({ external_id }) => external_id)).toEqual(['other', 'taken', 'free'])
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, null])
    expect(response.body.error.message).toContain('may have been carried out')
    await sqlIn('DB_TWO', 'DELETE FROM company_guards WHERE company_id = ?', id)
  })
})

describe('a request that has read before its company moved', () => {
  it('may read again, but its write gets 503 with Retry-After however often it has read', async () => {
    const { id } = here
    const db = databaseFor(env, { companyId: id, database: 'DB' })
    const read = () => db.read([statement('SELECT count(*) FROM clients WHERE company_id = ?', id)])
    const write = () => db.write([statement("UPDATE clients SET company_name = 'x' WHERE company_id = ?", id)])
    await read()
    const moved = "INSERT INTO company_guards (company_id, state, destination, slot) VALUES (?, 'moved', 'DB_TWO', 0)"
    await sqlIn('DB', moved, id)
    for (let reads = 0; reads < 3; reads++) {
      const refused = { kind: 'unavailable', headers: { 'Retry-After': '2' }, cause: 'it has just moved' }
      await expect(write()).rejects.toMatchObject(refused)
      await read()
    }
    await sqlIn('DB', 'DELETE FROM company_guards WHERE company_id = ?', id)
  })
})

describe('a placement that names a missing binding', () => {
  it('is 503 and a line of the log, and never another company’s data', async () => {
    const { DB_TWO: _, ...without } = env
    for (const method of ['GET', 'POST']) {
      const sent = request(there.token, method, '/clients', method === 'POST' ? client : undefined)
      const refused = await send(sent, { env: without as Env })
      expect(refused.status).toBe(503)
      expect(JSON.stringify(refused.body)).not.toContain('Harbor')
    }
    expect(logLines.some(({ event, database }) => event === 'database_missing' && database === 'DB_TWO')).toBe(true)
    expect((await send(request(here.token, 'GET', '/clients'), { env: without as Env })).status).toBe(200)
  })
})

describe('a company whose rows its database has lost', () => {
  const linesOf = (name: string) =>
    logLines.filter((line) => line.event === 'company_missing' && line.database === name)
  const routes = [
    ['GET', '/clients'],
    ['GET', '/changes?start=latest'],
    ['GET', '/me'],
    ['POST', '/clients', client],
  ] as const

  it('is 503, and not a company without data, which integrators would copy', async () => {
    await sqlIn('DB', "UPDATE companies SET database = 'DB_TWO', database_slot = 1001 WHERE id = ?", here.id)
    for (const [method, path, body] of routes) {
      const { status, headers } = await here.call(method, path, body)
      expect([status, headers.get('retry-after')]).toEqual([503, '2'])
    }
    expect(linesOf('DB_TWO')).toHaveLength(routes.length)
    // An administrator does not make it one without data, either.
    expect((await adminCall('GET', `/companies/${here.id}/webhooks`)).status).toBe(503)
    const [part] = partsOf({ company: { id: here.id, name: 'Harbor' } })
    const imported = await adminCall('POST', `/companies/${here.id}/imports`, part)
    expect([imported.status, imported.body.error.message]).toEqual([
      409,
      `DB_TWO has lost company ${here.id}: restore it`,
    ])
    expect((await here.call('GET', '/clients')).status).toBe(503)
  })

  it('is 503 also where it had moved on to the directory, whose row of it is a copy', async () => {
    const moved = "INSERT INTO company_guards (company_id, state, destination, slot) VALUES (?, 'moved', 'DB', 0)"
    await sqlIn('DB_TWO', moved, there.id)
    for (const [method, path, body] of routes) expect((await there.call(method, path, body)).status).toBe(503)
    expect(await sqlIn('DB', 'SELECT id FROM clients WHERE company_id = ?', there.id)).toEqual([])
    expect(linesOf('DB')).toHaveLength(routes.length)
    await sqlIn(
      'DB',
      "INSERT INTO company_guards (company_id, state, destination, slot) VALUES (?, 'writable', 'DB', 0)",
      there.id,
    )
    expect((await there.call('GET', '/clients')).status).toBe(200)
  })
})

describe('the administration API', () => {
  it('lists all companies while a database fails', async () => {
    const { status, body } = await adminCallWith(failing, 'GET', '/companies?per_page=100')
    expect(status).toBe(200)
    expect(body.data.length).toBeGreaterThan(1)
  })

  it('creates a company beside a database that is yet to be migrated, and names one that does not respond', async () => {
    const create = (error: string) =>
      adminCallWith(breakCalls(env, /^DB_TWO/, new Error(error)), 'POST', '/companies', { id: 1_000 + freshId() })
    expect((await create('D1_ERROR: no such table: companies: SQLITE_ERROR')).status).toBe(200)
    const { status, body } = await create('D1_ERROR: down')
    expect([status, body.error.message]).toEqual([503, expect.stringContaining('DB_TWO does not respond')])
  })

  it('creates a company in a database, with a token, members and settings', async () => {
    // Lower than those of other files, so that a list begins with it.
    const id = 7
    const created = await adminCall('POST', '/companies', { id, name: 'Far', database: 'DB_TWO' })
    expect(created).toMatchObject({ status: 200, body: { id, name: 'Far', database: 'DB_TWO' } })
    expect((await adminCall('POST', '/companies', { id, name: 'Far', database: 'DB' })).status).toBe(409)
    const { token } = (await adminCall('POST', `/companies/${id}/tokens`, { name: 'a' })).body
    expect((await call(token, 'POST', '/clients', client)).status).toBe(200)
    expect((await sqlIn('DB_TWO', 'SELECT client_count FROM companies WHERE id = ?', id))[0]).toEqual({
      client_count: 1,
    })
    expect((await adminCall('GET', `/companies/${id}`)).body).toMatchObject({ database: 'DB_TWO', client_count: 1 })
    await addMember(id, 'far@example.com', 'owner')
    expect((await adminCall('GET', `/companies/${id}/members`)).body.data).toHaveLength(1)
    const hook = await adminCall('POST', `/companies/${id}/webhooks`, { url: 'https://1.1.1.1/a' })
    const { data: hooks } = (await adminCall('GET', `/webhooks?id=${hook.body.id}`)).body
    expect(hooks).toMatchObject([{ id: hook.body.id, company_id: id }])
    const imported = {
      ...{ hash: 'a'.repeat(64), part: 1, parts: 1 },
      file: { company: { id, name: 'Far away' }, clients: [{ id: 900, company_name: 'Imported' }] },
    }
    expect((await adminCall('POST', `/companies/${id}/imports`, imported)).status).toBe(200)
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
    const [free] = await sqlIn<{ slot: number }>('DB_TWO', 'SELECT max(slot) + 1 AS slot FROM companies')
    await insert('companies', { id, name: 'Lost', slot: free?.slot ?? 0, created_at: 0, updated_at: 0 }, 'DB_TWO')
    const lost = { id: 1, company_id: id, company_name: 'a', company_name_key: 'A', created_at: 0, updated_at: 0 }
    await insert('clients', lost, 'DB_TWO')
    const { status, body } = await adminCall('POST', '/companies', { id, database: 'DB_TWO' })
    expect([status, body.error.message]).toEqual([409, expect.stringContaining('the directory has lost')])
    expect(await sqlIn('DB', 'SELECT id FROM companies WHERE id = ?', id)).toEqual([])
    for (const table of ['clients', 'changes']) await sqlIn('DB_TWO', `DELETE FROM ${table} WHERE company_id = ?`, id)
    await sqlIn('DB_TWO', 'DELETE FROM companies WHERE id = ?', id)
  })

  describe('refuses a company whose data is in a database while the directory has lost it:', () => {
    let id: number
    beforeEach(async () => {
      id = there.id
      await there.call('POST', '/clients', client)
      await backUp(id)
      await adminCall('PATCH', `/companies/${id}`, { name: 'Harbor', suspended: true })
      const ofDirectory = ['api_tokens', 'members', 'admin_log']
      for (const table of ofDirectory) await sqlIn('DB', `DELETE FROM ${table} WHERE company_id = ?`, id)
      await sqlIn('DB', 'DELETE FROM companies WHERE id = ?', id)
    })

    const create = (body: object) => adminCall('POST', '/companies', { id, ...body })
    const file = () => ({ company: { id, name: 'Imported' }, clients: [{ id: 1, company_name: 'Other' }] })
    const parts = () => ({ hash: 'b'.repeat(64), part: 1, parts: 1, file: file() })
    it.each<[string, () => ReturnType<typeof adminCall>]>([
      ['a creation in DB', () => create({})],
      ['a creation in the database itself', () => create({ database: 'DB_TWO' })],
      ['an adoption in DB', () => create({ adopt: true })],
      ['an import', () => adminCall('POST', `/companies/${id}/imports`, parts())],
      ['the check of an import', () => adminCall('POST', `/companies/${id}/imports`, { ...parts(), check: true })],
      ['a restore', () => adminCall('POST', `/companies/${id}/restore`, { from: '2099-01-01' })],
    ])('%s', async (_, send) => {
      const { status, body } = await send()
      expect([status, body.error?.message]).toEqual([409, expect.stringContaining(`--database DB_TWO --adopt`)])
      for (const home of ['DB', 'DB_TWO'] as const) {
        const kept = await sqlIn(home, 'SELECT name FROM companies WHERE id = ?', id)
        expect(kept).toEqual(home === 'DB' ? [] : [{ name: 'Harbor' }])
      }
    })

    it('one that is adopted there is as it was', async () => {
      const adopted = { id, name: 'Harbor', database: 'DB_TWO' }
      expect(await create({ database: 'DB_TWO', adopt: true })).toMatchObject({ status: 200, body: adopted })
      const after = { ...adopted, suspended: true, client_count: 1 }
      expect((await adminCall('GET', `/companies/${id}`)).body).toMatchObject(after)
      expect((await call(await mintToken(id), 'GET', '/clients')).status).toBe(403)
      await adminCall('PATCH', `/companies/${id}`, { suspended: false })
      expect((await call(await mintToken(id), 'GET', '/clients')).body.data).toMatchObject([client])
      expect((await create({ database: 'DB_TWO', adopt: true })).status).toBe(409)
    })
  })

  it('adopts no company that has no data in the database', async () => {
    const id = freshId()
    const { status, body } = await adminCall('POST', '/companies', { id, database: 'DB_TWO', adopt: true })
    expect([status, body.error?.message]).toEqual([409, expect.stringContaining('DB_TWO has no data of company')])
    expect(await sqlIn('DB_TWO', 'SELECT id FROM companies WHERE id = ?', id)).toEqual([])
  })

  it('says what to do where the directory has a company that its database has lost', async () => {
    const [lost, id] = [freshId(), freshId()]
    expect((await adminCall('POST', '/companies', { id: lost, database: 'DB_TWO' })).status).toBe(200)
    await sqlIn('DB_TWO', 'DELETE FROM companies WHERE id = ?', lost)
    const { status, body } = await adminCall('POST', '/companies', { id, database: 'DB_TWO' })
    expect([status, body.error.message]).toEqual([409, expect.stringContaining('set both back')])
    expect(await sqlIn('DB', 'SELECT id FROM companies WHERE id = ?', id)).toEqual([])
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

  it.each([['DB'], ['DB_TWO'], ['DB', 'DB_TWO']])(
    'creates a company once, with one entry in the log: %j',
    async (...names) => {
      const id = freshId()
      const create = (database: string) => adminCall('POST', '/companies', { id, database })
      const created = await Promise.all([...names, ...names].map(create))
      expect(created.map(({ status }) => status).sort()).toEqual([200, ...created.slice(1).map(() => 409)])
      expect(await sqlIn('DB', 'SELECT action FROM admin_log WHERE company_id = ?', id)).toEqual([
        { action: 'companies.create' },
      ])
    },
  )

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
    const guard = "INSERT INTO company_guards (company_id, state, destination, slot) VALUES (?, 'moved', 'DB', 1)"
    const countHere = async () => (await adminCall('GET', '/databases')).body.data[1].companies
    const before = await countHere()
    await sqlIn('DB_TWO', guard, there.id)
    expect(await countHere()).toBe(before - 1)
    const { body } = await adminCall('GET', '/databases')
    expect(body.data.map(({ name }: { name: string }) => name)).toEqual(['DB', 'DB_TWO'])
    expect(body.data[1].companies).toBeGreaterThan(0)
    expect(body.data[1].size_bytes).toBeGreaterThan(0)
    const { DB_TWO: _, ...without } = env
    const sent = adminRequest('GET', '/databases', undefined, { authorization: `Bearer ${ADMIN_TOKEN}` })
    expect((await adminSend(sent, without as Env)).body.data).toHaveLength(1)
  })

  it('refuses a database that the deployment does not have', async () => {
    const { status, body } = await adminCall('POST', '/companies', { id: 7_000_002, database: 'DB_NONE' })
    expect(status).toBe(400)
    expect(body.error.message).toContain('DB or DB_TWO')
    expect((await adminCall('POST', `/companies/${here.id}/move`, { database: 'CACHE' })).status).toBe(400)
  })
})

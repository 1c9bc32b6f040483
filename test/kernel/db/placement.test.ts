import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { statement } from '../../../src/kernel/db/client.ts'
import { databaseFor } from '../../../src/kernel/db/placement.ts'
import { partsOf } from '../../operation/admin/transfer-support.ts'
import { sessionsOf } from '../../operation/copies/moves/support.ts'
import { adminCall, adminCallWith } from '../../support/admin.ts'
import { call, expect200, type Home, mintCompany, request, send, sqlIn, type TestCompany } from '../../support/app.ts'
import { ADMIT, hopsOf } from '../../support/hops.ts'
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
const clientsIn = (home: Home, companyId: number) =>
  sqlIn<{ id: number }>(home, 'SELECT id FROM clients WHERE company_id = ?', companyId)

/** What a database knows of the moves of a company. */
const guard = (home: Home, company_id: number, state: string, destination: Home, slot = 0) =>
  insert('company_guards', { company_id, state, destination, slot, read_only_at: Date.now() }, home)
const unguard = (home: Home, companyId: number) =>
  sqlIn(home, 'DELETE FROM company_guards WHERE company_id = ?', companyId)

describe('a company in another database', () => {
  it('has its data there, and nothing of it in the directory', async () => {
    const body = expect200(await there.call('POST', '/clients', client))
    expect(await clientsIn('DB_TWO', there.id)).toEqual([{ id: body.client.id }])
    expect(await clientsIn('DB', there.id)).toEqual([])
  })

  it('reads its account, and takes as many round trips one after the other', async () => {
    const { body } = await there.call('GET', '/me')
    expect(body.company).toEqual({ id: there.id, name: `Company ${there.id}`, currency: 'USD' })
    expect(await hopsOf(here.token, 'GET', '/clients')).toEqual([200, ADMIT, '2 DB.batch'])
    expect(await hopsOf(there.token, 'GET', '/clients')).toEqual([200, ADMIT, '2 DB_TWO.batch'])
  })

  it('has the export of its data in the audit trail at once', async () => {
    expect((await adminCall('GET', `/companies/${there.id}/export`)).status).toBe(200)
    const entries = "SELECT actor FROM admin_log WHERE company_id = ? AND action = 'companies.export'"
    expect(await sqlIn('DB', entries, there.id)).toEqual([{ actor: 'operator' }])
  })

  it('gets a bookmark that is of its database, and another database’s is ignored', async () => {
    const { headers } = await there.call('GET', '/clients')
    const mark = String(headers.get('x-bookmark'))
    expect(mark).toMatch(/@DB_TWO$/)
    const foreign = mark.replace('@DB_TWO', '')
    for (const [sent, session] of Object.entries({ [mark]: foreign, [foreign]: 'first-primary' })) {
      const get = request(there.token, 'GET', '/clients', undefined, { 'x-bookmark': sent })
      expect((await sessionsOf('DB_TWO', get)).sessions).toEqual([session])
    }
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

  it('leaves out none of its companies in the list of all', async () => {
    const body = expect200(await adminCallWith(failing, 'GET', '/companies?per_page=100'))
    expect(body.data.length).toBeGreaterThan(1)
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
    let writes = 0
    const freezing = wrapBindings(env, async (name, work) => {
      const done = await work()
      if (name === 'DB_TWO.batch' && ++writes === 1) await guard('DB_TWO', id, 'read_only', 'DB')
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
    await unguard('DB_TWO', id)
  })
})

it('a request that has read before its company moved may read again, but its write gets 503 with Retry-After however often it has read', async () => {
  const { id } = here
  const db = databaseFor(env, { companyId: id, database: 'DB' })
  const read = () => db.read([statement('SELECT count(*) FROM clients WHERE company_id = ?', id)])
  const write = () => db.write([statement("UPDATE clients SET company_name = 'x' WHERE company_id = ?", id)])
  await read()
  await guard('DB', id, 'moved', 'DB_TWO')
  for (let reads = 0; reads < 3; reads++) {
    const refused = { kind: 'unavailable', headers: { 'Retry-After': '2' }, cause: 'it has just moved' }
    await expect(write()).rejects.toMatchObject(refused)
    await read()
  }
  await unguard('DB', id)
})

it('a placement that names a missing binding is 503 and a line of the log, and never another company’s data', async () => {
  const { DB_TWO: _, ...others } = env
  const without = others as Env
  for (const [method, sent] of [['GET'], ['POST', client]] as const) {
    const { status, body } = await send(request(there.token, method, '/clients', sent), { env: without })
    expect(status).toBe(503)
    expect(JSON.stringify(body)).not.toContain('Harbor')
  }
  expect(logLines).toContainEqual(expect.objectContaining({ event: 'database_missing', database: 'DB_TWO' }))
  expect((await send(request(here.token, 'GET', '/clients'), { env: without })).status).toBe(200)
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
    await sqlIn('DB', "UPDATE companies SET database = 'DB_TWO', database_slot = 511 WHERE id = ?", here.id)
    for (const [method, path, body] of routes) {
      const { status, headers } = await here.call(method, path, body)
      expect([status, headers.get('retry-after')]).toEqual([503, '2'])
    }
    expect(linesOf('DB_TWO')).toHaveLength(routes.length)
    // An administrator does not make it one without data, either.
    expect((await adminCall('GET', `/companies/${here.id}/webhooks`)).status).toBe(503)
    const [part] = partsOf({ company: { id: here.id, name: 'Harbor' } })
    const { status, body } = await adminCall('POST', `/companies/${here.id}/imports`, part)
    expect([status, body.error.message]).toEqual([409, `DB_TWO has lost company ${here.id}: restore it`])
    expect((await here.call('GET', '/clients')).status).toBe(503)
  })

  it('is 503 also where it had moved on to the directory, whose row of it is a copy', async () => {
    await guard('DB_TWO', there.id, 'moved', 'DB')
    for (const [method, path, body] of routes) expect((await there.call(method, path, body)).status).toBe(503)
    expect(await clientsIn('DB', there.id)).toEqual([])
    expect(linesOf('DB')).toHaveLength(routes.length)
    await guard('DB', there.id, 'writable', 'DB')
    expect((await there.call('GET', '/clients')).status).toBe(200)
  })
})

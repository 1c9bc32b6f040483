import { evictDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { type Database, openDatabase } from '../../../../src/kernel/db/client.ts'
import { BUDGET_MS } from '../../../../src/kernel/http/isolate.ts'
import { copyKeys, findPage } from '../../../../src/operation/copies/move-sync.ts'
import { MOVED } from '../../../../src/operation/copies/tables.ts'
import { Shop } from '../../../delivery/accounting/shop.ts'
import { adminCall, adminCallWith, expectUsed } from '../../../support/admin.ts'
import { freshId, mintCompany, request, sql, sqlIn, type TestCompany } from '../../../support/app.ts'
import { measureHops } from '../../../support/hops.ts'
import { logLines } from '../../../support/log.ts'
import { type Call, recordSql } from '../../../support/record-sql.ts'
import { insert } from '../../../support/rows.ts'
import { holdTimers } from '../../../support/time.ts'
import { wrapBindings } from '../../../support/wrap-bindings.ts'
import { recover } from '../support.ts'
import { move, sessionsOf, stepsOf } from './support.ts'

let company: TestCompany
beforeEach(async () => {
  company = await mintCompany({ home: 'DB' })
})

const client = (text: string) => ({ company_name: text })

it('a move leaves the companies in the slots beside it as they are found', async () => {
  const companies: TestCompany[] = []
  for (let slot = 0; slot < 4; slot++) companies.push(await mintCompany({ home: 'DB' }))
  for (const each of companies) await each.call('POST', '/clients', client('Beside another'))
  const [neighbour = 0, , moved = 0] = companies.map(({ id }) => id)
  for await (const { step } of stepsOf(neighbour, 'DB_TWO')) if (step === 'remove') break
  for await (const _ of stepsOf(moved, 'DB_TWO')) {
    expect((await companies[0]?.call('POST', '/clients', client('Of one that moves')))?.status).toBe(200)
  }
  const { moves } = (await adminCall('GET', '/databases')).body
  expect(moves.map(({ company_id }: { company_id: number }) => company_id)).toContain(neighbour)
  await move(neighbour, 'DB_TWO')
  const totals = companies.map(async (each) => (await each.call('GET', '/clients?q=beside')).body.pagination.total)
  expect(await Promise.all(totals)).toEqual([1, 1, 1, 1])
})

it('a move copies what had changed before a recovery emptied the feed', async () => {
  const { id } = (await company.call('POST', '/clients', client('Old'))).body.client
  for await (const { step } of stepsOf(company.id, 'DB_TWO')) if (step === 'switch') break
  expect((await company.call('PATCH', `/clients/${id}`, client('New'))).status).toBe(200)
  await recover()
  await move(company.id, 'DB_TWO')
  expect((await company.call('GET', `/clients/${id}`)).body.client).toMatchObject({ ...client('New'), version: 2 })
})

it.each(['follow', 'remove'])(
  'a move goes on where a release with other tables left it, in the step %s',
  async (last) => {
    const { id } = (await company.call('POST', '/clients', client('Copied'))).body.client
    for await (const { step } of stepsOf(company.id, 'DB_TWO')) {
      if (step === 'compare') await company.call('PATCH', `/clients/${id}`, client('Changed'))
      if (step === last) break
    }
    // A position among the tables of that release.
    const left = "UPDATE moves SET state = json_set(state, '$.tables', 'clients', '$.table', 999) WHERE company_id = ?"
    await sql(left, company.id)
    await move(company.id, 'DB_TWO')
    const countIn = (home: 'DB' | 'DB_TWO') =>
      sqlIn(home, 'SELECT count(*) AS rows FROM clients WHERE company_id = ?', company.id)
    expect([await countIn('DB'), await countIn('DB_TWO')]).toEqual([[{ rows: 0 }], [{ rows: 1 }]])
    expect((await company.call('GET', `/clients/${id}`)).body.client).toMatchObject(client('Changed'))
    expect(logLines.filter(({ event }) => event === 'move_differs')).toEqual([])
  },
)

it('an order is copied again where its copy was interrupted', async () => {
  const { id: client_id } = (await company.call('POST', '/clients', client('Owner'))).body.client
  const order = { title: 'Caps', client_id, invoice_items: [{ title: 'Cap' }] }
  const { id } = (await company.call('POST', '/orders', order)).body.project
  for await (const { step } of stepsOf(company.id, 'DB_TWO')) if (step === 'follow') break
  expect((await company.call('PATCH', `/orders/${id}`, { discount_amount: 10 })).status).toBe(200)
  const plan = MOVED.find(({ name }) => name === 'orders') ?? expect.fail('no plan')
  const [from, to] = [env.DB, env.DB_TWO].map((binding) => ({ companyId: company.id, db: openDatabase(binding) }))
  if (!from || !to) throw new Error('There are two databases.')
  let interruptions = 0
  for (let isCopied = false; !isCopied; interruptions++) {
    let left = interruptions
    const write: Database['write'] = (queries) =>
      left-- > 0 ? to.db.writeIdempotent(queries) : Promise.reject(new Error('interrupted'))
    const cut = { ...to, db: { ...to.db, write, writeIdempotent: write } }
    isCopied = await copyKeys({ from, to: cut }, plan, [[id]]).then(
      () => true,
      () => false,
    )
    const { copied } = await findPage({ from, to }, plan, null, null)
    expect([interruptions, copied]).toEqual([interruptions, isCopied ? [] : [[id]]])
  }
  // An order and its parts are one transaction.
  expect(interruptions).toBe(2)
  await move(company.id, 'DB_TWO')
  expect((await company.call('GET', `/orders/${id}`)).body.invoice.discount_amount).toBe(10)
})

describe('a token whose company has moved', () => {
  it('is sent to the new database by its object at once, and back', async () => {
    // Those of the calls to the object: without it, the request finds the new database by way of the old one.
    holdTimers(BUDGET_MS.limiter, BUDGET_MS.silence)
    for (const home of ['DB_TWO', 'DB'] as const) {
      expect((await company.call('POST', '/clients', client(`before ${home}`))).status).toBe(200)
      await expectUsed(company)
      await move(company.id, home)
      const { response, hops } = await measureHops(request(company.token, 'GET', '/clients?per_page=1'))
      expect(((await response.json()) as { data: object[] }).data[0]).toMatchObject(client(`before ${home}`))
      const names = hops.map(({ name }) => name).filter((name) => name.endsWith('.batch'))
      expect([home, ...new Set(names)], JSON.stringify(logLines.slice(-30))).toEqual([home, `${home}.batch`])
    }
  })

  it('is sent there as soon as its data is, while the old rows are yet to be removed', async () => {
    await company.call('POST', '/clients', client('before'))
    await expectUsed(company)
    let forgets = 0
    for (let step = ''; step !== 'remove'; ) {
      const watched = wrapBindings(env, (name, work) => {
        if (name === 'RATE_LIMITER.forget') forgets++
        return work()
      })
      const { body } = await adminCallWith(watched, 'POST', `/companies/${company.id}/move`, { database: 'DB_TWO' })
      step = body.step
    }
    expect(forgets).toBe(1)
    const { hops } = await measureHops(request(company.token, 'GET', '/clients'))
    expect(hops.map(({ name }) => name)).not.toContain('DB.batch')
  })

  it('reads its own writes, also where a client sends the bookmark of the old database', async () => {
    const { headers } = await company.call('POST', '/clients', client('before'))
    const old = headers.get('x-bookmark') ?? ''
    expect(old).not.toContain('@')
    await move(company.id, 'DB_TWO')
    const get = (sent: Record<string, string> = {}) => request(company.token, 'GET', '/clients', undefined, sent)
    const first = await sessionsOf('DB_TWO', get())
    expect(first.sessions).toEqual(['first-primary'])
    expect(first.body.data).toEqual([expect.objectContaining(client('before'))])
    expect((await sessionsOf('DB_TWO', get({ 'x-bookmark': old }))).sessions).toEqual(['first-primary'])
    expect((await company.call('POST', '/clients', client('after'))).status).toBe(200)
    const second = await sessionsOf('DB_TWO', get())
    expect(second.body.data[0]).toMatchObject(client('after'))
    expect(second.bookmark).toMatch(/@DB_TWO$/)
  })

  it('finds by search what it found before, in another place of the full-text tables', async () => {
    const { id } = (await company.call('POST', '/clients', client('Harbor Rowing Club'))).body.client
    await company.call('POST', '/orders', { title: 'Regatta shirts', client_id: id })
    const item = { id: 1, title: 'Cotton hoodie', search_text: 'COTTON HOODIE' }
    await insert('catalog_items', { company_id: company.id, ...item })
    const [own] = await sql<{ slot: number }>('SELECT slot FROM companies WHERE id = ?', company.id)
    // Its place is taken there.
    while (!(await sqlIn('DB_TWO', 'SELECT 1 FROM companies WHERE slot = ?', own?.slot)).length) {
      await mintCompany({ home: 'DB_TWO' })
    }
    const ofClients = ['Harbor', 'ha', 'harbor&sort=-id'].map((q) => `/clients?q=${q}`)
    const paths = [...ofClients, '/orders?q=regatta', '/products/search?q=hoodie']
    const show = async () => Promise.all(paths.map(async (path) => (await company.call('GET', path)).body))
    const before = await show()
    expect(JSON.stringify(before)).toMatch(/Harbor.*Regatta.*Cotton/)
    // The objects of tokens do not learn of this move.
    for await (const _ of stepsOf(company.id, 'DB_TWO', env, 10_000));
    const after = await show()
    const [there] = await sqlIn<{ slot: number }>('DB_TWO', 'SELECT slot FROM companies WHERE id = ?', company.id)
    expect(there?.slot).not.toBe(own?.slot)
    expect(after).toEqual(before)
  })
})

it('a place in the full-text tables that another company has got keeps its entries when the first comes back', async () => {
  await move(company.id, 'DB_TWO')
  const [left] = await sql<{ slot: number }>('SELECT slot FROM companies WHERE id = ?', company.id)
  const next = await mintCompany({ home: 'DB' })
  await sql('UPDATE companies SET slot = ? WHERE id = ?', left?.slot, next.id)
  await next.call('POST', '/clients', client('Harbor Rowing Club'))
  await company.call('POST', '/clients', client('Lakeside Tennis Club'))
  await move(company.id, 'DB')
  for (const [of, words] of [
    [next, 'harbor'],
    [company, 'lakeside'],
  ] as const) {
    expect((await of.call('GET', `/clients?q=${words}`)).body.data).toHaveLength(1)
  }
})

it('a line that is changed or removed while its company is copied is found by its new words only', async () => {
  const ordered = (await company.call('POST', '/clients', client('a'))).body.client
  const createOrder = async () =>
    (await company.call('POST', '/orders', { title: 'a', client_id: ordered.id })).body.project.id
  const write = (order: number, title: string, id?: number) =>
    company.call('PUT', `/orders/${order}/invoice-items`, { items: [{ id, title }] })
  const [changed, removed] = [await createOrder(), await createOrder()]
  const { invoice_items } = (await write(changed, 'Crimson shirt')).body
  await write(removed, 'Scarlet shirt')
  for await (const { step, done } of stepsOf(company.id, 'DB_TWO')) {
    if (done) throw new Error('The move was over before the lines changed.')
    if (step === 'compare') break
  }
  expect((await write(changed, 'Turquoise mug', invoice_items[0].id)).status).toBe(200)
  expect((await write(removed, 'Emerald mug')).status).toBe(200)
  logLines.length = 0
  await move(company.id, 'DB_TWO')
  expect(logLines.filter(({ event }) => event === 'move_differs')).toEqual([])
  const find = async (q: string) =>
    (await company.call('GET', `/products/search?include=lines&q=${q}`)).body.invoice_lines.length
  expect([await find('crimson'), await find('turquoise')]).toEqual([0, 1])
  expect([await find('scarlet'), await find('emerald')]).toEqual([0, 1])
  const indexed = `SELECT count(*) AS rows FROM invoice_items_fts
    WHERE invoice_items_fts MATCH 'CRIMSON OR TURQUOISE OR SCARLET OR EMERALD'
      AND rowid >> 53 = (SELECT slot FROM companies WHERE id = ?)`
  for (const from of [indexed, 'SELECT count(*) AS rows FROM invoice_items WHERE company_id = ?']) {
    expect(await sqlIn('DB_TWO', from, company.id)).toEqual([{ rows: 2 }])
  }
})

describe('rows that are removed while their company is copied', () => {
  const addKeys = (count: number, end = '') =>
    sql(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO idempotency_keys (company_id, token_id, key, fingerprint, created_at)
       SELECT ?1, 1, printf('%05d', i) || ?3, '', ?4 FROM n`,
      ...[company.id, count, end, Date.now()],
    )

  it('are removed in the copy too, also where the rest of the page is the same', async () => {
    // Two pages of keys in the destination, of which the source keeps the second.
    await addKeys(4_002)
    const steps: string[] = []
    for await (const { step } of stepsOf(company.id, 'DB_TWO')) {
      if (step === 'follow' && !steps.includes('follow')) {
        await sql("DELETE FROM idempotency_keys WHERE company_id = ? AND key <= '04000'", company.id)
      }
      steps.push(step)
    }
    expect(steps.filter((step, index) => step !== steps[index - 1])).toEqual([
      ...['clear', 'begin', 'copy', 'compare', 'follow', 'switch', 'remove'],
    ])
    const kept = await sqlIn('DB_TWO', 'SELECT key FROM idempotency_keys WHERE company_id = ?', company.id)
    expect(kept).toEqual([{ key: '04001' }, { key: '04002' }])
  })

  it('need no value over 2,000,000 bytes, whatever their keys', async () => {
    await addKeys(4_000, '\\'.repeat(250))
    const largest = await largestOfMove(async (step) => {
      if (step === 'follow') await sql('DELETE FROM idempotency_keys WHERE company_id = ?', company.id)
    })
    expect(await sqlIn('DB_TWO', 'SELECT 1 FROM idempotency_keys WHERE company_id = ?', company.id)).toEqual([])
    expect(largest).toBeGreaterThan(100_000)
    expect(largest).toBeLessThan(2_000_000)
  })
})

/** Moves the company. @returns the bytes of the largest value that a statement binds or returns: D1 takes 2,000,000 */
async function largestOfMove(between: (step: string) => unknown = () => {}): Promise<number> {
  let largest = 0
  const note = (values: unknown[]) => {
    for (const value of values) largest = Math.max(largest, Buffer.byteLength(String(value)))
  }
  const calls: Call[] = []
  const recorded = { DB: recordSql(env.DB, calls), DB_TWO: recordSql(env.DB_TWO, calls) }
  const bindings = wrapBindings(Object.assign({}, env, recorded), async (name, work) => {
    const results = await work()
    if (/^DB\w*\.batch$/.test(name)) {
      for (const { results: rows } of results as D1Result<object>[]) note(rows.flatMap((row) => Object.values(row)))
    }
    return results
  })
  for await (const { step } of stepsOf(company.id, 'DB_TWO', bindings)) await between(step)
  note(calls.flat().flatMap(([, params]) => params))
  return largest
}

it('a move needs no value over 2,000,000 bytes where JSON escapes every character', async () => {
  const { id } = (await company.call('POST', '/clients', client('Acme'))).body.client
  const text = '\u0001'.repeat(10_000)
  for (let i = 0; i < 24; i++) {
    const sent = { title: 'T', client_id: id, description: text, client_notes: text }
    expect((await company.call('POST', '/orders', sent)).status).toBe(200)
  }
  expect(await largestOfMove()).toBeLessThan(2_000_000)
})

it('a move writes at most 1,000 rows in one transaction while it copies orders with their lines', async () => {
  const { id: client_id } = (await company.call('POST', '/clients', client('Acme'))).body.client
  const order = { title: 'Caps', client_id, invoice_items: [{ title: 'Cap' }, { title: 'Hat' }, { title: 'Mug' }] }
  const operations = new Array(20).fill({ method: 'POST', path: '/orders', body: order })
  for (let count = 0; count < 10; count++) await company.call('POST', '/batch', { operations })
  let largest = 0
  const bindings = wrapBindings(env, async (name, work) => {
    const results = await work()
    if (name !== 'DB_TWO.batch') return results
    // With those that triggers write.
    const rows = (results as D1Result[]).reduce((sum, { meta }) => sum + meta.changes, 0)
    largest = Math.max(largest, rows)
    return results
  })
  for await (const { step } of stepsOf(company.id, 'DB_TWO', bindings)) if (step === 'compare') break
  expect(largest).toBeGreaterThan(200)
  expect(largest).toBeLessThanOrEqual(1_000)
  await move(company.id, 'DB_TWO')
  expect((await company.call('GET', '/orders')).body.pagination.total).toBe(200)
})

it('the delivery to an accounting system stores rotated tokens where the company has moved to', async () => {
  const shop = await Shop.open({}, 'DB')
  const id = await shop.makeOrder()
  // Its object opens the connection before.
  await shop.deliver()
  await move(shop.company.id, 'DB_TWO')
  for (const description of ['a', 'b']) {
    await shop.world.steer({ action: 'expire_access' })
    await shop.call('PATCH', `/orders/${id}`, { description })
    expect(await shop.deliver()).toBeNull()
    // The tokens before are void.
    await evictDurableObject(shop.object)
  }
  expect(await shop.changes()).toEqual(['customer', 'create', 'update', 'update'])
})

it('1,024 companies are the bound of one database: what moves away gives its place back', async () => {
  await sqlIn(
    'DB_TWO',
    `INSERT INTO companies (id, slot, name, created_at, updated_at)
       WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 1023)
       SELECT 5000000 + i, i, 'x', 0, 0 FROM n WHERE i NOT IN (SELECT slot FROM companies)`,
  )
  await sql(
    `INSERT INTO companies (id, slot, name, database, database_slot, created_at, updated_at)
       SELECT value, value - 5000000, 'x', 'DB_TWO', value - 5000000, 0, 0
       FROM json_each(?) WHERE value >= 5000000`,
    JSON.stringify((await sqlIn<{ id: number }>('DB_TWO', 'SELECT id FROM companies')).map(({ id }) => id)),
  )
  onTestFinished(async () => {
    for (const home of ['DB', 'DB_TWO'] as const) {
      await sqlIn(home, 'DELETE FROM companies WHERE id BETWEEN 5000000 AND 5001022')
    }
  })
  const id = freshId() + 6_000_000
  const refused = await adminCall('POST', '/companies', { id, database: 'DB_TWO' })
  expect([refused.status, refused.body.error?.message]).toEqual([409, expect.stringContaining('full')])
  // The other database still has places.
  expect((await adminCall('POST', '/companies', { id, database: 'DB' })).status).toBe(200)
  await expect(move(company.id, 'DB_TWO')).rejects.toThrow(/409 .*full/)
  await move(company.id, 'DB')
  expect((await company.call('POST', '/clients', client('stays'))).status).toBe(200)

  await move(5_001_023, 'DB')
  expect(await sqlIn('DB_TWO', 'SELECT id FROM companies WHERE slot = 1023')).toEqual([])
  await move(company.id, 'DB_TWO')
  expect(await sqlIn('DB_TWO', 'SELECT id FROM companies WHERE slot = 1023')).toEqual([{ id: company.id }])
  expect((await company.call('GET', '/clients?q=stays')).body.data).toHaveLength(1)
})

it('a move beside a copy of the company that has its email threads says so, and can be taken back', async () => {
  const other = await mintCompany({ home: 'DB_TWO' })
  const thread = { account_email: 'box@x.example', messages: [{ message_id: 'm1', body: 'Hello' }] }
  expect((await company.call('PUT', '/mail/email-threads/t1', thread)).status).toBe(200)
  expect((await other.call('PUT', '/mail/email-threads/t1', thread)).status).toBe(200)
  const [stored] = await sql('SELECT id FROM email_threads WHERE company_id = ?', company.id)
  await sqlIn('DB_TWO', 'UPDATE email_threads SET id = ? WHERE company_id = ?', stored?.id, other.id)
  await expect(move(company.id, 'DB_TWO')).rejects.toThrow(/409 Another company .* Take the move back/)
  await move(company.id, 'DB')
  expect((await company.call('POST', '/clients', client('stays'))).status).toBe(200)
})

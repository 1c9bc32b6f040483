import { beforeEach, describe, expect, it } from 'vitest'
import { BUDGET_MS } from '../../../src/kernel/http/isolate.ts'
import type { SeedInput } from '../../../src/operation/copies/seed/file.ts'
import { adminCall, adminCallWith, credentialsOf, unlimited } from '../../support/admin.ts'
import { call, freshId, mintCompany, mintToken, sql, sqlIn } from '../../support/app.ts'
import { holdTimers } from '../../support/time.ts'
import { loseResponses, wrapBindings } from '../../support/wrap-bindings.ts'
import { move } from '../copies/moves/support.ts'
import { loadSeed, partsOf } from './transfer-support.ts'

/** The bindings of a request, before whose batch of this number another request is carried out. */
function interruptedBy(other: () => Promise<{ status: number } | undefined>, number: number) {
  let batches = 0
  return wrapBindings(unlimited, async (name, work) => {
    if (/^DB\w*\.batch$/.test(name) && ++batches === number) expect((await other())?.status ?? 200).toBe(200)
    return work()
  })
}

async function openShop() {
  const company = { id: 1_000 + freshId(), name: 'Shop' }
  await loadSeed({ company, clients: [] })
  return { company, token: await mintToken(company.id), path: `/companies/${company.id}` }
}

type Shop = Awaited<ReturnType<typeof openShop>>

const load = ({ path }: Shop, bindings: object, file: SeedInput, options = {}) =>
  adminCallWith(bindings, 'POST', `${path}/imports`, partsOf(file, options)[0])

// A request that waits for another one takes long on a busy machine.
beforeEach(() => void holdTimers(BUDGET_MS.database, BUDGET_MS.handler))

const BATCHES = [1, 2, 3, 4, 5, 6]

/** An order with one line, one payment and one artwork, which have this id. */
function fileOf({ company }: Shop, orderId: number, partId: number): SeedInput {
  const line = { id: partId, title: 'file', quantity: 1, unit_price: 10 }
  const invoice = { id: orderId, number: 'F1', items: [line], payments: [{ id: partId, amount: 9 }] }
  const order = { id: orderId, title: 'file', client_id: 1, invoice, artworks: [{ id: partId, name: 'file' }] }
  return { company, clients: [{ id: 1, company_name: 'file' }], orders: [order] }
}

describe('an import beside another request', () => {
  it.each(
    BATCHES.flatMap((number) => [
      { number, orderId: 1, partId: 900 },
      { number, orderId: 500, partId: 1 },
    ]),
  )('leaves each order its own lines: $number, order $orderId, line $partId', async ({ number, orderId, partId }) => {
    const shop = await openShop()
    await loadSeed({ company: shop.company, clients: [{ id: 1, company_name: 'file' }] })
    const order = { title: 'api', client_id: 1, invoice_items: [{ title: 'api', quantity: 1, unit_price: 1 }] }
    const other = () => call(shop.token, 'POST', '/orders', order)
    const { status, body } = await load(shop, interruptedBy(other, number), fileOf(shop, orderId, partId))
    const { project, ...parts } = (await call(shop.token, 'GET', `/orders/${orderId}`)).body
    if (status === 409) expect(body.error.message).toMatch(/created meanwhile/)
    else if (project?.title !== 'file')
      expect([status, body.differences ?? body.error.details.issues]).not.toContainEqual([])
    if (!project) return
    expect(parts.invoice_items.map(({ title }: { title: string }) => title)).toEqual([project.title])
    const count = project.title === 'file' ? 1 : 0
    expect([parts.payments.length, parts.artworks.length]).toEqual([count, count])
  })

  it.each(BATCHES)('leaves no order to the client of another: %i', async (number) => {
    const shop = await openShop()
    const other = () => call(shop.token, 'POST', '/clients', { company_name: 'api' })
    const { status, body } = await load(shop, interruptedBy(other, number), fileOf(shop, 500, 900))
    const { client } = (await call(shop.token, 'GET', '/clients/1')).body
    if (status === 409)
      expect([body.error.message, client.company_name]).toEqual([expect.stringContaining('created meanwhile'), 'api'])
    else expect(client.company_name === 'file' || body.differences.length > 0).toBe(true)
  })

  it.each(BATCHES)('into an empty company is refused if that has data by now: %i', async (number) => {
    const shop = await openShop()
    const other = () => call(shop.token, 'POST', '/clients', { company_name: 'api' })
    const file = { company: shop.company, clients: [{ id: 100, company_name: 'file' }] }
    // Another company has begun an import of the same name.
    const neighbour = await openShop()
    const begun = { ...partsOf(file)[0], file: { company: neighbour.company } }
    expect((await adminCall('POST', `${neighbour.path}/imports`, begun)).status).toBe(200)
    const { status } = await load(shop, interruptedBy(other, number), file, { into_empty: true })
    const names = await sql('SELECT company_name FROM clients WHERE company_id = ? ORDER BY id', shop.company.id)
    // If nothing interrupted its batches, or only after the rows were loaded.
    if (status === 200) expect(names[0]).toEqual({ company_name: 'file' })
    else expect([status, names]).toEqual([409, [{ company_name: 'api' }]])
  })

  it('is carried out once where the responses of its batches are lost', async () => {
    const shop = await openShop()
    const { status, body } = await load(shop, loseResponses(unlimited), fileOf(shop, 1, 900), { into_empty: true })
    expect([status, body.differences]).toEqual([200, []])
  })
})

it.each(
  [...BATCHES, 7, 8].flatMap((number) => [
    { number, method: 'PATCH', to: '', body: { name: 'Renamed' } },
    { number, method: 'PUT', to: '/currency', body: { currency: 'EUR' } },
    { number, method: 'POST', to: '/imports', body: undefined },
  ]),
)('a suspension before batch $number of $method $to holds in both databases', async ({ number, method, to, body }) => {
  const { id, call, home } = await mintCompany({ home: 'DB_TWO' })
  const path = `/companies/${id}`
  let suspended = 0
  const suspend = () => {
    suspended = 1
    return adminCall('PATCH', path, { suspended: true })
  }
  const [part] = partsOf({ company: { id, name: 'Renamed' }, clients: [] })
  const { status } = await adminCallWith(interruptedBy(suspend, number), method, path + to, body ?? part)
  expect(status).toBe(200)
  const [own] = await sqlIn(home, 'SELECT name, suspended FROM companies WHERE id = ?', id)
  expect(await sqlIn('DB', 'SELECT name, suspended FROM companies WHERE id = ?', id)).toEqual([own])
  expect([own?.suspended, (await call('GET', '/me')).status]).toEqual([suspended, suspended ? 403 : 200])
})

describe('a company that moves while it is suspended', () => {
  it.each([
    ['DB', 'DB_TWO', 2],
    ['DB_TWO', 'DB', 3],
    ['DB_TWO', 'DB', 4],
    ['DB_TWO', 'DB', 5],
  ] as const)('from %s to %s, before batch %i, is suspended where it is now', async (home, to, number) => {
    const { id, call } = await mintCompany({ home })
    // In the directory another company takes its place in the full-text tables.
    const neighbour = `INSERT OR IGNORE INTO companies (id, slot, name, created_at, updated_at)
      SELECT ?, slot, 'Neighbour', 0, 0 FROM companies WHERE id = ? AND database IS NOT NULL`
    await sqlIn('DB', neighbour, freshId(), id)
    const path = `/companies/${id}`
    await adminCall('GET', path)
    const suspending = interruptedBy(() => move(id, to), number)
    expect((await adminCallWith(suspending, 'PATCH', path, { suspended: true })).status).toBe(200)
    expect((await call('GET', '/me')).status).toBe(403)
    const [own] = await sqlIn(to, 'SELECT slot FROM companies WHERE id = ?', id)
    const placed = 'SELECT coalesce(database_slot, slot) AS slot FROM companies WHERE id = ?'
    expect(await sqlIn('DB', placed, id)).toEqual([own])
  })

  it.each([3, 4, 5])('is suspended for the gate, also if its writes are refused from batch %i on', async (number) => {
    const { id, call } = await mintCompany({ home: 'DB_TWO' })
    const guard = "INSERT INTO company_guards VALUES (?, 'read_only', 'DB', 0, unixepoch() * 1000)"
    const refuse = async () => void (await sqlIn('DB_TWO', guard, id))
    const change = { suspended: true }
    expect((await adminCallWith(interruptedBy(refuse, number), 'PATCH', `/companies/${id}`, change)).status).toBe(200)
    expect((await call('GET', '/me')).status).toBe(403)
    await sqlIn('DB_TWO', 'DELETE FROM company_guards WHERE company_id = ?', id)
  })
})

it.each(BATCHES)('an integration saved without credentials keeps those saved meanwhile: %i', async (number) => {
  const { company, path } = await openShop()
  const [at, base_url] = [`${path}/integrations/supplier_b`, 'http://127.0.0.1:1/x']
  const put = (api_key: string) => adminCall('PUT', at, { base_url, credentials: { account_number: '1', api_key } })
  await put('old')
  let api_key = 'old'
  const other = () => {
    api_key = 'new'
    return put(api_key)
  }
  const { status } = await adminCallWith(interruptedBy(other, number), 'PUT', at, { base_url, enabled: true })
  expect([200, 409]).toContain(status)
  expect(await credentialsOf(company.id, 'supplier_b')).toMatchObject({ api_key })
})

it.each([3, 4, 5])('keeps the name that is given in the directory after a move there: %i', async (number) => {
  const { id } = await mintCompany({ home: 'DB_TWO' })
  const path = `/companies/${id}`
  const other = async () => {
    await move(id, 'DB')
    return adminCall('PATCH', path, { name: 'B' })
  }
  await adminCallWith(interruptedBy(other, number), 'PATCH', path, { name: 'A' })
  expect(await sqlIn('DB', 'SELECT name FROM companies WHERE id = ?', id)).toEqual([{ name: 'B' }])
})

it.each(BATCHES)('a name given beside another one is the same in both databases: %i', async (number) => {
  const { id } = await mintCompany({ home: 'DB_TWO' })
  const path = `/companies/${id}`
  const other = () => adminCall('PATCH', path, { name: 'B' })
  await adminCallWith(interruptedBy(other, number), 'PATCH', path, { name: 'A' })
  const select = 'SELECT name FROM companies WHERE id = ?'
  expect(await sqlIn('DB', select, id)).toEqual(await sqlIn('DB_TWO', select, id))
})

it.each(BATCHES)('an import of a thread beside its PUT gives the id of the stored one: %i', async (number) => {
  const shop = await openShop()
  const [at, account_email] = ['2026-01-31T10:00:00.000Z', 'box@x.example']
  const times = { last_synced_at: at, created_at: at, updated_at: at }
  const key = { id: crypto.randomUUID(), account_email, legacy_thread_id: 't1' }
  const thread = { ...key, ...times, deleted: false, revision: 1, content_revision: 1, messages: [] }
  const other = () => call(shop.token, 'PUT', '/mail/email-threads/t1', { account_email, messages: [] })
  const bindings = interruptedBy(other, number)
  const { status, body } = await adminCallWith(bindings, 'POST', `${shop.path}/imports/email-threads`, thread)
  const [stored] = await sql('SELECT id FROM email_threads WHERE company_id = ?', shop.company.id)
  expect([status, body.id]).toEqual([200, stored?.id])
})

it.each(BATCHES)('an import beside the same one brings back no payment that was deleted since: %i', async (number) => {
  const shop = await openShop()
  const { clients, orders, ...file } = fileOf(shop, 1, 1)
  const at = { created_at: '2026-01-31T10:00:00.000Z' }
  const dated = {
    ...file,
    clients: clients?.map((each) => ({ ...each, ...at })),
    orders: orders?.map((each) => ({ ...each, ...at })),
  }
  const other = async () => {
    await loadSeed(dated)
    return call(shop.token, 'DELETE', '/orders/1/payments/1')
  }
  const { status } = await load(shop, interruptedBy(other, number), dated)
  expect([200, 409]).toContain(status)
  expect(await sql('SELECT id FROM payments WHERE company_id = ?', shop.company.id)).toEqual([])
})

it('an import is loaded where the move of its company to the directory has switched and not ended', async () => {
  await mintCompany()
  const { id, home } = await mintCompany({ home: 'DB_TWO' })
  for (const [database, state] of [
    [home, 'moved'],
    ['DB', 'writable'],
  ] as const) {
    await sqlIn(database, "INSERT INTO company_guards VALUES (?, ?, 'DB', 0, NULL)", id, state)
  }
  const [part] = partsOf({ company: { id, name: 'file' }, clients: [{ id: 1, company_name: 'file' }] })
  expect((await adminCall('POST', `/companies/${id}/imports`, part)).status).toBe(200)
  expect(await sqlIn('DB', 'SELECT id FROM clients WHERE company_id = ?', id)).toEqual([{ id: 1 }])
})

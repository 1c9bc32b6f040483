import { env } from 'cloudflare:workers'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { SPOILT } from '../../../src/simulators/accounting-data.ts'
import { Shop } from '../../delivery/accounting/shop.ts'
import { INVOICE_POST } from '../../delivery/accounting/support.ts'
import { addMember, adminCall, adminCallWith, startAccess, unlimited } from '../../support/admin.ts'
import { sql, sqlIn } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { breakCalls, loseResponses, wrapBindings } from '../../support/wrap-bindings.ts'

let shop: Shop
let other: Shop

const access = await startAccess()

beforeEach(async () => {
  shop = await Shop.open({}, 'DB')
  other = await Shop.open({}, 'DB')
  await addMember(shop.company.id, 'dev@example.com', 'developer')
})

afterEach(() => {
  vi.useRealTimers()
})

const as = (method: string, path: string, body?: unknown) =>
  access.callAs('dev@example.com', method, `/companies/${shop.company.id}${path}`, body)
const eventOf = async ({ company }: Shop, orderId: number) => {
  const text = 'SELECT * FROM accounting_outbox WHERE company_id = ? AND order_id = ? ORDER BY id'
  return (await sql<{ id: number; state: string }>(text, company.id, orderId))[0]
}
/** An order whose event has this state. */
const makeOrder = async (of: Shop, state: string) => {
  const id = await of.makeOrder()
  const change = "UPDATE accounting_outbox SET state = ?, last_error = 'No.' WHERE company_id = ? AND order_id = ?"
  await sql(change, state, of.company.id, id)
  return id
}
/** The status and the orders of the events that an operator lists. */
const list = async (query: string, bindings: object = unlimited) => {
  const { status, body } = await adminCallWith(bindings, 'GET', `/accounting-events?${query}`)
  return [status, body.data?.map((each: { order_id: number }) => each.order_id)]
}

describe('accounting events', () => {
  it('are listed by state, those of the company alone', async () => {
    const [parked, dead] = [await makeOrder(shop, 'parked'), await makeOrder(shop, 'dead')]
    const [pending, theirs] = [await shop.makeOrder(), await other.makeOrder()]
    const listOwn = async (state: string) => (await as('GET', `/accounting-events?state=${state}`)).body.data
    expect(await listOwn('parked')).toMatchObject([
      { order_id: parked, state: 'parked', last_error: 'No.', next_attempt_at: null },
    ])
    expect(await listOwn('dead')).toMatchObject([{ order_id: dead }])
    expect(await listOwn('pending')).toMatchObject([{ order_id: pending, next_attempt_at: expect.any(String) }])
    await sql("UPDATE accounting_outbox SET state = 'sent' WHERE order_id = ?", pending)
    expect(await listOwn('pending')).toMatchObject([{ order_id: pending, state: 'pending' }])
    expect((await list(''))[1]).toContain(theirs)
    expect(await list(`id=${(await eventOf(other, theirs))?.id}`)).toEqual([200, [theirs]])
    expect((await as('GET', '/accounting-events?state=done')).status).toBe(400)
  })

  it.each([
    ['is disabled', 'UPDATE integrations SET enabled = 0 WHERE company_id = ?'],
    [
      'is stopped',
      'UPDATE accounting_connections SET stopped_for = (SELECT updated_at FROM integrations AS i WHERE i.company_id = accounting_connections.company_id) WHERE company_id = ?',
    ],
    ['is missing', 'DELETE FROM integrations WHERE company_id = ?'],
    ['may not be told, as the company is suspended', 'UPDATE companies SET suspended = 1 WHERE id = ?'],
    ['may not be told, as its deliveries are paused', 'UPDATE companies SET deliveries_paused = 1 WHERE id = ?'],
  ])('have no next attempt while the accounting system %s', async (_, change) => {
    await shop.makeOrder()
    const next = async () =>
      (await adminCall('GET', `/companies/${shop.company.id}/accounting-events`)).body.data[0].next_attempt_at
    await sql("INSERT INTO accounting_connections (company_id, remote_account) VALUES (?, 'x')", shop.company.id)
    expect(await next()).toEqual(expect.any(String))
    await sql(change, shop.company.id)
    expect(await next()).toBeNull()
  })

  it('have their next attempt at the end of a pause', async () => {
    await shop.makeOrder()
    const pause = "INSERT INTO accounting_connections (company_id, remote_account, paused_until) VALUES (?, 'x', ?)"
    await sql(pause, shop.company.id, 4_000_000_000_000)
    const { body } = await as('GET', '/accounting-events')
    expect(body.data).toMatchObject([{ state: 'pending', next_attempt_at: '2096-10-02T07:06:40.000Z' }])
  })

  it('are sent again one by one, which ends the stop of the company', async () => {
    const orderId = await makeOrder(shop, 'dead')
    await sql(
      `INSERT INTO accounting_connections (company_id, remote_account, stopped_for, reason) VALUES (?, 'x', 5, 'No.')
        ON CONFLICT DO UPDATE SET stopped_for = 5`,
      shop.company.id,
    )
    const event = await eventOf(shop, orderId)
    expect((await as('POST', `/accounting-events/${event?.id}/retry`)).body).toEqual({ retried: 1 })
    expect(await sql('SELECT stopped_for FROM accounting_connections WHERE company_id = ?', shop.company.id)).toEqual([
      { stopped_for: null },
    ])
    const retries = "SELECT entity_id FROM admin_log WHERE company_id = ? AND action = 'accounting_events.retry'"
    expect(await sql(retries, shop.company.id)).toContainEqual({ entity_id: String(event?.id) })
    const theirs = await makeOrder(other, 'dead')
    expect((await as('POST', `/accounting-events/${(await eventOf(other, theirs))?.id}/retry`)).status).toBe(404)
    expect((await eventOf(other, theirs))?.state).toBe('dead')
    await sql("UPDATE accounting_outbox SET state = 'done' WHERE order_id = ?", orderId)
    expect((await as('POST', `/accounting-events/${event?.id}/retry`)).status).toBe(404)
  })

  it('are sent again by their states', async () => {
    await makeOrder(shop, 'dead')
    const parked = await makeOrder(shop, 'parked')
    // One of the other company that changes at the same time is not counted.
    await other.makeOrder()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
    await sql('UPDATE accounting_outbox SET updated_at = ? WHERE company_id = ?', Date.now(), other.company.id)
    expect((await as('POST', '/accounting-events/retry', { states: ['dead'] })).body).toEqual({ retried: 1 })
    vi.useRealTimers()
    expect((await eventOf(shop, parked))?.state).toBe('parked')
    expect((await as('POST', '/accounting-events/retry', { states: ['dead'] })).body).toEqual({ retried: 0 })
    expect((await as('POST', '/accounting-events/retry', { states: [] })).status).toBe(400)
    expect((await as('POST', '/accounting-events/retry', { states: ['done'] })).status).toBe(400)
  })

  it.each<[string, () => string, object]>([
    ['POST', () => '/accounting-events/retry', { states: ['dead', 'parked'] }],
    ['PUT', () => `/clients/${shop.clientId}/accounting-customer`, { customer_id: '58' }],
  ])('are counted and delivered by a retry whose response is lost by the database: %s', async (method, path, body) => {
    for (const state of ['dead', 'parked', 'pending']) await makeOrder(shop, state)
    const started: string[] = []
    const bindings = wrapBindings(loseResponses(env), async (name, work) => {
      return name.startsWith('ACCOUNTING_DELIVERY.') ? void started.push(name) : work()
    })
    const response = await adminCallWith(bindings, method, `/companies/${shop.company.id}${path()}`, body)
    expect([response.status, response.body.retried]).toEqual([200, 2])
    expect(started).toEqual(['ACCOUNTING_DELIVERY.start'])
  })

  it.each([
    ['pending', (id: number) => as('POST', `/accounting-events/${id}/retry`)],
    ['dead', () => as('POST', '/accounting-events/retry', { states: ['dead'] })],
  ])('become due, with new attempts, together with the call in flight when retried while %s', async (state, retry) => {
    const [orderId, untouched] = [await shop.makeOrder(), await shop.makeOrder()]
    await shop.world.spoil({ match: INVOICE_POST, times: 2, ...SPOILT.broken })
    await shop.deliver()
    await shop.call('PATCH', `/orders/${orderId}`, { description: 'later' })
    const later = 4_102_444_800_000
    const failed = 'UPDATE accounting_outbox SET next_attempt_at = ?, attempts = 9 WHERE company_id = ?'
    await sql(failed, later, shop.company.id)
    // The retry starts a delivery, which must not begin before the test looks.
    await sql('UPDATE integrations SET enabled = 0 WHERE company_id = ?', shop.company.id)
    const event = (await shop.open()).find((each) => each.order_id === orderId && each.state === 'pending')
    await sql('UPDATE accounting_outbox SET state = ? WHERE id = ?', state, event?.id)

    expect((await retry(event?.id ?? 0)).body).toEqual({ retried: 1 })
    const open = await shop.open()
    expect(open.map((each) => [each.order_id, each.state, each.next_attempt_at < later, each.attempts])).toEqual([
      [orderId, 'sent', true, 0],
      [untouched, 'sent', false, 9],
      [orderId, 'pending', true, 0],
    ])
  })

  it('of two databases are listed, and sent again, though ids are there twice', async () => {
    const far = await Shop.open({}, 'DB_TWO')
    const [here, there] = [await makeOrder(shop, 'dead'), await makeOrder(far, 'dead')]
    const [one, two] = [await eventOf(shop, here), await eventOf(far, there)]
    // Higher than those of the events of other tests.
    const id = 1_000_000
    await sqlIn('DB', 'UPDATE accounting_outbox SET id = ? WHERE id = ?', id, one?.id)
    await sqlIn('DB_TWO', 'UPDATE accounting_outbox SET id = ? WHERE id = ?', id, two?.id)
    expect(await list(`id=${id}`)).toEqual([200, [here, there]])
    expect(await list(`id=${id}&company_id=${far.company.id}`)).toEqual([200, [there]])
    const pages: number[] = []
    for (let query = 'per_page=1'; query; ) {
      const { data, pagination } = (await adminCall('GET', `/accounting-events?${query}`)).body
      pages.push(...data.map((each: { order_id: number }) => each.order_id))
      query = pagination.next_cursor && `per_page=1&cursor=${pagination.next_cursor}`
    }
    expect(pages.filter((id) => id === here || id === there)).toEqual([here, there])
    const retry = `/companies/${far.company.id}/accounting-events/${id}/retry`
    expect((await adminCall('POST', retry)).body).toEqual({ retried: 1 })
    // Its delivery may have begun.
    expect((await eventOf(far, there))?.state).not.toBe('dead')
    expect((await eventOf(shop, here))?.state).toBe('dead')
  })

  it('are listed of a company while another database fails, by an id too, which several may have', async () => {
    const far = await Shop.open({}, 'DB_TWO')
    const orderId = await far.makeOrder()
    const event = await eventOf(far, orderId)
    const overloaded = new Error('D1_ERROR: D1 DB is overloaded.')
    const broken = breakCalls(Object.assign({}, env, { DB_BROKEN: env.DB_TWO }), /^DB_BROKEN\./, overloaded)
    expect(await list(`company_id=${far.company.id}`, broken)).toEqual([200, [orderId]])
    expect(await list(`company_id=${far.company.id}&id=${event?.id}`, broken)).toEqual([200, [orderId]])
    expect(await list(`id=${event?.id}`, broken)).toEqual([503, undefined])
  })
})

describe('a client', () => {
  it('is linked to a customer, and its events are sent again', async () => {
    await makeOrder(shop, 'parked')
    // No delivery: it would find that the customer does not exist, and unlink it.
    await sql('UPDATE integrations SET enabled = 0 WHERE company_id = ?', shop.company.id)
    const path = `/clients/${shop.clientId}/accounting-customer`
    const { body } = await as('PUT', path, { customer_id: '58' })
    expect(body).toMatchObject({ client_id: shop.clientId, company_name: 'Acme', customer_id: '58' })
    expect(body.retried).toBeGreaterThan(0)
    const [row] = await sql('SELECT * FROM clients WHERE company_id = ? AND id = ?', shop.company.id, shop.clientId)
    expect(row).toMatchObject({ accounting_customer_id: '58', accounting_customer_linked: 1 })
    expect((await as('PUT', `/clients/${other.clientId}/accounting-customer`, { customer_id: '58' })).status).toBe(404)
    expect((await as('PUT', path, { customer_id: 'a b' })).status).toBe(400)
  })

  it('has the events of its own orders sent again, not of those that another company has by their ids', async () => {
    const orderId = await makeOrder(shop, 'parked')
    const linked = (await shop.call('POST', '/clients', { company_name: 'Beta' })).body.client.id
    const theirs = { company_id: other.company.id, created_at: 0, updated_at: 0 }
    await insert('clients', { ...theirs, id: linked, company_name: 'Gamma', company_name_key: 'GAMMA' })
    await insert('orders', { ...theirs, id: orderId, title: 'T', client_id: linked, created_date: '2026-01-31' })
    const { body } = await as('PUT', `/clients/${linked}/accounting-customer`, { customer_id: '58' })
    expect(body.retried).toBe(0)
    expect((await eventOf(shop, orderId))?.state).toBe('parked')
  })
})

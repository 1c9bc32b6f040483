import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { AccountingDelivery } from '../../../src/delivery/accounting/delivery.ts'
import { loadOrder, loadQueue } from '../../../src/delivery/accounting/queries.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { listDueCompanies } from '../../../src/kernel/db/sweep.ts'
import { SPOILT } from '../../../src/simulators/accounting-data.ts'
import { sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { meterBindings } from '../../support/meter.ts'
import { insert } from '../../support/rows.ts'
import { Shop } from './shop.ts'
import { INVOICE_POST } from './support.ts'

/*
 * One company has 1,000 events to deliver, and another has had 5,000 delivered: no read may walk either. There are no
 * statistics, as in a new database.
 */
const BACKLOG = 1_000
const DELIVERED = 5_000
const ORDERS_OF_BACKLOG = 200

/** That of the company's integration. */
const VERSION = '(SELECT updated_at FROM integrations AS i WHERE i.company_id = accounting_connections.company_id)'

const meter = meterBindings(env)

const busy = await Shop.open()
const done = await Shop.open()
await addOrders(busy, ORDERS_OF_BACKLOG)
await addOrders(done, 10)
await insert('accounting_connections', { company_id: busy.company.id, remote_account: '' })
await addEvents(busy, { count: BACKLOG, orders: ORDERS_OF_BACKLOG })
await addEvents(done, { count: DELIVERED, orders: 10, state: 'done' })
expect(await sql("SELECT tbl FROM sqlite_stat1 WHERE tbl = 'accounting_outbox'")).toEqual([])

/** Orders 1 to `count`, with an invoice each. */
async function addOrders({ company, clientId }: Shop, count: number): Promise<void> {
  const numbers = `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`
  await sql(
    `${numbers} INSERT INTO orders (company_id, id, title, client_id, created_date, created_at, updated_at)
     SELECT ?, i, 'Order', ?, '2026-01-01', 0, 0 FROM n`,
    company.id,
    clientId,
  )
  await sql(
    `${numbers} INSERT INTO invoices (company_id, id, project_id, number, created_at, updated_at)
     SELECT ?, i, i, 'N' || i, 0, 0 FROM n`,
    company.id,
  )
}

interface Events {
  count: number
  orders: number
  state?: string
  dueAt?: number
}

/** Updates of the first `orders` orders in turn, the oldest due first. */
async function addEvents({ company }: Shop, { count, orders, state = 'pending', dueAt = 1 }: Events): Promise<void> {
  await sql(
    `WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < ${count - 1})
     INSERT INTO accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)
     SELECT ?1, i % ?2 + 1, 'update', ?3, ?4 + i, 0, ?5 FROM n`,
    company.id,
    orders,
    state,
    dueAt,
    Date.now(),
  )
}

/** Of the metered database. */
function contextOf({ company }: Shop) {
  return { companyId: company.id, db: openDatabase(meter.env.DB) }
}

/** What the object of a company reads in one run; it makes no call. */
async function runObject(shop: Shop): Promise<{ rowsRead: number; alarm: number | null }> {
  return runInDurableObject(shop.object, async (_, state) => {
    state.storage.kv.put('company', shop.company.id)
    meter.take()
    await new AccountingDelivery(state, meter.env).alarm()
    const { rowsRead } = meter.take()
    const alarm = await state.storage.getAlarm()
    await state.storage.deleteAlarm()
    return { rowsRead, alarm }
  })
}

/** The companies that the sweep would start; it may read a few rows for each that has an integration. */
async function sweepFinds(): Promise<number[]> {
  const [integrations] = await sql<{ count: number }>('SELECT count(*) AS count FROM integrations')
  meter.take()
  const found = await listDueCompanies(openDatabase(meter.env.DB), Date.now())
  expect(meter.take().rowsRead).toBeLessThanOrEqual(6 * (integrations?.count ?? 0) + 6)
  return found
}

describe('the queue of a company', () => {
  it('is read at the cost of the orders that it returns, not of the backlog', async () => {
    const context = contextOf(busy)
    meter.take()
    const queue = await loadQueue(context, Date.now(), 20)
    expect(meter.take().rowsRead).toBeLessThanOrEqual(200)
    expect(queue).toEqual({ orderIds: Array.from({ length: 20 }, (_, index) => index + 1), nextAttemptAt: null })
  })

  it('returns when the next event becomes due at the cost of one row', async () => {
    const context = contextOf(busy)
    meter.take()
    const queue = await loadQueue(context, 0, 20)
    expect(meter.take().rowsRead).toBeLessThanOrEqual(5)
    expect(queue).toEqual({ orderIds: [], nextAttemptAt: 1 })
  })

  it.each([
    ['is suspended', 'companies', 'suspended = 1', 'suspended = 0', false],
    ['has its integration switched off', 'integrations', 'enabled = 0', 'enabled = 1', false],
    ['has no integration', 'integrations', "kind = 'storage'", "kind = 'accounting_sync'", false],
    ['is stopped', 'accounting_connections', `stopped_for = ${VERSION}`, 'stopped_for = NULL', false],
    ['is paused', 'accounting_connections', 'paused_until = 4102444800000', 'paused_until = 0', true],
  ])('is not read while the company %s', async (_, table, begin, end, hasAlarm) => {
    const set = (fields: string) =>
      sql(`UPDATE ${table} SET ${fields} WHERE ${table === 'companies' ? 'id' : 'company_id'} = ?`, busy.company.id)
    await set(begin)
    try {
      const { rowsRead, alarm } = await runObject(busy)
      expect(rowsRead).toBeLessThanOrEqual(5)
      expect(alarm !== null).toBe(hasAlarm)
      expect(await sweepFinds()).toEqual([])
    } finally {
      await set(end)
    }
  })

  it('is found by the sweep at the cost of a few rows for each company', async () => {
    expect(await sweepFinds()).toEqual([busy.company.id])
  })

  it('is delivered for the first time without a look at all clients', async () => {
    const shop = await Shop.open()
    const { id } = shop.company
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (1000) UNION ALL SELECT i + 1 FROM n WHERE i < 1999)
       INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
       SELECT ?, i, 'Client', 'client', 0, 0 FROM n`,
      id,
    )
    await addOrders(shop, 1)
    await addEvents(shop, { count: 1, orders: 1 })
    // So that the run makes no call.
    await sql("UPDATE integrations SET credentials = 'v1.00000000.AAAA' WHERE company_id = ?", id)
    const { rowsRead } = await runObject(shop)
    // So that no sweep of another test finds it.
    await sql('UPDATE integrations SET enabled = 0 WHERE company_id = ?', id)
    expect(rowsRead).toBeLessThanOrEqual(20)
  })

  it('returns an order with many events once, and the others after it', async () => {
    const shop = await Shop.open()
    // So that no sweep of another test finds it.
    await shop.connect({}, false)
    await addOrders(shop, 30)
    await addEvents(shop, { count: 1_000, orders: 1, dueAt: 1 })
    await addEvents(shop, { count: 30, orders: 30, dueAt: 5_000 })
    const context = contextOf(shop)
    expect((await loadQueue(context, Date.now(), 20)).orderIds).toEqual([1])
    const { events } = await loadOrder(context, 1, Date.now())
    // The first, and the newest, which tells whether the order is deleted.
    expect(events).toHaveLength(2)
    expect((await loadQueue(context, Date.now(), 20)).orderIds).toHaveLength(20)
  })
})

describe('an order that was changed thousands of times while nothing could be delivered', () => {
  it.each([
    ['edited', "'update'"],
    ['deleted and restored', "iif(i % 2, 'delete', 'update')"],
  ])('is delivered by one call with its present state when it was %s', async (_, operation) => {
    const { shop, id: orderId } = await Shop.openWithOrder({ description: 'first' })
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
       INSERT INTO accounting_outbox (company_id, order_id, operation, next_attempt_at, created_at, updated_at)
       SELECT ?, ?, ${operation}, 0, 0, 0 FROM n`,
      shop.company.id,
      orderId,
    )
    await shop.call('PATCH', `/orders/${orderId}`, { description: 'last' })
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'pending' })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create'])
    expect(await shop.invoices()).toMatchObject([{ PrivateNote: 'last' }])
    expect(await shop.open()).toEqual([])
  })
})

describe('an event behind a call that waits for its retry', () => {
  it('becomes due with the call, and at once when the call is done', async () => {
    const { shop, id: orderId } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, ...SPOILT.broken })
    const at = await shop.deliver()
    await shop.call('PATCH', `/orders/${orderId}`, { description: 'later' })
    const [sent, update] = await shop.open()
    expect(sent).toMatchObject({ state: 'sent', next_attempt_at: at })
    expect(update).toMatchObject({ state: 'pending', next_attempt_at: at })
    const context = contextOf(shop)
    expect(await loadQueue(context, Date.now(), 20)).toEqual({ orderIds: [], nextAttemptAt: at })

    // Somebody retries the call before its time.
    await sql(`UPDATE accounting_outbox SET next_attempt_at = 0 WHERE id = ?`, sent?.id)
    await sql(`UPDATE accounting_outbox SET next_attempt_at = 4102444800000 WHERE id = ?`, update?.id)
    expect(await shop.deliver()).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
    expect(await shop.open()).toEqual([])
  })
})

describe('a run that fails', () => {
  it('is repeated with a backoff of at most an hour, which a start does not shorten unless by hand', async () => {
    const { shop } = await Shop.openWithOrder()
    const broken = {
      ...env,
      DB: new Proxy(env.DB, {
        get: () => () => {
          throw new Error('The database is out of reach.')
        },
      }),
    }
    await runInDurableObject(shop.object, async (_, state) => {
      state.storage.kv.put('company', shop.company.id)
      const delays: number[] = []
      for (let failures = 0; failures < 12; failures++) {
        const object = new AccountingDelivery(state, broken)
        const start = Date.now()
        await object.alarm()
        const planned = await state.storage.getAlarm()
        delays.push(Math.round(((planned ?? 0) - start) / 30_000))
        await object.start(shop.company.id)
        expect(await state.storage.getAlarm()).toBe(planned)
        await state.storage.deleteAlarm()
        await object.start(shop.company.id)
        expect(await state.storage.getAlarm()).toBe(planned)
        await state.storage.deleteAlarm()
      }
      expect(delays).toEqual([1, 2, 4, 8, 16, 32, 64, 120, 120, 120, 120, 120])
      const before = Date.now()
      await new AccountingDelivery(state, broken).start(shop.company.id, true)
      expect(await state.storage.getAlarm()).toBeLessThan(before + 20_000)
      await state.storage.deleteAlarm()
    })
    const of = { event: 'accounting_failed', company_id: shop.company.id }
    expect(logLines).toContainEqual({ ...of, error: expect.any(String) })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create'])
    await runInDurableObject(shop.object, async (instance, state) => {
      const before = Date.now()
      await instance.start(shop.company.id)
      expect(await state.storage.getAlarm()).toBeLessThan(before + 20_000)
      await state.storage.deleteAlarm()
    })
  })
})

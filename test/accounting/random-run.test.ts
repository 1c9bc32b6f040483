import { describe, expect, it } from 'vitest'
import { buildUpdateCall, type InvoiceCall, type InvoiceSource } from '../../src/accounting/invoice-payload.ts'
import { SPOILT } from '../simulators/accounting-data.ts'
import { type Order, Outbox } from './outbox.ts'
import { seeded } from './random.ts'
import { makeLine, makeOrder, REALM } from './support.ts'

const INVOICE_POST = '^POST /v3/company/\\d+/invoice'
const FAULTS = [
  { match: INVOICE_POST, apply: true, destroy: true },
  { match: INVOICE_POST, cutAfterBytes: 15 },
  { match: INVOICE_POST, apply: true, ...SPOILT.broken },
  { match: '^(GET|POST) /v3', destroy: true },
  { match: '^(GET|POST) /v3', ...SPOILT.unavailable },
  { match: '^(GET|POST) /v3', ...SPOILT.faultInside },
  { match: '^(GET|POST) /v3', ...SPOILT.throttled },
  { match: '^(GET|POST) /v3', ...SPOILT.throttledXml },
  { match: '^(GET|POST) /v3', ...SPOILT.tokenExpired },
  { match: '^POST /oauth2', ...SPOILT.unavailable },
  { match: '^POST /v3/company/\\d+/customer', apply: true, destroy: true },
]

function randomize(outbox: Outbox, source: InvoiceSource): InvoiceSource {
  const draw = (below: number) => Math.floor(outbox.random() * below)
  const lines = Array.from({ length: draw(4) }, () => {
    const [quantity, unit_price_cents] = [draw(100) / 4, draw(5_000)]
    return makeLine({ quantity, unit_price_cents, total_cents: Math.round(quantity * unit_price_cents) })
  })
  const subtotal = lines.reduce((sum, line) => sum + line.total_cents, 0)
  const discount_total = Math.min(draw(1_000), subtotal)
  const tax_total = draw(500)
  return {
    ...source,
    description: draw(5) === 0 ? null : `Text ${draw(1_000)}`,
    deadline: draw(5) === 0 ? null : `2026-03-${10 + draw(20)}`,
    client: { company_name: `Client ${draw(5)}`, email: null },
    lines,
    discount: { amount: discount_total / 100, amount_type: 'fixed_amount', type: 'before_tax' },
    totals: { subtotal, discount_total, tax_total, total: subtotal - discount_total + tax_total },
  }
}

async function disturb(outbox: Outbox): Promise<void> {
  const { random, world, orders } = outbox
  await world.spoil(...FAULTS.filter(() => random() < 0.12))
  const chance = random()
  if (chance < 0.1) await world.steer({ action: 'expire_access' })
  if (chance > 0.1 && chance < 0.2) outbox.start()
  if (chance > 0.98) await world.steer({ action: 'revoke_grant', realm_id: REALM })
  const touched = orders[Math.floor(random() * orders.length)]?.link
  if (touched && chance > 0.4 && chance < 0.6) {
    await world.steer({ action: 'edit_invoice', realm_id: REALM, id: touched.Id, fields: { Memo: 'by hand' } })
  }
}

async function reconnect(outbox: Outbox): Promise<void> {
  const refreshToken = `refresh-${REALM}-${Math.floor(outbox.random() * 1e9)}`
  await outbox.world.steer({ action: 'grant', realm_id: REALM, refresh_token: refreshToken })
  outbox.tokens = { refreshToken, accessToken: null, accessGoodUntilMs: 0 }
  outbox.start()
  outbox.stopped = false
}

function changeSomething(outbox: Outbox): void {
  const { random, orders } = outbox
  const living = orders.filter((order) => !order.deleted)
  const picked = living[Math.floor(random() * living.length)]
  const chance = random()
  if (!picked || chance < 0.25) {
    const id = orders.length + 1
    const source = randomize(outbox, makeOrder({ number: String(1_000 + id), title: `Order ${id}` }))
    const order: Order = { id, source, deleted: false, link: null, remote: 'absent' }
    orders.push(order)
    outbox.notify(order, 'create')
  } else if (chance < 0.35) {
    picked.deleted = true
    outbox.notify(picked, 'delete')
  } else {
    picked.source = randomize(outbox, picked.source)
    outbox.notify(picked, 'update')
  }
}

describe('500 random changes of orders with everything going wrong', () => {
  it.each([1, 2, 3])('end in the same books, seed %i', { timeout: 120_000 }, async (seed) => {
    const outbox = new Outbox(seeded(seed))
    outbox.crashChance = 0.03
    const removed = { invoices: 0 }
    for (let turn = 0; turn < 500; turn++) {
      changeSomething(outbox)
      outbox.nowMs += Math.floor(outbox.random() * 5_000)
      if (turn % 3 > 0) continue
      await disturb(outbox)
      await outbox.sweep()
      if (outbox.stopped && outbox.random() < 0.3) await reconnect(outbox)
    }
    outbox.crashChance = 0
    await outbox.world.spoil()
    await reconnect(outbox)
    for (let round = 0; round < 30 && outbox.rows.length > 0; round++) {
      outbox.nowMs += 3_600_000
      await outbox.sweep()
    }
    expect(outbox.rows).toEqual([])

    const books = await outbox.world.books()
    expect(books.misused).toEqual([])
    const applied = books.changes.map((change) => change.requestId)
    expect(new Set(applied).size).toBe(applied.length)
    const invoices = Object.values(books.invoices)
    for (const order of outbox.orders) {
      const own = invoices.filter((invoice) => invoice.DocNumber === order.source.number)
      if (order.deleted) {
        expect(own.length).toBeLessThanOrEqual(1)
        for (const invoice of own) expect(books.voided).toContain(invoice.Id)
        removed.invoices += own.length
        continue
      }
      expect(own).toHaveLength(1)
      const customerId = outbox.customers.get(order.source.client.company_name) ?? ''
      const { body } = buildUpdateCall(order.source, { customerId, itemId: '1' }, { Id: '', SyncToken: '' })
      const {
        Id: _id,
        SyncToken: _token,
        sparse: _sparse,
        ...wanted
      } = body as Extract<InvoiceCall, { operation: 'update' }>['body']
      const [invoice] = own
      expect({ PrivateNote: '', DueDate: null, ...invoice }).toMatchObject(wanted)
      expect(invoice.TotalAmt).toBe(order.source.totals.total / 100)
      expect(invoice.TxnDate).toBe(order.source.created_date)
    }
    const count = (operation: string) => books.changes.filter((change) => change.operation === operation).length
    expect(count('create')).toBe(invoices.length)
    expect(count('void')).toBe(removed.invoices)
    expect(Object.keys(books.customers).length).toBeLessThanOrEqual(5)
    // The run has met what it is for.
    expect(count('update')).toBeGreaterThan(30)
    expect(count('void')).toBeGreaterThan(5)
  })
})

import { describe, expect, it } from 'vitest'
import { buildUpdateCall, type InvoiceCall, type InvoiceSource } from '../../src/accounting/invoice-payload.ts'
import { type Order, Outbox } from './outbox.ts'
import { expectSoundBooks, FAULTS, seeded } from './random.ts'
import { makeLine, makeOrder, REALM } from './support.ts'

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
    expectSoundBooks(
      books,
      outbox.orders.map(({ source, deleted }) => ({ number: source.number, deleted })),
    )
    for (const order of outbox.orders.filter(({ deleted }) => !deleted)) {
      const invoice = Object.values(books.invoices).find(({ DocNumber }) => DocNumber === order.source.number)
      const customerId = outbox.customers.get(order.source.client.company_name) ?? ''
      const { body } = buildUpdateCall(
        order.source,
        { customerId, itemId: '1', taxCodeId: null },
        { Id: '', SyncToken: '' },
      )
      const {
        Id: _id,
        SyncToken: _token,
        sparse: _sparse,
        ...wanted
      } = body as Extract<InvoiceCall, { operation: 'update' }>['body']
      expect({ PrivateNote: '', DueDate: null, ...invoice }).toMatchObject(wanted)
      expect(invoice.TotalAmt).toBe(order.source.totals.total / 100)
      expect(invoice.TxnDate).toBe(order.source.created_date)
    }
    expect(Object.keys(books.customers).length).toBeLessThanOrEqual(5)
  })
})

import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  buildUpdateCall,
  type InvoiceCall,
  type InvoiceSource,
} from '../../../src/delivery/accounting/invoice-payload.ts'
import { type Order, Outbox } from './outbox.ts'
import { expectConsistentAccount, FAULTS, seeded } from './random.ts'
import { makeClient, makeLine, makeOrder, REALM } from './support.ts'

function randomize(outbox: Outbox, source: InvoiceSource): InvoiceSource {
  const draw = (below: number) => Math.floor(outbox.random() * below)
  return makeOrder({
    ...source.project,
    ...source.invoice,
    items: Array.from({ length: draw(4) }, () => makeLine({ quantity: draw(100) / 4, unit_price_cents: draw(5_000) })),
    discount_hundredths: draw(1_000),
    discount_amount_type: 'fixed_amount',
    tax: { rate: draw(500) / 20, accounting_tax_code_id: null },
    description: draw(5) === 0 ? null : `Text ${draw(1_000)}`,
    deadline: draw(5) === 0 ? null : `2026-03-${10 + draw(20)}`,
    client: makeClient(`Client ${draw(5)}`),
  })
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
  const refresh_token = `refresh-${REALM}-${Math.floor(outbox.random() * 1e9)}`
  await outbox.world.steer({ action: 'grant', realm_id: REALM, refresh_token: refresh_token })
  outbox.tokens = { refresh_token, access_token: null, access_good_until: 0 }
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

afterEach(() => {
  vi.restoreAllMocks()
})

describe('500 random changes of orders under random failures', () => {
  it.each([1, 2, 3])(
    'end with the accounting system equal to the orders, seed %i',
    { timeout: 120_000 },
    async (seed) => {
      const outbox = new Outbox(seeded(seed))
      outbox.crashChance = 0.03
      vi.spyOn(Date, 'now').mockImplementation(() => outbox.nowMs)
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

      const account = await outbox.world.account()
      expectConsistentAccount(
        account,
        outbox.orders.map(({ source, deleted }) => ({ number: source.invoice.number, deleted })),
      )
      for (const order of outbox.orders.filter(({ deleted }) => !deleted)) {
        const invoice = Object.values(account.invoices).find(
          ({ DocNumber }) => DocNumber === order.source.invoice.number,
        )
        const customerId = outbox.customers.get(order.source.client.company_name) ?? ''
        const references = { customerId, itemId: '1', taxCodeId: null }
        const call = buildUpdateCall(order.source, references, { Id: '', SyncToken: '' })
        const { body, expected } = call as Extract<InvoiceCall, { operation: 'update' }>
        const { Id: _id, SyncToken: _token, sparse: _sparse, ...wanted } = body
        expect({ PrivateNote: '', DueDate: null, ...invoice }).toMatchObject(wanted)
        expect(invoice.TotalAmt).toBe(expected.total / 100)
        expect(invoice.TxnDate).toBe(order.source.project.created_date)
      }
      expect(Object.keys(account.customers).length).toBeLessThanOrEqual(5)
    },
  )
})

import { describe, expect, it } from 'vitest'
import { MAX_ATTEMPTS } from '../../../src/delivery/accounting/decisions.ts'
import { SPOILT } from '../../../src/simulators/accounting-data.ts'
import { Shop } from './shop.ts'
import { INVOICE_POST } from './support.ts'

/** Makes every attempt that an event has. */
async function deliverToTheLast(shop: Shop): Promise<void> {
  for (let tries = 1; tries <= MAX_ATTEMPTS; tries++) {
    await shop.passTime()
    await shop.deliver()
  }
}

describe('a call that fails', () => {
  it.each([
    ['500', SPOILT.broken],
    ['a response that is cut', { cutAfterBytes: 10 }],
    ['an applied change whose response is lost', { apply: true, destroy: true }],
  ])('is repeated byte for byte after %s', async (_, fault) => {
    const { shop, id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, ...fault })
    const before = Date.now()
    const at = await shop.deliver()
    expect(at).toBeGreaterThan(before)
    expect(at).toBeLessThan(Date.now() + 2_000)
    expect(await shop.statusOf(id)).toMatch(/^pending: .*accounting/)
    await shop.passTime()
    expect(await shop.deliver()).toBeNull()
    const [first, second, ...more] = await shop.invoiceCalls()
    expect(more).toEqual([])
    expect(second).toEqual(first)
    expect(await shop.invoices()).toHaveLength(1)
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })

    await shop.world.spoil({ match: INVOICE_POST, ...fault })
    await shop.call('DELETE', `/orders/${id}`)
    await shop.deliver()
    await shop.passTime()
    expect(await shop.deliver()).toBeNull()
    const [voided, repeated] = (await shop.invoiceCalls()).slice(2)
    expect(repeated).toEqual(voided)
    expect(await shop.changes()).toEqual(['customer', 'create', 'void'])
  })

  it('is dead after the last attempt, and an edit finds what was applied', async () => {
    const { shop, id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, times: -1, apply: true, destroy: true })
    await deliverToTheLast(shop)
    expect(await shop.open()).toMatchObject([{ state: 'dead', attempts: MAX_ATTEMPTS, request_body: null }])
    expect(await shop.accounting(id)).toMatchObject({ status: 'dead', last_error: expect.any(String), synced_at: null })
    await shop.world.spoil()
    expect(await shop.deliver()).toBeNull()
    await shop.call('PATCH', `/orders/${id}`, { description: 'again' })
    expect(await shop.accounting(id)).toMatchObject({ status: 'pending', last_error: null })
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
    expect(await shop.invoices()).toMatchObject([{ PrivateNote: 'again' }])
  })

  it('is dead, and a deletion still finds and voids an invoice that was applied', async () => {
    const { shop, id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, times: MAX_ATTEMPTS, apply: true, destroy: true })
    await deliverToTheLast(shop)
    expect(await shop.accounting(id)).toMatchObject({ status: 'dead' })
    await shop.call('DELETE', `/orders/${id}`)
    expect(await shop.deliver()).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'void'])
    expect(await shop.open()).toEqual([])
  })

  it.each([
    ['429', SPOILT.throttled],
    ['XML', SPOILT.throttledXml],
  ])('pauses the company for a minute when throttled by %s, and counts no attempt', async (_, fault) => {
    const shop = await Shop.open()
    const [first, second] = [await shop.makeOrder(), await shop.makeOrder()]
    await shop.world.spoil({ match: INVOICE_POST, ...fault })
    const startedAt = Date.now()
    const at = await shop.deliver()
    expect(at).toBeGreaterThan(startedAt + 55_000)
    expect(at).toBeLessThanOrEqual(Date.now() + 60_000)
    expect(await shop.open()).toMatchObject([
      { order_id: first, state: 'sent', attempts: 0 },
      { order_id: second, state: 'pending', attempts: 0 },
    ])
    expect(await shop.deliver()).toBe(at)
    expect(await shop.invoiceCalls()).toHaveLength(1)
    await shop.passTime()
    await shop.deliver()
    const calls = await shop.invoiceCalls()
    expect(calls).toHaveLength(3)
    expect(calls[1]).toEqual(calls[0])
  })

  it('backs off, and is dead in the end, when the customer cannot be found either', async () => {
    const { shop, id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: '^GET .*query', times: -1, ...SPOILT.unavailable })
    await deliverToTheLast(shop)
    expect(await shop.accounting(id)).toMatchObject({ status: 'dead' })
    expect(await shop.invoiceCalls()).toEqual([])
  })
})

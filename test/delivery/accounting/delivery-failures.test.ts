import { describe, expect, it } from 'vitest'
import { MAX_ATTEMPTS } from '../../../src/delivery/accounting/decisions.ts'
import { makeFault, SPOILT } from '../../../src/simulators/accounting-data.ts'
import { sql } from '../../support/app.ts'
import { Shop } from './shop.ts'
import { INVOICE_POST, REALM } from './support.ts'

/** Makes every attempt that an event has. */
async function deliverToTheLast(shop: Shop): Promise<void> {
  for (let tries = 1; tries <= MAX_ATTEMPTS; tries++) {
    await shop.deliverLater()
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
    expect(await shop.deliverLater()).toBeNull()
    const [first, second, ...more] = await shop.invoiceCalls()
    expect(more).toEqual([])
    expect(second).toEqual(first)
    expect(await shop.invoices()).toHaveLength(1)
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })

    await shop.world.spoil({ match: INVOICE_POST, ...fault })
    await shop.deliverDeletion(id)
    expect(await shop.deliverLater()).toBeNull()
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
    expect(await shop.deliverDeletion(id)).toBeNull()
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
    await shop.deliverLater()
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

describe('a call that is refused', () => {
  it('is merged when somebody else edited the invoice, and leaves its other fields', async () => {
    const { shop, id } = await Shop.openDelivered()
    const [{ Id }] = await shop.invoices()
    await shop.world.steer({ action: 'edit_invoice', realm_id: REALM, id: Id, fields: { Memo: 'by hand' } })
    expect(await shop.deliverEdit(id, 'ours')).toBeNull()
    expect(await shop.invoices()).toMatchObject([{ Memo: 'by hand', PrivateNote: 'ours' }])
    const [, stale, merged] = await shop.invoiceCalls()
    expect(merged?.requestId).not.toBe(stale?.requestId)
    expect((await shop.world.account()).misused).toEqual([])

    await shop.world.steer({ action: 'edit_invoice', realm_id: REALM, id: Id, fields: { Memo: 'again' } })
    await shop.deliverDeletion(id)
    expect((await shop.world.account()).voided).toEqual([Id])
  })

  it('is dead after five stale responses', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.world.spoil({
      match: INVOICE_POST,
      times: -1,
      status: 400,
      body: makeFault('5010', 'Stale Object Error'),
    })
    expect(await shop.deliverEdit(id, 'x')).toBeNull()
    const ids = (await shop.invoiceCalls()).slice(1).map((call) => call.requestId)
    expect(new Set(ids).size).toBe(5)
    expect(await shop.accounting(id)).toMatchObject({ status: 'dead', last_error: expect.stringContaining('5010') })
  })

  it('is dead at once where its request is larger than a value of the database', async () => {
    const { shop, id } = await Shop.openWithOrder()
    await sql(
      `INSERT INTO invoice_items (company_id, id, invoice_id, title, description, quantity, unit_price_cents, search_text)
       SELECT i.company_id, 5000 + n.value, i.id, 'Tee', ?2, 1, 1, '' FROM invoices AS i, json_each(?3) AS n
       WHERE i.company_id = ?1 AND i.project_id = ?4`,
      ...[shop.company.id, 'x'.repeat(4_000), JSON.stringify(Array.from({ length: 500 }, (_, index) => index)), id],
    )
    await shop.deliver()
    expect(await shop.statusOf(id)).toMatch(/^dead: The order has too many lines/)
    expect(await shop.invoiceCalls()).toEqual([])
  })

  it('is parked for an update of a removed invoice, and done for a void', async () => {
    const shop = await Shop.open()
    const [edited, deleted] = [await shop.makeOrder(), await shop.makeOrder()]
    await shop.deliver()
    for (const { Id } of await shop.invoices())
      await shop.world.steer({ action: 'remove_invoice', realm_id: REALM, id: Id })
    await shop.call('PATCH', `/orders/${edited}`, { description: 'x' })
    await shop.deliverDeletion(deleted)
    expect(await shop.statusOf(edited)).toMatch(/^parked: .*610/)
    expect(await shop.open()).toMatchObject([{ order_id: edited, state: 'parked' }])
  })

  it('is parked when its number belongs to another invoice', async () => {
    const { shop, id: first } = await Shop.openDelivered()
    const [{ Id }] = await shop.invoices()
    const fields = { DocNumber: '1002', TxnDate: '2020-01-01' }
    await shop.world.steer({ action: 'edit_invoice', realm_id: REALM, id: Id, fields })
    const second = await shop.deliverOrder()
    expect(await shop.accounting(first)).toMatchObject({ status: 'synced' })
    expect(await shop.statusOf(second)).toMatch(/^parked: .*6140/)
    expect(await shop.invoices()).toHaveLength(1)
  })

  it('is parked when its number is written as that of another order, whose invoice stays that order’s', async () => {
    const shop = await Shop.open()
    const [first, second] = [await shop.makeOrder(), await shop.makeOrder()]
    for (const [order, number] of [
      [first, 'A 1'],
      [second, 'A  1'],
    ]) {
      await sql(
        'UPDATE invoices SET number = ? WHERE company_id = ? AND project_id = ?',
        number,
        shop.company.id,
        order,
      )
    }
    await shop.deliver()
    expect(await shop.accounting(first)).toMatchObject({ status: 'synced' })
    expect(await shop.accounting(second)).toMatchObject({ status: 'parked' })
    await shop.deliverDeletion(second)
    expect(await shop.changes()).toEqual(['customer', 'create'])
  })

  it('adopts the invoice of its number that is ours', async () => {
    const { shop, id } = await Shop.openDelivered()
    await sql('DELETE FROM accounting_links WHERE company_id = ?', shop.company.id)
    expect(await shop.deliverEdit(id, 'x')).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced' })
  })

  it('is retried when the invoices of the number could not be listed', async () => {
    const { shop, id } = await Shop.openDelivered()
    await sql('DELETE FROM accounting_links WHERE company_id = ?', shop.company.id)
    await shop.world.spoil({ match: '^GET .*query', ...SPOILT.broken })
    expect(await shop.deliverEdit(id, 'x')).toBeGreaterThan(Date.now())
    expect(await shop.open()).toMatchObject([{ state: 'pending', operation: 'create', attempts: 1 }])
    await shop.deliverLater()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
  })

  it.each(['2500', '6000'])('is dead for code %s, until the order is edited', async (code) => {
    const { shop, id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, status: 400, body: makeFault(code, 'Refused') })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.accounting(id)).toMatchObject({ status: 'dead', last_error: expect.stringContaining(code) })
    await shop.deliverEdit(id, 'corrected')
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })
    expect(await shop.invoices()).toMatchObject([{ PrivateNote: 'corrected' }])
  })
})

import { describe, expect, it } from 'vitest'
import { describeDifference } from '../../../src/delivery/accounting/invoice-payload.ts'
import { makeFault } from '../../../src/simulators/accounting-data.ts'
import { sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { Shop } from './shop.ts'
import { INVOICE_POST, REALM } from './support.ts'

/** An order of 12 × 9.50 with 8.25 % of tax. */
async function openShop(fields: object = {}, credentials: Record<string, string> = {}) {
  const shop = await Shop.open(credentials)
  return { shop, orderId: await shop.makeOrder({ tax_id: shop.company.id * 100 + 1, ...fields }) }
}

describe('amounts of the accounting system', () => {
  const expected = { total: 10_793, tax: 823 }
  it.each([
    [{ total: 107.93, tax: 8.23 }, null],
    [{ total: 107.94, tax: 8.22 }, null],
    [{ total: 107.92, tax: null }, null],
    [{ total: 108.2, tax: 8.5 }, 'The accounting system says 108.20, the order 107.93.'],
    [{ total: 107.95, tax: 8.25 }, 'The accounting system says 107.95, the order 107.93.'],
    [{ total: 0, tax: 0 }, 'The accounting system says 0.00, the order 107.93.'],
    [{ total: 107.93, tax: 0 }, 'The accounting system says 0.00 of tax, the order 8.23.'],
    [{ total: null, tax: 8.23 }, 'The accounting system gave no total, the order has 107.93.'],
  ])('of %j are compared with the order’s within a cent', (amounts, difference) => {
    expect(describeDifference(amounts, expected)).toBe(difference)
  })
})

describe('an order whose total differs there', () => {
  it('is parked with both figures, keeps its invoice, and is synced by a later edit that agrees', async () => {
    const { shop, orderId } = await openShop()
    await shop.world.steer({ action: 'set_taxes', realm_id: REALM, automated_rate: 9 })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.accounting(orderId)).toEqual({
      status: 'parked',
      last_error: 'The accounting system says 124.26, the order 123.41.',
      synced_at: null,
    })
    const [made] = await shop.invoices()
    expect(
      await sql(
        'SELECT external_id, sync_token, synced_at FROM accounting_links WHERE company_id = ?',
        shop.company.id,
      ),
    ).toEqual([{ external_id: made.Id, sync_token: '0', synced_at: null }])

    await shop.deliverEdit(orderId, 'still wrong')
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'parked', synced_at: null })

    await shop.world.steer({ action: 'set_taxes', realm_id: REALM, automated_rate: null })
    await shop.deliverEdit(orderId, 'right')
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced', last_error: null })
    expect(await shop.invoices()).toMatchObject([{ Id: made.Id, PrivateNote: 'right', TotalAmt: 123.41 }])
    expect(await shop.changes()).toEqual(['customer', 'create', 'update', 'update'])
  })

  it('is parked after an update too, and can still be voided', async () => {
    const { shop, orderId } = await openShop()
    await shop.deliver()
    const { synced_at } = await shop.accounting(orderId)
    await shop.world.steer({ action: 'set_taxes', realm_id: REALM, automated_rate: 0 })
    await shop.deliverEdit(orderId, 'x')
    expect(await shop.accounting(orderId)).toEqual({
      status: 'parked',
      last_error: 'The accounting system says 114.00, the order 123.41.',
      synced_at,
    })
    expect(await shop.deliverDeletion(orderId)).toBeNull()
    expect(await shop.open()).toEqual([])
    expect(await shop.changes()).toEqual(['customer', 'create', 'update', 'void'])
  })

  it('is parked when the response to a repeated call says so', async () => {
    const { shop, orderId } = await openShop()
    await shop.world.steer({ action: 'set_taxes', realm_id: REALM, automated_rate: 9 })
    await shop.world.spoil({ match: INVOICE_POST, apply: true, destroy: true })
    await shop.deliver()
    await sql('UPDATE invoices SET tax_id = NULL WHERE company_id = ?', shop.company.id)
    await shop.deliverLater()
    expect(await shop.accounting(orderId)).toMatchObject({
      status: 'parked',
      last_error: 'The accounting system says 124.26, the order 123.41.',
    })
  })
})

describe('tax', () => {
  it.each([
    ['before_tax', true, 8.46, 111.06],
    ['after_tax', false, 9.41, 111.07],
  ] as const)('with a discount %s is computed there as here', async (discount_type, isAfter, tax, total) => {
    const discount = { discount_amount: 10, discount_amount_type: 'percentage', discount_type }
    const { shop, orderId } = await openShop(discount)
    // The system computes the tax by itself, so that the tax that is sent proves nothing.
    await shop.world.steer({ action: 'set_taxes', realm_id: REALM, automated_rate: 8.25 })
    await shop.deliver()
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced', last_error: null })
    const wanted = { ApplyTaxAfterDiscount: isAfter, TxnTaxDetail: { TotalTax: tax }, TotalAmt: total }
    expect(await shop.invoices()).toMatchObject([wanted])

    const other = discount_type === 'before_tax' ? 'after_tax' : 'before_tax'
    await shop.call('PATCH', `/orders/${orderId}`, { discount_type: other })
    await shop.deliver()
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced' })
    expect(await shop.invoices()).toMatchObject([{ ApplyTaxAfterDiscount: !isAfter }])
  })

  it('of an order without a tax, or of an exempt one, is not charged by the system itself either', async () => {
    const { shop, orderId } = await openShop({ tax_exempt: true })
    const untaxed = await shop.makeOrder()
    await shop.world.steer({ action: 'set_taxes', realm_id: REALM, automated_rate: 9 })
    await shop.deliver()
    for (const id of [orderId, untaxed]) expect(await shop.accounting(id)).toMatchObject({ status: 'synced' })
    expect((await shop.invoices()).map((invoice) => invoice.TotalAmt)).toEqual([114, 114])
  })

  it('has the tax code of the tax, else the integration’s, and none without a tax', async () => {
    const { shop } = await openShop({}, { tax_code_id: '3' })
    await shop.world.steer({ action: 'set_taxes', realm_id: REALM, codes: { 3: 8.25, 5: 8.25 } })
    await shop.deliver()
    await sql(`UPDATE taxes SET accounting_tax_code_id = '5' WHERE company_id = ?`, shop.company.id)
    await shop.makeOrder({ tax_id: shop.company.id * 100 + 1 })
    await shop.deliverOrder()
    expect((await shop.invoices()).map((invoice) => invoice.TxnTaxDetail)).toEqual([
      { TotalTax: 9.41, TxnTaxCodeRef: { value: '3' } },
      { TotalTax: 9.41, TxnTaxCodeRef: { value: '5' } },
      { TotalTax: 0 },
    ])
  })

  it('with a tax code that the system does not know is refused', async () => {
    const { shop, orderId } = await openShop({}, { tax_code_id: '9' })
    await shop.deliver()
    expect(await shop.statusOf(orderId)).toMatch(/^dead: .*2500/)
  })
})

function linesOf(shop: Shop) {
  return logLines.filter(({ event, company_id }) => event === 'outbox' && company_id === shop.company.id)
}

describe('the log has one line when', () => {
  it.each([
    ['an event is parked', 'parked', 'closed_period', { status: 400, body: makeFault('6190', 'hunter2') }],
    ['an event is dead', 'dead', 'data', { status: 400, body: makeFault('2020', 'hunter2') }],
    ['the company is paused', 'company_paused', 'throttle', { status: 429, body: makeFault('3001', 'hunter2') }],
    ['the consent is lost', 'consent_lost', 'grant_lost', { status: 403, body: makeFault('3100', 'hunter2') }],
  ])('%s', async (_, state, cause, fault) => {
    const { shop, id: order_id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, times: -1, ...fault })
    await shop.deliver()
    const [event] = await shop.open()
    expect(linesOf(shop)).toEqual([
      { event: 'outbox', state, cause, company_id: shop.company.id, order_id, event_id: event?.id, attempts: 1 },
    ])
    expect(JSON.stringify(logLines)).not.toContain('hunter2')
    // Nothing changes any more, so nothing is logged again.
    await shop.deliver()
    expect(linesOf(shop)).toHaveLength(1)
  })

  it('nothing of the company can be delivered, because its credentials cannot be read', async () => {
    const { shop } = await Shop.openWithOrder()
    await sql(`UPDATE integrations SET credentials = 'v1.0.x' WHERE company_id = ?`, shop.company.id)
    await shop.deliver()
    expect(linesOf(shop)).toEqual([
      { event: 'outbox', state: 'company_stopped', cause: 'credentials_unreadable', company_id: shop.company.id },
    ])
  })

  it('none of this happens, which is no line', async () => {
    const { shop } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, status: 500, body: '{}' })
    await shop.deliver()
    await shop.deliverLater()
    expect(linesOf(shop)).toEqual([])
  })
})

import { describe, expect, it } from 'vitest'
import { createClient, createOrder, mintShop } from './support.ts'

const EXEMPT = { tax_exempt: true, tax_exempt_reason: 'School' }

describe('the tax exemption of a new order', () => {
  it.each([
    ['is copied from the client', EXEMPT, {}, EXEMPT],
    ['is off when the client has none', {}, {}, { tax_exempt: false, tax_exempt_reason: null }],
    ['has no reason when the client has none', { tax_exempt: true }, {}, { tax_exempt: true, tax_exempt_reason: null }],
    [
      'is off, without the client’s reason, when the request turns it off',
      EXEMPT,
      { tax_exempt: false },
      { tax_exempt: false, tax_exempt_reason: null },
    ],
    [
      'is the request’s, without the client’s reason, when the request turns it on',
      EXEMPT,
      { tax_exempt: true },
      { tax_exempt: true, tax_exempt_reason: null },
    ],
    [
      'is the client’s with the request’s reason when only a reason is sent',
      EXEMPT,
      { tax_exempt_reason: 'Resale' },
      { tax_exempt: true, tax_exempt_reason: 'Resale' },
    ],
    [
      'is the client’s without a reason when the request sends a null reason',
      EXEMPT,
      { tax_exempt_reason: null },
      { tax_exempt: true, tax_exempt_reason: null },
    ],
    [
      'is the request’s when the client has none',
      {},
      { tax_exempt: true, tax_exempt_reason: 'Resale' },
      { tax_exempt: true, tax_exempt_reason: 'Resale' },
    ],
  ])('%s', async (_, ofClient, sent, expected) => {
    const shop = await mintShop()
    const client_id = await createClient(shop, ofClient)
    const { invoice } = await createOrder(shop, { client_id, tax_id: shop.taxId, ...sent })
    expect(invoice).toMatchObject({ ...expected, tax_id: shop.taxId })
  })

  it('does not follow later changes of the client, or another client', async () => {
    const shop = await mintShop()
    const client_id = await createClient(shop, EXEMPT)
    const { project } = await createOrder(shop, { client_id })
    await shop.call('PATCH', `/clients/${client_id}`, { tax_exempt: false, tax_exempt_reason: null })
    const changed = await shop.call('PATCH', `/orders/${project.id}`, { client_id: shop.clientId })
    expect(changed.body.invoice).toMatchObject(EXEMPT)
  })
})

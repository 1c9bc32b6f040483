import { beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../support/app.ts'
import { createClient, createOrder, mintShop } from './support.ts'

beforeAll(migrate)

const EXEMPT = { tax_exempt: true, tax_exempt_reason: 'School' }

describe('the tax exemption of a new order', () => {
  it.each([
    ['is its client’s', EXEMPT, {}, EXEMPT],
    ['is none where its client has none', {}, {}, { tax_exempt: false, tax_exempt_reason: null }],
    [
      'has no reason where its client gives none',
      { tax_exempt: true },
      {},
      { tax_exempt: true, tax_exempt_reason: null },
    ],
    [
      'is none, without the client’s reason, when the request says so',
      EXEMPT,
      { tax_exempt: false },
      { tax_exempt: false, tax_exempt_reason: null },
    ],
    [
      'is the request’s, without the client’s reason, when the request sends it',
      EXEMPT,
      { tax_exempt: true },
      { tax_exempt: true, tax_exempt_reason: null },
    ],
    [
      'is its client’s with the reason that the request sends',
      EXEMPT,
      { tax_exempt_reason: 'Resale' },
      { tax_exempt: true, tax_exempt_reason: 'Resale' },
    ],
    [
      'is its client’s without a reason when the request sends null',
      EXEMPT,
      { tax_exempt_reason: null },
      { tax_exempt: true, tax_exempt_reason: null },
    ],
    [
      'is what the request sends where its client has none',
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

  it('stays as it is when the client changes later, or the order gets another client', async () => {
    const shop = await mintShop()
    const client_id = await createClient(shop, EXEMPT)
    const { project } = await createOrder(shop, { client_id })
    await shop.call('PATCH', `/clients/${client_id}`, { tax_exempt: false, tax_exempt_reason: null })
    const changed = await shop.call('PATCH', `/orders/${project.id}`, { client_id: shop.clientId })
    expect(changed.body.invoice).toMatchObject(EXEMPT)
  })
})

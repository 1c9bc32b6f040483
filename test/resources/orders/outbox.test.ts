import { expect, it } from 'vitest'
import { sql, sqlIn } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { createOrder, dump, enableAccounting, mintShop, type Shop } from './support.ts'

type Integration = 'enabled' | 'disabled' | 'missing'

async function mintSynced(companyWants: boolean, integration: Integration): Promise<Shop> {
  const shop = await mintShop()
  if (integration === 'missing')
    await sql('UPDATE companies SET accounting_sync_enabled = ? WHERE id = ?', Number(companyWants), shop.id)
  else await enableAccounting(shop, companyWants, integration === 'enabled')
  const storage = { company_id: shop.id, kind: 'storage', enabled: 1, base_url: 'https://x.example' }
  await insert('integrations', { ...storage, credentials: 'x', updated_at: 0 })
  return shop
}

/** The operations of an order's accounting events, oldest first. */
async function eventsOf(shop: Shop, orderId: number): Promise<unknown[]> {
  const events = 'SELECT operation FROM accounting_outbox WHERE company_id = ? AND order_id = ? ORDER BY id'
  return (await sql(events, shop.id, orderId)).map(({ operation }) => operation)
}

const cases = [true, false].flatMap((companyWants) =>
  (['enabled', 'disabled', 'missing'] as const).flatMap((integration) =>
    [undefined, true, false].map((requested) => ({ companyWants, integration, requested })),
  ),
)

it.each(cases)('an accounting event is written when requested, with an enabled integration: %o', async (each) => {
  const { companyWants, integration, requested } = each
  const shop = await mintSynced(companyWants, integration)
  const isWritten = (requested ?? companyWants) && integration === 'enabled'
  const override = requested === undefined ? {} : { accounting_sync_enabled: requested }
  const { project } = await createOrder(shop, override)
  await shop.call('PATCH', `/orders/${project.id}`, { title: 'b', ...override })
  await shop.call('DELETE', `/orders/${project.id}`)
  const onDelete = companyWants && integration === 'enabled' ? ['delete'] : []
  expect(await eventsOf(shop, project.id)).toEqual([...(isWritten ? ['create', 'update'] : []), ...onDelete])
})

it('an accounting event is not written by a second deletion', async () => {
  const shop = await mintSynced(true, 'enabled')
  const { project } = await createOrder(shop)
  const deletions = await Promise.all(Array.from({ length: 5 }, () => shop.call('DELETE', `/orders/${project.id}`)))
  expect(deletions.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404, 404])
  expect(await eventsOf(shop, project.id)).toEqual(['create', 'delete'])
})

it('an accounting event is written in the transaction of the change', async () => {
  const shop = await mintSynced(true, 'enabled')
  const { project } = await createOrder(shop)
  const refusal = `BEFORE INSERT ON accounting_outbox BEGIN SELECT RAISE(ABORT, 'no'); END`
  await sqlIn(shop.home, `CREATE TRIGGER refuse ${refusal}`)
  try {
    const before = await dump(shop)
    const responses = [
      await shop.call('POST', '/orders', { title: 'a', client_id: shop.clientId }),
      await shop.call('PATCH', `/orders/${project.id}`, { title: 'b' }),
      await shop.call('DELETE', `/orders/${project.id}`),
    ]
    expect(responses.map(({ status }) => status)).toEqual([500, 500, 500])
    expect(await dump(shop)).toEqual(before)
  } finally {
    await sqlIn(shop.home, 'DROP TRIGGER refuse')
  }
})

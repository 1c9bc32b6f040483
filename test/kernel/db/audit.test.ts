import { beforeAll, describe, expect, it } from 'vitest'
import { createOrder, mintShop, type Shop } from '../../resources/orders/support.ts'
import { migrate, sql } from '../../support/app.ts'

beforeAll(migrate)

async function rowsOf(shop: Shop, action: string): Promise<{ entity_id: string; request_id: string }[]> {
  return sql(
    'SELECT entity_id, request_id FROM audit_log WHERE company_id = ? AND action = ? ORDER BY id',
    shop.id,
    action,
  )
}

describe('the audit log', () => {
  it('records a change that is repeated within a minute once, with the first request', async () => {
    const shop = await mintShop()
    const { project } = await createOrder(shop)
    const patch = (mark: string) =>
      shop.call('PATCH', `/orders/${project.id}`, { title: mark }, { 'x-request-id': mark })
    for (const mark of ['a', 'b', 'c']) expect((await patch(mark)).body.project.title).toBe(mark)
    await Promise.all(Array.from({ length: 5 }, (_, index) => patch(`d${index}`)))
    expect(await rowsOf(shop, 'order.update')).toEqual([{ entity_id: String(project.id), request_id: 'a' }])

    await sql('UPDATE audit_log SET at = at - 60000 WHERE company_id = ?', shop.id)
    await patch('e')
    await patch('f')
    expect((await rowsOf(shop, 'order.update')).map((row) => row.request_id)).toEqual(['a', 'e'])
  })
})

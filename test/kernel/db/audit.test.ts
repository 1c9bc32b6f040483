import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { collectAdminEntries } from '../../../src/kernel/db/audit.ts'
import { createOrder, mintShop, type Shop } from '../../resources/orders/support.ts'
import { sql, sqlIn } from '../../support/app.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'

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

  it('records the deletion of a client as one, also behind another change of it', async () => {
    const shop = await mintShop()
    const { body } = await shop.call('POST', '/clients', { company_name: 'a' })
    const path = `/clients/${body.client.id}`
    const entity_id = String(body.client.id)
    await shop.call('PATCH', path, { company_name: 'b' }, { 'x-request-id': 'changed' })
    await shop.call('PATCH', path, { deleted: true }, { 'x-request-id': 'deleted' })
    await shop.call('PATCH', path, { deleted: false }, { 'x-request-id': 'restored' })
    expect(await rowsOf(shop, 'client.delete')).toEqual([{ entity_id, request_id: 'deleted' }])
    expect(await rowsOf(shop, 'client.update')).toEqual([{ entity_id, request_id: 'changed' }])
    const other = await shop.call('POST', '/clients', { company_name: 'c' })
    await shop.call('DELETE', `/clients/${other.body.client.id}`, undefined, { 'x-request-id': 'gone' })
    expect((await rowsOf(shop, 'client.delete')).map((row) => row.request_id)).toEqual(['deleted', 'gone'])
  })
})

describe('entries of administrators in another database', () => {
  it('are all collected though one gets the id of another whose removal is repeated', async () => {
    const [requestId, at] = [crypto.randomUUID(), Date.now()]
    const add = (id: number | null, entity: string) =>
      sqlIn<{ id: number }>(
        'DB_TWO',
        `INSERT INTO admin_log (id, actor, action, entity_id, address, request_id, at)
         VALUES (?, 'operator', 'tokens.revoke', ?, '127.0.0.1', ?, ?) RETURNING id`,
        ...[id, entity, requestId, at],
      )
    const [first] = await add(null, '1')
    const isLeft = async () => (await sqlIn('DB_TWO', 'SELECT 1 FROM admin_log WHERE id = ?', first?.id)).length > 0
    let isLost = false
    const losing = wrapBindings(env, async (name, work) => {
      const result = await work()
      if (name !== 'DB_TWO.batch' || isLost || (await isLeft())) return result
      isLost = true
      await add(first?.id ?? 0, '2')
      throw new Error('D1_ERROR: Network connection lost.')
    })
    await collectAdminEntries(losing, 'DB_TWO')
    await collectAdminEntries(env, 'DB_TWO')
    const entries = await sql('SELECT entity_id FROM admin_log WHERE request_id = ? ORDER BY id', requestId)
    expect(entries).toEqual([{ entity_id: '1' }, { entity_id: '2' }])
    expect(await isLeft()).toBe(false)
  })
})

import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { collectAdminEntries } from '../../../src/kernel/db/audit.ts'
import { createOrder, mintShop, type Shop } from '../../resources/orders/support.ts'
import { mintCompany, sql, sqlIn } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'

async function rowsOf(shop: Shop, action: string): Promise<{ entity_id: string; request_id: string }[]> {
  return sql(
    'SELECT entity_id, request_id FROM audit_log WHERE company_id = ? AND action = ? ORDER BY id',
    shop.id,
    action,
  )
}

describe('the audit log', () => {
  it('has an entry of each change by a token', async () => {
    const { id: company_id, call } = await mintCompany()
    const client_id: number = (await call('POST', '/clients', { company_name: 'a' })).body.client.id
    const { project, invoice } = (await call('POST', '/orders', { title: 'a', client_id })).body
    const payment = await insert('payments', { company_id, id: 7, invoice_id: invoice.id, amount_cents: 100 })
    const file = `orders/${company_id}/${project.id}/x.png`
    await env.FILES.put(file, 'x')
    const thread = { account_email: 'a@x.example', messages: [{ id: '1' }] }
    const changes: [entry: string, method: string, path: string, body?: object][] = [
      ['client.update', 'PATCH', `/clients/${client_id}`, { phone: '1' }],
      ['client.write', 'PUT', '/clients/by-external-id/b', { company_name: 'b' }],
      ['order.update', 'PATCH', `/orders/${project.id}`, { title: 'b' }],
      ['order.write', 'PUT', '/orders/by-external-id/c', { title: 'c', client_id }],
      ['payment.create', 'POST', `/orders/${project.id}/payments`, { amount: 1 }],
      ['payment.update', 'PATCH', `/orders/${project.id}/payments/${payment}`, { amount: 2 }],
      ['payment.delete', 'DELETE', `/orders/${project.id}/payments/${payment}`],
      ['thread_context.write', 'PUT', '/mail/threads/t', { client_id }],
      ['thread_context.delete', 'DELETE', '/mail/threads/t'],
      ['file.delete', 'DELETE', `/orders/${project.id}/files?path=${file}`],
      ['order.delete', 'DELETE', `/orders/${project.id}`],
      ['client.delete', 'DELETE', `/clients/${client_id}`],
      ['email_thread.write', 'PUT', '/mail/email-threads/t', thread],
      ['email_thread.delete', 'DELETE', '/mail/email-threads/t?account_email=a@x.example'],
    ]
    for (const [, method, path, body] of changes) expect((await call(method, path, body)).status, path).toBe(200)
    const entries = await sql('SELECT action FROM audit_log WHERE company_id = ? ORDER BY id', company_id)
    const expected = ['client.create', 'order.create', ...changes.map(([action]) => action)]
    expect(entries).toEqual(expected.map((action) => ({ action })))
  })

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

it('entries of administrators in another database are all collected though one gets the id of another whose removal is repeated', async () => {
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

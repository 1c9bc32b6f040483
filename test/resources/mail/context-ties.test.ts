import { expect, it } from 'vitest'
import { call, mintCompany, mintToken } from '../../support/app.ts'
import { type Context, clients, makeCompanies, me, orders, other, seen, store } from './context-support.ts'
import { freshThreadId, sendText } from './support.ts'

await makeCompanies()

it('a thread context returns numbers exactly as stored', async () => {
  const legacyId = freshThreadId()
  const text = `[{"id":${orders.mine},"n":12345678901234567890,"f":1e400}]`
  await store(me, legacyId, { client_id: String(clients.mine), orders_data: text }, true)
  expect((await sendText(me, 'GET', `/mail/threads/${legacyId}`)).text).toContain(`"orders_data":${text}`)
})

/** What the model of any contents (`context-model.test.ts`) does not try. */
it.each<[string, Context, boolean]>([
  ['a client id that is none', { client_id: `${clients.mine}x` }, false],
  ['a client id with zeros before it', { client_id: `0${clients.mine}` }, false],
  ['a client id with a fraction', { client_id: `${clients.mine}.0` }, false],
  ['an element without an id', { orders_data: [{ title: 'x' }, null, [orders.mine]] }, false],
  ['its client’s id as an order', { orders_data: [{ id: clients.mine }] }, false],
  ['its order’s id deeper in an element', { orders_data: [{ order: { id: orders.mine } }] }, false],
  ['its order’s id in another part', { clients_data: [{ id: orders.mine }] }, false],
  ['its client’s id in another part', { client_data: { id: clients.mine } }, false],
  ['true as an order id', { orders_data: [{ id: true }, true] }, false],
  ['its company id', { client_data: { company_id: me.id } }, true],
  ['its company id in the other spelling', { orders_data: [{ a: { companyId: me.id } }] }, true],
  ['its company id, deep', { participants_data: [[{ a: { b: [{ company_id: me.id }] } }]] }, true],
  ['its company id among addresses', { participant_emails: { company_id: me.id } }, true],
  ['its company id beside another’s', { client_data: { company_id: other.id, a: { company_id: me.id } } }, true],
  ['its company id under another name', { client_data: { companyid: me.id, company: me.id, id: me.id } }, false],
  ['its company id inside a text', { client_data: { note: `"company_id":${me.id}` } }, false],
  ['its company id as the start of another', { client_data: { company_id: me.id * 10 + 1 } }, false],
  ['its company id in a list', { client_data: { company_id: [me.id] } }, false],
])('a thread context is found only when tied to the company: %s', async (_, context, isTied) => {
  const response = await seen(context)
  if (isTied) expect(response).toHaveProperty('thread_id')
  else expect(response).toBe(404)
})

it('a thread context is not tied to company 1 by `true`, which SQLite compares as 1', async () => {
  await mintCompany({ id: 1 })
  const legacyId = freshThreadId()
  const first = { ...me, id: 1, token: await mintToken(1) }
  await store(first, legacyId, { client_data: { company_id: true } })
  expect((await call(first.token, 'GET', `/mail/threads/${legacyId}`)).status).toBe(404)
})

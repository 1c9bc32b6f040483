import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { call, migrate, mintToken, sql, type TestCompany } from '../../support/app.ts'
import { freshThreadId, sendText } from '../support.ts'
import { type Context, clients, makeCompanies, me, orders, other, read, seen, store, third } from './support.ts'

beforeAll(migrate)
beforeEach(makeCompanies)

describe('a thread context', () => {
  it('is answered whole', async () => {
    const legacyId = freshThreadId()
    const context = {
      sender_email: 'ines@harbor.example',
      client_id: String(clients.mine),
      client_data: { id: clients.mine, name: 'é \u0000 😀' },
      clients_data: [{ id: clients.mine }],
      orders_data: [{ id: orders.mine, title: 'x', nested: { a: [1, null] } }],
      selected_order_id: String(orders.mine),
      participant_emails: ['a@b.example'],
      participants_data: [{ name: 'x' }],
    }
    const threadId = await store(me, legacyId, context)
    expect(await read(me, legacyId)).toEqual({
      ...context,
      thread_id: threadId,
      legacy_thread_id: legacyId,
      fetched_at: '2026-01-01T00:00:00.000Z',
      updated_at: '2026-01-01T00:00:00.000Z',
    })
  })

  it('has null for what is not there', async () => {
    expect(await seen(me, { client_id: String(clients.mine) })).toMatchObject({
      sender_email: null,
      client_data: null,
      clients_data: null,
      orders_data: null,
      selected_order_id: null,
      participant_emails: null,
      participants_data: null,
    })
  })

  it('is 404 where there is none with this legacy id', async () => {
    expect(await read(me, freshThreadId())).toBe(404)
  })

  it('keeps numbers as they are stored', async () => {
    const legacyId = freshThreadId()
    const text = `[{"id":${orders.mine},"n":12345678901234567890,"f":1e400}]`
    await store(me, legacyId, { client_id: String(clients.mine), orders_data: text }, true)
    expect((await sendText(me, 'GET', `/mail/threads/${legacyId}`)).text).toContain(`"orders_data":${text}`)
  })
})

describe('the tie to the company', () => {
  const cases: [string, () => TestCompany, () => Context, boolean][] = [
    ['my client, in my own context', () => me, () => ({ client_id: String(clients.mine) }), true],
    ['my client, in another company’s', () => other, () => ({ client_id: String(clients.mine) }), true],
    ['my deleted client', () => me, () => ({ client_id: String(clients.deleted) }), true],
    ['a client that both have, in mine', () => me, () => ({ client_id: String(clients.both) }), true],
    ['a client that both have, in theirs', () => other, () => ({ client_id: String(clients.both) }), false],
    ['a client that both have, in a third company’s', () => third, () => ({ client_id: String(clients.both) }), true],
    ['a client of theirs', () => other, () => ({ client_id: String(clients.theirs) }), false],
    ['a client of theirs, in mine', () => me, () => ({ client_id: String(clients.theirs) }), false],
    ['a client of nobody', () => me, () => ({ client_id: String(clients.nobody) }), false],
    ['a client id that is none', () => me, () => ({ client_id: `${clients.mine}x` }), false],
    ['a client id with zeros before it', () => me, () => ({ client_id: `0${clients.mine}` }), false],
    ['nothing at all, in my own context', () => me, () => ({}), false],
    ['my order', () => me, () => ({ orders_data: [{ id: orders.mine }] }), true],
    ['my order, its id as text', () => me, () => ({ orders_data: [{ id: String(orders.mine) }] }), true],
    [
      'my order among others, in theirs',
      () => other,
      () => ({ orders_data: [{ id: orders.theirs }, { id: orders.mine }] }),
      true,
    ],
    ['my order as a bare number', () => other, () => ({ orders_data: [orders.mine] }), true],
    ['my order as a bare text', () => other, () => ({ orders_data: [String(orders.mine)] }), true],
    ['my order as an object in place of an array', () => other, () => ({ orders_data: { id: orders.mine } }), true],
    ['my deleted order', () => me, () => ({ orders_data: [{ id: orders.deleted }] }), true],
    ['an order that both have, in mine', () => me, () => ({ orders_data: [{ id: orders.both }] }), true],
    ['an order that both have, in theirs', () => other, () => ({ orders_data: [{ id: orders.both }] }), false],
    ['an order of theirs', () => other, () => ({ orders_data: [{ id: orders.theirs }] }), false],
    ['an order of nobody', () => me, () => ({ orders_data: [{ id: orders.nobody }] }), false],
    ['my client’s id as an order', () => me, () => ({ orders_data: [{ id: clients.mine }] }), false],
    ['my order’s id deeper in an element', () => me, () => ({ orders_data: [{ order: { id: orders.mine } }] }), false],
    ['true as an order id', () => me, () => ({ orders_data: [{ id: true }, true] }), false],
    [
      'my order’s id in an element that names another company',
      () => other,
      () => ({ orders_data: [{ id: orders.mine, company_id: other.id }] }),
      false,
    ],
    ['my company id', () => other, () => ({ client_data: { company_id: me.id } }), true],
    ['my company id as text', () => other, () => ({ clients_data: [{ company_id: String(me.id) }] }), true],
    ['my company id in the other spelling', () => other, () => ({ orders_data: [{ a: { companyId: me.id } }] }), true],
    [
      'my company id, deep',
      () => other,
      () => ({ participants_data: [[{ a: { b: [{ company_id: me.id }] } }]] }),
      true,
    ],
    ['my company id among addresses', () => other, () => ({ participant_emails: { company_id: me.id } }), true],
    [
      'my company id beside another’s',
      () => other,
      () => ({ client_data: { company_id: other.id, a: { company_id: me.id } } }),
      true,
    ],
    ['the id of another company', () => other, () => ({ client_data: { company_id: other.id } }), false],
    ['the id of another company, in mine', () => me, () => ({ client_data: { company_id: other.id } }), false],
    [
      'my company id under another name',
      () => other,
      () => ({ client_data: { companyid: me.id, company: me.id, id: me.id } }),
      false,
    ],
    ['my company id inside a text', () => other, () => ({ client_data: { note: `"company_id":${me.id}` } }), false],
    [
      'my company id as the start of another',
      () => other,
      () => ({ client_data: { company_id: me.id * 10 + 1 } }),
      false,
    ],
    ['my company id in a list', () => other, () => ({ client_data: { company_id: [me.id] } }), false],
  ]

  it.each(cases)('by %s', async (_, writer, context, isTied) => {
    const answer = await seen(writer(), context())
    if (isTied) expect(answer).toHaveProperty('thread_id')
    else expect(answer).toBe(404)
  })

  it('is not made by `true`, which SQLite takes for 1', async () => {
    const legacyId = freshThreadId()
    await store(other, legacyId, { client_data: { company_id: true } })
    expect(await sql('SELECT id FROM companies WHERE id = 1')).toEqual([{ id: 1 }])
    expect((await call(await mintToken(1), 'GET', `/mail/threads/${legacyId}`)).status).toBe(404)
  })
})

describe('of several contexts with one legacy id', () => {
  it('each company gets the newest that is tied to it', async () => {
    const legacyId = freshThreadId()
    const old = await store(me, legacyId, { client_id: String(clients.mine), updated_at: 1_000 })
    const middle = await store(other, legacyId, { orders_data: [{ id: orders.mine }], updated_at: 2_000 })
    const newest = await store(other, legacyId, { client_id: String(clients.theirs), updated_at: 3_000 })
    expect((await read(me, legacyId)).thread_id).toBe(middle)
    expect((await read(other, legacyId)).thread_id).toBe(newest)
    expect(await read(third, legacyId)).toBe(404)
    await sql('DELETE FROM thread_contexts WHERE thread_id = ?', middle)
    expect((await read(me, legacyId)).thread_id).toBe(old)
  })
})

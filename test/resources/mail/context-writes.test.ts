import { describe, expect, it } from 'vitest'
import { expect200, issuesOf, sql } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { clients, makeCompanies, me, orders, other, read, store } from './context-support.ts'
import { freshThreadId } from './support.ts'

await makeCompanies('DB')

const path = (legacyId: string) => `/mail/threads/${legacyId}`
const put = (legacyId: string, body: object | string, company = me) => company.call('PUT', path(legacyId), body)
const remove = (legacyId: string, company = me) => company.call('DELETE', path(legacyId))

const countOf = async (legacyId: string) =>
  (await sql('SELECT 1 FROM thread_contexts WHERE legacy_thread_id = ?', legacyId)).length

/** Every field but the `thread_id`. */
const FULL = {
  sender_email: 'ines@harbor.example',
  client_id: String(clients.mine),
  client_data: { id: clients.mine, name: 'é \u0000 😀 \ud800', nested: { a: [1, null, 'b'] } },
  clients_data: [{ id: clients.mine }, { name: 'no id' }, { id: null }],
  orders_data: [{ id: orders.mine, title: 'x' }, { id: orders.both }],
  selected_order_id: String(orders.both),
  participant_emails: ['a@b.example', 'Ines <ines@harbor.example>'],
  participants_data: [{ name: 'x' }],
}
const TIMES = { fetched_at: expect.stringMatching(/Z$/), updated_at: expect.stringMatching(/Z$/) }

describe('PUT of a thread context', () => {
  it('stores every field, and GET returns what PUT returned', async () => {
    const legacyId = freshThreadId()
    const body = { thread_id: `thread-f:${legacyId}`, ...FULL }
    const stored = expect200(await put(legacyId, body))
    expect(stored).toEqual({ ...body, legacy_thread_id: legacyId, ...TIMES })
    expect(Math.abs(Date.parse(stored.updated_at) - Date.now())).toBeLessThan(60_000)
    expect(await read(me, legacyId)).toEqual(stored)
  })

  it('replaces a context that names the same client and order more than once', async () => {
    const legacyId = freshThreadId()
    const body = {
      client_id: clients.mine,
      clients_data: [{ id: clients.mine }, { id: clients.mine }],
      orders_data: [{ id: orders.mine }, { id: orders.mine }],
    }
    expect((await put(legacyId, body)).status).toBe(200)
    expect((await put(legacyId, body)).status).toBe(200)
    const { data } = (await me.call('GET', `/mail/threads?per_page=100&order_id=${orders.mine}`)).body
    expect(data.filter((each: { legacy_thread_id: string }) => each.legacy_thread_id === legacyId)).toHaveLength(1)
  })

  it('stores the sender’s email without the white space around it', async () => {
    const { body } = await put(freshThreadId(), { sender_email: ' a@b.example ', client_id: clients.mine })
    expect(body.sender_email).toBe('a@b.example')
  })

  it('takes ids as numbers and as strings of digits', async () => {
    const legacyId = freshThreadId()
    const body = { client_id: clients.mine, orders_data: [{ id: String(orders.mine) }], selected_order_id: orders.mine }
    expect((await put(legacyId, body)).body).toMatchObject({
      client_id: String(clients.mine),
      orders_data: [{ id: orders.mine }],
      selected_order_id: String(orders.mine),
    })
  })

  it('has null for what is left out, on a replacement too', async () => {
    const legacyId = freshThreadId()
    await put(legacyId, FULL)
    await put(legacyId, { client_id: clients.mine })
    const none = Object.fromEntries(Object.keys(FULL).map((name) => [name, null]))
    const ids = { thread_id: legacyId, legacy_thread_id: legacyId, client_id: String(clients.mine) }
    expect(await read(me, legacyId)).toEqual({ ...none, ...ids, ...TIMES })
  })

  it('takes back what GET returned, and ignores a legacy id and times, whatever they are', async () => {
    const legacyId = freshThreadId()
    const { body: first } = await put(legacyId, { thread_id: 'canonical', orders_data: [{ id: orders.mine, a: 1 }] })
    for (const ignored of [{}, { legacy_thread_id: 5, fetched_at: 'yesterday', updated_at: { at: [] } }]) {
      const { status, body } = await put(legacyId, { ...first, ...ignored })
      expect([status, body]).toEqual([200, { ...first, ...TIMES }])
    }
  })

  it('is the only context of its legacy id afterwards, whatever a seed has stored', async () => {
    const legacyId = freshThreadId()
    const future = Date.now() + 86_400_000
    await store(me, legacyId, { client_id: String(clients.both), updated_at: future })
    await store(me, legacyId, { orders_data: [{ id: orders.both }], updated_at: future + 1 })
    const theirs = await store(other, legacyId, { client_id: String(clients.theirs) })
    await put(legacyId, { client_id: clients.mine })
    expect(await read(me, legacyId)).toMatchObject({ client_id: String(clients.mine) })
    expect(await countOf(legacyId)).toBe(2)
    expect((await read(other, legacyId)).thread_id).toBe(theirs)
  })

  it('keeps the stored thread_id where none is sent, and changes it where one is', async () => {
    const legacyId = freshThreadId()
    const seeded = await store(me, legacyId, { client_id: String(clients.both) })
    expect((await put(legacyId, { client_id: clients.mine })).body.thread_id).toBe(seeded)
    expect((await put(legacyId, { client_id: clients.mine, thread_id: 'changed' })).body.thread_id).toBe('changed')
    expect((await put(legacyId, { client_id: clients.mine })).body.thread_id).toBe('changed')
    expect(await countOf(legacyId)).toBe(1)
  })

  it('takes over a context that has this thread_id and no legacy id', async () => {
    const legacyId = freshThreadId()
    await insert('thread_contexts', { company_id: me.id, thread_id: legacyId, fetched_at: 0, updated_at: 0 })
    expect((await put(legacyId, { client_id: clients.mine })).status).toBe(200)
    expect(await countOf(legacyId)).toBe(1)
  })

  it('refuses the thread_id of a context with another legacy id, of the same company only', async () => {
    const [first, second] = [freshThreadId(), freshThreadId()]
    await put(first, { client_id: clients.mine, thread_id: 'taken' })
    const refused = await put(second, { client_id: clients.mine, thread_id: 'taken' })
    expect(issuesOf(refused)).toEqual(['thread_id'])
    expect(await read(me, second)).toBe(404)
    expect((await put(second, { client_id: clients.theirs, thread_id: 'taken' }, other)).status).toBe(200)
  })

  it('names every id that is not the company’s, or is deleted, and stores nothing', async () => {
    const legacyId = freshThreadId()
    const { body: before } = await put(legacyId, { client_id: clients.mine })
    const response = await put(legacyId, {
      client_id: clients.theirs,
      client_data: { id: clients.deleted },
      clients_data: [{ id: clients.mine }, { id: clients.nobody }],
      orders_data: [{ id: orders.theirs }, { id: orders.mine }, { id: orders.deleted }, { id: clients.mine }],
      selected_order_id: orders.mine,
    })
    const ofOrders = [0, 2, 3].map((index) => `orders_data.${index}.id`)
    expect(issuesOf(response)).toEqual(['client_id', 'client_data.id', 'clients_data.1.id', ...ofOrders])
    expect(await read(me, legacyId)).toEqual(before)
    const writes = "SELECT 1 FROM audit_log WHERE entity_id = ? AND action = 'thread_context.write'"
    expect(await sql(writes, legacyId)).toHaveLength(1)
  })

  it('keeps what was deleted since, so that a context can be sent back as it was read, and takes nothing else deleted', async () => {
    const legacyId = freshThreadId()
    await store(me, legacyId, {
      client_id: String(clients.deleted),
      client_data: { id: clients.deleted },
      clients_data: [{ id: clients.deleted }, { id: clients.mine }],
      orders_data: [{ id: orders.deleted }],
    })
    const stored = (await me.call('GET', path(legacyId))).body
    expect(stored).toMatchObject({ client_id: String(clients.deleted), orders_data: [{ id: orders.deleted }] })
    const linked = { ...stored, orders_data: [...stored.orders_data, { id: orders.mine }] }
    expect(await put(legacyId, linked)).toMatchObject({ status: 200, body: { orders_data: linked.orders_data } })
    // Kept in one place only, it is kept before and after the write.
    for (const kept of [
      { client_data: { id: String(clients.deleted) } },
      { clients_data: [{ id: clients.deleted }] },
    ]) {
      expect((await put(legacyId, { ...kept, orders_data: [{ id: orders.deleted }] })).status).toBe(200)
    }
    const otherId = freshThreadId()
    await store(me, otherId, { client_id: String(clients.mine) })
    const paths = ['client_id', 'client_data.id', 'clients_data.0.id', 'orders_data.0.id']
    expect(issuesOf(await put(otherId, { ...stored, thread_id: null }))).toEqual(paths)
  })

  it('refuses elements that name another company', async () => {
    const named = (company: unknown) => ({
      client_data: { company_id: company },
      clients_data: [{ companyId: company }],
      orders_data: [{ id: orders.mine }, { id: orders.both, company_id: company }],
    })
    for (const company of [other.id, `0${me.id}`, true, [me.id], {}]) {
      const response = await put(freshThreadId(), named(company))
      const paths = ['client_data.company_id', 'clients_data.0.companyId', 'orders_data.1.company_id']
      expect(issuesOf(response)).toEqual(paths)
    }
    for (const company of [me.id, String(me.id), null]) {
      const { status, body } = await put(freshThreadId(), named(company))
      expect([status, body.orders_data?.length, body.clients_data?.length]).toEqual([200, 2, 1])
    }
  })

  const mine = { client_id: clients.mine }
  const orders_data = [{ id: orders.mine }]
  const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
  const jsonOf = (rest: string) => `{"client_id":${clients.mine},${rest}}`
  it.each<[string, object | string, string]>([
    ['nothing', {}, ''],
    ['clients_data alone', { clients_data: [{ id: clients.mine }] }, ''],
    ['an empty orders_data', { orders_data: [] }, ''],
    ['null for everything', { client_id: null, orders_data: null }, ''],
    ['company_id', { ...mine, company_id: me.id }, 'company_id'],
    ['an unknown field', { ...mine, order_data: [] }, 'order_data'],
    ['0 as client_id', { client_id: 0, orders_data }, 'client_id'],
    ['a fraction as client_id', { client_id: 1.5 }, 'client_id'],
    ['text as client_id', { client_id: 'x' }, 'client_id'],
    ['an order without an id', { orders_data: [{ title: 'x' }] }, 'orders_data.0.id'],
    ['an order that is a number', { orders_data: [orders.mine] }, 'orders_data.0'],
    ['orders_data that is an object', { orders_data: { id: orders.mine } }, 'orders_data'],
    ['client_data that is an array', { ...mine, client_data: [] }, 'client_data'],
    ['a selected order that is not listed', { orders_data, selected_order_id: orders.both }, 'selected_order_id'],
    ['a selected order without orders_data', { ...mine, selected_order_id: orders.mine }, 'selected_order_id'],
    ['101 orders', { orders_data: Array(101).fill({ id: orders.mine }) }, 'orders_data'],
    ['half a surrogate pair in an email', { ...mine, participant_emails: ['a', '\ud800'] }, 'participant_emails.1'],
    ['a number as an email', { ...mine, participant_emails: [1] }, 'participant_emails.0'],
    ['a text as a participant', { ...mine, participants_data: ['x'] }, 'participants_data.0'],
    ['a sender of two lines', { ...mine, sender_email: 'a\nb' }, 'sender_email'],
    ['a blank sender', { ...mine, sender_email: ' ' }, 'sender_email'],
    ['an empty thread_id', { ...mine, thread_id: '' }, 'thread_id'],
    ['a thread_id of 256 characters', { ...mine, thread_id: 'x'.repeat(256) }, 'thread_id'],
    ['JSON that is nested too deep', jsonOf(`"client_data":{"a":${nested(40)}}`), 'client_data'],
    ['nesting that no recursion survives', jsonOf(`"client_data":{"a":[${nested(50_000)}]}`), 'client_data'],
    ['a number that no double holds', jsonOf('"client_data":{"a":[1e400]}'), 'client_data'],
    // JavaScript takes this member for the prototype.
    ['__proto__ in client_data', jsonOf('"client_data":{"__proto__":{"a":1},"n":1}'), 'client_data.__proto__'],
    ['__proto__ in clients_data', jsonOf('"clients_data":[{},{"__proto__":null}]'), 'clients_data.1.__proto__'],
    ['__proto__ in orders_data', jsonOf('"orders_data":[{"id":1,"__proto__":1}]'), 'orders_data.0.__proto__'],
    ['an escaped __proto__', jsonOf('"participants_data":[{"__pr\\u006fto__":1}]'), 'participants_data.0.__proto__'],
  ])('refuses %s', async (_, body, field) => {
    const legacyId = freshThreadId()
    const refused = await put(legacyId, body)
    expect(issuesOf(refused)).toEqual([field])
    // What links to nothing is removed.
    if (field === '') expect(refused.body.error.message).toContain('DELETE')
    expect(await countOf(legacyId)).toBe(0)
  })

  it('keeps the member __proto__ of deeper objects', async () => {
    const legacyId = freshThreadId()
    const body = `{"client_id":${clients.mine},"client_data":{"a":{"__proto__":{"b":1}}}}`
    expect((await put(legacyId, body)).status).toBe(200)
    expect(JSON.stringify((await read(me, legacyId)).client_data)).toBe('{"a":{"__proto__":{"b":1}}}')
  })

  it('stores the largest body, and returns 413 for a larger one', async () => {
    const body = (length: number) => ({ client_id: clients.mine, client_data: { a: 'x'.repeat(length) } })
    const { status, body: stored } = await put(freshThreadId(), body(262_000))
    expect([status, stored.client_data.a.length]).toEqual([200, 262_000])
    const tooLarge = await put(freshThreadId(), body(262_200))
    expect([tooLarge.status, tooLarge.body.error.details]).toMatchObject([413, { limit_bytes: 262_144 }])
  })

  it('returns 413 for JSON of over 500,000 bytes when its numbers are written out, and stores nothing', async () => {
    // Each number has 21 digits when it is written out.
    const list = (count: number) => `{"a":[${Array(count).fill('1e20')}]}`
    const body = (count: number) =>
      `{"client_id":${clients.mine},"client_data":${list(count / 2)},"clients_data":[${list(count / 2)}]}`
    const legacyId = freshThreadId()
    const { status, body: stored } = await put(legacyId, body(22_000))
    expect([status, stored.client_data.a.length]).toEqual([200, 11_000])
    const tooLarge = await put(legacyId, body(24_000))
    expect([tooLarge.status, tooLarge.body.error.details]).toMatchObject([413, { limit_bytes: 500_000 }])
    expect(await read(me, legacyId)).toEqual(stored)
  })

  it('survives concurrent replacements as one of them', async () => {
    const legacyId = freshThreadId()
    const bodies = [{ client_id: clients.mine }, { client_id: clients.both }, { orders_data: [{ id: orders.mine }] }]
    const responses = await Promise.all(bodies.map((body, index) => put(legacyId, { ...body, thread_id: `t${index}` })))
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(await countOf(legacyId)).toBe(1)
  })
})

describe('DELETE of a thread context', () => {
  it('returns the context as it was, and GET then returns 404', async () => {
    const legacyId = freshThreadId()
    const { body: stored } = await put(legacyId, { orders_data: [{ id: orders.mine }] })
    const { status, body } = await remove(legacyId)
    expect([status, body]).toEqual([200, stored])
    expect(await read(me, legacyId)).toBe(404)
    expect((await remove(legacyId)).status).toBe(404)
  })

  it('leaves no older context to be found', async () => {
    const legacyId = freshThreadId()
    await store(me, legacyId, { client_id: String(clients.mine), updated_at: 1_000 })
    const newest = await store(me, legacyId, { client_id: String(clients.both), updated_at: 2_000 })
    const theirs = await store(other, legacyId, { client_id: String(clients.theirs) })
    expect((await remove(legacyId)).body.thread_id).toBe(newest)
    expect(await read(me, legacyId)).toBe(404)
    expect((await read(other, legacyId)).thread_id).toBe(theirs)
  })

  it('returns 404 for a context that GET does not find, and leaves it', async () => {
    const legacyId = freshThreadId()
    await store(me, legacyId, { client_id: String(clients.theirs) })
    expect((await remove(legacyId)).status).toBe(404)
    expect((await remove(legacyId, other)).status).toBe(404)
    expect(await countOf(legacyId)).toBe(1)
  })
})

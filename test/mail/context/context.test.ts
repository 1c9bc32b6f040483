import fc from 'fast-check'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { call, migrate, mintCompany, mintToken, sql, type TestCompany } from '../../support/app.ts'
import { freshThreadId, sendText } from '../support.ts'

let me: TestCompany
let other: TestCompany
let third: TestCompany

/** Ids by whose they are. `both` is mine and the other's, `nobody` is nobody's. */
interface Ids {
  mine: number
  theirs: number
  both: number
  third: number
  nobody: number
  deleted: number
}

let clients: Ids
let orders: Ids

beforeAll(migrate)

beforeEach(async () => {
  ;[me, other, third] = [await mintCompany(), await mintCompany(), await mintCompany()]
  const base = me.id * 1_000
  clients = { mine: base + 1, theirs: base + 2, both: base + 3, third: base + 4, nobody: base + 5, deleted: base + 6 }
  orders = {
    mine: base + 11,
    theirs: base + 12,
    both: base + 13,
    third: base + 14,
    nobody: base + 15,
    deleted: base + 16,
  }
  for (const [company, owned] of [
    [me, ['mine', 'both', 'deleted']],
    [other, ['theirs', 'both']],
    [third, ['third']],
  ] as const) {
    for (const name of owned) {
      const deleted = name === 'deleted' ? 1 : 0
      await sql(
        "INSERT INTO clients (company_id, id, company_name, company_name_key, deleted, created_at, updated_at) VALUES (?, ?, 'c', 'C', ?, 0, 0)",
        company.id,
        clients[name],
        deleted,
      )
      await sql(
        "INSERT INTO orders (company_id, id, title, client_id, created_date, created_at, updated_at, deleted) VALUES (?, ?, 'o', ?, '2026-01-01', 0, 0, ?)",
        company.id,
        orders[name],
        clients[name],
        deleted,
      )
    }
  }
})

const JSON_COLUMNS = ['client_data', 'clients_data', 'orders_data', 'participant_emails', 'participants_data'] as const

interface Context {
  client_id?: unknown
  client_data?: unknown
  clients_data?: unknown
  orders_data?: unknown
  selected_order_id?: unknown
  participant_emails?: unknown
  participants_data?: unknown
  sender_email?: string
  updated_at?: number
}

/** Stores a context as a seed of `writer` does; JSON columns are given as values, or as text that is stored as it is. */
async function store(writer: TestCompany, legacyId: string, context: Context, asText = false): Promise<string> {
  const threadId = `thread-f:${crypto.randomUUID()}`
  const columns: Record<string, unknown> = {
    company_id: writer.id,
    thread_id: threadId,
    legacy_thread_id: legacyId,
    fetched_at: 1_767_225_600_000,
    updated_at: 1_767_225_600_000,
    ...context,
  }
  for (const column of JSON_COLUMNS) {
    if (columns[column] !== undefined && !asText) columns[column] = JSON.stringify(columns[column])
  }
  const names = Object.keys(columns)
  await sql(
    `INSERT INTO thread_contexts (${names}) VALUES (${names.map(() => '?')})`,
    ...Object.values(columns).map((value) => value ?? null),
  )
  return threadId
}

async function read(reader: TestCompany, legacyId: string) {
  const { status, body } = await reader.call('GET', `/mail/threads/${legacyId}`)
  return status === 200 ? body : status
}

/** What `me` gets of a context that `writer` stored. */
async function seen(writer: TestCompany, context: Context, asText = false) {
  const legacyId = freshThreadId()
  await store(writer, legacyId, context, asText)
  return read(me, legacyId)
}

/** A tie that leaves the rest of the context alone. */
const tied = () => ({ participants_data: [{ company_id: me.id }] })

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

describe('what belongs to another company', () => {
  it.each(['orders_data', 'clients_data'] as const)('is left out of %s', async (column) => {
    const ids = column === 'orders_data' ? orders : clients
    const list = [
      { id: ids.mine, n: 1 },
      { id: ids.theirs, n: 2 },
      { id: String(ids.both), n: 3 },
      { id: ids.third, n: 4 },
      { id: ids.nobody, n: 5 },
      { n: 6 },
      { id: ids.theirs, company_id: me.id, n: 7 },
      { id: ids.mine, companyId: String(other.id), n: 8 },
      { id: null, n: 9 },
      { id: 'abc', n: 10 },
      { id: ids.deleted, n: 11 },
    ]
    const kept = (answer: Record<string, { n: number }[]>) => answer[column]?.map(({ n }) => n)
    // Mine: what has no owner is mine. Theirs: it is theirs, and an id that both have is theirs, too.
    expect(kept(await seen(me, { ...tied(), [column]: list }))).toEqual([1, 3, 5, 6, 7, 9, 10, 11])
    expect(kept(await seen(other, { ...tied(), [column]: list }))).toEqual([1, 7, 11])
    expect(kept(await seen(third, { ...tied(), [column]: list }))).toEqual([1, 3, 7, 11])
  })

  it('is left out of a list of bare ids, in their order', async () => {
    const list = [orders.theirs, orders.mine, String(orders.mine), null, 'x', 1.5, [orders.theirs], true]
    expect((await seen(me, { ...tied(), orders_data: list })).orders_data).toEqual(list.slice(1))
    expect((await seen(other, { ...tied(), orders_data: list })).orders_data).toEqual([
      orders.mine,
      String(orders.mine),
    ])
  })

  it('makes of the client and the selected order null', async () => {
    const context = (client: number, order: number) => ({
      ...tied(),
      client_id: String(client),
      client_data: { id: client },
      selected_order_id: String(order),
    })
    const parts = async (writer: TestCompany, client: number, order: number) => {
      const { client_id, client_data, selected_order_id } = await seen(writer, context(client, order))
      return [client_id, client_data, selected_order_id]
    }
    const whole = (client: number, order: number) => [String(client), { id: client }, String(order)]
    const none = [null, null, null]
    expect(await parts(me, clients.mine, orders.mine)).toEqual(whole(clients.mine, orders.mine))
    expect(await parts(other, clients.mine, orders.mine)).toEqual(whole(clients.mine, orders.mine))
    expect(await parts(me, clients.both, orders.both)).toEqual(whole(clients.both, orders.both))
    expect(await parts(me, clients.nobody, orders.nobody)).toEqual(whole(clients.nobody, orders.nobody))
    expect(await parts(me, clients.theirs, orders.theirs)).toEqual(none)
    expect(await parts(other, clients.theirs, orders.theirs)).toEqual(none)
    expect(await parts(other, clients.both, orders.both)).toEqual(none)
    expect(await parts(other, clients.nobody, orders.nobody)).toEqual(none)
  })

  it('decides of client data by its company, then its id, then the context’s client', async () => {
    const data = async (writer: TestCompany, client_id: number | undefined, client_data: object) =>
      (await seen(writer, { ...tied(), client_id: client_id && String(client_id), client_data })).client_data
    expect(await data(other, clients.theirs, { company_id: me.id })).toEqual({ company_id: me.id })
    expect(await data(other, clients.mine, { id: clients.theirs })).toBeNull()
    expect(await data(other, clients.mine, { name: 'x' })).toEqual({ name: 'x' })
    expect(await data(other, clients.theirs, { name: 'x' })).toBeNull()
    expect(await data(other, undefined, { name: 'x' })).toBeNull()
    expect(await data(me, undefined, { name: 'x' })).toEqual({ name: 'x' })
    expect(await data(me, clients.mine, { company_id: other.id })).toBeNull()
  })
})

describe('JSON of another form', () => {
  it.each([
    '{',
    '[1,',
    'x',
    '',
    ' ',
    "{'a':1}",
    '{a:1}',
    '[1,]',
    'NaN',
    '0x1',
    '[1]//',
    `${'['.repeat(1_001)}${']'.repeat(1_001)}`,
  ])('is null where it is none: %j', async (text) => {
    const columns = Object.fromEntries(JSON_COLUMNS.map((column) => [column, text]))
    expect(await seen(me, columns, true)).toBe(404)
    const answer = await seen(me, { ...columns, client_id: String(clients.mine) }, true)
    for (const column of JSON_COLUMNS) expect([column, answer[column]]).toEqual([column, null])
  })

  it.each(['null', '0', '1.5', '"x"', 'true', '{}', '[]', '{"a":[{}]}', '[[],[1],"x",null]'])(
    'is passed on as it is: %s',
    async (text) => {
      const columns = Object.fromEntries(JSON_COLUMNS.map((column) => [column, text]))
      const answer = await seen(me, { ...columns, client_id: String(clients.mine) }, true)
      const value = JSON.parse(text)
      for (const column of JSON_COLUMNS.slice(1)) expect([column, answer[column]]).toEqual([column, value])
      const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
      expect(answer.client_data).toEqual(isObject ? value : null)
    },
  )

  it('is never a 500, whatever it is', async () => {
    const json = fc.jsonValue().map((value) => JSON.stringify(value))
    const withIds = fc
      .array(fc.record({ id: fc.oneof(fc.jsonValue(), fc.nat()), company_id: fc.jsonValue() }, { requiredKeys: [] }))
      .map((value) => JSON.stringify(value))
    const text = fc.oneof(
      json,
      withIds,
      fc.string({ unit: 'binary-ascii' }).map((value) => value.replaceAll('\0', '')),
    )
    const context = fc.record({
      client_data: text,
      clients_data: text,
      orders_data: text,
      participant_emails: text,
      participants_data: text,
      client_id: fc.oneof(fc.string({ unit: 'grapheme' }), fc.constant('me')),
      selected_order_id: fc.oneof(fc.string({ unit: 'grapheme' }), fc.bigInt().map(String)),
    })
    await fc.assert(
      fc.asyncProperty(context, async (columns) => {
        const client_id = columns.client_id === 'me' ? String(clients.mine) : columns.client_id
        const answer = await seen(me, { ...columns, client_id }, true)
        expect(answer === 404 || typeof answer === 'object').toBe(true)
        if (columns.client_id === 'me') expect(answer).toHaveProperty('thread_id')
      }),
      { numRuns: 120 },
    )
  })

  it('of many elements is answered', async () => {
    const list = Array.from({ length: 3_000 }, (_, index) => ({ id: index % 2 ? orders.mine : orders.theirs, index }))
    const answer = await seen(me, { orders_data: list })
    expect(answer.orders_data.map(({ index }: { index: number }) => index)).toEqual(
      Array.from({ length: 1_500 }, (_, index) => index * 2 + 1),
    )
  })
})

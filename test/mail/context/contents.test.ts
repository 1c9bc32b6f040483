import fc from 'fast-check'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { migrate, type TestCompany } from '../../support/app.ts'
import { clients, JSON_COLUMNS, makeCompanies, me, orders, other, seen, third, tied } from './support.ts'

beforeAll(migrate)
beforeEach(makeCompanies)

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

  it.each([990, 995, 996, 997, 998, 999, 1_000])(
    'is passed on or null at SQLite’s limit of depth: %i',
    async (depth) => {
      const text = `${'['.repeat(depth)}${']'.repeat(depth)}`
      const columns = Object.fromEntries(JSON_COLUMNS.slice(1).map((column) => [column, text]))
      const answer = await seen(me, { ...columns, client_id: String(clients.mine) }, true)
      for (const column of JSON_COLUMNS.slice(1)) {
        expect([null, text]).toContain(answer[column] && JSON.stringify(answer[column]))
        if (depth <= 995) expect(answer[column]).not.toBeNull()
      }
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

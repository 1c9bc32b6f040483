import { expect, it } from 'vitest'
import { clients, JSON_COLUMNS, makeCompanies, me, orders, seen, store } from './context-support.ts'

await makeCompanies()

const NO_JSON = ['{', '[1,', 'x', '', ' ', "{'a':1}", '{a:1}', '[1,]', 'NaN', '0x1', '[1]//']
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

/* Which elements are removed is in the model of any contents. */
it.each([...NO_JSON, nested(1_001)])('a JSON column refuses text that is not JSON: %#', async (text) => {
  for (const column of JSON_COLUMNS) {
    await expect(store(me, 'x', { [column]: text }, true), column).rejects.toThrow(/CHECK constraint/)
  }
})

it('a JSON column refuses client data that is not an object', async () => {
  for (const text of ['null', '0', '"x"', 'true', '[]']) {
    await expect(store(me, 'x', { client_data: text }, true), text).rejects.toThrow(/CHECK constraint/)
  }
})

const STORED = ['null', '0.5', '"x y"', 'true', '{}', '[]', '{"a":[{}]}', '[[],[1],null]']
it.each(STORED)('a JSON column is returned as stored: %s', async (text) => {
  const columns = ['participant_emails', 'participants_data', ...(/^[0"]/.test(text) ? [] : ['orders_data'])]
  const given = Object.fromEntries(columns.map((column) => [column, text]))
  const response = await seen({ ...given, client_id: String(clients.mine) }, true)
  for (const column of columns) expect([column, response[column]]).toEqual([column, JSON.parse(text)])
})

it.each([500, 990, 999, 1_000])('a JSON column is returned up to SQLite’s limit of depth: %i', async (depth) => {
  const columns = JSON_COLUMNS.slice(1)
  const given = Object.fromEntries(columns.map((column) => [column, nested(depth)]))
  const response = await seen({ ...given, client_id: String(clients.mine) }, true)
  for (const column of columns) expect([column, JSON.stringify(response[column])]).toEqual([column, nested(depth)])
})

it('a JSON column keeps the order of many filtered elements', async () => {
  const list = Array.from({ length: 3_000 }, (_, index) => ({ id: index % 2 ? orders.mine : orders.theirs, index }))
  const response = await seen({ orders_data: list })
  expect(response.orders_data.map(({ index }: { index: number }) => index)).toEqual(
    Array.from({ length: 1_500 }, (_, index) => index * 2 + 1),
  )
})

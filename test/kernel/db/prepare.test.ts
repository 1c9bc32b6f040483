import { env } from 'cloudflare:workers'
import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { openDatabase, orm, type Placeholders, prepare } from '../../../src/kernel/db/client.ts'

function preparePair() {
  const built: string[][] = []
  const pair = prepare((p: Placeholders<'a', 'b'>) => {
    built.push(Object.keys(p))
    return orm.select({ a: sql`${p.a}`.as('a'), b: sql`${p.b ?? sql`'none'`}`.as('b') }).from(sql`(SELECT 1)`)
  })
  const ask = async (values: { a: number; b?: string | null | undefined }) =>
    (await openDatabase(env.DB).read([pair({ b: undefined, ...values })]))[0][0]
  return { built, pair, ask }
}

it('a prepared query is built once for each set of given values, of which null is one', async () => {
  const { built, ask } = preparePair()
  expect(await ask({ a: 1 })).toEqual({ a: 1, b: 'none' })
  expect(await ask({ a: 2, b: 'x' })).toEqual({ a: 2, b: 'x' })
  expect(await ask({ a: 3, b: null })).toEqual({ a: 3, b: null })
  expect(await ask({ a: 4, b: undefined })).toEqual({ a: 4, b: 'none' })
  expect(await ask({ a: 5, b: 'y' })).toEqual({ a: 5, b: 'y' })
  expect(built).toEqual([['a'], ['a', 'b']].map((names) => expect.arrayContaining(names)))
  expect(built.map((names) => names.length)).toEqual([1, 2])
})

it('a prepared query is built again after others whose texts, with its own, are more than an isolate keeps', () => {
  const { built, pair } = preparePair()
  const long = () => prepare(() => orm.select({ a: sql.raw(`'${'x'.repeat(500_000)}'`).as('a') }).from(sql`(SELECT 1)`))
  const useAfter = (others: number) => {
    for (let at = 0; at < others; at++) long()({})
    pair({ a: 1, b: undefined })
    return built.length
  }
  expect([useAfter(0), useAfter(4), useAfter(8)]).toEqual([1, 1, 2])
})

it('a prepared query separates the values of concurrent requests', async () => {
  const { ask } = preparePair()
  const asked = Array.from({ length: 20 }, (_, a) => a)
  const rows = await Promise.all(asked.map((a) => ask({ a, b: `b${a}` })))
  expect(rows).toEqual(asked.map((a) => ({ a, b: `b${a}` })))
})

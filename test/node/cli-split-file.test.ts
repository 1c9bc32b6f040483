import { hash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { splitSeedFile } from '../../src/cli/split-file.ts'
import { type SeedInput, seedFile } from '../../src/operation/copies/seed/file.ts'
import { countFile } from '../../src/operation/copies/seed/load.ts'
import { deriveRows, findDuplicates } from '../../src/operation/copies/seed/rows.ts'
import { smallShop } from '../support/small-shop.ts'

const NOW = 1_790_000_000_000

const sizes = fc.record({
  clients: fc.integer({ min: 1, max: 900 }),
  orders: fc.integer({ min: 0, max: 100 }),
  items: fc.integer({ min: 0, max: 40 }),
  large: fc.integer({ min: 0, max: 1_500 }),
  contexts: fc.integer({ min: 0, max: 4 }),
  contextBytes: fc.integer({ min: 1, max: 450_000 }),
  numbered: fc.integer({ min: 1, max: 4 }),
})

type Sizes = typeof sizes extends fc.Arbitrary<infer Values> ? Values : never

function makeFile(size: Sizes): SeedInput {
  const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
  let itemId = 1
  const item = () => ({ id: itemId++, title: 'Tee', quantity: 1, unit_price: 1 })
  return {
    ...smallShop(),
    clients: upTo(size.clients).map((id) => ({ id, company_name: `Client ${id}` })),
    orders: upTo(size.orders).map((id) => ({
      id,
      title: `Order ${id}`,
      client_id: (id % size.clients) + 1,
      order_status_id: 1,
      created_date: '2026-01-31',
      ...(id % 5 > 0 && {
        invoice: {
          id,
          ...(id % size.numbered === 0 && { number: `N${id}` }),
          tax_id: 1,
          items: upTo(id === 1 ? size.large : size.items).map(item),
          payments: id === 1 ? upTo(size.items).map((payment) => ({ id: payment, amount: 1 })) : [],
        },
      }),
    })),
    thread_contexts: upTo(size.contexts).map((id) => ({
      thread_id: `t${id}`,
      orders_data: ['x'.repeat(size.contextBytes)],
    })),
  }
}

const NOT_SHOWN = ['number', 'number_key', 'invoice', 'items', 'payments', 'artworks']

/** The rows of a file by table and id, without what depends on the number that an invoice gets. */
function rowsOf(file: SeedInput): Map<string, object> {
  const rows = deriveRows(seedFile.parse(file), 1_000, NOW)
  const entries = Object.entries(rows).flatMap(([table, list]) =>
    list.map((row) => {
      const shown = Object.entries(row).filter(([name]) => !NOT_SHOWN.includes(name))
      return [`${table} ${Reflect.get(row, 'id') ?? Reflect.get(row, 'thread_id')}`, Object.fromEntries(shown)] as const
    }),
  )
  return new Map(entries)
}

describe('a split seed file', () => {
  it('has the hash of all parts as one JSON text, which may be longer than a string can be', () => {
    const { hash: found, parts } = splitSeedFile(
      makeFile({ clients: 900, orders: 10, items: 3, large: 0, contexts: 1, contextBytes: 10, numbered: 1 }),
    )
    expect(parts.length).toBeGreaterThan(1)
    expect(found).toBe(hash('sha256', JSON.stringify(parts)))
    const text = vi.spyOn(JSON, 'stringify')
    onTestFinished(() => text.mockRestore())
    splitSeedFile(smallShop())
    expect(text.mock.calls.filter(([value]) => Array.isArray(value))).toEqual([])
  })

  it('has every row of the file in parts of bounded size, referred ones first and numbered invoices first', () => {
    fc.assert(
      fc.property(sizes, (size) => {
        const file = makeFile(size)
        const { parts } = splitSeedFile(file)
        const merged = new Map<string, object>()
        const loaded = { clients: new Set<number>(), hasUnnumbered: false }
        for (const { file: part, known } of parts) {
          const parsed = seedFile.parse(part)
          expect(findDuplicates(deriveRows(parsed, 1_000, NOW))).toEqual([])
          const { orders = 0, invoices, items, payments, ...others } = countFile(parsed)
          const isOneOrder = orders === 1 && Object.keys(others).length === 0
          if (!isOneOrder) expect(Object.values(countFile(parsed)).reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(500)
          expect(JSON.stringify({ file: part, known }).length).toBeLessThan(1_000_000)
          for (const [key, row] of rowsOf(part)) {
            expect(merged.has(key)).toBe(false)
            merged.set(key, row)
          }
          for (const { id } of part.clients ?? []) loaded.clients.add(id)
          for (const { client_id, invoice } of part.orders ?? []) {
            expect(loaded.clients.has(client_id)).toBe(true)
            const isOwn = part.clients?.some(({ id }) => id === client_id)
            expect(isOwn || known.clients?.includes(client_id)).toBe(true)
            if (invoice?.number !== undefined) expect(loaded.hasUnnumbered).toBe(false)
            if (invoice && invoice.number === undefined) loaded.hasUnnumbered = true
          }
        }
        expect(merged).toEqual(rowsOf(file))
      }),
      { numRuns: 10 },
    )
  })

  it('has the same hash for the same file only', () => {
    const file = smallShop()
    expect(splitSeedFile(file)).toEqual(splitSeedFile(structuredClone(file)))
    expect(splitSeedFile({ ...file, taxes: [] }).hash).not.toBe(splitSeedFile(file).hash)
  })

  it('is refused where an element is too large for a part', () => {
    const split = (lists: Partial<SeedInput>) => () => splitSeedFile({ ...smallShop(), ...lists })
    const tooLarge = (list: string, kb: number, id: string) =>
      new RangeError(`\`${list}\` has an element of more than ${kb} KB: ${id}`)
    const half = 'x'.repeat(480_000)
    const thread_contexts = [{ thread_id: 't', client_data: { a: half }, orders_data: half }]
    expect(split({ thread_contexts })).toThrow(tooLarge('thread_contexts', 900, 't'))
    const orders = (bytes: number) => [{ id: 1, title: 'x'.repeat(bytes), client_id: 1 }]
    expect(split({ orders: orders(4_999_000) })().parts).toHaveLength(3)
    expect(split({ orders: orders(5_000_000) })).toThrow(tooLarge('orders', 5_000, '1'))
  })
})

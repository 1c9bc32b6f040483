import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chunkJson } from '../../src/cli/load-rows.ts'
import { bindTextOnly, renderStatement, renderStatements } from '../../src/cli/render-sql.ts'
import { makeSampleCompany } from '../../src/cli/sample-company.ts'
import { checkSeed } from '../../src/cli/seed-file.ts'
import { findDuplicates } from '../../src/cli/seed-references.ts'
import { smallShop } from './cli-support.ts'

/** The complaint about a shop that was changed at one place. */
function complain(path: string, value: unknown): string {
  const shop = structuredClone<unknown>(smallShop())
  const keys = path.split('.')
  const last = keys.pop() ?? ''
  const place = keys.reduce<unknown>((at, key) => Reflect.get(Object(at), key), shop)
  Reflect.set(Object(place), last, value)
  try {
    return findDuplicates(checkSeed(shop, 'shop.json'))
      .map(({ path: at, message }) => `${at.join('.')}: ${message}`)
      .join('; ')
  } catch (error) {
    return error instanceof Error ? error.message : ''
  }
}

describe('the form of a seed file', () => {
  it.each([
    ['surprise', 1, 'Unrecognized key: "surprise"'],
    ['company.id', 0, 'shop.json: company.id: '],
    ['company.name', '  ', 'company.name: must have 1 to 255 characters'],
    ['clients.0.company_id', 2, 'clients[0]: Unrecognized key: "company_id"'],
    ['clients.0.id', 1.5, 'clients[0].id: '],
    ['clients.0.id', '1', 'clients[0].id: '],
    ['clients.0.email', 'nobody', 'clients[0].email: Invalid email address'],
    ['clients.1.id', 1, 'clients.1.id: id 1 is given twice'],
    ['orders.1.id', 1, 'orders.1.id: id 1 is given twice'],
    ['orders.0.created_date', '2026-02-30', 'orders[0].created_date: Invalid ISO date'],
    ['orders.0.invoice.discount_amount', -1, 'orders[0].invoice.discount_amount: '],
    ['orders.0.invoice.discount_amount_type', 'half', 'orders[0].invoice.discount_amount_type: '],
    ['orders.0.invoice.items.0.unit_price', 1.005, 'unit_price: must have at most 2 decimals'],
    ['orders.0.invoice.items.0.quantity', -1, 'quantity: '],
    ['orders.0.invoice.payments.0.paid_at', 'yesterday', 'orders[0].invoice.payments[0].paid_at: '],
    ['orders.0.artworks.0.colors', 'red', 'colors: '],
    ['taxes.0.rate', 101, 'taxes[0].rate: '],
    ['order_statuses.1.is_default', true, 'only one status can be the default'],
    ['thread_contexts.0.thread_id', undefined, 'thread_contexts[0].thread_id: '],
    ['thread_contexts.0.client_data', [], 'must be an object or null'],
    ['integrations.supplier_c', {}, 'Unrecognized key: "supplier_c"'],
    [
      'integrations.supplier_b.base_url',
      'http://supplier.example',
      'must be an https address, or http on a loopback address',
    ],
    ['integrations.supplier_b.base_url', 'https://user:pass@supplier.example', 'must be an https address'],
    ['integrations.supplier_b.base_url', 'http://127.0.0.1.evil.example', 'must be an https address'],
    ['integrations.supplier_b.credentials', { account_number: '1' }, 'integrations.supplier_b.credentials.api_key: '],
    ['integrations.supplier_b.credentials', {}, 'integrations.supplier_b.credentials.account_number: '],
    ['integrations.accounting_sync.credentials.delete_mode', 'burn', 'credentials.delete_mode: '],
    ['integrations.supplier_b.credentials.extra', 'x', 'Unrecognized key: "extra"'],
  ])('refuses %s = %j', (path, value, message) => {
    expect(complain(path, value)).toContain(message)
  })

  it.each([
    'company.id',
    'order_statuses.0.id',
    'taxes.0.id',
    'clients.0.id',
    'orders.0.id',
    'orders.0.client_id',
    'orders.0.order_status_id',
    'orders.0.invoice.id',
    'orders.0.invoice.tax_id',
    'orders.0.invoice.items.0.id',
    'orders.0.invoice.payments.0.id',
    'orders.0.artworks.0.id',
    'catalog_items.0.id',
  ])('takes ids up to 2^48 only: %s', (path) => {
    expect(complain(path, 2 ** 48)).not.toContain('at most')
    for (const id of [2 ** 48 + 1, 4_503_599_627_370_495, 2 ** 53 - 1]) {
      expect(complain(path, id)).toContain(': must be at most 281474976710656')
    }
  })

  it('takes JSON of a thread context up to a depth that the database reads', () => {
    const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth))
    expect(complain('thread_contexts.0.orders_data', nested(500))).toBe('')
    expect(complain('thread_contexts.0.orders_data', nested(501))).toContain('must be nested at most 500 deep')
  })

  it('takes an integration that is switched off without credentials', () => {
    expect(complain('integrations.supplier_b', { enabled: false, base_url: 'http://[::1]:1', credentials: {} })).toBe(
      '',
    )
  })

  it('never repeats a secret in a complaint', () => {
    const complaint = complain('integrations.supplier_b.credentials.api_key', ['very-secret-key'])
    expect(complaint).toContain('integrations.supplier_b.credentials.api_key: ')
    expect(complaint).not.toContain('very-secret-key')
  })
})

describe('the sample company', () => {
  const now = Date.UTC(2026, 10, 21, 12)

  it('is a whole shop, the same in every run', () => {
    const shop = checkSeed(makeSampleCompany(now), 'sample')
    expect(findDuplicates(shop)).toEqual([])
    expect(makeSampleCompany(now)).toEqual(makeSampleCompany(now))
    const { clients, orders, catalog_items, thread_contexts, taxes, order_statuses } = shop
    expect([clients.length, orders.length, catalog_items.length, thread_contexts.length, taxes.length]).toEqual([
      60, 80, 40, 12, 3,
    ])
    expect(new Set(clients.map((client) => client.company_name)).size).toBe(60)
    expect(clients.filter((client) => /^\P{Script=Latin}+$/u.test(client.company_name)).length).toBeGreaterThan(3)
    expect(clients.filter((client) => client.tax_exempt).length).toBeGreaterThan(5)
    expect(order_statuses.length).toBeGreaterThan(7)
    expect(new Set(orders.map((order) => order.order_status_id)).size).toBeGreaterThan(5)
    expect(
      orders.every(
        ({ created_date }) => created_date !== undefined && created_date <= '2026-11-21' && created_date > '2025-11-01',
      ),
    ).toBe(true)
    expect(orders.flatMap(({ artworks }) => artworks).length).toBeGreaterThan(40)
    const shapes = new Set(
      thread_contexts.map(
        ({ orders_data, selected_order_id }) =>
          `${Array.isArray(orders_data) ? Math.min(orders_data.length, 2) : '-'} ${selected_order_id !== null}`,
      ),
    )
    expect([...shapes].sort()).toEqual(['0 false', '1 false', '1 true', '2 false', '2 true'])
    expect(thread_contexts.every(({ legacy_thread_id }) => /^[0-9a-f]{16}$/.test(legacy_thread_id ?? ''))).toBe(true)
  })
})

describe('statements as text', () => {
  const database = new DatabaseSync(':memory:')
  const parameter = fc.oneof(
    fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed() && !text.includes('\0')),
    fc.constantFrom("'; DROP TABLE x; --", '/* BEGIN TRANSACTION */', 'CASE\nEND;', '?', '\\', '"`[', "it's"),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => Math.abs(value) < Number.MAX_SAFE_INTEGER),
    fc.constant(null),
  )

  it('mean what they meant with parameters', () => {
    fc.assert(
      fc.property(fc.array(parameter, { minLength: 1, maxLength: 5 }), (params) => {
        const sql = `SELECT ${params.map((_, index) => `? AS c${index}`).join(', ')}`
        const wanted = params.map((value) => (Object.is(value, -0) ? 0 : value))
        const read = (text: string, bound: string[]) => Object.values(database.prepare(text).get(...bound) ?? {})
        expect(read(renderStatement({ sql, params }), [])).toEqual(wanted)
        const half = bindTextOnly({ sql, params })
        expect(read(half.sql, half.params)).toEqual(wanted)
      }),
    )
  })

  it('hold no quote, comment or keyword of what people wrote', () => {
    const params = ["x'; BEGIN TRANSACTION; --", 'trigger /* end */', 'plain text']
    expect(renderStatements([{ sql: 'SELECT ?, ?, ?', params }])).toMatch(
      /^SELECT CAST\(X'[0-9a-f]+' AS TEXT\), CAST\(X'[0-9a-f]+' AS TEXT\), 'plain text';\n$/,
    )
  })

  it('are refused when the parameters do not fit', () => {
    expect(() => renderStatement({ sql: 'SELECT ?', params: [] })).toThrow('parameters')
    expect(() => renderStatement({ sql: 'SELECT ?', params: [Number.NaN] })).toThrow('finite')
  })

  it('stay under the size that D1 takes', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 3000 }), { maxLength: 200 }), (values) => {
        const chunks = chunkJson(values)
        expect(chunks.flatMap((chunk) => JSON.parse(chunk))).toEqual(values)
        for (const chunk of chunks) expect(renderStatement({ sql: '?', params: [chunk] }).length).toBeLessThan(100_000)
      }),
      { numRuns: 20 },
    )
  })
})

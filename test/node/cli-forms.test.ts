import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import { readSampleSeed } from '../../src/cli/sample-company.ts'
import { checkSeed } from '../../src/cli/seed-file.ts'
import { KINDS } from '../../src/operation/admin/integrations/contract.ts'
import type { SeedFile } from '../../src/operation/copies/seed/file.ts'
import { credentialForms, integrationsFile } from '../../src/operation/copies/seed/integrations-file.ts'
import { chunkJson, deriveRows, findDuplicates } from '../../src/operation/copies/seed/rows.ts'
import { INTEGRATION_FORMS } from '../../src/site/settings/integration-forms.ts'
import { smallShop } from '../support/small-shop.ts'

/** The duplicates in a seed file. */
const duplicatesIn = (file: SeedFile) => findDuplicates(deriveRows(file, 1000, 0))

/** The error of a seed file in which one value was changed; '' when it is valid. */
function errorOf(path: string, value: unknown): string {
  const shop = structuredClone<unknown>(smallShop())
  const keys = path.split('.')
  const last = keys.pop() ?? ''
  const place = keys.reduce<unknown>((at, key) => Reflect.get(Object(at), key), shop)
  Reflect.set(Object(place), last, value)
  try {
    return duplicatesIn(checkSeed(shop, 'shop.json')).join('; ')
  } catch (error) {
    return error instanceof Error ? error.message : ''
  }
}

describe('a seed file', () => {
  it.each([
    ['surprise', 1, 'shop.json: `surprise` is not a known field'],
    ['company.id', 0, 'shop.json: `company.id` '],
    ['company.name', '  ', '`company.name` must not be blank'],
    ['company.name', 'a\nb', '`company.name` must not contain control characters'],
    ['clients.0.phone', 'a\tb', '`clients[0].phone` must not contain control characters'],
    ['clients.0.accounting_customer_id', '', '`clients[0].accounting_customer_id` must not be blank'],
    ['clients.0.accounting_customer_id', 58, '`clients[0].accounting_customer_id` '],
    ['taxes.0.tax_code_id', 'a b', '`taxes[0].tax_code_id` must be 1 to 64 letters'],
    ['orders.0.start_date', 'a\u0000b', '`orders[0].start_date` must not contain control characters'],
    ['clients.0.company_id', 2, '`clients[0].company_id` is not a known field'],
    ['clients.0.id', 1.5, '`clients[0].id` '],
    ['clients.0.id', '1', '`clients[0].id` '],
    ['clients.0.email', 'nobody', '`clients[0].email` must be an email address'],
    ['clients.1.id', 1, '`clients` must not contain id 1 twice'],
    ['clients.1.external_id', 'cust 1', '`clients` must not contain external_id cust 1 twice'],
    ['orders.1.external_id', ' ', '`orders[1].external_id` must '],
    ['orders.1.id', 1, '`orders` must not contain id 1 twice'],
    ['orders.0.created_date', '2026-02-30', '`orders[0].created_date` must be a date'],
    ['orders.0.invoice.discount_amount', -1, '`orders[0].invoice.discount_amount` '],
    ['orders.1.invoice', { id: 2, discount_amount: 101 }, '`orders[1].invoice.discount_amount` must be at most 100'],
    ['orders.0.invoice.discount_amount_type', 'half', '`orders[0].invoice.discount_amount_type` '],
    ['orders.0.invoice.items.0.unit_price', 1.005, 'unit_price` must have at most 2 decimals'],
    ['orders.0.invoice.items.0.quantity', -1, 'quantity` '],
    ['orders.0.invoice.payments.0.paid_at', 'yesterday', '`orders[0].invoice.payments[0].paid_at` '],
    ['orders.0.artworks.0.colors', 'red', 'colors` '],
    ['orders.0.artworks.0.colors', [{ a: [Number.POSITIVE_INFINITY] }], 'with numbers of a double’s range'],
    [
      'orders.0.invoice.number',
      '999999999999999',
      'invoice.number` must be at most 281474976710656 if it has 15 digits',
    ],
    ['taxes.0.rate', 101, '`taxes[0].rate` '],
    ['order_statuses.1.is_default', true, '`order_statuses` must contain only one with `is_default`'],
    ['thread_contexts.0.thread_id', undefined, '`thread_contexts[0].thread_id` '],
    ['thread_contexts.0.client_data', [], 'must be an object or null'],
    ['thread_contexts.0.legacy_thread_id', 'a b/c', 'legacy_thread_id` must be 1 to 255 characters of A-Z'],
    ['integrations.supplier_c', {}, '`integrations.supplier_c` is not a known field'],
    [
      'integrations.supplier_b.base_url',
      'http://supplier.example',
      '`integrations.supplier_b.base_url` must be an https address',
    ],
    ['integrations.supplier_b.base_url', 'https://user:pass@supplier.example', 'must not contain a user name'],
    ['integrations.supplier_b.base_url', 'http://127.0.0.1.evil.example', 'must be an https address'],
    ['integrations.supplier_b.credentials', { account_number: '1' }, '`integrations.supplier_b.credentials.api_key` '],
    ['integrations.supplier_b.credentials', {}, '`integrations.supplier_b.credentials.account_number` '],
    ['integrations.accounting_sync.credentials.delete_mode', 'burn', 'credentials.delete_mode` '],
    ['integrations.accounting_sync.credentials.tax_code_id', 'a:b', 'credentials.tax_code_id` must be 1 to 64'],
    ['integrations.accounting_sync.credentials.client_secret', 's\n', 'client_secret` must not contain control'],
    ['integrations.supplier_b.credentials.extra', 'x', 'credentials.extra` is not a known field'],
  ])('is rejected with %s = %j', (path, value, message) => {
    expect(errorOf(path, value)).toContain(message)
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
  ])('may have ids up to 2^48 only: %s', (path) => {
    expect(errorOf(path, 2 ** 48)).not.toContain('at most')
    for (const id of [2 ** 48 + 1, 4_503_599_627_370_495, 2 ** 53 - 1]) {
      expect(errorOf(path, id)).toContain('` must be at most 281474976710656')
    }
  })

  it('may have JSON in a thread context up to a depth that the database reads', () => {
    const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth))
    expect(errorOf('thread_contexts.0.orders_data', nested(500))).toBe('')
    expect(errorOf('thread_contexts.0.orders_data', nested(502))).toContain('must be nested at most 500 levels deep')
  })

  it('may have a disabled integration without credentials', () => {
    expect(errorOf('integrations.supplier_b', { enabled: false, base_url: 'http://[::1]:1', credentials: {} })).toBe('')
  })

  it('contains no secret in an error', () => {
    const error = errorOf('integrations.supplier_b.credentials.api_key', ['very-secret-key'])
    expect(error).toContain('`integrations.supplier_b.credentials.api_key` ')
    expect(error).not.toContain('very-secret-key')
  })
})

describe('the sample company', () => {
  const now = Date.UTC(2026, 10, 21, 12)

  /** Its dates and date-times, in milliseconds. */
  function timesOf(at: number): { dates: number[]; dateTimes: number[] } {
    const { clients, orders, thread_contexts } = checkSeed(readSampleSeed(at), 'The sample company')
    const toMs = (date: string | null | undefined) => Date.parse(date ?? '')
    const dates = orders.flatMap(({ created_date, start_date, deadline, invoice }) => [
      ...[created_date, start_date, deadline, invoice?.due_date].map(toMs),
    ])
    const paid = orders.flatMap(({ invoice }) => (invoice?.payments ?? []).map(({ paid_at }) => toMs(paid_at)))
    const linked = thread_contexts.flatMap(({ orders_data }) =>
      Array.from(JSON.stringify(orders_data).matchAll(/"deadline":"([^"]+)"/g), ([, date]) => toMs(date)),
    )
    const instants = [...clients, ...orders].flatMap(({ created_at, updated_at }) => [created_at, updated_at])
    const fetched = thread_contexts.map(({ fetched_at }) => fetched_at)
    const dateTimes = [...instants, ...fetched].map((instant) => instant ?? Number.NaN)
    return { dates: [...dates, ...linked], dateTimes: [...dateTimes, ...paid] }
  }

  it.each(['2024-02-29T00:00:00Z', '2026-11-20T23:59:59Z', '2027-03-01T08:00:00Z', '2031-12-31T12:00:00Z'])(
    'moves every date by the same number of whole days, so that the latest date-time is in the 24 hours before %s',
    (date) => {
      const at = Date.parse(date)
      const before = timesOf(now)
      const after = timesOf(at)
      const shifts = (['dates', 'dateTimes'] as const).flatMap((kind) =>
        after[kind].map((time, index) => time - (before[kind][index] ?? Number.NaN)),
      )
      expect(shifts.length).toBeGreaterThan(600)
      expect([...new Set(shifts)].map((shift) => shift % 86_400_000)).toEqual([expect.closeTo(0)])
      const latest = Math.max(...after.dateTimes)
      expect(latest).toBeLessThanOrEqual(at)
      expect(latest).toBeGreaterThan(at - 86_400_000)
    },
  )

  it('is a whole shop, the same in every run', () => {
    const shop = checkSeed(readSampleSeed(now), 'The sample company')
    expect(duplicatesIn(shop)).toEqual([])
    expect(readSampleSeed(now)).toEqual(readSampleSeed(now))
    const { clients, orders, catalog_items, thread_contexts, taxes, order_statuses } = shop
    const lists = [clients, orders, catalog_items, thread_contexts, taxes]
    expect(lists.map(({ length }) => length)).toEqual([60, 80, 40, 12, 3])
    expect(new Set(clients.map((client) => client.company_name)).size).toBe(60)
    expect(clients.filter((client) => /^\P{Script=Latin}+$/u.test(client.company_name)).length).toBeGreaterThan(3)
    expect(clients.filter((client) => client.tax_exempt).length).toBeGreaterThan(5)
    expect(order_statuses.length).toBeGreaterThan(7)
    expect(new Set(orders.map((order) => order.order_status_id)).size).toBeGreaterThan(5)
    const days = orders.map(({ created_date }) => created_date ?? '').sort()
    expect([days[0], days.at(-1)]).toEqual([
      expect.toSatisfy((day: string) => day > '2025-11-01'),
      expect.toSatisfy((day: string) => day <= '2026-11-21'),
    ])
    expect(orders.flatMap(({ artworks }) => artworks).length).toBeGreaterThan(40)
    const shapes = thread_contexts.map(({ orders_data, selected_order_id }) => {
      const count = Array.isArray(orders_data) ? Math.min(orders_data.length, 2) : '-'
      return `${count} ${selected_order_id !== null}`
    })
    expect([...new Set(shapes)].sort()).toEqual(['0 false', '1 false', '1 true', '2 false', '2 true'])
    const others = thread_contexts.filter(({ legacy_thread_id }) => !/^[0-9a-f]{16}$/.test(legacy_thread_id ?? ''))
    expect(others).toEqual([])
  })
})

describe('the rows of a statement', () => {
  it('stay under the size that D1 takes', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 3000 }), { maxLength: 200 }), (values) => {
        const chunks = chunkJson(values)
        expect(chunks.flatMap((chunk) => JSON.parse(chunk))).toEqual(values)
        for (const chunk of chunks) expect(Buffer.byteLength(chunk)).toBeLessThan(100_000)
      }),
      { numRuns: 20 },
    )
  })
})

/** The names of a JSON Schema's properties, sorted; those that may be left out with a question mark. */
function namesOf(schema: z.core.JSONSchema.JSONSchema): string[] {
  const { properties = {}, required = [] } = schema
  return Object.keys(properties)
    .map((name) => (required.includes(name) ? name : `${name}?`))
    .sort()
}

const { properties = {} } = z.toJSONSchema(integrationsFile, { io: 'input' })

it('has a form and a contract for every kind of integration', () => {
  expect(KINDS).toEqual(Object.keys(properties))
  expect(Object.keys(INTEGRATION_FORMS).sort()).toEqual(KINDS.toSorted())
})

it.each(Object.entries(INTEGRATION_FORMS))('asks for the fields of %s that the API takes', (kind, form) => {
  const listed = (inputs: typeof form.settings) =>
    inputs.map(({ name, isOptional }) => (isOptional ? `${name}?` : name)).sort()
  const settings = namesOf(properties[kind] as z.core.JSONSchema.JSONSchema)
  expect(listed(form.settings)).toEqual(settings.filter((name) => !/^(credentials|enabled)\??$/.test(name)))
  const credentials = credentialForms[kind]
  expect(listed(form.credentials)).toEqual(credentials && namesOf(z.toJSONSchema(credentials, { io: 'input' })))
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { computeTotals, type Line, lineTotal, type Terms, toHundredths } from '../../../src/resources/orders/totals.ts'

const NONE: Terms = {
  discount_hundredths: 0,
  discount_amount_type: 'percentage',
  discount_type: 'before_tax',
  taxRate: 8.25,
  tax_exempt: false,
}
const FIXED: Partial<Terms> = { discount_amount_type: 'fixed_amount', discount_type: 'after_tax' }
const line = (quantity: number, unit_price_cents: number, taxable = true): Line => ({
  quantity,
  unit_price_cents,
  taxable,
})
const MIXED = [line(10, 999), line(3, 500, false)]

describe('the totals of an invoice', () => {
  /** Worked out by hand, in cents: subtotal, discount, tax, total. All else is compared with exact fractions below. */
  const cases: [string, Line[], Partial<Terms>, number[]][] = [
    ['no lines', [], {}, [0, 0, 0, 0]],
    ['no discount', MIXED, {}, [11490, 0, 824, 12314]],
    ['10 % before tax', MIXED, { discount_hundredths: 1000 }, [11490, 1149, 742, 11083]],
    ['20.00 after tax', MIXED, { ...FIXED, discount_hundredths: 2000 }, [11490, 2000, 824, 10314]],
    ['a half cent of tax', [line(1, 1000)], { taxRate: 0.05 }, [1000, 0, 1, 1001]],
    ['a half cent of discount', [line(1, 50)], { discount_hundredths: 100, taxRate: null }, [50, 1, 0, 49]],
    ['a rate of four decimals', [line(1, 1000000)], { taxRate: 7.1234 }, [1000000, 0, 71234, 1071234]],
    ['each line rounded by itself', [line(0.5, 1), line(0.5, 1), line(0.5, 1)], { taxRate: null }, [3, 0, 0, 3]],
  ]

  it.each(cases)('are computed: %s', (_, lines, terms, [subtotal, discount, tax, total]) => {
    const totals = { subtotal, discount, tax, total, paid: 0, balance: total }
    expect(computeTotals(lines, { ...NONE, ...terms }, [])).toEqual(totals)
  })

  it('subtract payments from the balance', () => {
    expect(computeTotals(MIXED, NONE, [5000, 10000, -100])).toMatchObject({ paid: 14900, balance: 12314 - 14900 })
  })

  it.each([
    [1.005, 100, 101],
    [0.0001, 5000, 1],
    [0.0001, 4999, 0],
    [0.5, -1, 0],
    [1.5, -1, -1],
    [1.5, -3, -4],
    [1e6, 99_999_999, 99_999_999_000_000],
  ])('round a line of %d × %d cents half up to %d', (quantity, unit_price_cents, cents) => {
    expect(lineTotal({ quantity, unit_price_cents })).toBe(cents)
  })

  it.each([
    [0.29, 29],
    [1.15, 115],
    [8.41, 841],
    [1.1, 110],
    [100, 10_000],
    [999_999_999.99, 99_999_999_999],
  ])('reads %d as %d hundredths', (units, hundredths) => {
    expect(toHundredths(units)).toBe(hundredths)
  })
})

/** An exact fraction: the reference shares nothing with the code that it checks. */
interface Fraction {
  n: bigint
  d: bigint
}
const of = (n: bigint | number, d: bigint | number = 1): Fraction => ({ n: BigInt(n), d: BigInt(d) })
const times = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.n, d: a.d * b.d })
const plus = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.d + b.n * a.d, d: a.d * b.d })
const minus = (a: Fraction, b: Fraction): Fraction => plus(a, { n: -b.n, d: b.d })
const less = (a: Fraction, b: Fraction): boolean => a.n * b.d < b.n * a.d
const abs = (a: Fraction): Fraction => ({ n: a.n < 0n ? -a.n : a.n, d: a.d })
const HALF = of(1, 2)

function expectWithin(actual: number, exact: Fraction, tolerance: Fraction, what: string) {
  expect(Number.isSafeInteger(actual), `${what} is whole cents`).toBe(true)
  expect(less(tolerance, abs(minus(of(actual), exact))), `${what}: ${actual} against ${exact.n}/${exact.d}`).toBe(false)
}

const lines = fc.array(
  fc.record({
    units: fc.integer({ min: 1, max: 10_000_000 }),
    unit_price_cents: fc.oneof(
      { weight: 5, arbitrary: fc.integer({ min: 0, max: 50_000 }) },
      fc.integer({ min: -50_000, max: -1 }),
    ),
    taxable: fc.boolean(),
  }),
  { maxLength: 12 },
)
const terms = fc
  .record({
    discount_hundredths: fc.oneof(fc.integer({ min: 0, max: 10_000 }), fc.integer({ min: 0, max: 100_000_000 })),
    discount_amount_type: fc.constantFrom('percentage' as const, 'fixed_amount' as const),
    discount_type: fc.constantFrom('before_tax' as const, 'after_tax' as const),
    rate: fc.option(fc.integer({ min: 0, max: 300_000 }), { nil: null }),
    tax_exempt: fc.boolean(),
  })
  .filter((each) => each.discount_amount_type === 'fixed_amount' || each.discount_hundredths <= 10_000)
const paid = fc.array(fc.integer({ min: -10_000, max: 1_000_000 }), { maxLength: 4 })

it('the totals of any invoice are lines − discount + tax, each within half a cent of the exact value', () => {
  fc.assert(
    fc.property(lines, terms, paid, (random, { rate, ...rest }, payments) => {
      // Quantities have four decimals, as many as count.
      const sent = random.map(({ units, ...each }) => ({ ...each, quantity: units / 10_000 }))
      const totals = computeTotals(sent, { ...rest, taxRate: rate === null ? null : rate / 10_000 }, payments)

      let subtotal = 0
      let taxable = 0
      random.forEach(({ units, unit_price_cents }, index) => {
        const cents = lineTotal(sent[index] ?? line(0, 0))
        expectWithin(cents, of(BigInt(units) * BigInt(unit_price_cents), 10_000), HALF, 'a line')
        subtotal += cents
        taxable += sent[index]?.taxable ? cents : 0
      })
      expect(totals.subtotal).toBe(subtotal)
      expect(totals.total).toBe(subtotal - totals.discount + totals.tax)
      const sum = payments.reduce((a, b) => a + b, 0)
      expect(totals).toMatchObject({ paid: sum, balance: totals.total - sum })

      const percent = of(rest.tax_exempt ? 0 : (rate ?? 0), 1_000_000)
      const isBefore = rest.discount_type === 'before_tax'
      const base = isBefore ? subtotal : subtotal + totals.tax
      const wanted =
        rest.discount_amount_type === 'percentage'
          ? times(of(base), of(rest.discount_hundredths, 10_000))
          : of(Math.min(rest.discount_hundredths, base))
      expectWithin(totals.discount, base <= 0 ? of(0) : wanted, HALF, 'the discount')
      expect(totals.discount).toBeGreaterThanOrEqual(0)
      expect(totals.discount).toBeLessThanOrEqual(Math.max(base, 0))

      const share = isBefore && subtotal > 0 ? of(subtotal - totals.discount, subtotal) : of(1)
      expectWithin(totals.tax, times(times(of(taxable), share), percent), HALF, 'the tax')
      if (random.every(({ unit_price_cents }) => unit_price_cents >= 0)) expect(totals.total).toBeGreaterThanOrEqual(0)
    }),
    { numRuns: 2_000 },
  )
})

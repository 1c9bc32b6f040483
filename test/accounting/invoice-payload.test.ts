import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  buildCreateCall,
  buildRemoveCall,
  buildUpdateCall,
  type InvoiceBody,
  type InvoiceSource,
  type InvoiceSourceLine,
} from '../../src/accounting/invoice-payload.ts'
import { formatDocNumber } from '../../src/accounting/wire-text.ts'
import { makeLine, makeOrder } from './support.ts'

const REFERENCES = { customerId: '7', itemId: '1', taxCodeId: null }

function build(order: Partial<InvoiceSource> = {}): InvoiceBody {
  const call = buildCreateCall(makeOrder(order), REFERENCES)
  if (call.operation !== 'create') throw new Error('Not a create')
  return call.body
}

function salesOf(body: InvoiceBody) {
  return body.Line.flatMap((line) => (line.DetailType === 'SalesItemLineDetail' ? [line] : []))
}

function discountOf(body: InvoiceBody) {
  return body.Line.find((line) => line.DetailType === 'DiscountLineDetail')
}

describe('an invoice of an order', () => {
  it('is told whole', () => {
    expect(
      build({
        discount: { amount: 10, amount_type: 'percentage', type: 'before_tax' },
        lines: [makeLine({ description: 'Size M' }), makeLine({ quantity: 1, total_cents: 950, taxable: false })],
        totals: { subtotal: 12_350, discount_total: 1_235, tax_total: 846, total: 11_961 },
      }),
    ).toEqual({
      DocNumber: '1001',
      TxnDate: '2026-01-31',
      DueDate: '2026-02-28',
      PrivateNote: 'Print on the front',
      CustomerRef: { value: '7' },
      TxnTaxDetail: { TotalTax: 8.46 },
      ApplyTaxAfterDiscount: true,
      Line: [
        {
          DetailType: 'SalesItemLineDetail',
          Amount: 114,
          Description: 'Tee, black\nSize M',
          SalesItemLineDetail: { ItemRef: { value: '1' }, Qty: 12, UnitPrice: 9.5, TaxCodeRef: { value: 'TAX' } },
        },
        {
          DetailType: 'SalesItemLineDetail',
          Amount: 9.5,
          Description: 'Tee, black',
          SalesItemLineDetail: { ItemRef: { value: '1' }, Qty: 1, UnitPrice: 9.5, TaxCodeRef: { value: 'NON' } },
        },
        { DetailType: 'DiscountLineDetail', DiscountLineDetail: { PercentBased: true, DiscountPercent: 10 } },
      ],
    })
  })

  it('taxes no line of an exempt order', () => {
    expect(salesOf(build({ tax: null })).map((line) => line.SalesItemLineDetail.TaxCodeRef.value)).toEqual(['NON'])
  })

  it('has a line of nothing while the order has none', () => {
    const body = build({ lines: [], totals: { subtotal: 0, discount_total: 0, tax_total: 0, total: 0 } })
    expect(body.Line).toEqual([
      {
        DetailType: 'SalesItemLineDetail',
        Amount: 0,
        Description: 'Team shirts',
        SalesItemLineDetail: { ItemRef: { value: '1' }, Qty: 1, UnitPrice: 0, TaxCodeRef: { value: 'NON' } },
      },
    ])
  })

  it.each([
    ['fixed', { amount: 20, amount_type: 'fixed_amount', type: 'before_tax' }, 2_000, { Amount: 20 }],
    [
      'fixed, more than there is',
      { amount: 500, amount_type: 'fixed_amount', type: 'before_tax' },
      11_400,
      { Amount: 114 },
    ],
    ['percent after tax', { amount: 10, amount_type: 'percentage', type: 'after_tax' }, 1_234, { Amount: 12.34 }],
  ] as const)('tells a discount (%s) as its amount, without a percentage', (_name, discount, cents, expected) => {
    const line = discountOf(
      build({ discount, totals: { subtotal: 11_400, discount_total: cents, tax_total: 941, total: 12_341 - cents } }),
    )
    expect(line).toEqual({ DetailType: 'DiscountLineDetail', DiscountLineDetail: { PercentBased: false }, ...expected })
  })

  it('has no discount line for a discount of nothing', () => {
    expect(
      discountOf(build({ discount: { amount: 0, amount_type: 'percentage', type: 'before_tax' } })),
    ).toBeUndefined()
  })

  it.each([
    [2.5, 999, 2_498, { Qty: 1, UnitPrice: 24.98, Amount: 24.98 }, '2.5 × 9.99\nTee, black'],
    [2.5, 1_000, 2_500, { Qty: 2.5, UnitPrice: 10, Amount: 25 }, 'Tee, black'],
    [0.1, 30, 3, { Qty: 0.1, UnitPrice: 0.3, Amount: 0.03 }, 'Tee, black'],
    [3, 10, 30, { Qty: 3, UnitPrice: 0.1, Amount: 0.3 }, 'Tee, black'],
    [1e-7, 100, 0, { Qty: 1, UnitPrice: 0, Amount: 0 }, '1e-7 × 1.00\nTee, black'],
    [0, 950, 0, { Qty: 0, UnitPrice: 9.5, Amount: 0 }, 'Tee, black'],
  ])('%d at %d cents', (quantity, unit_price_cents, total_cents, expected, description) => {
    const [line] = salesOf(build({ lines: [makeLine({ quantity, unit_price_cents, total_cents })] }))
    const { Qty, UnitPrice } = line?.SalesItemLineDetail ?? {}
    expect({ Qty, UnitPrice, Amount: line?.Amount }).toEqual(expected)
    expect(line?.Description).toBe(description)
  })

  it.each([
    ['2026-02-28', '2026-02-28'],
    ['2026-02-28T17:00:00Z', '2026-02-28'],
    ['2026-02-30', undefined],
    ['next Friday', undefined],
    ['', undefined],
    [null, undefined],
  ])('deadline %s: due %s', (deadline, expected) => {
    expect(build({ deadline }).DueDate).toBe(expected)
  })

  it.each([
    ['x'.repeat(4_000), 4_000],
    ['x'.repeat(4_001), 4_000],
    [`${'x'.repeat(3_999)}😀`, 3_999],
    [`${'x'.repeat(3_998)}😀!`, 4_000],
  ])('cuts a note to 4,000, never through a character', (description, length) => {
    const note = build({ description }).PrivateNote ?? ''
    expect([note.length, note.isWellFormed(), description.startsWith(note)]).toEqual([length, true, true])
  })

  it('has a number of at most 21 characters that keeps its end', () => {
    expect(formatDocNumber('1001')).toBe('1001')
    expect(formatDocNumber('PREFIX-2026-000000000000012345')).toBe('26-000000000000012345')
    expect(formatDocNumber(`😀${'1'.repeat(20)}`)).toBe('1'.repeat(20))
  })
})

describe('an update', () => {
  it('clears what was cleared, and leaves number and date alone', () => {
    const order = makeOrder({ description: null, deadline: null })
    const { operation, body } = buildUpdateCall(order, REFERENCES, { Id: '9', SyncToken: '3' })
    expect(operation).toBe('update')
    expect(body).toMatchObject({ Id: '9', SyncToken: '3', sparse: true, PrivateNote: '', DueDate: null })
    expect(Object.keys(body)).not.toContain('DocNumber')
    expect(Object.keys(body)).not.toContain('TxnDate')
  })

  it('removes as configured', () => {
    const key = { Id: '9', SyncToken: '3' }
    expect(buildRemoveCall(key, 'void')).toEqual({ operation: 'void', body: key })
    expect(buildRemoveCall(key, 'delete')).toEqual({ operation: 'delete', body: key })
  })
})

/** Half up in whole numbers: `numerator / denominator`. */
function roundHalfUp(numerator: bigint, denominator: bigint): number {
  const shifted = 2n * numerator + denominator
  const divisor = 2n * denominator
  return Number((shifted - (((shifted % divisor) + divisor) % divisor)) / divisor)
}

const THOUSANDTHS = 1_000n

/** A line of any quantity up to thousandths, its total as the order's rules round it. */
const lines = fc
  .record({
    thousandths: fc.oneof(
      fc.integer({ min: 0, max: 500_000 }),
      fc.integer({ min: 0, max: 500 }).map((n) => n * 1_000),
    ),
    unit_price_cents: fc.integer({ min: 0, max: 1_000_000 }),
    taxable: fc.boolean(),
  })
  .map(
    ({ thousandths, unit_price_cents, taxable }): InvoiceSourceLine =>
      makeLine({
        quantity: thousandths / 1_000,
        unit_price_cents,
        total_cents: roundHalfUp(BigInt(thousandths) * BigInt(unit_price_cents), THOUSANDTHS),
        taxable,
      }),
  )

const discounts = fc.option(
  fc.record({
    hundredths: fc.integer({ min: 0, max: 10_000 }),
    amount_type: fc.constantFrom('percentage' as const, 'fixed_amount' as const),
    type: fc.constantFrom('before_tax' as const, 'after_tax' as const),
  }),
)

/** An order whose totals follow the order rules; the tax base is simplified to the whole order. */
const orders = fc
  .record({
    lines: fc.array(lines, { maxLength: 8 }),
    discount: discounts,
    ratePermyriad: fc.integer({ min: 0, max: 2_500 }),
    tax_exempt: fc.boolean(),
    description: fc.option(fc.string({ unit: 'grapheme' })),
  })
  .map(({ lines: own, discount, ratePermyriad, tax_exempt, description }) => {
    const subtotal = own.reduce((sum, line) => sum + line.total_cents, 0)
    const rate = BigInt(tax_exempt ? 0 : ratePermyriad)
    const discountOn = (base: number) => {
      if (!discount) return 0
      if (discount.amount_type === 'fixed_amount') return Math.min(discount.hundredths, base)
      return roundHalfUp(BigInt(base) * BigInt(discount.hundredths), 10_000n)
    }
    const before = discount?.type === 'before_tax' ? discountOn(subtotal) : 0
    const tax_total = roundHalfUp(BigInt(subtotal - before) * rate, 10_000n)
    const discount_total = discount?.type === 'after_tax' ? discountOn(subtotal + tax_total) : before
    return makeOrder({
      lines: own,
      tax: tax_exempt ? null : { code_id: null },
      description,
      discount: discount && { ...discount, amount: discount.hundredths / 100 },
      totals: { subtotal, discount_total, tax_total, total: subtotal - discount_total + tax_total },
    })
  })

/** What a number says in decimal, in millionths of a unit: exact for up to six places. */
function toMicros(value: number): bigint {
  const [whole = '', fraction = ''] = value.toFixed(6).split('.')
  return BigInt(whole + fraction)
}

describe('arithmetic', () => {
  it('every line is exactly quantity times price', () => {
    fc.assert(
      fc.property(orders, (order) => {
        for (const { Amount, SalesItemLineDetail } of salesOf(build(order))) {
          const product = toMicros(SalesItemLineDetail.Qty) * toMicros(SalesItemLineDetail.UnitPrice)
          expect(product).toBe(toMicros(Amount) * 1_000_000n)
        }
      }),
    )
  })

  it('lines less discount plus tax are the total, as the other side adds them up', () => {
    fc.assert(
      fc.property(orders, (order) => {
        const body = build(order)
        const toCents = (amount: number) => Math.round(amount * 100)
        const sum = salesOf(body).reduce((cents, line) => cents + toCents(line.Amount), 0)
        const line = discountOf(body)
        let discount = 0
        if (line?.DetailType === 'DiscountLineDetail') {
          discount =
            'Amount' in line
              ? toCents(line.Amount)
              : roundHalfUp(BigInt(sum) * BigInt(toCents(line.DiscountLineDetail.DiscountPercent)), 10_000n)
        }
        expect(sum - discount + toCents(body.TxnTaxDetail.TotalTax)).toBe(order.totals.total)
      }),
      { numRuns: 500 },
    )
  })

  it('a percentage before tax is told as a percentage', () => {
    fc.assert(
      fc.property(orders, (order) => {
        fc.pre(order.discount?.amount_type === 'percentage' && order.discount.type === 'before_tax')
        fc.pre(order.totals.discount_total > 0)
        expect(discountOf(build(order))).toEqual({
          DetailType: 'DiscountLineDetail',
          DiscountLineDetail: { PercentBased: true, DiscountPercent: order.discount?.amount },
        })
      }),
    )
  })

  it('texts fit, and are well formed where they were', () => {
    fc.assert(
      fc.property(fc.integer({ min: 3_980, max: 4_010 }), fc.string({ unit: 'grapheme' }), (filler, end) => {
        const description = `${'x'.repeat(filler)}${end}`
        const note = build({ description }).PrivateNote ?? ''
        const least = Math.min(description.length, 3_999)
        // Compared as flags: a diff of such long texts, broken ones at that, would take minutes.
        expect([note.length <= 4_000, note.length >= least, description.startsWith(note)]).toEqual([true, true, true])
        expect(note.isWellFormed() || !description.isWellFormed()).toBe(true)
      }),
    )
  })

  it('survives being stored and read back unchanged, so that a retry is identical', () => {
    fc.assert(
      fc.property(orders, (order) => {
        const text = JSON.stringify(buildCreateCall(order, REFERENCES))
        expect(JSON.stringify(JSON.parse(text))).toBe(text)
      }),
    )
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  buildCreateCall,
  buildUpdateCall,
  cleanLine,
  cleanProse,
  formatDocNumber,
  formatEmail,
  type InvoiceSource,
  listDisplayNames,
  toDisplayName,
} from '../../../src/delivery/accounting/invoice-payload.ts'
import { checkName, checkTexts } from '../../../src/simulators/accounting-fields.ts'
import { makeLine, makeOrder } from './support.ts'

const REFERENCES = { customerId: '7', itemId: '1', taxCodeId: null }

const buildCreate = (source: InvoiceSource) => buildCreateCall(source, REFERENCES)

type InvoiceBody = ReturnType<typeof buildCreate>['body']

function build(fields: Parameters<typeof makeOrder>[0] = {}): InvoiceBody {
  return buildCreate(makeOrder(fields)).body
}

function salesOf(body: InvoiceBody) {
  return body.Line.flatMap((line) => (line.DetailType === 'SalesItemLineDetail' ? [line] : []))
}

const discountOf = (body: InvoiceBody) => body.Line.find((line) => line.DetailType === 'DiscountLineDetail')

describe('an invoice of an order', () => {
  it('has all fields of the order', () => {
    expect(
      build({
        discount_hundredths: 1_000,
        items: [makeLine({ description: 'Size M' }), makeLine({ quantity: 1, taxable: false })],
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

  it('has a placeholder line while the order has none', () => {
    expect(build({ items: [] }).Line).toEqual([
      {
        DetailType: 'SalesItemLineDetail',
        Amount: 0,
        Description: 'Team shirts',
        SalesItemLineDetail: { ItemRef: { value: '1' }, Qty: 1, UnitPrice: 0, TaxCodeRef: { value: 'NON' } },
      },
    ])
  })

  it.each([
    ['fixed', { discount_hundredths: 2_000, discount_amount_type: 'fixed_amount' }, 20],
    ['fixed, more than the subtotal', { discount_hundredths: 50_000, discount_amount_type: 'fixed_amount' }, 114],
    ['percent after tax', { discount_hundredths: 1_000, discount_type: 'after_tax' }, 12.34],
  ] as const)('has a discount (%s) as its amount, without a percentage', (_name, discount, Amount) => {
    const line = discountOf(build(discount))
    expect(line).toEqual({ DetailType: 'DiscountLineDetail', DiscountLineDetail: { PercentBased: false }, Amount })
  })

  it.each([
    [2.5, 999, { Qty: 1, UnitPrice: 24.98, Amount: 24.98 }, '2.5 × 9.99\nTee, black'],
    [2.5, 1_000, { Qty: 2.5, UnitPrice: 10, Amount: 25 }, 'Tee, black'],
    [0.1, 30, { Qty: 0.1, UnitPrice: 0.3, Amount: 0.03 }, 'Tee, black'],
    [3, 10, { Qty: 3, UnitPrice: 0.1, Amount: 0.3 }, 'Tee, black'],
    [1e-7, 100, { Qty: 1, UnitPrice: 0, Amount: 0 }, '1e-7 × 1.00\nTee, black'],
    [0, 950, { Qty: 0, UnitPrice: 9.5, Amount: 0 }, 'Tee, black'],
  ])('has a line of %d at %d cents as an exact product', (quantity, unit_price_cents, expected, description) => {
    const [line] = salesOf(build({ items: [makeLine({ quantity, unit_price_cents })] }))
    const { Qty, UnitPrice } = line?.SalesItemLineDetail ?? {}
    expect({ Qty, UnitPrice, Amount: line?.Amount }).toEqual(expected)
    expect(line?.Description).toBe(description)
  })

  it('without a deadline has no due date', () => {
    expect(build({ deadline: null }).DueDate).toBeUndefined()
  })

  it.each([
    ['x'.repeat(4_000), 4_000],
    ['x'.repeat(4_001), 4_000],
    [`${'x'.repeat(3_999)}😀`, 3_999],
    [`${'x'.repeat(3_998)}😀!`, 4_000],
  ])('has a note of at most 4,000 characters, never cut through one', (description, length) => {
    const note = build({ description }).PrivateNote ?? ''
    expect([note.length, note.isWellFormed(), description.startsWith(note)]).toEqual([length, true, true])
  })

  it('has a number of at most 21 characters: the end of a longer one', () => {
    expect(formatDocNumber('1001')).toBe('1001')
    expect(formatDocNumber('PREFIX-2026-000000000000012345')).toBe('26-000000000000012345')
    expect(formatDocNumber(`😀${'1'.repeat(20)}`)).toBe('1'.repeat(20))
    expect(formatDocNumber('INV\t1\u0000')).toBe('INV 1')
  })
})

describe('an update', () => {
  it('clears what was cleared, and does not change number and date', () => {
    const order = makeOrder({ description: null, deadline: null })
    const { operation, body } = buildUpdateCall(order, REFERENCES, { Id: '9', SyncToken: '3' })
    expect(operation).toBe('update')
    expect(body).toMatchObject({ Id: '9', SyncToken: '3', sparse: true, PrivateNote: '', DueDate: null })
    expect(Object.keys(body)).not.toContain('DocNumber')
    expect(Object.keys(body)).not.toContain('TxnDate')
  })
})

/** Half up in whole numbers: `numerator / denominator`. */
function roundHalfUp(numerator: bigint, denominator: bigint): number {
  const shifted = 2n * numerator + denominator
  const divisor = 2n * denominator
  return Number((shifted - (((shifted % divisor) + divisor) % divisor)) / divisor)
}

/** A line of any quantity up to thousandths. */
const lines = fc
  .record({
    thousandths: fc.oneof(
      fc.integer({ min: 0, max: 500_000 }),
      fc.integer({ min: 0, max: 500 }).map((n) => n * 1_000),
    ),
    unit_price_cents: fc.integer({ min: 0, max: 1_000_000 }),
    taxable: fc.boolean(),
  })
  .map(({ thousandths, unit_price_cents, taxable }) =>
    makeLine({ quantity: thousandths / 1_000, unit_price_cents, taxable }),
  )

const orders = fc
  .record({
    items: fc.array(lines, { maxLength: 8 }),
    discount_hundredths: fc.integer({ min: 0, max: 10_000 }),
    discount_amount_type: fc.constantFrom('percentage' as const, 'fixed_amount' as const),
    discount_type: fc.constantFrom('before_tax' as const, 'after_tax' as const),
    ratePermyriad: fc.integer({ min: 0, max: 2_500 }),
    tax_exempt: fc.boolean(),
    description: fc.option(fc.string({ unit: 'grapheme' })),
  })
  .map(({ ratePermyriad, ...fields }) =>
    makeOrder({ ...fields, tax: { rate: ratePermyriad / 100, accounting_tax_code_id: null } }),
  )

/** What a number says in decimal, in millionths of a unit: exact for up to six places. */
function toMicros(value: number): bigint {
  const [whole = '', fraction = ''] = value.toFixed(6).split('.')
  return BigInt(whole + fraction)
}

describe('arithmetic', () => {
  it('every line is exactly quantity times price', () => {
    fc.assert(
      fc.property(orders, (order) => {
        for (const { Amount, SalesItemLineDetail } of salesOf(buildCreate(order).body)) {
          const product = toMicros(SalesItemLineDetail.Qty) * toMicros(SalesItemLineDetail.UnitPrice)
          expect(product).toBe(toMicros(Amount) * 1_000_000n)
        }
      }),
    )
  })

  it('lines less discount plus tax are the total, as the accounting system adds them up', () => {
    fc.assert(
      fc.property(orders, (order) => {
        const { body, expected } = buildCreate(order)
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
        expect(sum - discount + toCents(body.TxnTaxDetail.TotalTax)).toBe(expected.total)
      }),
      { numRuns: 500 },
    )
  })
})

describe('the name of a customer', () => {
  it.each([
    ['Acme', 'Acme'],
    ['Smith: Team Blue', 'Smith - Team Blue'],
    ['A:B', 'A - B'],
    [' Tab\there\r\nand there ', 'Tab here and there'],
    ['Bell\u0007 and \u0085 next', 'Bell and next'],
    ['\u0000\n', ''],
    ['O’Brien & Söns "Ltd" 株式会社', 'O’Brien & Söns "Ltd" 株式会社'],
    ['x'.repeat(501), 'x'.repeat(500)],
    [`${'x'.repeat(499)}😀`, 'x'.repeat(499)],
  ])('of %j is %j', (name, expected) => {
    expect(toDisplayName(name)).toBe(expected)
  })

  it('is one that the accounting system accepts, and derives to itself', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (name) => {
        const derived = toDisplayName(name)
        fc.pre(derived !== '')
        expect(toDisplayName(derived)).toBe(derived)
        listDisplayNames(derived).forEach(checkName)
        checkTexts(listDisplayNames(derived))
      }),
      { numRuns: 50 },
    )
  })

  it('has a fallback, different and short enough', () => {
    expect(listDisplayNames('Acme')).toEqual(['Acme', 'Acme (customer)'])
    const [long, other] = listDisplayNames('x'.repeat(500))
    expect([long?.length, other]).toEqual([500, `${'x'.repeat(489)} (customer)`])
  })
})

describe('a text for the accounting system', () => {
  it('of one line has no control characters', () => {
    expect(cleanLine('Tee,\tblack\u2028XL\u0001 ')).toBe('Tee, black XL')
  })

  it('of several lines keeps line breaks and tabs', () => {
    expect(cleanProse('a\r\nb\rc\td\u0000e\ud800')).toBe('a\nb\nc\td e\ufffd')
  })

  it('is no email that the accounting system would refuse', () => {
    expect(formatEmail('ann@acme.test')).toBe('ann@acme.test')
    expect(formatEmail(`${'x'.repeat(95)}@a.test`)).toBeNull()
    expect(formatEmail('a\n@acme.test')).toBeNull()
    expect(formatEmail(null)).toBeNull()
  })
})

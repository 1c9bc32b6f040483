import type { invoiceItems, invoices } from '../../kernel/db/schema.ts'

/** One line of an invoice. `unit_price_cents` may be negative (a credit). */
export type Line = Pick<typeof invoiceItems.$inferSelect, 'quantity' | 'unit_price_cents' | 'taxable'>

/**
 * `discount_type` is `before_tax`: tax on subtotal less discount; or `after_tax`: discount on subtotal plus tax. `taxRate`
 * is in percent with at most 4 decimals; null for none.
 */
export type Terms = { taxRate: number | null } & Pick<
  typeof invoices.$inferSelect,
  'tax_exempt' | 'discount_hundredths' | 'discount_amount_type' | 'discount_type'
>

/** Quantities and rates count to 4 decimals. */
const SCALE = 10_000

/** The total of one line in cents, rounded half up. */
export function lineTotal(line: Pick<Line, 'quantity' | 'unit_price_cents'>): number {
  return divide(scaled(line.quantity) * BigInt(line.unit_price_cents), BigInt(SCALE))
}

/**
 * The sums of an invoice. Exact rational arithmetic, rounded half up once each: every line total, the discount, the tax.
 * A discount never makes a total negative. A before-tax discount is spread over taxable and untaxed lines in proportion.
 *
 * @returns integer cents: `total = subtotal − discount + tax`, `balance = total − paid`
 */
export function computeTotals(lines: readonly Line[], terms: Terms, paymentsCents: readonly number[]) {
  let subtotal = 0
  let taxable = 0
  for (const line of lines) {
    const cents = lineTotal(line)
    subtotal += cents
    if (line.taxable) taxable += cents
  }
  const rate = terms.tax_exempt || terms.taxRate === null ? 0n : scaled(terms.taxRate)
  const percentOfRate = BigInt(100 * SCALE)

  let discount: number
  let tax: number
  if (terms.discount_type === 'after_tax') {
    tax = divide(BigInt(taxable) * rate, percentOfRate)
    discount = discountOf(subtotal + tax, terms)
  } else {
    discount = discountOf(subtotal, terms)
    // Without a discount every line is taxed in full, even when credits make the subtotal 0.
    const [left, whole] = discount === 0 ? [1n, 1n] : [BigInt(subtotal - discount), BigInt(subtotal)]
    tax = divide(BigInt(taxable) * left * rate, whole * percentOfRate)
  }
  const total = subtotal - discount + tax
  const paid = paymentsCents.reduce((sum, cents) => sum + cents, 0)
  return { subtotal, discount, tax, total, paid, balance: total - paid }
}

export type Totals = ReturnType<typeof computeTotals>

function discountOf(base: number, terms: Terms): number {
  if (base <= 0) return 0
  const { discount_hundredths } = terms
  if (terms.discount_amount_type === 'fixed_amount') return Math.min(discount_hundredths, base)
  return Math.min(divide(BigInt(base) * BigInt(discount_hundredths), 10_000n), base)
}

/** `value × SCALE` as an exact integer; digits beyond the scale are rounded away. */
function scaled(value: number): bigint {
  return BigInt(Math.round(value * SCALE))
}

/** Quotient rounded half up: towards positive infinity at exactly one half. The denominator is positive. */
function divide(numerator: bigint, denominator: bigint): number {
  const doubled = 2n * numerator + denominator
  const quotient = doubled / (2n * denominator)
  return Number(doubled < 0n && doubled % (2n * denominator) !== 0n ? quotient - 1n : quotient)
}

export function fromCents(cents: number): number {
  return cents / 100
}

/** Currency units (or percent) with at most 2 decimals as hundredths. */
export function toHundredths(units: number): number {
  return Math.round(units * 100)
}

import { ITEM_ID } from './accounting-data.ts'
import { type Fields, Refusal, readFields, readList } from './accounting-fields.ts'

/** How a company of the accounting system taxes its invoices. */
export interface TaxSettings {
  /** Rates in percent by the tax code's id. */
  codes: Record<string, number>
  /** The rate that the system chooses by itself, whatever tax code or tax is sent; null where it does not. */
  automatedRate: number | null
}

interface Decimal {
  digits: bigint
  scale: bigint
}

/**
 * An invoice's tax and total as the system computes them: the tax that it finds by itself, else the one that is sent, else
 * that of the tax code, on the lines marked `TAX`. With `ApplyTaxAfterDiscount` the discount is taken off first, from
 * every line in proportion; without it the tax is on the whole lines. All in cents.
 */
export function computeTotals(invoice: Fields, settings: TaxSettings): { tax: bigint; total: bigint } {
  const lines = readList(invoice.Line)
  const sales = lines.filter((line) => line.DetailType === 'SalesItemLineDetail')
  const discounts = lines.filter((line) => line.DetailType === 'DiscountLineDetail')
  if (sales.length === 0) throw new Refusal('2020', 'Required param missing: Line')
  if (sales.length + discounts.length < lines.length || discounts.length > 1) {
    throw new Refusal('6000', 'Unsupported line')
  }
  const subtotal = sales.reduce((sum, line) => sum + checkSale(line), 0n)
  const taxable = sales.filter(isTaxed).reduce((sum, line) => sum + checkSale(line), 0n)
  const discount = discounts.reduce((sum, line) => sum + readDiscount(line, subtotal), 0n)
  const isTaxAfter = invoice.ApplyTaxAfterDiscount === true && subtotal > 0n
  const base = { cents: isTaxAfter ? taxable * (subtotal - discount) : taxable, scale: isTaxAfter ? subtotal : 1n }
  const tax = findTax(invoice.TxnTaxDetail, base, settings)
  const total = subtotal - discount + tax
  if (total < 0n) throw new Refusal('6000', 'The total is negative')
  return { tax, total }
}

function findTax(detail: unknown, base: { cents: bigint; scale: bigint }, settings: TaxSettings): bigint {
  const { TotalTax, TxnTaxCodeRef } = readFields(detail)
  const codeId = readFields(TxnTaxCodeRef).value
  const codeRate = typeof codeId === 'string' ? settings.codes[codeId] : undefined
  if (codeId !== undefined && codeRate === undefined) throw new Refusal('2500', 'Invalid Reference Id: TxnTaxCodeRef')
  const sent = TotalTax == null ? null : toCents(readNumber(TotalTax, 'TotalTax'))
  if (settings.automatedRate === null && sent !== null) return sent
  const rate = readNumber(settings.automatedRate ?? codeRate ?? 0, 'rate')
  return divideHalfUp(base.cents * rate.digits, base.scale * rate.scale * 100n)
}

function isTaxed(line: Fields): boolean {
  return readFields(readFields(line.SalesItemLineDetail).TaxCodeRef).value === 'TAX'
}

/** The line's amount in cents. */
function checkSale(line: Fields): bigint {
  const { ItemRef, Qty, UnitPrice, TaxCodeRef } = readFields(line.SalesItemLineDetail)
  const amount = readNumber(line.Amount, 'Amount')
  if (readFields(ItemRef).value !== ITEM_ID) throw new Refusal('2500', 'Invalid Reference Id: ItemRef')
  const taxCode = readFields(TaxCodeRef).value
  if (taxCode !== 'TAX' && taxCode !== 'NON') throw new Refusal('2500', 'Invalid Reference Id: TaxCodeRef')
  if (String(line.Description ?? '').length > 4_000) throw new Refusal('2050', 'Description is too long')
  if (Qty !== undefined || UnitPrice !== undefined) {
    const quantity = readNumber(Qty, 'Qty')
    const price = readNumber(UnitPrice, 'UnitPrice')
    if (quantity.digits * price.digits * amount.scale !== amount.digits * quantity.scale * price.scale) {
      throw new Refusal('6070', 'Amount is not equal to UnitPrice * Qty')
    }
  }
  return toCents(amount)
}

function readDiscount(line: Fields, subtotal: bigint): bigint {
  const detail = readFields(line.DiscountLineDetail)
  if (detail.PercentBased === true) {
    const { digits, scale } = readNumber(detail.DiscountPercent, 'DiscountPercent')
    return divideHalfUp(subtotal * digits, scale * 100n)
  }
  // A percentage sent beside the amount wins, even when it is 0.
  return detail.DiscountPercent === 0 ? 0n : toCents(readNumber(line.Amount, 'Amount'))
}

function readNumber(value: unknown, name: string): Decimal {
  if (value === undefined || value === null) throw new Refusal('2020', `Required param missing: ${name}`)
  const [, whole, fraction = ''] = /^(-?\d+)(?:\.(\d+))?$/.exec(String(value)) ?? []
  if (typeof value !== 'number' || whole === undefined) throw new Refusal('2050', `Invalid number: ${name}`)
  return { digits: BigInt(whole + fraction), scale: 10n ** BigInt(fraction.length) }
}

function toCents({ digits, scale }: Decimal): bigint {
  if ((digits * 100n) % scale !== 0n) throw new Refusal('2050', 'Amounts have at most two decimals')
  return (digits * 100n) / scale
}

function divideHalfUp(amount: bigint, divisor: bigint): bigint {
  const shifted = 2n * amount + divisor
  const rest = ((shifted % (2n * divisor)) + 2n * divisor) % (2n * divisor)
  return (shifted - rest) / (2n * divisor)
}

import { cleanLine, cleanProse, formatDocNumber } from './wire-text.ts'

/** An order with its default invoice, as the accounting system is to see it. Money is in integer cents. */
export interface InvoiceSource {
  /** The invoice number, unique in the company. */
  number: string
  title: string
  description: string | null
  /** `YYYY-MM-DD` */
  created_date: string
  /** Stored as passed; only a date or a date-time is told. */
  deadline: string | null
  client: { company_name: string; email: string | null }
  /** Null: nothing is taxed, since there is no tax, or the order is exempt. */
  tax: {
    /** The accounting system's tax code for it, where one is set. */
    code_id: string | null
  } | null
  discount: {
    /** Percent, or an amount in the company's currency (not cents). */
    amount: number
    amount_type: 'percentage' | 'fixed_amount'
    type: 'before_tax' | 'after_tax'
  } | null
  /** Lines that are not deleted, in their order. */
  lines: InvoiceSourceLine[]
  totals: { subtotal: number; discount_total: number; tax_total: number; total: number }
}

export interface InvoiceSourceLine {
  title: string | null
  description: string | null
  /** May be a fraction. */
  quantity: number
  unit_price_cents: number
  /** Quantity times price, rounded half up. */
  total_cents: number
  taxable: boolean
}

interface SalesLine {
  DetailType: 'SalesItemLineDetail'
  Amount: number
  Description?: string
  SalesItemLineDetail: {
    ItemRef: { value: string }
    Qty: number
    UnitPrice: number
    TaxCodeRef: { value: 'TAX' | 'NON' }
  }
}

type DiscountLine =
  | {
      DetailType: 'DiscountLineDetail'
      DiscountLineDetail: { PercentBased: true; DiscountPercent: number }
    }
  | { DetailType: 'DiscountLineDetail'; Amount: number; DiscountLineDetail: { PercentBased: false } }

/** The fields that follow the order. A sparse update sends all of them, so that a value that was cleared is cleared. */
interface ChangingFields {
  CustomerRef: { value: string }
  Line: (SalesLine | DiscountLine)[]
  TxnTaxDetail: { TotalTax: number; TxnTaxCodeRef?: { value: string } }
  /** Sent with a discount line: whether the tax is on what the discount leaves (true) or on the whole (false). */
  ApplyTaxAfterDiscount?: boolean
  PrivateNote?: string
  DueDate?: string | null
}

export interface InvoiceKey {
  Id: string
  SyncToken: string
}

export type InvoiceBody = ChangingFields & { DocNumber: string; TxnDate: string }
export type InvoiceUpdate = ChangingFields & InvoiceKey & { sparse: true }

/** What the accounting system must come to, in cents. */
export interface ExpectedTotals {
  total: number
  tax: number
}

/** One change of an invoice. Plain JSON: the outbox stores it before the first try and repeats it unchanged. */
export type InvoiceCall =
  | { operation: 'create'; body: InvoiceBody; expected: ExpectedTotals }
  | { operation: 'update'; body: InvoiceUpdate; expected: ExpectedTotals }
  | { operation: 'void' | 'delete'; body: InvoiceKey }

/** Ids at the accounting system. */
export interface InvoiceReferences {
  customerId: string
  /** The item that every line is booked on. */
  itemId: string
  /** The tax code of taxes that have none of their own; null: none is sent for them. */
  taxCodeId: string | null
}

/** The call that makes the order's invoice. */
export function buildCreateCall(order: InvoiceSource, references: InvoiceReferences): InvoiceCall {
  const body: InvoiceBody = {
    DocNumber: formatDocNumber(order.number),
    TxnDate: order.created_date,
    ...buildAmounts(order, references),
  }
  const dueDate = readDate(order.deadline)
  if (order.description) body.PrivateNote = cleanProse(order.description)
  if (dueDate) body.DueDate = dueDate
  return { operation: 'create', body, expected: getExpectedTotals(order) }
}

/** The call that makes an existing invoice follow the order, leaving alone every field that is not ours. */
export function buildUpdateCall(order: InvoiceSource, references: InvoiceReferences, key: InvoiceKey): InvoiceCall {
  return {
    operation: 'update',
    body: {
      Id: key.Id,
      SyncToken: key.SyncToken,
      sparse: true,
      ...buildAmounts(order, references),
      PrivateNote: cleanProse(order.description ?? ''),
      DueDate: readDate(order.deadline),
    },
    expected: getExpectedTotals(order),
  }
}

/** The call that takes the invoice out of the books: `void` keeps it for the audit trail, `delete` does not. */
export function buildRemoveCall(key: InvoiceKey, mode: 'void' | 'delete'): InvoiceCall {
  return { operation: mode, body: { Id: key.Id, SyncToken: key.SyncToken } }
}

/**
 * What is wrong with the amounts that the accounting system came to; null where they are ours within a cent, which its
 * own rounding may differ by.
 */
export function describeDifference(
  { total, tax }: { total: number | null; tax: number | null },
  expected: ExpectedTotals,
): string | null {
  if (total === null) return `The accounting system gave no total, the order has ${formatCents(expected.total)}.`
  if (differs(total, expected.total)) {
    return `The accounting system says ${total.toFixed(2)}, the order ${formatCents(expected.total)}.`
  }
  if (tax === null || !differs(tax, expected.tax)) return null
  return `The accounting system says ${tax.toFixed(2)} of tax, the order ${formatCents(expected.tax)}.`
}

function differs(amount: number, cents: number): boolean {
  return Math.abs(Math.round(amount * 100) - cents) > 1
}

function formatCents(cents: number): string {
  return toAmount(cents).toFixed(2)
}

function getExpectedTotals({ totals }: InvoiceSource): ExpectedTotals {
  return { total: totals.total, tax: totals.tax_total }
}

function buildAmounts(order: InvoiceSource, references: InvoiceReferences) {
  const { tax, totals, discount } = order
  const lines = order.lines.map((line) => buildSalesLine(line, references.itemId, tax !== null))
  // An invoice must have a line, and an order may have none yet.
  if (lines.length === 0) lines.push(makeSalesLine(references.itemId, cleanLine(order.title), 1, 0, 0, 'NON'))
  const discountLine = buildDiscountLine(order)
  const taxCodeId = tax && (tax.code_id ?? references.taxCodeId)
  return {
    CustomerRef: { value: references.customerId },
    Line: discountLine ? [...lines, discountLine] : lines,
    TxnTaxDetail: {
      TotalTax: toAmount(totals.tax_total),
      ...(taxCodeId === null ? {} : { TxnTaxCodeRef: { value: taxCodeId } }),
    },
    ...(discountLine && discount ? { ApplyTaxAfterDiscount: discount.type === 'before_tax' } : {}),
  }
}

function buildSalesLine(line: InvoiceSourceLine, itemId: string, isTaxed: boolean): SalesLine {
  const taxCode = line.taxable && isTaxed ? 'TAX' : 'NON'
  const { quantity, unit_price_cents: priceCents, total_cents: totalCents } = line
  const text = [cleanLine(line.title ?? ''), line.description].filter(Boolean).join('\n')
  if (isExactProduct(quantity, priceCents, totalCents)) {
    return makeSalesLine(itemId, text, quantity, priceCents, totalCents, taxCode)
  }
  // The rounded total of a broken quantity is no exact product: the total becomes one unit, and the text tells the rest.
  const counted = `${quantity} × ${(priceCents / 100).toFixed(2)}`
  return makeSalesLine(itemId, text ? `${counted}\n${text}` : counted, 1, totalCents, totalCents, taxCode)
}

function makeSalesLine(
  itemId: string,
  description: string,
  quantity: number,
  priceCents: number,
  totalCents: number,
  taxCode: 'TAX' | 'NON',
): SalesLine {
  return {
    DetailType: 'SalesItemLineDetail',
    Amount: toAmount(totalCents),
    ...(description ? { Description: cleanProse(description) } : {}),
    SalesItemLineDetail: {
      ItemRef: { value: itemId },
      Qty: quantity,
      UnitPrice: toAmount(priceCents),
      TaxCodeRef: { value: taxCode },
    },
  }
}

/**
 * A percentage is told as such only where the other side, which takes it of the subtotal, comes to our amount. A
 * percentage after tax, or a discount cut to what there is to pay, is told as its amount.
 */
function buildDiscountLine({ discount, totals }: InvoiceSource): DiscountLine | null {
  if (!discount || totals.discount_total === 0) return null
  const { amount, amount_type: kind } = discount
  if (kind === 'percentage' && getPercentOf(amount, totals.subtotal) === totals.discount_total) {
    return { DetailType: 'DiscountLineDetail', DiscountLineDetail: { PercentBased: true, DiscountPercent: amount } }
  }
  const cents = totals.discount_total
  return { DetailType: 'DiscountLineDetail', Amount: toAmount(cents), DiscountLineDetail: { PercentBased: false } }
}

function toAmount(cents: number): number {
  return cents / 100
}

/** A finite number as `digits / scale`, as it is written in decimal, so that 0.1 is a tenth. */
function readDecimal(value: number): { digits: bigint; scale: bigint } {
  const [, sign = '', whole = '0', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value)) ?? []
  const places = fraction.length - Number(exponent)
  const digits = BigInt(`${sign}${whole}${fraction}`) * 10n ** BigInt(Math.max(-places, 0))
  return { digits, scale: 10n ** BigInt(Math.max(places, 0)) }
}

function isExactProduct(quantity: number, priceCents: number, totalCents: number): boolean {
  const { digits, scale } = readDecimal(quantity)
  return digits * BigInt(priceCents) === BigInt(totalCents) * scale
}

/** Cents, rounded half up. */
function getPercentOf(percent: number, cents: number): number {
  const { digits, scale } = readDecimal(percent)
  const divisor = scale * 200n
  const shifted = digits * BigInt(cents) * 2n + scale * 100n
  const rest = ((shifted % divisor) + divisor) % divisor
  return Number((shifted - rest) / divisor)
}

/** The date of a date or date-time that exists in the calendar, else null: anything else would be refused as a whole. */
function readDate(text: string | null): string | null {
  const date = /^(\d{4}-\d{2}-\d{2})(?:$|T)/.exec(text?.trim() ?? '')?.[1]
  if (!date) return null
  const time = new Date(`${date}T00:00:00Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(date) ? date : null
}

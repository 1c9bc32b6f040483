const LONGEST_NUMBER = 21
const LONGEST_TEXT = 4_000

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
  tax_exempt: boolean
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
  TxnTaxDetail: { TotalTax: number }
  PrivateNote?: string
  DueDate?: string | null
}

export interface InvoiceKey {
  Id: string
  SyncToken: string
}

export type InvoiceBody = ChangingFields & { DocNumber: string; TxnDate: string }
export type InvoiceUpdate = ChangingFields & InvoiceKey & { sparse: true }

/** One change of an invoice. Plain JSON: the outbox stores it before the first try and repeats it unchanged. */
export type InvoiceCall =
  | { operation: 'create'; body: InvoiceBody }
  | { operation: 'update'; body: InvoiceUpdate }
  | { operation: 'void' | 'delete'; body: InvoiceKey }

/** Ids at the accounting system: the client's customer, and the item that every line is booked on. */
export interface InvoiceReferences {
  customerId: string
  itemId: string
}

/** The call that makes the order's invoice. */
export function buildCreateCall(order: InvoiceSource, references: InvoiceReferences): InvoiceCall {
  const body: InvoiceBody = {
    DocNumber: formatDocNumber(order.number),
    TxnDate: order.created_date,
    CustomerRef: { value: references.customerId },
    Line: buildLines(order, references.itemId),
    TxnTaxDetail: { TotalTax: toAmount(order.totals.tax_total) },
  }
  const dueDate = readDate(order.deadline)
  if (order.description) body.PrivateNote = cutText(order.description)
  if (dueDate) body.DueDate = dueDate
  return { operation: 'create', body }
}

/** The call that makes an existing invoice follow the order, leaving alone every field that is not ours. */
export function buildUpdateCall(order: InvoiceSource, references: InvoiceReferences, key: InvoiceKey): InvoiceCall {
  return {
    operation: 'update',
    body: {
      Id: key.Id,
      SyncToken: key.SyncToken,
      sparse: true,
      CustomerRef: { value: references.customerId },
      Line: buildLines(order, references.itemId),
      TxnTaxDetail: { TotalTax: toAmount(order.totals.tax_total) },
      PrivateNote: cutText(order.description ?? ''),
      DueDate: readDate(order.deadline),
    },
  }
}

/** The call that takes the invoice out of the books: `void` keeps it for the audit trail, `delete` does not. */
export function buildRemoveCall(key: InvoiceKey, mode: 'void' | 'delete'): InvoiceCall {
  return { operation: mode, body: { Id: key.Id, SyncToken: key.SyncToken } }
}

/** At most 21 characters. Of a longer number the end is kept, where rising numbers differ. */
export function formatDocNumber(number: string): string {
  const end = number.slice(-LONGEST_NUMBER)
  return /^[\uDC00-\uDFFF]/.test(end) ? end.slice(1) : end
}

function buildLines(order: InvoiceSource, itemId: string): (SalesLine | DiscountLine)[] {
  const lines = order.lines.map((line) => buildSalesLine(line, itemId, order.tax_exempt))
  // An invoice must have a line, and an order may have none yet.
  if (lines.length === 0) lines.push(makeSalesLine(itemId, order.title, 1, 0, 0, 'NON'))
  const discount = buildDiscountLine(order)
  return discount ? [...lines, discount] : lines
}

function buildSalesLine(line: InvoiceSourceLine, itemId: string, taxExempt: boolean): SalesLine {
  const taxCode = line.taxable && !taxExempt ? 'TAX' : 'NON'
  const { quantity, unit_price_cents: priceCents, total_cents: totalCents } = line
  const text = [line.title, line.description].filter(Boolean).join('\n')
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
    ...(description ? { Description: cutText(description) } : {}),
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

/** Cuts to what a text field holds, never through the middle of a character of two code units. */
function cutText(text: string): string {
  if (text.length <= LONGEST_TEXT) return text
  const cut = text.slice(0, LONGEST_TEXT)
  return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut
}

/** The date of a date or date-time that exists in the calendar, else null: anything else would be refused as a whole. */
function readDate(text: string | null): string | null {
  const date = /^(\d{4}-\d{2}-\d{2})(?:$|T)/.exec(text?.trim() ?? '')?.[1]
  if (!date) return null
  const time = new Date(`${date}T00:00:00Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(date) ? date : null
}

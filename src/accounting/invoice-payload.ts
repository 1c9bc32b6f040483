import type { clients, invoiceItems, invoices, orders, taxes } from '../db/schema.ts'
import { computeTotals, fromCents, lineTotal, type Totals } from '../orders/totals.ts'
import type { InvoiceIdentity } from './decisions.ts'

/** The rows that an order's invoice is made from. */
export interface InvoiceSource {
  project: Pick<typeof orders.$inferSelect, 'title' | 'description' | 'created_date' | 'deadline'>
  invoice: Pick<
    typeof invoices.$inferSelect,
    'number' | 'due_date' | 'tax_exempt' | 'discount_hundredths' | 'discount_amount_type' | 'discount_type'
  >
  tax: Pick<typeof taxes.$inferSelect, 'rate' | 'accounting_tax_code_id'> | null
  client: Pick<typeof clients.$inferSelect, 'id' | 'company_name' | 'email' | 'accounting_customer_id'>
  /** Lines that are not deleted, in their order. */
  items: Pick<typeof invoiceItems.$inferSelect, 'title' | 'description' | 'quantity' | 'unit_price_cents' | 'taxable'>[]
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
  | { DetailType: 'DiscountLineDetail'; DiscountLineDetail: { PercentBased: true; DiscountPercent: number } }
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

/** One change of an invoice. Plain JSON: the outbox stores it before the first attempt and repeats it unchanged. */
export type InvoiceCall =
  | { operation: 'create'; body: InvoiceBody; expected: ExpectedTotals }
  | { operation: 'update'; body: InvoiceUpdate; expected: ExpectedTotals }
  | { operation: 'void' | 'delete'; body: InvoiceKey }

/** What the accounting system must compute, in cents. */
type ExpectedTotals = Pick<Totals, 'total' | 'tax'>

/** Ids at the accounting system. */
export interface InvoiceReferences {
  customerId: string
  /** The item of every line. */
  itemId: string
  /** The tax code of taxes without one of their own; null: none is sent for them. */
  taxCodeId: string | null
}

/** The call that makes the order's invoice. */
export function buildCreateCall(source: InvoiceSource, references: InvoiceReferences): InvoiceCall {
  const { project, invoice } = source
  const totals = getTotals(source)
  const dueDate = getDueDate(source)
  const body: InvoiceBody = {
    DocNumber: formatDocNumber(invoice.number),
    TxnDate: project.created_date,
    ...buildAmounts(source, totals, references),
    ...(project.description ? { PrivateNote: cleanProse(project.description) } : {}),
    ...(dueDate ? { DueDate: dueDate } : {}),
  }
  return { operation: 'create', body, expected: { total: totals.total, tax: totals.tax } }
}

/** The call that makes an existing invoice follow the order and leaves every field that is not ours as it is. */
export function buildUpdateCall(source: InvoiceSource, references: InvoiceReferences, key: InvoiceKey): InvoiceCall {
  const totals = getTotals(source)
  const body: InvoiceUpdate = {
    Id: key.Id,
    SyncToken: key.SyncToken,
    sparse: true,
    ...buildAmounts(source, totals, references),
    PrivateNote: cleanProse(source.project.description ?? ''),
    DueDate: getDueDate(source),
  }
  return { operation: 'update', body, expected: { total: totals.total, tax: totals.tax } }
}

/** The call that removes the invoice: `void` leaves it in the audit trail, `delete` does not. */
export function buildRemoveCall(key: InvoiceKey, mode: 'void' | 'delete'): InvoiceCall {
  return { operation: mode, body: { Id: key.Id, SyncToken: key.SyncToken } }
}

/** By what the order's invoice is found again when its id is unknown. */
export function identify({ project, invoice }: InvoiceSource, customerId: string): InvoiceIdentity {
  return {
    DocNumber: formatDocNumber(invoice.number),
    TxnDate: project.created_date,
    CustomerRef: { value: customerId },
  }
}

/**
 * Describes how the amounts that the accounting system computed differ from ours; null where they agree within a cent,
 * the most that its own rounding may differ by.
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
  return fromCents(cents).toFixed(2)
}

function getTotals({ items, invoice, tax }: InvoiceSource): Totals {
  return computeTotals(items, { ...invoice, taxRate: tax?.rate ?? null }, [])
}

function buildAmounts(source: InvoiceSource, totals: Totals, { customerId, itemId, taxCodeId }: InvoiceReferences) {
  const { project, invoice, items } = source
  const tax = source.tax && source.tax.rate > 0 && !invoice.tax_exempt ? source.tax : null
  const lines = items.map((item) => buildSalesLine(item, itemId, tax !== null))
  // An invoice must have a line, and an order may have none yet.
  if (lines.length === 0) lines.push(makeSalesLine(itemId, cleanLine(project.title), 1, 0, 0, 'NON'))
  const discountLine = buildDiscountLine(invoice, totals)
  const taxCode = tax && (tax.accounting_tax_code_id ?? taxCodeId)
  return {
    CustomerRef: { value: customerId },
    Line: discountLine ? [...lines, discountLine] : lines,
    TxnTaxDetail: {
      TotalTax: fromCents(totals.tax),
      ...(taxCode === null ? {} : { TxnTaxCodeRef: { value: taxCode } }),
    },
    ...(discountLine ? { ApplyTaxAfterDiscount: invoice.discount_type === 'before_tax' } : {}),
  }
}

function buildSalesLine(item: InvoiceSource['items'][number], itemId: string, isTaxed: boolean): SalesLine {
  const { title, description, quantity, unit_price_cents: priceCents } = item
  const totalCents = lineTotal(item)
  const taxCode = item.taxable && isTaxed ? 'TAX' : 'NON'
  const text = [cleanLine(title ?? ''), description].filter(Boolean).join('\n')
  if (isExactProduct(quantity, priceCents, totalCents)) {
    return makeSalesLine(itemId, text, quantity, priceCents, totalCents, taxCode)
  }
  // A rounded total is refused as a product: it becomes the price of one unit, and the text says how it was computed.
  const product = `${quantity} × ${formatCents(priceCents)}`
  return makeSalesLine(itemId, text ? `${product}\n${text}` : product, 1, totalCents, totalCents, taxCode)
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
    Amount: fromCents(totalCents),
    ...(description ? { Description: cleanProse(description) } : {}),
    SalesItemLineDetail: {
      ItemRef: { value: itemId },
      Qty: quantity,
      UnitPrice: fromCents(priceCents),
      TaxCodeRef: { value: taxCode },
    },
  }
}

/** Whether the product is the total to the last digit, with the quantity as it is written in decimal. */
function isExactProduct(quantity: number, priceCents: number, totalCents: number): boolean {
  const [, sign = '', whole = '0', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(quantity)) ?? []
  const places = fraction.length - Number(exponent)
  const digits = BigInt(`${sign}${whole}${fraction}`) * 10n ** BigInt(Math.max(-places, 0))
  return digits * BigInt(priceCents) === BigInt(totalCents) * 10n ** BigInt(Math.max(places, 0))
}

/**
 * A percentage is sent as such only where the accounting system, which takes it of the subtotal, computes our amount. A
 * percentage after tax, or a discount cut to the amount due, is sent as its amount.
 */
function buildDiscountLine(invoice: InvoiceSource['invoice'], { subtotal, discount }: Totals): DiscountLine | null {
  if (discount === 0) return null
  const ofSubtotal = lineTotal({ quantity: invoice.discount_hundredths / 10_000, unit_price_cents: subtotal })
  if (invoice.discount_amount_type === 'percentage' && ofSubtotal === discount) {
    const percent = fromCents(invoice.discount_hundredths)
    return { DetailType: 'DiscountLineDetail', DiscountLineDetail: { PercentBased: true, DiscountPercent: percent } }
  }
  const amount = fromCents(discount)
  return { DetailType: 'DiscountLineDetail', Amount: amount, DiscountLineDetail: { PercentBased: false } }
}

/** The date of a date or date-time that exists in the calendar, else null: a wrong date has the whole call refused. */
function getDueDate({ project, invoice }: InvoiceSource): string | null {
  const text = project.deadline ?? invoice.due_date
  const date = /^(\d{4}-\d{2}-\d{2})(?:$|T)/.exec(text?.trim() ?? '')?.[1]
  if (!date) return null
  const time = new Date(`${date}T00:00:00Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(date) ? date : null
}

/*
 * Texts as the accounting system accepts them. Its reference gives these limits in characters; it refuses a colon, a
 * tab and a line break in a display name (2040).
 */
const MAX_NAME = 500
const MAX_NUMBER = 21
const MAX_TEXT = 4_000
const MAX_EMAIL = 100
/** The names tried for one customer: the plain one, `(customer)`, `(customer 2)` and so on. */
const NAMES_PER_CUSTOMER = 21

/** Cuts to `max` UTF-16 code units, never through the middle of a surrogate pair. */
function cut(text: string, max: number): string {
  if (text.length <= max) return text
  const start = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(start) ? start.slice(0, -1) : start
}

/** A text of one line: each run of white space and control characters becomes one space. */
export function cleanLine(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim()
}

/** A text of at most 4,000 characters: line breaks and tabs stay, other control characters become spaces. */
export function cleanProse(text: string): string {
  const lines = text.toWellFormed().replaceAll(/\r\n?/g, '\n')
  return cut(lines.replaceAll(/[^\P{Cc}\n\t]/gu, ' '), MAX_TEXT)
}

/** At most 21 characters: the end of a longer number, where rising numbers differ. */
export function formatDocNumber(number: string): string {
  const end = cleanLine(number).slice(-MAX_NUMBER)
  return /^[\uDC00-\uDFFF]/.test(end) ? end.slice(1) : end
}

/** Null for an address that the accounting system would refuse. */
export function formatEmail(email: string | null): string | null {
  return email !== null && email.length <= MAX_EMAIL && email === cleanLine(email) ? email : null
}

/** A client's name as a customer may have it; empty when nothing is left of it. */
export function toDisplayName(name: string): string {
  return cut(cleanLine(name.replaceAll(':', ' - ')), MAX_NAME).trim()
}

/**
 * The names to try for a customer, in order: the plain one may belong to a vendor, an employee or an inactive customer,
 * since all of them share one namespace.
 */
export function listDisplayNames(displayName: string): string[] {
  return Array.from({ length: NAMES_PER_CUSTOMER }, (_, index) => {
    if (index === 0) return displayName
    const suffix = index === 1 ? ' (customer)' : ` (customer ${index})`
    return `${cut(displayName, MAX_NAME - suffix.length).trimEnd()}${suffix}`
  })
}

import type { clients, invoiceItems, invoices, orders, taxes } from '../../kernel/db/schema.ts'
import { computeTotals, fromCents, lineTotal, type Totals } from '../../resources/orders/totals.ts'

export interface InvoiceSource {
  project: Pick<typeof orders.$inferSelect, 'title' | 'description' | 'created_date' | 'deadline' | 'deleted'>
  invoice: Pick<
    typeof invoices.$inferSelect,
    'number' | 'due_date' | 'tax_exempt' | 'discount_hundredths' | 'discount_amount_type' | 'discount_type'
  >
  tax: Pick<typeof taxes.$inferSelect, 'rate' | 'accounting_tax_code_id'> | null
  client: Pick<typeof clients.$inferSelect, 'id' | 'company_name' | 'email' | 'accounting_customer_id'>
  items: Pick<typeof invoiceItems.$inferSelect, 'title' | 'description' | 'quantity' | 'unit_price_cents' | 'taxable'>[]
}

export type InvoiceKey = { Id: string; SyncToken: string }

/** Amounts as computed by the accounting system, in currency units; null if the response has none. */
export type InvoiceResult = InvoiceKey & { total: number | null; tax: number | null }

/** One change of an invoice in plain JSON: the outbox stores it before the first attempt and repeats it unchanged. */
export type InvoiceCall = ReturnType<typeof buildCreateCall | typeof buildUpdateCall | typeof buildRemoveCall>

/** Ids at the accounting system: the item of every line, and the default tax code. */
export type InvoiceReferences = { customerId: string; itemId: string; taxCodeId: string | null }

export function buildCreateCall(source: InvoiceSource, references: InvoiceReferences) {
  const { expected, fields } = buildFields(source, references)
  const { PrivateNote, DueDate, ...rest } = fields
  const filled = { ...(PrivateNote ? { PrivateNote } : {}), ...(DueDate ? { DueDate } : {}) }
  const DocNumber = formatDocNumber(source.invoice.number)
  const body = { DocNumber, TxnDate: source.project.created_date, ...rest, ...filled }
  return { operation: 'create' as const, body, expected }
}

export function buildUpdateCall(source: InvoiceSource, references: InvoiceReferences, key: InvoiceKey) {
  const { expected, fields } = buildFields(source, references)
  const body = { Id: key.Id, SyncToken: key.SyncToken, sparse: true as const, ...fields }
  return { operation: 'update' as const, body, expected }
}

/** Builds the call that removes the invoice: `void` leaves it in the audit trail, `delete` does not. */
export function buildRemoveCall(key: InvoiceKey, mode: 'void' | 'delete') {
  return { operation: mode, body: { Id: key.Id, SyncToken: key.SyncToken } }
}

/** Describes the difference between the accounting system's amounts and ours, in cents; null within a cent. */
export function describeDifference(
  { total, tax }: Pick<InvoiceResult, 'total' | 'tax'>,
  expected: Pick<Totals, 'total' | 'tax'>,
): string | null {
  const differs = (amount: number, cents: number) => Math.abs(Math.round(amount * 100) - cents) > 1
  if (total === null) return `The accounting system gave no total, the order has ${formatCents(expected.total)}.`
  if (differs(total, expected.total)) {
    return `The accounting system says ${total.toFixed(2)}, the order ${formatCents(expected.total)}.`
  }
  if (tax === null || !differs(tax, expected.tax)) return null
  return `The accounting system says ${tax.toFixed(2)} of tax, the order ${formatCents(expected.tax)}.`
}

const formatCents = (cents: number) => fromCents(cents).toFixed(2)

/** The fields that follow the order. A sparse update sends them all, so that cleared values are cleared there too. */
function buildFields(source: InvoiceSource, { customerId, itemId, taxCodeId }: InvoiceReferences) {
  const { project, invoice, items } = source
  const totals = computeTotals(items, { ...invoice, taxRate: source.tax?.rate ?? null }, [])
  const tax = source.tax && source.tax.rate > 0 && !invoice.tax_exempt ? source.tax : null
  // An invoice must have a line, and an order may have none yet.
  const placeholder = { title: project.title, description: null, quantity: 1, unit_price_cents: 0, taxable: false }
  const lines = items.length > 0 ? items : [placeholder]
  const discountLine = buildDiscountLine(invoice, totals)
  const taxCode = tax && (tax.accounting_tax_code_id ?? taxCodeId)
  const fields = {
    CustomerRef: { value: customerId },
    Line: [...lines.map((line) => buildSalesLine(line, itemId, tax !== null)), ...(discountLine ? [discountLine] : [])],
    TxnTaxDetail: { TotalTax: fromCents(totals.tax), ...(taxCode !== null && { TxnTaxCodeRef: { value: taxCode } }) },
    // True taxes the discounted amount, false the whole.
    ...(discountLine && { ApplyTaxAfterDiscount: invoice.discount_type === 'before_tax' }),
    PrivateNote: cleanProse(project.description ?? ''),
    DueDate: project.deadline ?? invoice.due_date,
  }
  return { fields, expected: { total: totals.total, tax: totals.tax } }
}

function buildSalesLine(item: InvoiceSource['items'][number], itemId: string, isTaxed: boolean) {
  const { title, description, quantity, unit_price_cents: priceCents } = item
  const totalCents = lineTotal(item)
  const texts = [cleanLine(title), description]
  // A product that does not match its rounded total is refused: send the total as the price of one unit, and the
  // computation as text. Quantities count to 4 decimals, as in `lineTotal`.
  const scaled = Math.round(quantity * 10_000)
  const isExact = scaled / 10_000 === quantity && BigInt(scaled) * BigInt(priceCents) === BigInt(totalCents) * 10_000n
  if (!isExact) texts.unshift(`${quantity} × ${formatCents(priceCents)}`)
  const text = texts.filter(Boolean).join('\n')
  return {
    DetailType: 'SalesItemLineDetail' as const,
    Amount: fromCents(totalCents),
    ...(text ? { Description: cleanProse(text) } : {}),
    SalesItemLineDetail: {
      ItemRef: { value: itemId },
      Qty: isExact ? quantity : 1,
      UnitPrice: fromCents(isExact ? priceCents : totalCents),
      TaxCodeRef: { value: item.taxable && isTaxed ? 'TAX' : 'NON' },
    },
  }
}

/**
 * Sends a percentage only if the accounting system, which applies it to the subtotal, computes our amount. A percentage
 * after tax, or a discount capped at the amount due, is sent as its amount.
 */
function buildDiscountLine(invoice: InvoiceSource['invoice'], { subtotal, discount }: Totals) {
  if (discount === 0) return null
  const ofSubtotal = lineTotal({ quantity: invoice.discount_hundredths / 10_000, unit_price_cents: subtotal })
  if (invoice.discount_amount_type === 'percentage' && ofSubtotal === discount) {
    const DiscountPercent = fromCents(invoice.discount_hundredths)
    return { DetailType: 'DiscountLineDetail', DiscountLineDetail: { PercentBased: true, DiscountPercent } } as const
  }
  const Amount = fromCents(discount)
  return { DetailType: 'DiscountLineDetail', Amount, DiscountLineDetail: { PercentBased: false } } as const
}

// Limits of the accounting system's reference, in characters. A display name has no colon, tab or line break (2040).
const MAX_NAME = 500
const MAX_NUMBER = 21
const MAX_TEXT = 4_000
const MAX_EMAIL = 100
const OTHER_NAME = ' (customer)'

/** Truncates a well-formed text to `max` UTF-16 code units without splitting a surrogate pair. */
const cut = (text: string, max: number) => text.slice(0, max).replace(/[\uD800-\uDBFF]$/, '')

export function cleanLine(text: string): string {
  const line = text.toWellFormed().replaceAll(/[\p{Cc}\s]+/gu, ' ')
  return line.trim()
}

/** Truncates a text to 4,000 characters; line breaks and tabs stay, other control characters become spaces. */
export function cleanProse(text: string): string {
  const lines = text.toWellFormed().replaceAll(/\r\n?/g, '\n')
  return cut(lines.replaceAll(/[^\P{Cc}\n\t]/gu, ' '), MAX_TEXT)
}

/** Truncates to 21 characters, keeping the end of a longer number, where rising numbers differ. */
export function formatDocNumber(number: string): string {
  const end = cleanLine(number).slice(-MAX_NUMBER)
  return end.replace(/^[\uDC00-\uDFFF]/, '')
}

/** Null for an address that the accounting system would refuse. */
export function formatEmail(email: string | null): string | null {
  return email !== null && email.length <= MAX_EMAIL && email === cleanLine(email) ? email : null
}

/** Converts a client's name to a valid customer name; empty when nothing is left of it. */
export function toDisplayName(name: string): string {
  return cut(cleanLine(name.replaceAll(':', ' - ')), MAX_NAME).trim()
}

/** Names to try for a customer: its own, and another where a vendor, an employee or an inactive customer has that one. */
export function listDisplayNames(displayName: string): string[] {
  return [displayName, `${cut(displayName, MAX_NAME - OTHER_NAME.length).trimEnd()}${OTHER_NAME}`]
}

import * as z from 'zod/mini'
import {
  changesOf,
  component,
  date,
  externalId,
  id,
  instant,
  isoTime,
  oneLine,
  text,
  trimmed,
  withDefault,
} from '../../kernel/api/contract.ts'
import { lineTotal, toHundredths } from './totals.ts'

/** A number with at most so many decimals: as written, or off by what binary arithmetic leaves behind (0.1 + 0.2). */
export function decimals(places: number, min: number, max: number) {
  const rounded = (value: number) => Math.round(value * 10 ** places) / 10 ** places
  const isRounded = (value: number) => Math.abs(value - rounded(value)) <= Math.abs(value) * 4 * Number.EPSILON
  const message = `must have at most ${places} decimals`
  return z.number().check(z.minimum(min), z.maximum(max), z.refine(isRounded, message), z.overwrite(rounded))
}

/** The highest amount, in currency units. */
export const AMOUNT_MAX = 999_999_999.99

export const LIST_MAX = 500

/** As JSON with its search text, which may be three times as long, a list stays below D1's 2 MB for one value. */
export const LISTS_LIMIT_BYTES = 400_000

const shortText = z.nullish(trimmed(255))

const itemFields = {
  title: trimmed(255),
  description: z.nullish(text(0, 10_000)),
  quantity: withDefault(decimals(4, 0, 1_000_000), 1, 'At most 4 decimals.'),
  unit_price: withDefault(
    decimals(2, -AMOUNT_MAX, AMOUNT_MAX),
    0,
    'At most 2 decimals; negative for a credit. Times `quantity` at most 999,999,999.99.',
  ),
  taxable: withDefault(z.boolean(), true),
  supplier: shortText,
  style: shortText,
  color: shortText,
  size: shortText,
  sku: shortText,
}

export const hasPossibleTotal = z.refine<Record<'quantity' | 'unit_price', number>>(
  ({ quantity, unit_price }) =>
    Math.abs(lineTotal({ quantity, unit_price_cents: toHundredths(unit_price) })) <= toHundredths(AMOUNT_MAX),
  {
    path: ['unit_price'],
    when: ({ issues }) => issues.length === 0,
    error: `times \`quantity\` must be between -${AMOUNT_MAX} and ${AMOUNT_MAX}`,
  },
)

const ofLine = 'Of a line of this invoice, which keeps it. Without it the line is a new one.'
const newItem = { id: z.optional(id).check(z.describe(ofLine)), ...itemFields }
const item = component('NewInvoiceItem', 'A line of an invoice, as it is to be.', newItem, hasPossibleTotal)
const itemOfOrder = component('NewOrderItem', 'A line of an order that is sent with it.', itemFields, hasPossibleTotal)

const hasDistinctIds = (items: { id?: number | undefined }[]) => {
  const ids = items.flatMap((item) => item.id ?? [])
  return new Set(ids).size === ids.length
}

export const items = z
  .array(item)
  .check(z.maxLength(LIST_MAX), z.refine(hasDistinctIds, 'must not contain an `id` twice'))

const PAID_AT = 'must be a date such as 2026-01-31, or a date-time with an offset such as 2026-01-31T12:00:00Z'
export const paidAt = z.union([z.iso.date(PAID_AT), z.pipe(instant, z.transform(isoTime))], PAID_AT)

const paymentFields = {
  amount: decimals(2, 0.01, AMOUNT_MAX).check(z.describe('At most 2 decimals.')),
  method: shortText,
  paid_at: z.nullish(paidAt).check(z.describe('A date, or a date-time with an offset, which is stored in UTC.')),
  note: z.nullish(text(0, 10_000)),
}

export const newPayment = component('NewPayment', 'A payment on the invoice of an order.', paymentFields)

const changed = { ...paymentFields, amount: z.optional(paymentFields.amount) }
export const paymentChanges = changesOf('PaymentChanges', 'The fields of a payment to change.', changed)

export type NewPayment = z.output<typeof newPayment>
export type PaymentFields = z.output<typeof paymentChanges>

const ordersLists = {
  invoice_items: z
    .optional(z.array(itemOfOrder).check(z.maxLength(LIST_MAX)))
    .check(z.describe('The lines of the invoice, in their order.')),
  payments: z.optional(z.array(newPayment).check(z.maxLength(LIST_MAX))).check(z.describe('Its payments.')),
}

export const discountAmountType = z.pipe(
  z.enum(['percentage', 'fixed_amount', 'fixed', 'amount']),
  z.transform((type): 'percentage' | 'fixed_amount' => (type === 'percentage' ? type : 'fixed_amount')),
)

const DISCOUNT_AMOUNT_TYPE =
  '`percentage`: `discount_amount` is percent of the sum. `fixed_amount`: it is money, and never more than the sum is taken off. A negative sum has no discount. `fixed` and `amount` mean `fixed_amount`. Left out of a new order: `percentage`.'
const DISCOUNT_TYPE =
  '`before_tax`: taken off the sum of the lines, and the tax is on what is left; lines with `taxable` false bear their share. `after_tax`: taken off the sum of the lines and the tax. Left out of a new order: `before_tax`.'

const writable = {
  description: z
    .nullish(text(0, 10_000))
    .check(z.describe('Its first 4,000 characters are the private note of the accounting system.')),
  start_date: z
    .nullish(oneLine(64))
    .check(z.describe('One line of text in any form, stored as sent. A date such as `2027-03-01` is recommended.')),
  deadline: z
    .nullish(date)
    .check(z.describe('A date such as `2027-03-20`. Also copied to the due date of the invoice.')),
  status_id: z.optional(id).check(z.describe('A status of the company; read as `order_status_id`.')),
  client_notes: z.nullish(text(0, 10_000)).check(z.describe('Shown to the customer on the invoice.')),
  tax_id: z
    .nullish(z.int().check(z.nonnegative(), z.meta({ maximum: Number.MAX_SAFE_INTEGER })))
    .check(z.describe('A tax of the company; 0 or null for none.')),
  tax_exempt: z.optional(z.boolean()),
  tax_exempt_reason: z.nullish(trimmed(1000)),
  discount_amount: z
    .optional(decimals(2, 0, AMOUNT_MAX))
    .check(z.describe('Percent (0–100) or currency units; at most 2 decimals.')),
  discount_amount_type: z.optional(discountAmountType).check(z.describe(DISCOUNT_AMOUNT_TYPE)),
  discount_type: z.optional(z.enum(['before_tax', 'after_tax'])).check(z.describe(DISCOUNT_TYPE)),
  accounting_sync_enabled: z
    .optional(z.boolean())
    .check(z.describe('Overrides, for this request, the company’s setting of accounting sync.')),
}

const external_id = z.nullish(externalId).check(z.describe('Your own id, unique in the company; not `.` or `..`.'))

const DISCOUNT_FIELDS: unknown[] = ['discount_amount', 'discount_amount_type']

/** Reported along with issues of other fields; the amount and its type must be valid themselves. */
export const hasPossibleDiscount = (typeLeftOut?: 'percentage') =>
  z.refine<{ discount_amount?: number | undefined; discount_amount_type?: string | undefined }>(
    ({ discount_amount = 0, discount_amount_type = typeLeftOut }) =>
      discount_amount_type !== 'percentage' || discount_amount <= 100,
    {
      path: ['discount_amount'],
      error: 'must be at most 100 as a percentage: for an amount of money send discount_amount_type fixed_amount',
      when: ({ value, issues }) =>
        typeof value === 'object' && value !== null && !issues.some(({ path }) => DISCOUNT_FIELDS.includes(path?.[0])),
    },
  )

const OF_CLIENT =
  'Left out: as the client has it now, with its reason, also in a repeated PUT. Sent: the reason is the one sent with it, or null.'
const tax_exempt = writable.tax_exempt.check(z.describe(OF_CLIENT))
const whole = { title: trimmed(255), client_id: id, ...writable, tax_exempt, ...ordersLists }

const isPossible = hasPossibleDiscount('percentage')

const created = { ...whole, external_id }
export const newOrder = component('NewOrder', 'The fields of an order to create.', created, isPossible)

const REPLACED =
  'All fields of an order: one that is left out gets the value that a new order has, but a status and a list stay as they are.'
export const wholeOrder = component('WholeOrder', REPLACED, whole, isPossible)

const NOT_DELETED = { path: ['invoice_items'], error: 'must not be sent with `deleted` true' }
const DELETED =
  '`true` deletes the order and its invoice. `false` brings a deleted order back with the invoice that was deleted with it; a deleted order can only be restored. `true` cannot be sent with `invoice_items`.'
export const orderChanges = changesOf(
  'OrderChanges',
  'The fields of an order to change.',
  {
    title: z.optional(trimmed(255)),
    client_id: z.optional(id),
    ...writable,
    external_id,
    invoice_items: z.optional(items).check(z.describe('All lines of the invoice, as `putInvoiceItems` takes them.')),
    deleted: z.optional(z.boolean()).check(z.describe(DELETED)),
  },
  hasPossibleDiscount(),
  z.refine(({ deleted, invoice_items }) => !deleted || !invoice_items, NOT_DELETED),
)
export type NewOrder = z.output<typeof newOrder>
export type OrderFields = z.output<typeof orderChanges>
export type WholeOrder = z.output<typeof wholeOrder>

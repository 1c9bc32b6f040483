import * as z from 'zod/mini'
import { changesOf, component, id, instant, isoTime, text, trimmed, withDefault } from '../../kernel/api/contract.ts'
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

export const ordersLists = {
  invoice_items: z
    .optional(z.array(itemOfOrder).check(z.maxLength(LIST_MAX)))
    .check(z.describe('The lines of the invoice, in their order.')),
  payments: z.optional(z.array(newPayment).check(z.maxLength(LIST_MAX))).check(z.describe('Its payments.')),
}

import * as z from 'zod/mini'
import {
  amount,
  changesOf,
  component,
  date,
  dateTime,
  id,
  instant,
  isoTime,
  text,
  trimmed,
  version,
  withDefault,
} from '../../kernel/api/contract.ts'
import { client } from '../clients/contract.ts'
import { lineTotal, toHundredths } from './totals.ts'

export const project = component('Project', 'An order, also called project.', {
  id,
  title: z.string(),
  client_id: id,
  description: z.nullable(z.string()),
  start_date: z.nullable(z.string()).check(z.describe('As it was sent.')),
  deadline: z.nullable(z.string()).check(z.describe('A date.')),
  order_status_id: z.nullable(id),
  client_notes: z.nullable(z.string()).check(z.describe('Shown to the customer on the invoice.')),
  created_date: date.check(z.describe('In UTC.')),
  created_at: dateTime,
  updated_at: dateTime,
  deleted: z.boolean(),
  external_id: z.nullable(z.string()).check(z.describe('Your own id of the order, unique in the company.')),
  version,
})

export const invoice = component('Invoice', 'The default invoice of an order. Amounts are computed from its lines.', {
  id,
  project_id: id,
  number: z.string().check(z.describe('Unique in the company, ascending.')),
  due_date: z.nullable(z.string()),
  tax_id: z.nullable(id),
  tax_exempt: z.boolean().check(z.describe('Makes the tax 0 and keeps `tax_id`.')),
  tax_exempt_reason: z.nullable(z.string()),
  discount_amount: z.number().check(z.nonnegative()),
  discount_amount_type: z.enum(['percentage', 'fixed_amount']),
  discount_type: z.enum(['before_tax', 'after_tax']),
  subtotal: amount.check(z.describe('The sum of the line totals.')),
  discount_total: amount,
  tax_total: amount,
  total: amount.check(z.describe('`subtotal` − `discount_total` + `tax_total`.')),
  amount_paid: amount,
  balance_due: amount,
  deleted: z.boolean(),
})

export const invoiceItem = component('InvoiceItem', 'A line of an invoice.', {
  id,
  invoice_id: id,
  title: z.string(),
  description: z.nullable(z.string()),
  quantity: z.number(),
  unit_price: amount,
  total: amount.check(z.describe('`quantity` × `unit_price`, rounded half up.')),
  taxable: z.boolean(),
  supplier: z.nullable(z.string()),
  style: z.nullable(z.string()),
  color: z.nullable(z.string()),
  size: z.nullable(z.string()),
  sku: z.nullable(z.string()),
  position: z.int(),
  deleted: z.boolean(),
})

export const payment = component('Payment', 'A payment on an invoice.', {
  id,
  invoice_id: id,
  amount,
  method: z.nullable(z.string()),
  paid_at: z.nullable(z.string()),
  note: z.nullable(z.string()),
})

export const tax = component('Tax', 'A tax of the company.', {
  id,
  name: z.string(),
  rate: z.number().check(z.describe('Percent.')),
})

export const orderStatus = component('OrderStatus', 'A status of the company’s own list.', {
  id,
  title: z.string(),
  color: z.nullable(z.string()),
  workflow_key: z.nullable(z.string()),
  position: z.int(),
  is_default: z.boolean(),
})

const artwork = component('Artwork', 'An artwork of an order.', {
  id,
  project_id: id,
  name: z.string(),
  print_method: z.nullable(z.string()),
  placements: z.array(z.json()),
  colors: z.array(z.json()),
  preview_url: z.nullable(z.string()),
  status: z.nullable(z.string()),
})

const ACCOUNTING_STATUS =
  '`not_synced`: nothing was ever delivered. `pending`: a delivery or its retry is due. `synced`: every change with `accounting_sync_enabled` was delivered. `parked`: a person must look at it. `dead`: the accounting system refused it, or retries ran out. An edit of the order delivers a parked or dead one again.'
const accounting = component('OrderAccounting', 'The state of an order in the company’s accounting system.', {
  status: z.enum(['not_synced', 'pending', 'synced', 'parked', 'dead']).check(z.describe(ACCOUNTING_STATUS)),
  last_error: z.nullable(z.string()).check(z.describe('Why the last attempt failed; null when none is outstanding.')),
  synced_at: z.nullable(dateTime).check(z.describe('When the accounting system last accepted a change of this order.')),
})

export const fullOrder = component('Order', 'An order with everything that belongs to it.', {
  project,
  invoice: z.nullable(invoice),
  invoice_items: z.array(invoiceItem),
  payments: z.array(payment),
  client,
  tax: z.nullable(tax),
  order_status: z.nullable(orderStatus),
  artworks: z.array(artwork),
  accounting,
})

const { subtotal, discount_total, tax_total, total, amount_paid, balance_due } = invoice.shape
const totals = { subtotal, discount_total, tax_total, total, amount_paid, balance_due }

const expansions = {
  totals: z
    .optional(z.nullable(component('OrderTotals', 'The amounts of an order’s invoice.', totals)))
    .check(z.describe('With `expand=totals`; null without an invoice.')),
  client: z.optional(client).check(z.describe('With `expand=client`.')),
  invoice: z.nullish(invoice).check(z.describe('With `expand=invoice`, as the others by their names.')),
  invoice_items: z.optional(z.array(invoiceItem)),
  payments: z.optional(z.array(payment)),
  tax: z.nullish(tax),
  order_status: z.nullish(orderStatus),
  artworks: z.optional(z.array(artwork)),
}

export type Expansion = keyof typeof expansions

export const EXPANSIONS = Object.keys(expansions) as [Expansion, ...Expansion[]]

export const listedOrder = component('ListedOrder', 'An order in a list.', { ...project.shape, ...expansions })

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

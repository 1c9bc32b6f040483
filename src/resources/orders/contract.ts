import * as z from 'zod/mini'
import {
  changesOf,
  commaList,
  component,
  contractsOf,
  date,
  externalId,
  id,
  idList,
  idText,
  oneLine,
  text,
  trimmed,
  withDefault,
} from '../../kernel/api/contract.ts'
import { listOf, listQuery, pageOf, SORTS } from '../../kernel/api/list-query.ts'
import {
  AMOUNT_MAX,
  decimals,
  EXPANSIONS,
  fullOrder,
  invoice,
  invoiceItem,
  items,
  LISTS_LIMIT_BYTES,
  listedOrder,
  newPayment,
  orderStatus,
  ordersLists,
  payment,
  paymentChanges,
  project,
  tax,
} from './shapes.ts'

export const discountAmountType = z.pipe(
  z.enum(['percentage', 'fixed_amount', 'fixed', 'amount']),
  z.transform((type): 'percentage' | 'fixed_amount' => (type === 'percentage' ? type : 'fixed_amount')),
)

const DISCOUNT_AMOUNT_TYPE =
  '`percentage`: `discount_amount` is percent of the sum. `fixed_amount`: it is money, and never more than the sum is taken off. A negative sum has no discount. `fixed` and `amount` mean `fixed_amount`. Left out of a new order: `percentage`.'
const DISCOUNT_TYPE =
  '`before_tax`: taken off the sum of the lines, and the tax is on what is left; lines with `taxable` false bear their share. `after_tax`: taken off the sum of the lines and the tax. Left out of a new order: `before_tax`.'

const writable = {
  description: z.nullish(text(0, 10_000)).check(z.describe('Also the private note of the accounting system.')),
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
const hasPossibleDiscount = (typeLeftOut?: 'percentage') =>
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

const created = { ...whole, external_id }
const newOrder = component('NewOrder', 'The fields of an order to create.', created, hasPossibleDiscount('percentage'))

const REPLACED =
  'All fields of an order: one that is left out gets the value that a new order has, but a status and a list stay as they are.'
const wholeOrder = component('WholeOrder', REPLACED, whole, hasPossibleDiscount('percentage'))

const NOT_DELETED = { path: ['invoice_items'], error: 'must not be sent with `deleted` true' }
const DELETED =
  '`true` deletes the order and its invoice. `false` brings a deleted order back with the invoice that was deleted with it; a deleted order can only be restored. `true` cannot be sent with `invoice_items`.'
const orderChanges = changesOf(
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

const define = contractsOf('Orders', 'orders')
const one = {
  params: z.strictObject({ id: idText.check(z.describe('The id of the order (project).')) }),
  errors: ['not_found'],
} as const
const change = {
  ...one,
  errors: ['not_found', 'conflict', 'precondition_failed'],
  hasVersion: true,
  response: z.strictObject({ project, invoice: z.nullable(invoice) }),
} as const

/** The response also has the lists that were sent. */
const invoice_items = z.optional(z.array(invoiceItem)).check(z.describe('Where lines were sent.'))

export const listOrders = define('listOrders', 'GET /orders', {
  isPaged: true,
  query: listOf({
    ...listQuery,
    sort: z
      .optional(z.enum(SORTS))
      .check(
        z.describe(
          'The order; `-` for descending. Ties are ordered by `id`. Left out: newest `created_date` first, then the highest `id`.',
        ),
      ),
    q: z.optional(text(0, 200)).check(z.describe('Search text. Control characters count as spaces. Blank: no filter.')),
    client_id: z.optional(idText).check(z.describe('Only orders of this client.')),
    status: z
      .optional(idList(100))
      .check(z.describe('Orders with one of these status ids, at most 100: a comma list, or repeated; none twice.')),
    from: z.optional(date).check(z.describe('Only orders created on this date, in UTC, or later.')),
    to: z.optional(date).check(z.describe('Only orders created on this date, in UTC, or earlier.')),
    expand: z.optional(
      commaList(
        EXPANSIONS,
        `Comma list of what to add to each order, by its name in the full order: ${EXPANSIONS.join(', ')}. \`orders:read\` includes the client of an order.`,
      ),
    ),
  }),
  response: pageOf(listedOrder),
})

export type OrderList = z.output<typeof listOrders.query>

export const createOrder = define('createOrder', 'POST /orders', {
  body: newOrder,
  bodyLimitBytes: LISTS_LIMIT_BYTES,
  errors: ['conflict'],
  hasVersion: true,
  response: fullOrder,
})

export const readOrder = define('readOrder', 'GET /orders/{id}', {
  ...one,
  query: z.strictObject({
    deleted: withDefault(z.enum(['exclude', 'include']), 'exclude', '`include`: also a deleted order.'),
  }),
  hasEtag: true,
  hasVersion: true,
  response: fullOrder,
})

export const updateOrder = define('updateOrder', 'PATCH /orders/{id}', {
  ...change,
  body: orderChanges,
  bodyLimitBytes: LISTS_LIMIT_BYTES,
  response: z.strictObject({ ...change.response.shape, invoice_items }),
})

export const putOrder = define('putOrder', 'PUT /orders/by-external-id/{external_id}', {
  params: z.strictObject({ external_id: externalId.check(z.describe('Your own id of the order, percent-encoded.')) }),
  invalidParams: 'invalid_request',
  body: wholeOrder,
  bodyLimitBytes: LISTS_LIMIT_BYTES,
  createsOnly: true,
  errors: ['conflict', 'precondition_failed'],
  hasVersion: true,
  response: z.strictObject({
    ...change.response.shape,
    invoice_items,
    payments: z.optional(z.array(payment)).check(z.describe('Where payments were sent.')),
  }),
})

export const deleteOrder = define('deleteOrder', 'DELETE /orders/{id}', change)

export const putInvoiceItems = define('putInvoiceItems', 'PUT /orders/{id}/invoice-items', {
  ...change,
  body: component('NewInvoiceItems', 'All lines of an invoice, in their order.', { items }),
  bodyLimitBytes: LISTS_LIMIT_BYTES,
  response: z.strictObject({ invoice, invoice_items: z.array(invoiceItem) }),
})

export const listPayments = define('listPayments', 'GET /orders/{id}/payments', {
  ...one,
  response: z.strictObject({ data: z.array(payment) }),
})

const payments = { ...change, response: z.strictObject({ payment, invoice }) } as const

export const createPayment = define('createPayment', 'POST /orders/{id}/payments', { ...payments, body: newPayment })

const onePayment = {
  ...payments,
  params: z.strictObject({ ...one.params.shape, payment_id: idText.check(z.describe('The id of the payment.')) }),
} as const

export const updatePayment = define('updatePayment', 'PATCH /orders/{id}/payments/{payment_id}', {
  ...onePayment,
  body: paymentChanges,
})

export const deletePayment = define('deletePayment', 'DELETE /orders/{id}/payments/{payment_id}', onePayment)

export const listOrderStatuses = define('listOrderStatuses', 'GET /order-statuses', {
  response: z.strictObject({ data: z.array(orderStatus) }),
})

export const listTaxes = define('listTaxes', 'GET /taxes', {
  response: z.strictObject({ data: z.array(tax) }),
})

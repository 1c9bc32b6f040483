import * as z from 'zod/mini'
import {
  amount,
  commaList,
  component,
  date,
  dateTime,
  defineContract,
  externalId,
  id,
  idList,
  idText,
  namesAField,
  oneLine,
  pageOf,
  text,
  trimmed,
  version,
} from '../../kernel/api/contract.ts'
import { listOf, listQuery, SORTS } from '../../kernel/api/list-query.ts'
import { client } from '../clients/contract.ts'
import { AMOUNT_MAX, decimals, items, LISTS_LIMIT_BYTES, ordersLists } from './element-contract.ts'

const project = component('Project', 'An order, also called project.', {
  id,
  title: z.string(),
  client_id: id,
  description: z.nullable(z.string()),
  start_date: z.nullable(z.string()).check(z.describe('As it was sent.')),
  deadline: z.nullable(z.string()).check(z.describe('A date.')),
  order_status_id: z.nullable(id),
  client_notes: z.nullable(z.string()).check(z.describe('Shown to the customer on the invoice.')),
  created_date: date,
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

const tax = component('Tax', 'A tax of the company.', {
  id,
  name: z.string(),
  rate: z.number().check(z.describe('Percent.')),
})

const orderStatus = component('OrderStatus', 'A status of the company’s own list.', {
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
  '`not_synced`: nothing was ever delivered. `pending`: a delivery or its retry is due. `synced`: every change was delivered. `parked`: a person must look at it. `dead`: the accounting system refused it, or retries ran out. An edit of the order delivers a parked or dead one again.'
const accounting = component('OrderAccounting', 'The state of an order in the company’s accounting system.', {
  status: z.enum(['not_synced', 'pending', 'synced', 'parked', 'dead']).check(z.describe(ACCOUNTING_STATUS)),
  last_error: z.nullable(z.string()).check(z.describe('Why the last attempt failed; null when none is outstanding.')),
  synced_at: z.nullable(dateTime).check(z.describe('When the accounting system last accepted a change of this order.')),
})

const fullOrder = component('Order', 'An order with everything that belongs to it.', {
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

export const discountAmountType = z.pipe(
  z.enum(['percentage', 'fixed_amount', 'fixed', 'amount']),
  z.transform((type): 'percentage' | 'fixed_amount' => (type === 'percentage' ? type : 'fixed_amount')),
)

const writable = {
  description: z.nullish(text(0, 10_000)).check(z.describe('Also the private note of the accounting system.')),
  start_date: z.optional(oneLine(1, 64)).check(z.describe('An ISO date is recommended; stored as sent.')),
  deadline: z.optional(date).check(z.describe('Also copied to the due date of the invoice.')),
  status_id: z.optional(id).check(z.describe('A status of the company.')),
  client_notes: z.nullish(text(0, 10_000)).check(z.describe('Shown to the customer on the invoice.')),
  tax_id: z
    .nullish(z.int().check(z.nonnegative(), z.meta({ maximum: Number.MAX_SAFE_INTEGER })))
    .check(z.describe('A tax of the company; 0 or null for none.')),
  tax_exempt: z.optional(z.boolean()),
  tax_exempt_reason: z.nullish(trimmed(1000)),
  discount_amount: z
    .optional(decimals(2, 0, AMOUNT_MAX))
    .check(z.describe('Percent (0–100) or currency units; at most 2 decimals.')),
  discount_amount_type: z.optional(discountAmountType).check(z.describe('`fixed` and `amount` mean `fixed_amount`.')),
  discount_type: z.optional(z.enum(['before_tax', 'after_tax'])),
  accounting_sync_enabled: z
    .optional(z.boolean())
    .check(z.describe('Overrides, for this request, the company’s setting of accounting sync.')),
}

const external_id = z.nullish(externalId).check(z.describe('Your own id of the order, unique in the company.'))

/** Reported along with issues of other fields; the amount and its type must be valid themselves. */
const PERCENT_ISSUE = {
  path: ['discount_amount'],
  error: 'must be at most 100 as a percentage: for an amount of money send discount_amount_type fixed_amount',
  when: ({ value, issues }: z.core.ParsePayload) =>
    typeof value === 'object' && value !== null && !issues.some(({ path }) => DISCOUNT_FIELDS.includes(path?.[0])),
}
const DISCOUNT_FIELDS: unknown[] = ['discount_amount', 'discount_amount_type']

function isPossibleDiscount({ discount_amount }: { discount_amount?: unknown }, type: string | undefined): boolean {
  return type !== 'percentage' || typeof discount_amount !== 'number' || discount_amount <= 100
}

const isPossibleOrder = (body: { discount_amount?: unknown; discount_amount_type?: string | undefined }) =>
  isPossibleDiscount(body, body.discount_amount_type ?? 'percentage')

const required = { title: trimmed(255), client_id: id }

const newOrder = z
  .strictObject({ ...required, ...writable, external_id, ...ordersLists })
  .check(
    z.refine(isPossibleOrder, PERCENT_ISSUE),
    z.meta({ id: 'NewOrder', description: 'The fields of an order to create.' }),
  )

const wholeOrder = z.strictObject({ ...required, ...writable, ...ordersLists }).check(
  z.refine(isPossibleOrder, PERCENT_ISSUE),
  z.meta({
    id: 'WholeOrder',
    description:
      'All fields of an order: one that is left out gets the value that a new order has, but a status and a list stay as they are.',
  }),
)

const orderChanges = z
  .strictObject({
    title: z.optional(trimmed(255)),
    client_id: z.optional(id),
    ...writable,
    external_id,
    invoice_items: z.optional(items).check(z.describe('All lines of the invoice, as `putInvoiceItems` takes them.')),
    deleted: z
      .optional(z.boolean())
      .check(z.describe('`false` brings a deleted order and its invoice back, `true` deletes them.')),
  })
  .check(
    namesAField,
    z.refine((body) => isPossibleDiscount(body, body.discount_amount_type), PERCENT_ISSUE),
    z.meta({ id: 'OrderChanges', description: 'The fields of an order to change.', minProperties: 1 }),
  )

export type NewOrder = z.output<typeof newOrder>
export type OrderFields = z.output<typeof orderChanges>
export type WholeOrder = z.output<typeof wholeOrder>

const shared = { tag: 'Orders', path: '/orders', errors: [] } as const
const read = { ...shared, method: 'GET', permission: 'orders:read' } as const
const write = { ...shared, permission: 'orders:write' } as const
const one = {
  path: '/orders/{id}',
  params: z.strictObject({ id: idText.check(z.describe('The id of the order (project).')) }),
  errors: ['not_found'],
} as const
const change = {
  ...write,
  ...one,
  errors: ['not_found', 'conflict', 'precondition_failed'],
  hasVersion: true,
  response: z.strictObject({ project, invoice: z.nullable(invoice) }),
} as const

/** The response also has the lists that were sent. */
const invoice_items = z.optional(z.array(invoiceItem)).check(z.describe('Where lines were sent.'))

/** Parts that a list may add to its orders. */
export const EXPANSIONS = [
  'totals',
  'client',
  'invoice',
  'invoice_items',
  'payments',
  'tax',
  'order_status',
  'artworks',
] as const

export type Expansion = (typeof EXPANSIONS)[number]

const { subtotal, discount_total, tax_total, total, amount_paid, balance_due } = invoice.shape
const totals = { subtotal, discount_total, tax_total, total, amount_paid, balance_due }

export const listedOrder = component('ListedOrder', 'An order in a list.', {
  ...project.shape,
  totals: z
    .optional(z.nullable(component('OrderTotals', 'The amounts of an order’s invoice.', totals)))
    .check(z.describe('With `expand=totals`; null without an invoice.')),
  client: z.optional(client).check(z.describe('With `expand=client`.')),
  invoice: z.optional(z.nullable(invoice)).check(z.describe('With `expand=invoice`, as the others by their names.')),
  invoice_items: z.optional(z.array(invoiceItem)),
  payments: z.optional(z.array(payment)),
  tax: z.optional(z.nullable(tax)),
  order_status: z.optional(z.nullable(orderStatus)),
  artworks: z.optional(z.array(artwork)),
})

export const listOrders = defineContract({
  ...read,
  operationId: 'listOrders',
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
    q: z.optional(text(0, 200)).check(z.describe('Search text. Blank: no filter.')),
    client_id: z.optional(idText).check(z.describe('Only orders of this client.')),
    status: z
      .optional(idList(100))
      .check(z.describe('Only orders with one of these status ids, none twice: a comma list, or repeated.')),
    from: z.optional(date).check(z.describe('Only orders created on this date or later.')),
    to: z.optional(date).check(z.describe('Only orders created on this date or earlier.')),
    expand: z.optional(
      commaList(
        EXPANSIONS,
        `Comma list of what to add to each order, by its name in the full order: ${EXPANSIONS.join(', ')}.`,
      ),
    ),
  }),
  response: pageOf(listedOrder),
})

export type OrderList = z.output<typeof listOrders.query>

export const createOrder = defineContract({
  ...write,
  method: 'POST',
  operationId: 'createOrder',
  body: newOrder,
  bodyLimitBytes: LISTS_LIMIT_BYTES,
  errors: ['conflict'],
  hasVersion: true,
  response: fullOrder,
})

export const readOrder = defineContract({
  ...read,
  ...one,
  operationId: 'readOrder',
  query: z.strictObject({
    deleted: z
      ._default(z.enum(['exclude', 'include']), 'exclude')
      .check(z.meta({ default: 'exclude' }), z.describe('`include`: also a deleted order.')),
  }),
  hasEtag: true,
  hasVersion: true,
  response: fullOrder,
})

export const updateOrder = defineContract({
  ...change,
  method: 'PATCH',
  operationId: 'updateOrder',
  body: orderChanges,
  bodyLimitBytes: LISTS_LIMIT_BYTES,
  response: z.strictObject({ ...change.response.shape, invoice_items }),
})

export const putOrder = defineContract({
  ...write,
  method: 'PUT',
  path: '/orders/by-external-id/{external_id}',
  operationId: 'putOrder',
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

export const deleteOrder = defineContract({ ...change, method: 'DELETE', operationId: 'deleteOrder' })

export const listOrderStatuses = defineContract({
  ...read,
  path: '/order-statuses',
  operationId: 'listOrderStatuses',
  response: z.strictObject({ data: z.array(orderStatus) }),
})

export const listTaxes = defineContract({
  ...read,
  path: '/taxes',
  operationId: 'listTaxes',
  response: z.strictObject({ data: z.array(tax) }),
})

export const endpoints = [
  listOrders,
  createOrder,
  readOrder,
  updateOrder,
  putOrder,
  deleteOrder,
  listOrderStatuses,
  listTaxes,
]

import * as z from 'zod/mini'
import { client } from '../clients/contract.ts'
import {
  amount,
  date,
  dateTime,
  defineContract,
  id,
  idText,
  oneLine,
  pageOf,
  pageQuery,
  text,
  trimmed,
} from '../http/contract.ts'

const DISCOUNT_MAX = 999_999_999.99

const project = z
  .strictObject({
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
  })
  .check(z.meta({ id: 'Project', description: 'An order, also called project.' }))

const invoice = z
  .strictObject({
    id,
    project_id: id,
    number: z.string().check(z.describe('Per company, rising, no two alike.')),
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
  .check(
    z.meta({ id: 'Invoice', description: 'The default invoice of an order. Amounts are computed from its lines.' }),
  )

export const invoiceItem = z
  .strictObject({
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
  .check(z.meta({ id: 'InvoiceItem', description: 'A line of an invoice.' }))

const payment = z
  .strictObject({
    id,
    invoice_id: id,
    amount,
    method: z.nullable(z.string()),
    paid_at: z.nullable(z.string()),
    note: z.nullable(z.string()),
  })
  .check(z.meta({ id: 'Payment', description: 'A payment on an invoice.' }))

const tax = z
  .strictObject({ id, name: z.string(), rate: z.number().check(z.describe('Percent.')) })
  .check(z.meta({ id: 'Tax', description: 'A tax of the company.' }))

const orderStatus = z
  .strictObject({
    id,
    title: z.string(),
    color: z.nullable(z.string()),
    workflow_key: z.nullable(z.string()),
    position: z.int(),
    is_default: z.boolean(),
  })
  .check(z.meta({ id: 'OrderStatus', description: 'A status of the company’s own list.' }))

const artwork = z
  .strictObject({
    id,
    project_id: id,
    name: z.string(),
    print_method: z.nullable(z.string()),
    placements: z.array(z.json()),
    colors: z.array(z.json()),
    preview_url: z.nullable(z.string()),
    status: z.nullable(z.string()),
  })
  .check(z.meta({ id: 'Artwork', description: 'An artwork of an order.' }))

const accounting = z
  .strictObject({
    status: z
      .enum(['not_synced', 'pending', 'synced', 'parked', 'dead'])
      .check(
        z.describe(
          '`not_synced`: it was never told. `pending`: to be told, or tried again. `synced`: what was to be told has arrived. `parked`: a person must look at it. `dead`: it was refused, or tried too often. An edit of the order tells a parked or dead one anew.',
        ),
      ),
    last_error: z.nullable(z.string()).check(z.describe('Why the last try failed; null when nothing is open.')),
    synced_at: z.nullable(dateTime).check(z.describe('When the accounting system last took a change of this order.')),
  })
  .check(z.meta({ id: 'OrderAccounting', description: 'How an order stands with the company’s accounting system.' }))

const fullOrder = z
  .strictObject({
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
  .check(z.meta({ id: 'Order', description: 'An order with everything that belongs to it.' }))

const changed = z.strictObject({ project, invoice: z.nullable(invoice) })

/** As written, or off by what binary arithmetic leaves behind (0.1 + 0.2). */
function hasTwoDecimals(value: number): boolean {
  return Math.abs(value - Math.round(value * 100) / 100) <= value * 4 * Number.EPSILON
}

const discountAmount = z
  .number()
  .check(z.minimum(0), z.maximum(DISCOUNT_MAX), z.refine(hasTwoDecimals, 'must have at most 2 decimals'))

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
    .optional(discountAmount)
    .check(z.describe('Percent (0–100) or currency units; at most 2 decimals.')),
  discount_amount_type: z.optional(discountAmountType).check(z.describe('`fixed` and `amount` mean `fixed_amount`.')),
  discount_type: z.optional(z.enum(['before_tax', 'after_tax'])),
  accounting_sync_enabled: z
    .optional(z.boolean())
    .check(z.describe('Overrides, for this request, whether the company tells its accounting system.')),
}

interface DiscountFields {
  discount_amount?: number | undefined
  discount_amount_type?: string | undefined
}

/** Told beside all other issues, so it also meets bodies whose fields are wrong, or that are no object. */
const PERCENT_ISSUE = {
  path: ['discount_amount'],
  error: 'a percentage must be at most 100',
  when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null,
}

function isPossibleDiscount({ discount_amount }: DiscountFields, type: string | undefined): boolean {
  return type !== 'percentage' || typeof discount_amount !== 'number' || discount_amount <= 100
}

const newOrder = z.strictObject({ title: trimmed(255), client_id: id, ...writable }).check(
  z.refine((body) => isPossibleDiscount(body, body.discount_amount_type ?? 'percentage'), PERCENT_ISSUE),
  z.meta({ id: 'NewOrder', description: 'The fields of an order to create.' }),
)

const orderChanges = z.strictObject({ title: z.optional(trimmed(255)), client_id: z.optional(id), ...writable }).check(
  z.refine((body) => Object.keys(body).length > 0, 'must name at least one field to change'),
  z.refine((body) => isPossibleDiscount(body, body.discount_amount_type), PERCENT_ISSUE),
  z.meta({ id: 'OrderChanges', description: 'The fields of an order to change.', minProperties: 1 }),
)

export type NewOrder = z.output<typeof newOrder>
export type OrderFields = z.output<typeof orderChanges>

const orderKey = z.strictObject({ id: idText.check(z.describe('The id of the order (project).')) })

const shared = { tag: 'Orders', params: orderKey } as const

export const listOrders = defineContract({
  method: 'GET',
  path: '/orders',
  operationId: 'listOrders',
  tag: 'Orders',
  permission: 'orders:read',
  query: z.strictObject({
    ...pageQuery,
    client_id: z.optional(idText).check(z.describe('Only orders of this client.')),
    status: z.optional(idText).check(z.describe('Only orders with this order status id.')),
    from: z.optional(date).check(z.describe('Only orders created on this date or later.')),
    to: z.optional(date).check(z.describe('Only orders created on this date or earlier.')),
  }),
  response: pageOf(project),
  errors: [],
})

export const createOrder = defineContract({
  method: 'POST',
  path: '/orders',
  operationId: 'createOrder',
  tag: 'Orders',
  permission: 'orders:write',
  body: newOrder,
  response: fullOrder,
  errors: [],
})

export const readOrder = defineContract({
  ...shared,
  method: 'GET',
  path: '/orders/{id}',
  operationId: 'readOrder',
  permission: 'orders:read',
  response: fullOrder,
  errors: ['not_found'],
})

export const updateOrder = defineContract({
  ...shared,
  method: 'PATCH',
  path: '/orders/{id}',
  operationId: 'updateOrder',
  permission: 'orders:write',
  body: orderChanges,
  response: changed,
  errors: ['not_found'],
})

export const deleteOrder = defineContract({
  ...shared,
  method: 'DELETE',
  path: '/orders/{id}',
  operationId: 'deleteOrder',
  permission: 'orders:write',
  response: changed,
  errors: ['not_found'],
})

export const endpoints = [listOrders, createOrder, readOrder, updateOrder, deleteOrder]

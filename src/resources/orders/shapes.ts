import * as z from 'zod/mini'
import { amount, component, date, dateTime, id, version } from '../../kernel/api/contract.ts'
import { client } from '../clients/contract.ts'

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

export const status = component('OrderStatus', 'A status of the company’s own list.', {
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
  '`not_synced`: nothing was ever delivered. `pending`: a delivery or its retry is due. `synced`: every change with `accounting_sync_enabled` was delivered. `parked`: a person must look at it. `dead`: the accounting system refused it, or retries ran out. A change of the order for which accounting sync is enabled delivers a parked or dead one again.'
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
  order_status: z.nullable(status),
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
  order_status: z.nullish(status),
  artworks: z.optional(z.array(artwork)),
}

export type Expansion = keyof typeof expansions

export const EXPANSIONS = Object.keys(expansions) as [Expansion, ...Expansion[]]

export const listedOrder = component('ListedOrder', 'An order in a list.', { ...project.shape, ...expansions })

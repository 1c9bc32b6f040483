import type { Published } from '../../kernel/api/contract.ts'
import { exampleClient } from '../clients/contract.ts'
import { endpoints } from './contract.ts'
import { endpoints as invoices } from './invoice-contract.ts'

const exampleProject = {
  id: 44,
  title: 'Staff shirts',
  client_id: 17,
  description: 'Sand garments, embroidery. Bag and label by size.',
  start_date: '2026-06-13',
  deadline: '2026-07-01',
  order_status_id: 10,
  client_notes: null,
  created_date: '2026-06-11',
  created_at: '2026-06-11T18:52:00.000Z',
  updated_at: '2026-06-15T18:52:00.000Z',
  deleted: false,
  external_id: null,
  version: 1,
}

const exampleInvoice = {
  id: 44,
  project_id: 44,
  number: '1044',
  due_date: '2026-07-01',
  tax_id: 2,
  tax_exempt: false,
  tax_exempt_reason: null,
  discount_amount: 0,
  discount_amount_type: 'fixed_amount',
  discount_type: 'before_tax',
  subtotal: 1512,
  discount_total: 0,
  tax_total: 124.74,
  total: 1636.74,
  amount_paid: 756,
  balance_due: 880.74,
  deleted: false,
}

const exampleItem = {
  id: 440,
  invoice_id: 44,
  title: 'Trucker cap, gold',
  description: '112 Gold XL',
  quantity: 18,
  unit_price: 16.25,
  total: 292.5,
  taxable: true,
  supplier: 'supplier_b',
  style: '112',
  color: 'Gold',
  size: 'XL',
  sku: '112-GOL-XL',
  position: 1,
  deleted: false,
}

const exampleStatuses = [
  ['Quote', '#94a3b8', 'quote'],
  ['Quote sent', '#64748b', 'quote_sent'],
  ['Approved', '#0ea5e9', 'approved'],
  ['Art in progress', '#8b5cf6', 'artwork'],
  ['Proof sent', '#a855f7', 'proof_sent'],
  ['Garments ordered', '#f59e0b', 'garments_ordered'],
  ['In production', '#2563eb', 'production'],
  ['Quality check', '#14b8a6', 'quality_check'],
  ['Ready for pickup', '#22c55e', 'ready'],
  ['Completed', '#15803d', 'completed'],
  ['On hold', '#ef4444', 'on_hold'],
].map(([title, color, workflow_key], index) => {
  return { id: index + 1, title, color, workflow_key, position: index + 1, is_default: index === 0 }
})

const stateAndCityTax = { id: 2, name: 'State and city sales tax', rate: 8.25 }
const exampleTaxes = [
  { id: 1, name: 'State sales tax', rate: 6.25 },
  stateAndCityTax,
  { id: 3, name: 'Out of state', rate: 0 },
]

const newPayment = { amount: 100, method: 'card', paid_at: '2026-06-20T12:00:00.000Z' }
const examplePayment = { id: 802, invoice_id: 44, ...newPayment, note: null }

const exampleOrder = {
  project: exampleProject,
  invoice: exampleInvoice,
  invoice_items: [
    exampleItem,
    {
      ...exampleItem,
      id: 441,
      title: 'Canvas tote, light blue',
      description: 'Q125300 Light Blue 3XL',
      unit_price: 8.55,
      total: 153.9,
      style: 'Q125300',
      color: 'Light Blue',
      size: '3XL',
      sku: 'Q125300-LIG-3XL',
      position: 2,
    },
    {
      ...exampleItem,
      id: 442,
      title: 'Performance polo, navy',
      description: 'ST550 Navy S',
      quantity: 48,
      unit_price: 22.2,
      total: 1065.6,
      supplier: 'supplier_a',
      style: 'ST550',
      color: 'Navy',
      size: 'S',
      sku: 'ST550-NAV-S',
      position: 3,
    },
  ],
  payments: [
    { id: 440, invoice_id: 44, amount: 756, method: 'check', paid_at: '2026-06-12T18:52:00.000Z', note: 'Deposit' },
  ],
  client: exampleClient,
  tax: stateAndCityTax,
  order_status: exampleStatuses.find(({ id }) => id === exampleProject.order_status_id),
  artworks: [
    {
      id: 440,
      project_id: 44,
      name: 'Mascot C',
      print_method: 'direct to garment',
      placements: ['full back'],
      colors: ['PMS 123 C'],
      preview_url: 'https://art.ridgeline.example/previews/440.png',
      status: 'proof sent',
    },
  ],
  accounting: { status: 'not_synced', last_error: null, synced_at: null },
}

const discountedInvoice = {
  ...exampleInvoice,
  discount_amount: 10,
  discount_amount_type: 'percentage',
  discount_total: 151.2,
  tax_total: 112.27,
  total: 1473.07,
  balance_due: 717.07,
}

const newOrder = { title: 'Anniversary shirts 2026', client_id: 17, description: 'Navy, two-colour front print' }
const createdProject = {
  ...exampleProject,
  ...newOrder,
  id: 81,
  start_date: null,
  deadline: null,
  order_status_id: 1,
  created_date: '2026-11-20',
  created_at: '2026-11-20T20:40:00.000Z',
  updated_at: '2026-11-20T20:40:00.000Z',
}
const createdInvoice = {
  ...exampleInvoice,
  id: 81,
  project_id: 81,
  number: '1081',
  due_date: null,
  tax_id: null,
  discount_amount_type: 'percentage',
  subtotal: 0,
  tax_total: 0,
  total: 0,
  amount_paid: 0,
  balance_due: 0,
}
const createdOrder = {
  project: createdProject,
  invoice: createdInvoice,
  invoice_items: [],
  payments: [],
  client: exampleClient,
  tax: null,
  order_status: exampleStatuses.find(({ is_default }) => is_default),
  artworks: [],
  accounting: { status: 'pending', last_error: null, synced_at: null },
}

const newItem = { title: 'Hoodie, navy', quantity: 12, unit_price: 28 }
const createdItem = {
  ...exampleItem,
  ...newItem,
  id: 800,
  invoice_id: 82,
  description: null,
  total: 336,
  supplier: null,
  style: null,
  color: null,
  size: null,
  sku: null,
}

/** The invoice with that payment, before its discount. */
const paidInvoice = { ...exampleOrder.invoice, amount_paid: 856, balance_due: 780.74 }

export const published: Published = {
  tag: 'Orders, also called projects: each with its default invoice, items, payments, tax, status and artworks.',
  endpoints: [...endpoints, ...invoices],
  document: () => ({
    listOrders: {
      summary: 'List orders',
      description:
        'Newest `created_date` first, then the highest id, unless `sort` says otherwise. Deleted orders are hidden unless `deleted` says otherwise. `from` and `to` are both inclusive; filters can be combined. `q` finds a substring, ignoring case in any script, in the title, the invoice number or the company name of the client. `expand` adds to each order the amounts of its invoice (`totals`) and parts of the full order, under the names and with the content that they have there. A response has at most 10,000 lines, payments and artworks in all: a page ends early where the next order’s would not fit, and `next_cursor` goes on with that order. An order that has more is sent alone; a numbered `page` that would end early is refused. Cursors work as in `listClients`.',
      example: {
        query: { client_id: '17', per_page: 1 },
        response: {
          data: [exampleProject],
          pagination: {
            page: 1,
            per_page: 1,
            total: 3,
            next_cursor: 'Gnmk1g3mcY6OWzJuM4rlM1tbIjIwMjYtMDYtMTEiLDQ0LDNdLDE3OTUzNzI4MDBd',
            has_more: true,
          },
        },
      },
    },
    createOrder: {
      summary: 'Create an order',
      description:
        'Creates the order and its default invoice, with the next invoice number of the company, and the `invoice_items` and `payments` that are sent, in one transaction: at most 500 of each and 400,000 bytes. Without `status_id` the order gets the company’s default status. `client_id`, `status_id` and `tax_id` must be the company’s own and not deleted. When accounting sync is enabled, the change is delivered to the accounting system after the response.',
      example: {
        body: newOrder,
        response: createdOrder,
      },
    },
    readOrder: {
      summary: 'Read an order in full',
      description:
        'The project with its invoice, lines, payments, client, tax, status and artworks, and its state in the accounting system, in one response. A deleted order is found with `deleted=include`.',
      example: { params: { id: '44' }, response: exampleOrder },
    },
    updateOrder: {
      summary: 'Update an order',
      description:
        'Changes only the fields that are sent, in one transaction. `deleted: false` brings a deleted order and its invoice back, together with the other fields that are sent. `invoice_items` replaces all lines, as `putInvoiceItems` does. Fields of the invoice change the order’s default invoice; without one they are ignored and `invoice` is null. A discount amount or type that is sent alone is combined with the stored other.',
      example: {
        params: { id: '44' },
        body: { status_id: 11, discount_amount: 10, discount_amount_type: 'percentage' },
        response: {
          project: { ...exampleProject, order_status_id: 11, version: 4 },
          invoice: { ...discountedInvoice, amount_paid: 856, balance_due: 617.07 },
        },
      },
    },
    putOrder: {
      summary: 'Create or replace an order by your own id',
      description:
        'Creates the order with this `external_id` and its invoice, or replaces every field of the one that has it, in one transaction: a field that is left out gets the value that a new order has, and a deleted order is restored. What is left out of `status_id`, `invoice_items` and `payments` stays. Lines and payments that are sent replace the stored ones in their order, the first the first one, so that sent twice they are neither doubled nor written again. `If-None-Match: *` only creates, `If-Match` only replaces the version that it names; else 412. 409 for lines or payments of an order that has no invoice.',
      example: {
        params: { external_id: 'shop-1042' },
        body: { title: 'Staff hoodies', client_id: 17, invoice_items: [newItem], payments: [{ amount: 50 }] },
        response: {
          project: { ...createdProject, id: 82, title: 'Staff hoodies', description: null, external_id: 'shop-1042' },
          invoice: {
            ...createdInvoice,
            id: 82,
            project_id: 82,
            number: '1082',
            subtotal: 336,
            total: 336,
            amount_paid: 50,
            balance_due: 286,
          },
          invoice_items: [createdItem],
          payments: [{ id: 803, invoice_id: 82, amount: 50, method: null, paid_at: null, note: null }],
        },
      },
    },
    deleteOrder: {
      summary: 'Soft-delete an order',
      description:
        'Soft-deletes the order and its invoice. When accounting sync is enabled, the deletion is delivered to the accounting system after the response. A second deletion returns 404.',
      example: {
        params: { id: '81' },
        response: {
          project: { ...createdProject, deleted: true, version: 2 },
          invoice: { ...createdInvoice, deleted: true },
        },
      },
    },
    putInvoiceItems: {
      summary: 'Replace the lines of an order’s invoice',
      description:
        'The lines become exactly those of `items`, in their order. A line with the `id` of one of this invoice replaces that one and keeps the id, with defaults for what is left out; one without an `id` is new; those that are not in the list are deleted. At most 500 lines and 400,000 bytes; a search of products finds a line by its title and the first 200 characters of its description, within the first 40,000 characters of these of an invoice. The totals follow. When the company’s accounting sync is enabled, the change is delivered to the accounting system after the response. 409 where the order has no invoice.',
      example: {
        params: { id: '44' },
        body: {
          items: exampleOrder.invoice_items.map(({ invoice_id, total, position, deleted, ...item }) => item),
        },
        response: { invoice: paidInvoice, invoice_items: exampleOrder.invoice_items },
      },
    },
    listPayments: {
      summary: 'List the payments of an order',
      description: 'In the order of their ids.',
      example: { params: { id: '44' }, response: { data: exampleOrder.payments } },
    },
    createPayment: {
      summary: 'Record a payment',
      description:
        'Adds a payment to the order’s invoice: `amount_paid` and `balance_due` follow. A payment may be more than the balance. 409 where the order has no invoice.',
      example: {
        params: { id: '44' },
        body: newPayment,
        response: { payment: examplePayment, invoice: paidInvoice },
      },
    },
    updatePayment: {
      summary: 'Correct a payment',
      description: 'Changes only the fields that are sent; `amount_paid` and `balance_due` of the invoice follow.',
      example: {
        params: { id: '44', payment_id: '802' },
        body: { note: 'Second instalment' },
        response: { payment: { ...examplePayment, note: 'Second instalment' }, invoice: paidInvoice },
      },
    },
    deletePayment: {
      summary: 'Delete a payment',
      description: 'Removes the payment for good. The response has it as it was, and the invoice without it.',
      example: {
        params: { id: '44', payment_id: '802' },
        response: { payment: examplePayment, invoice: discountedInvoice },
      },
    },
    listOrderStatuses: {
      summary: 'List the order statuses',
      description:
        'The company’s own statuses by position: the values of `status_id`, and of `status` in the list of orders. A new order gets the first one with `is_default` unless it names another.',
      example: { response: { data: exampleStatuses } },
    },
    listTaxes: {
      summary: 'List the taxes',
      description: 'The company’s taxes: the values of `tax_id`.',
      example: { response: { data: exampleTaxes } },
    },
  }),
}

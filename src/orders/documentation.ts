import { exampleClient } from '../clients/documentation.ts'
import type { Documentation } from '../http/contract.ts'

const exampleProject = {
  id: 1207,
  title: 'Regatta shirts 2026',
  client_id: 42,
  description: 'Navy, two-colour front print',
  start_date: '2026-03-02',
  deadline: '2026-03-20',
  order_status_id: 3,
  client_notes: null,
  created_date: '2026-03-02',
  created_at: '2026-03-02T09:40:00.000Z',
  updated_at: '2026-03-02T09:40:00.000Z',
  deleted: false,
  external_id: null,
  version: 1,
}

const exampleInvoice = {
  id: 1180,
  project_id: 1207,
  number: '2044',
  due_date: '2026-03-20',
  tax_id: 1,
  tax_exempt: false,
  tax_exempt_reason: null,
  discount_amount: 10,
  discount_amount_type: 'percentage',
  discount_type: 'before_tax',
  subtotal: 570,
  discount_total: 57,
  tax_total: 42.32,
  total: 555.32,
  amount_paid: 100,
  balance_due: 455.32,
  deleted: false,
}

const exampleOrder = {
  project: exampleProject,
  invoice: exampleInvoice,
  invoice_items: [
    {
      id: 5310,
      invoice_id: 1180,
      title: 'Heavy cotton tee, navy',
      description: null,
      quantity: 60,
      unit_price: 9.5,
      total: 570,
      taxable: true,
      supplier: 'supplier_a',
      style: 'PC61',
      color: 'Navy',
      size: 'L',
      sku: null,
      position: 1,
      deleted: false,
    },
  ],
  payments: [
    { id: 901, invoice_id: 1180, amount: 100, method: 'card', paid_at: '2026-03-03T12:00:00.000Z', note: null },
  ],
  client: { ...exampleClient, website: null, phone: null, tax_exempt: false, tax_exempt_reason: null },
  tax: { id: 1, name: 'State sales tax', rate: 8.25 },
  order_status: {
    id: 3,
    title: 'In production',
    color: '#2563eb',
    workflow_key: 'production',
    position: 3,
    is_default: false,
  },
  artworks: [
    {
      id: 77,
      project_id: 1207,
      name: 'Oar crest',
      print_method: 'screen print',
      placements: ['front'],
      colors: ['white', 'red'],
      preview_url: null,
      status: 'approved',
    },
  ],
  accounting: { status: 'synced', last_error: null, synced_at: '2026-03-02T09:40:02.000Z' },
}

/** The published description of these endpoints, by operation. */
export const documentation = {
  listOrders: {
    summary: 'List orders',
    description:
      'Newest `created_date` first, then the highest id. Deleted orders are hidden. `from` and `to` are both inclusive.',
    example: {
      query: { client_id: '42', from: '2026-01-01' },
      response: {
        data: [exampleProject],
        pagination: { page: 1, per_page: 25, total: 1, next_cursor: null, has_more: false },
      },
    },
  },
  createOrder: {
    summary: 'Create an order',
    description:
      'Creates the order and its default invoice, with the next invoice number of the company, in one transaction. Without `status_id` the order gets the company’s default status. `client_id`, `status_id` and `tax_id` must be the company’s own and not deleted. When accounting sync is enabled, the change is delivered to the accounting system after the response.',
    example: {
      body: { title: 'Regatta shirts 2026', client_id: 42, description: 'Navy, two-colour front print' },
      response: exampleOrder,
    },
  },
  readOrder: {
    summary: 'Read an order in full',
    description:
      'The project with its invoice, lines, payments, client, tax, status and artworks, and its state in the accounting system, in one response.',
    example: { params: { id: '1207' }, response: exampleOrder },
  },
  updateOrder: {
    summary: 'Update an order',
    description:
      'Changes only the fields that are sent, in one transaction. Fields of the invoice change the order’s default invoice; without one they are ignored and `invoice` is null. A discount amount or type that is sent alone is combined with the stored other.',
    example: {
      params: { id: '1207' },
      body: { status_id: 3, discount_amount: 10, discount_amount_type: 'percentage' },
      response: { project: exampleProject, invoice: exampleInvoice },
    },
  },
  deleteOrder: {
    summary: 'Soft-delete an order',
    description:
      'Soft-deletes the order and its invoice. When accounting sync is enabled, the deletion is delivered to the accounting system after the response. A second deletion returns 404.',
    example: {
      params: { id: '1207' },
      response: { project: { ...exampleProject, deleted: true }, invoice: { ...exampleInvoice, deleted: true } },
    },
  },
  listOrderStatuses: {
    summary: 'List the order statuses',
    description:
      'The company’s own statuses by position: the values of `status_id`, and of `status` in the list of orders. A new order gets the first one with `is_default` unless it names another.',
    example: {
      response: {
        data: [
          {
            id: 3,
            title: 'In production',
            color: '#2266cc',
            workflow_key: 'production',
            position: 3,
            is_default: false,
          },
        ],
      },
    },
  },
  listTaxes: {
    summary: 'List the taxes',
    description: 'The company’s taxes: the values of `tax_id`.',
    example: { response: { data: [{ id: 1, name: 'Sales tax', rate: 8.25 }] } },
  },
} satisfies Record<string, Documentation>

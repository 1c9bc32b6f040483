import type { Documentation } from '../http/contract.ts'
import { exampleInvoice, exampleOrder, exampleProject } from './examples.ts'

/** What the published description says of these endpoints, by operation. */
export const documentation = {
  listOrders: {
    summary: 'List orders',
    description:
      'Newest `created_date` first, then the highest id. Deleted orders are hidden. `from` and `to` are both inclusive.',
    example: {
      query: { client_id: '42', from: '2026-01-01' },
      response: { data: [exampleProject], pagination: { page: 1, per_page: 25, total: 1 } },
    },
  },
  createOrder: {
    summary: 'Create an order',
    description:
      'Makes the order and its default invoice, with the next number of the company, in one transaction. The status is the company’s default when none is sent. `client_id`, `status_id` and `tax_id` must be the company’s own and not deleted. The accounting system is told afterwards when it is enabled; the answer does not wait for it.',
    example: {
      body: { title: 'Regatta shirts 2026', client_id: 42, description: 'Navy, two-colour front print' },
      response: exampleOrder,
    },
  },
  readOrder: {
    summary: 'Read an order in full',
    description:
      'The project with its invoice, lines, payments, client, tax, status and artworks, and how it stands with the accounting system, in one answer.',
    example: { params: { id: '1207' }, response: exampleOrder },
  },
  updateOrder: {
    summary: 'Update an order',
    description:
      'Changes only the fields that are sent, in one transaction. Fields of the invoice change the order’s default invoice; where there is none they are ignored and `invoice` is null. A discount amount or type that is sent alone is read with the stored other.',
    example: {
      params: { id: '1207' },
      body: { status_id: 3, discount_amount: 10, discount_amount_type: 'percentage' },
      response: { project: exampleProject, invoice: exampleInvoice },
    },
  },
  deleteOrder: {
    summary: 'Soft-delete an order',
    description:
      'Soft-deletes the order and its invoice, and tells the accounting system when it is enabled. A second time answers 404.',
    example: {
      params: { id: '1207' },
      response: { project: { ...exampleProject, deleted: true }, invoice: { ...exampleInvoice, deleted: true } },
    },
  },
} satisfies Record<string, Documentation>

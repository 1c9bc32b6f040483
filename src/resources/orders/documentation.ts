import type { Documentation } from '../../kernel/api/contract.ts'
import {
  createdInvoice,
  createdItem,
  createdOrder,
  createdProject,
  discountedInvoice,
  exampleOrder,
  examplePayment,
  exampleProject,
  exampleStatuses,
  exampleTaxes,
  newItem,
  newOrder,
  newPayment,
  paidInvoice,
} from './examples.ts'

export const published = {
  tags: {
    Orders: 'Orders, also called projects: each with its default invoice, items, payments, tax, status and artworks.',
  },
  document: (): Record<string, Documentation> => ({
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
      example: { body: newOrder, response: createdOrder },
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
        'Changes only the fields that are sent, in one transaction. `deleted: false` brings a deleted order and its invoice back, together with the other fields that are sent. An invoice that the accounting system has voided meanwhile cannot be changed there: a person must, and `accounting.status` is `dead`. `invoice_items` replaces all lines, as `putInvoiceItems` does. Fields of the invoice change the order’s default invoice; without one they are ignored and `invoice` is null. A discount amount or type that is sent alone is combined with the stored other.',
      example: {
        params: { id: '44' },
        body: { status_id: 11, discount_amount: 10, discount_amount_type: 'percentage' },
        response: {
          project: { ...exampleProject, order_status_id: 11, version: 4 },
          invoice: { ...discountedInvoice, amount_paid: 250, balance_due: 34.97 },
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
        params: { id: '44', payment_id: '440' },
        body: { note: 'Half in advance' },
        response: {
          payment: { ...exampleOrder.payments[0], note: 'Half in advance' },
          invoice: { ...discountedInvoice, amount_paid: 250, balance_due: 34.97 },
        },
      },
    },
    deletePayment: {
      summary: 'Delete a payment',
      description: 'Removes the payment for good. The response has it as it was, and the invoice without it.',
      example: {
        params: { id: '44', payment_id: '440' },
        response: {
          payment: { ...exampleOrder.payments[0], note: 'Half in advance' },
          invoice: { ...discountedInvoice, amount_paid: 100, balance_due: 184.97 },
        },
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

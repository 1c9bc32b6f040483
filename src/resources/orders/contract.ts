import * as z from 'zod/mini'
import {
  commaList,
  component,
  contractsOf,
  type Documentation,
  date,
  externalId,
  idList,
  idText,
  text,
  withDefault,
} from '../../kernel/api/contract.ts'
import { listOf, listQuery, pageOf, SORTS } from '../../kernel/api/list-query.ts'
import { items, LISTS_LIMIT_BYTES, newOrder, newPayment, orderChanges, paymentChanges, wholeOrder } from './bodies.ts'
import { EXPANSIONS, fullOrder, invoice, invoiceItem, listedOrder, payment, project, status, tax } from './shapes.ts'

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
  response: z.strictObject({ data: z.array(status) }),
})

export const listTaxes = define('listTaxes', 'GET /taxes', {
  response: z.strictObject({ data: z.array(tax) }),
})

/* The examples are of the sample company, which `npm run dev` serves. */

export const published = {
  tags: {
    Orders: 'Orders, also called projects: each with its default invoice, items, payments, tax, status and artworks.',
  },
  document: (): Record<string, Documentation> => ({
    listOrders: {
      summary: 'List orders',
      description:
        'Newest `created_date` first, then the highest id, unless `sort` says otherwise. Deleted orders are hidden unless `deleted` says otherwise. `from` and `to` are both inclusive; filters can be combined. `q` finds a substring, ignoring case in any script, in the title, the invoice number or the company name of the client. `expand` adds to each order the amounts of its invoice (`totals`) and parts of the full order, under the names and with the content that they have there. A response has at most 10,000 lines, payments and artworks in all, and 1,000,000 characters of each of the three: a page ends early where the next order’s would not fit, and `next_cursor` goes on with that order. An order that has more is sent alone; a numbered `page` that would end early is refused. The first page, without a number, may end early: `page=2` would then leave orders out. Cursors work as in `listClients`.',
      example: { query: { client_id: '17', per_page: 1 } },
    },
    createOrder: {
      summary: 'Create an order',
      description:
        'Creates the order and its default invoice, with the next invoice number of the company, and the `invoice_items` and `payments` that are sent, in one transaction: at most 500 of each and 400,000 bytes. Without `status_id` the order gets the company’s default status. `client_id`, `status_id` and `tax_id` must be the company’s own and not deleted. When accounting sync is enabled, the change is delivered to the accounting system after the response.',
      example: {
        body: { title: 'Anniversary shirts 2026', client_id: 17, description: 'Navy, two-colour front print' },
      },
    },
    readOrder: {
      summary: 'Read an order in full',
      description:
        'The project with its invoice, lines, payments, client, tax, status and artworks, and its state in the accounting system, in one response. A deleted order is found with `deleted=include`.',
      example: { params: { id: '44' } },
    },
    updateOrder: {
      summary: 'Update an order',
      description:
        'Changes only the fields that are sent, in one transaction. `deleted: false` brings a deleted order and its invoice back, together with the other fields that are sent. An invoice that the accounting system has voided meanwhile cannot be changed there: a person must, and `accounting.status` is `dead`, or `parked` where the client is another one by now. `invoice_items` replaces all lines, as `putInvoiceItems` does. Fields of the invoice change the order’s default invoice; without one they are ignored and `invoice` is null, but `invoice_items` is a 409 then. A discount amount or type that is sent alone is combined with the stored other.',
      example: {
        params: { id: '44' },
        body: { status_id: 11, discount_amount: 10, discount_amount_type: 'percentage' },
      },
    },
    putOrder: {
      summary: 'Create or replace an order by your own id',
      description:
        'Creates the order with this `external_id` and its invoice, or replaces every field of the one that has it, in one transaction: a field that is left out gets the value that a new order has, and a deleted order is restored. What is left out of `status_id`, `invoice_items` and `payments` stays. Lines and payments that are sent replace the stored ones in their order, the first the first one, so that sent twice they are neither doubled nor written again. `If-None-Match: *` only creates, `If-Match` only replaces the version that it names; else 412. 409 for lines or payments of an order that has no invoice.',
      example: {
        params: { external_id: 'shop-1042' },
        body: {
          title: 'Staff hoodies',
          client_id: 17,
          invoice_items: [{ title: 'Hoodie, navy', quantity: 12, unit_price: 28 }],
          payments: [{ amount: 50 }],
        },
      },
    },
    deleteOrder: {
      summary: 'Soft-delete an order',
      description:
        'Soft-deletes the order and its invoice. When the company’s accounting sync is enabled, the deletion is delivered to the accounting system after the response; else `updateOrder` with `deleted` and `accounting_sync_enabled` delivers it. A second deletion returns 404.',
      example: { params: { id: '81' } },
    },
    putInvoiceItems: {
      summary: 'Replace the lines of an order’s invoice',
      description:
        'The lines become exactly those of `items`, in their order. A line with the `id` of one of this invoice replaces that one and keeps the id, with defaults for what is left out; one without an `id` is new; those that are not in the list are deleted. At most 500 lines and 400,000 bytes; a search of products finds a line by its title and the first 200 characters of its description, within the first 40,000 characters of these of an invoice. The totals follow. When the company’s accounting sync is enabled, the change is delivered to the accounting system after the response. 409 where the order has no invoice.',
      example: {
        params: { id: '44' },
        body: {
          items: [
            {
              id: 440,
              title: 'Trucker cap, gold',
              description: '112 Gold XL',
              quantity: 18,
              unit_price: 16.25,
              taxable: true,
              supplier: 'supplier_b',
              style: '112',
              color: 'Gold',
              size: 'XL',
              sku: '112-GOL-XL',
            },
          ],
        },
      },
    },
    listPayments: {
      summary: 'List the payments of an order',
      description: 'In the order of their ids.',
      example: { params: { id: '44' } },
    },
    createPayment: {
      summary: 'Record a payment',
      description:
        'Adds a payment to the order’s invoice: `amount_paid` and `balance_due` follow. A payment may be more than the balance. An order has at most 500 payments, whose notes have at most 400,000 bytes in all: 409 `payments_limit` over it. 409 where the order has no invoice.',
      example: { params: { id: '44' }, body: { amount: 100, method: 'card', paid_at: '2026-06-20T12:00:00.000Z' } },
    },
    updatePayment: {
      summary: 'Correct a payment',
      description:
        'Changes only the fields that are sent; `amount_paid` and `balance_due` of the invoice follow. 409 `payments_limit` for a note by which all would have more than 400,000 bytes.',
      example: { params: { id: '44', payment_id: '440' }, body: { note: 'Half in advance' } },
    },
    deletePayment: {
      summary: 'Delete a payment',
      description: 'Removes the payment for good. The response has it as it was, and the invoice without it.',
      example: { params: { id: '44', payment_id: '440' } },
    },
    listOrderStatuses: {
      summary: 'List the order statuses',
      description:
        'The company’s own statuses by position: the values of `status_id`, and of `status` in the list of orders. A new order gets the first one with `is_default` unless it names another.',
    },
    listTaxes: {
      summary: 'List the taxes',
      description: 'The company’s taxes: the values of `tax_id`.',
    },
  }),
}

import * as z from 'zod/mini'
import { component, contractsOf, type Documentation } from '../../kernel/api/contract.ts'
import { createClient } from '../clients/contract.ts'
import { putThreadContext } from '../mail/contract.ts'
import { createOrder, createPayment, putInvoiceItems, putOrder, updateOrder } from '../orders/contract.ts'

export const OPERATIONS_MAX = 100

const BODIES = [
  ...['NewClient', 'NewOrder', 'ClientChanges', 'OrderChanges', 'WholeClient', 'WholeOrder', 'NewInvoiceItems'],
  ...['NewPayment', 'PaymentChanges', 'ThreadContextBody'],
]

/** Refers to a named schema of the published description. */
const reference = (name: string) => ({ $ref: `#/$defs/${name}` })

/** Any value passes: an invalid body is an error of its operation, not of the batch. */
const operationBody = z.unknown().check(
  z.meta({
    description:
      'The body of the request; left out for DELETE. In place of any value it may have `{ "$ref": "0.client.id" }`: the value that the result of an earlier operation has at this path, here `client.id` of the first.',
    anyOf: [...BODIES.map(reference), { type: 'object', additionalProperties: true }],
  }),
)

const operation = component('BatchOperation', 'One change: what its own request would be.', {
  // Any value passes, as for `body`: an unknown method is an error of its operation.
  method: z.unknown().check(z.meta({ enum: ['POST', 'PATCH', 'PUT', 'DELETE'] })),
  // An external id of 255 characters may have 3,060 when it is encoded.
  path: z
    .string()
    .check(
      z.maxLength(4_000),
      z.describe(
        '`/clients` or `/orders` to create, `/clients/{id}` or `/orders/{id}` to update or delete, `/clients/by-external-id/{external_id}` or `/orders/by-external-id/{external_id}` to create or replace; also `/orders/{id}/invoice-items`, `/orders/{id}/payments`, `/orders/{id}/payments/{payment_id}`, and `/mail/threads/{legacyThreadId}` to create or replace. Without a query or a trailing slash.',
      ),
    ),
  body: z.optional(operationBody),
  if_match: z.optional(
    z.string().check(z.maxLength(2_000), z.describe('The `If-Match` of the request: versions in double quotes.')),
  ),
})

const batch = component('Batch', 'Changes of clients, orders and thread contexts.', {
  operations: z.array(operation).check(z.minLength(1), z.maxLength(OPERATIONS_MAX)),
})

export type BatchOperation = z.output<typeof operation>

const result = component('BatchResult', 'What became of one operation.', {
  status: z.int().check(z.describe('The status that its own request would have had.')),
  body: z
    // A full order comes first, since it fits the two after it as well.
    .union([
      createOrder.response,
      putOrder.response,
      updateOrder.response,
      createClient.response,
      putInvoiceItems.response,
      createPayment.response,
      putThreadContext.response,
      // The schema of errors is not part of the Worker, so the reference is by name.
      z.unknown().check(z.meta(reference('ErrorResponse'))),
    ])
    .check(z.describe('The body of that response; an error’s where the status is not 200.')),
  transaction: z
    .nullable(z.int().check(z.positive()))
    .check(z.describe('Operations with the same number were committed together; null where nothing was changed.')),
})

const define = contractsOf('Batch', null)

export const runBatch = define('runBatch', 'POST /batch', {
  body: batch,
  countRequests: (body: z.output<typeof batch>) => body.operations.length,
  response: z.strictObject({
    results: z.array(result).check(z.describe('One for each operation, in their order.')),
    transactions: z.int().check(z.nonnegative(), z.describe('In how many transactions they were committed.')),
  }),
  errors: ['conflict'],
})

export const published = {
  tags: { Batch: 'Many changes of clients, orders and thread contexts in one request.' },
  document: (): Record<string, Documentation> => ({
    runBatch: {
      summary: 'Change many clients, orders and thread contexts',
      description:
        'Carries out 1 to 100 operations in their order, each with the rules, the permission and the result of its own request: one that is wrong gets its error, the others go on. An operation of another form, such as one with a field beside `method`, `path`, `body` and `if_match`, is a 400 for the whole batch; a method or path that a batch does not take is a 400 of its operation. All are committed in one transaction, or in several where their texts have more than 40,000 characters together (of each text, the first 255 count; a reference counts as 255, and replacing the lines of an order as 5,000 more) or the database refuses one of them (such as a taken `external_id`): `transaction` tells which were committed together. An operation may name what an earlier one returns, so that a new client and its order go together: `"client_id": { "$ref": "0.client.id" }`. It then runs in a later transaction than that one, after all operations that name nothing; where the other failed, it fails too. All references together may name 1,048,576 characters: 413 for an operation over that. A batch counts as its number of operations against the rate limit, and is refused as a whole where less is left. After a lost response, send it again with the same `Idempotency-Key`: what was carried out is not carried out again, the rest is. An operation that was refused with 409 (but `invoice_missing` of an operation by the order’s id), 412 or 413 is tried again, and so is one whose reference names such an operation. One refused with another status, such as 400 for an unknown status of orders, is refused again: correct it and send it with a new key.',
      example: {
        body: {
          operations: [
            { method: 'POST', path: '/clients', body: { company_name: 'Granite Street Climbing' } },
            { method: 'PATCH', path: '/clients/17', body: { phone: null }, if_match: '"7"' },
          ],
        },
      },
    },
  }),
}

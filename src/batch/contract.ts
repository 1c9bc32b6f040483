import * as z from 'zod/mini'
import { component, defineContract } from '../http/contract.ts'

/** How many operations a batch may have. */
export const OPERATIONS_MAX = 100

const operation = component('BatchOperation', 'One change: what its own request would be.', {
  method: z.enum(['POST', 'PATCH', 'PUT']),
  path: z
    .string()
    .check(
      z.maxLength(2_000),
      z.describe(
        '`/clients` or `/orders` to create, `/clients/{id}` or `/orders/{id}` to update, `/clients/by-external-id/{external_id}` to create or replace.',
      ),
    ),
  body: z.unknown().check(z.describe('The body of the request.')),
  if_match: z.optional(z.string().check(z.maxLength(2_000), z.describe('The `If-Match` of the request.'))),
})

const batch = component('Batch', 'Changes of clients and orders.', {
  operations: z.array(operation).check(z.minLength(1), z.maxLength(OPERATIONS_MAX)),
})

export type BatchOperation = z.output<typeof operation>

const result = component('BatchResult', 'What became of one operation.', {
  status: z.int().check(z.describe('The status that its own request would have had.')),
  body: z.unknown().check(z.describe('The body of that response; an error’s where the status is not 200.')),
  transaction: z
    .nullable(z.int().check(z.positive()))
    .check(z.describe('Operations with the same number were committed together; null where nothing was changed.')),
})

export const runBatch = defineContract({
  method: 'POST',
  path: '/batch',
  operationId: 'runBatch',
  tag: 'Batch',
  permission: null,
  body: batch,
  countRequests: (body: z.output<typeof batch>) => body.operations.length,
  response: z.strictObject({
    results: z.array(result).check(z.describe('One for each operation, in their order.')),
    transactions: z.int().check(z.nonnegative(), z.describe('In how many transactions they were committed.')),
  }),
  errors: ['conflict'],
})

export const endpoints = [runBatch]

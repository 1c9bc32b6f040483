import { Buffer } from 'node:buffer'
import type { RequestContext } from '../../kernel/api/context.ts'
import { type Operation, refuseCondition, requirePermission, route } from '../../kernel/api/endpoint.ts'
import { decodePath, invalidInput, invalidPath } from '../../kernel/api/input.ts'
import { type Outcome, type Planned, runWrites } from '../../kernel/db/idempotency.ts'
import { versionsOf } from '../../kernel/db/refusals.ts'
import { ERRORS, errorBody, invalid, tooLarge } from '../../kernel/http/errors.ts'
import { operations as clients } from '../clients/routes.ts'
import { operations as mail } from '../mail/routes.ts'
import { operations as orders } from '../orders/routes.ts'
import * as contract from './contract.ts'
import { positionsOf, REFERENCE, resolveReferences } from './references.ts'

const all: Operation[] = [...clients, ...orders, ...mail]
const operations = all.map((operation) => {
  const pattern = operation.contract.path.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/?#]+)')
  return { operation, pattern: new RegExp(`^${pattern}$`) }
})
const byMethod = Map.groupBy(all, ({ contract }): string => contract.method)

export const routes = [
  route(contract.runBatch, async ({ body }, context) => {
    const lengths: number[] = []
    const plans = body.operations.map((sent, position) => planOf(sent, position, lengths))
    const outcomes = await runWrites(context, plans)
    const results = outcomes.map((outcome, position) => present(outcome, context, body.operations[position]))
    return { results, transactions: Math.max(0, ...results.map(({ transaction }) => transaction ?? 0)) }
  }),
]

type Reply = { body: unknown }

function planOf(sent: contract.BatchOperation, position: number, lengths: number[]): Planned<Reply, RequestContext> {
  const { items, invoice_items } = Object(sent.body)
  // A new order has no lines to remove.
  const removed = sent.method !== 'POST' && (items ?? invoice_items) ? LINES_REMOVED : 0
  let input: ReturnType<typeof inputOf> | undefined
  return {
    needs: positionsOf(sent.body, position),
    weight: weightOf(sent.body) + removed,
    build: (context, outcomeOf) => {
      const { operation, segments } = find(sent)
      requirePermission(context, operation.contract.permission)
      const params = Object.fromEntries(
        segments.map(([name, segment]) => [name, decodePath(segment, operation.contract.invalidParams)]),
      )
      if (sent.if_match !== undefined) refuseCondition(operation.contract, 'if_match')
      // A batch may build it many times, always from the same outcomes.
      input ??= inputOf(operation, params, resolveReferences(sent.body, position, outcomeOf, lengths))
      // Otherwise the write would name the header.
      versionsOf(sent.if_match ?? null, 'if_match')
      return operation.write(input, { ...context, ifMatch: sent.if_match ?? null, ifNoneMatch: null })
    },
  }
}

/** How many lines leave the index is unknown: with this, those of at most eight orders, which takes about a second. */
const LINES_REMOVED = 5_000

/** A name or title has at most so many characters, and a reference may name one. */
const TEXT_MAX = 255
const LINES_DEPTH = 2

/** Estimates the characters that the database indexes. */
function weightOf(value: unknown, depth = 0): number {
  if (typeof value === 'string') return Math.min(value.length, TEXT_MAX)
  if (typeof value !== 'object' || value === null) return 0
  if (REFERENCE in value) return TEXT_MAX
  // Lines are indexed, what is deeper is not.
  if (depth > LINES_DEPTH) return 0
  return Object.values(value).reduce((sum: number, each) => sum + weightOf(each, depth + 1), 0)
}

function present(outcome: Outcome<Reply>, { url }: RequestContext, sent?: contract.BatchOperation) {
  if ('value' in outcome) return { status: 200, body: outcome.value.body, transaction: outcome.transaction }
  const { error } = outcome
  const { operationId } = (sent && match(sent)?.operation.contract) ?? contract.runBatch
  return { status: ERRORS[error.kind].status, body: errorBody(error, url, operationId), transaction: null }
}

function match({ method, path }: contract.BatchOperation) {
  for (const { operation, pattern } of operations) {
    const found = operation.contract.method === method ? pattern.exec(path) : null
    if (found) return { operation, segments: Object.entries(found.groups ?? {}) }
  }
  return undefined
}

/** @throws ApiError 400 for what a batch does not take */
function find(sent: contract.BatchOperation) {
  const found = match(sent)
  if (found) return found
  const ofMethod = typeof sent.method === 'string' ? byMethod.get(sent.method) : undefined
  if (!ofMethod) throw invalid([{ path: 'method', message: `must be one of ${[...byMethod.keys()].join(', ')}` }])
  const paths = ofMethod.map(({ contract }) => contract.path).join(', ')
  throw invalid([{ path: 'path', message: `must be one of ${paths} with the method ${sent.method}` }])
}

/** @throws ApiError as the operation's own request would return it */
function inputOf(operation: Operation, params: unknown, body: unknown) {
  const { invalidParams, bodyLimitBytes, ...schemas } = operation.contract
  const parsedParams = schemas.params?.safeParse(params)
  if (parsedParams?.success === false) throw invalidPath(invalidParams, parsedParams.error.issues)
  const isTooLarge = bodyLimitBytes !== undefined && Buffer.byteLength(JSON.stringify(body ?? null)) > bodyLimitBytes
  if (isTooLarge) throw tooLarge(bodyLimitBytes)
  const parsedBody = schemas.body?.safeParse(body)
  if (parsedBody?.success === false) throw invalidInput('body', parsedBody.error.issues)
  return { params: parsedParams?.data, query: {}, body: parsedBody?.data }
}

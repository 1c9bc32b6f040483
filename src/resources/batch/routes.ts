import type { RequestContext } from '../../kernel/api/context.ts'
import { invalidInput, type Operation, requirePermission, route } from '../../kernel/api/endpoint.ts'
import { type Outcome, runWrites, type Write } from '../../kernel/db/idempotency.ts'
import { ApiError, ERRORS, errorBody, invalid, notFound } from '../../kernel/http/errors.ts'
import { operations as clients } from '../clients/operations.ts'
import { operations as orders } from '../orders/operations.ts'
import * as contract from './contract.ts'

/** The operations that a batch may contain. */
const BATCHED = ['createClient', 'updateClient', 'putClient', 'createOrder', 'updateOrder']

const operations: Operation[] = [...clients, ...orders].filter((each) => BATCHED.includes(each.contract.operationId))
const names = operations.map((each) => `${each.contract.method} ${each.contract.path}`)

export const routes = [
  route(contract.runBatch, async ({ body }, context) => {
    const outcomes = await runWrites(
      context,
      body.operations.map((each) => writeOf(each, context)),
      body.operations.map(weightOf),
    )
    const results = outcomes.map(present)
    return { results, transactions: Math.max(0, ...results.map(({ transaction }) => transaction ?? 0)) }
  }),
]

/** Estimates the characters that the database indexes; a text counts at most as much as a name or title may have. */
function weightOf({ body }: contract.BatchOperation): number {
  const texts = Object.values(body ?? {}).filter((value) => typeof value === 'string')
  return texts.reduce((sum, { length }) => sum + Math.min(length, 255), 0)
}

type Reply = { body: unknown }

function present(outcome: Outcome<Reply>) {
  if ('value' in outcome) return { status: 200, body: outcome.value.body, transaction: outcome.transaction }
  const { error } = outcome
  return { status: ERRORS[error.kind].status, body: errorBody(error), transaction: null }
}

/** Builds an operation's write, or the error that its own request would have had before any database access. */
function writeOf(
  sent: contract.BatchOperation,
  context: RequestContext,
): ((context: RequestContext) => Write<Reply>) | ApiError {
  try {
    const { operation, input } = parse(sent, context)
    const build = (own: RequestContext) =>
      operation.write(input, { ...own, ifMatch: sent.if_match ?? null, ifNoneMatch: null })
    // This throws for an invalid path.
    build(context)
    return build
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
}

/** @throws ApiError as the operation's own request would return it */
function parse({ method, path, body }: contract.BatchOperation, context: RequestContext) {
  const found = operations.flatMap((operation) => {
    const params = operation.contract.method === method ? matchPath(operation.contract.path, path) : null
    return params ? [{ operation, params }] : []
  })[0]
  if (!found) throw invalid([{ path: 'path', message: `with its method must be one of ${names.join(', ')}` }])
  const { operation, params } = found
  const { permission, invalidParams, ...schemas } = operation.contract
  if (permission !== null) requirePermission(context, permission)
  const parsedParams = schemas.params?.safeParse(params)
  if (parsedParams?.success === false) {
    throw invalidParams === 'invalid_request' ? invalidInput('param', parsedParams.error.issues) : notFound()
  }
  const parsedBody = schemas.body?.safeParse(body)
  if (parsedBody?.success === false) throw invalidInput('body', parsedBody.error.issues)
  return { operation, input: { params: parsedParams?.data, query: {}, body: parsedBody?.data } }
}

/** Decodes the parameters of a path; null for another path. */
function matchPath(template: string, path: string): Record<string, string> | null {
  const wanted = template.split('/')
  const segments = path.split('/')
  if (segments.length !== wanted.length || /[?#]/.test(path)) return null
  const params: Record<string, string> = {}
  for (const [index, segment] of segments.entries()) {
    const name = /^\{(\w+)\}$/.exec(wanted[index] ?? '')?.[1]
    if (name === undefined ? segment !== wanted[index] : segment === '') return null
    if (name !== undefined) params[name] = decode(segment)
  }
  return params
}

/** Decodes a segment; invalid percent-encoding stays unchanged, as in a URL. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

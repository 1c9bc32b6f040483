import { asObject, isObject, type Json } from '../../../src/site/reference/json.ts'
import { expectConforms } from '../../support/conformance.ts'
import type { Draft, WireRequest } from './draft.ts'
import { RULES_BEYOND_SCHEMAS } from './rules.ts'

/** Statuses of a valid request besides 200 and 304: the resource does not exist or is unavailable. */
const FAIR = [200, 304, 404, 409, 412]

/**
 * Lists what is wrong with a response, as sentences.
 *
 * @param draft what was sent, and what was to come of it
 */
export async function judge(draft: Draft, url: string, wire: WireRequest, response: Response): Promise<string[]> {
  const problems: string[] = []
  const address = new Request(new URL(wire.target, url), { method: wire.method })
  await expectConforms(address, response).catch((error: unknown) => {
    problems.push(error instanceof Error ? error.message : String(error))
  })
  if (response.status >= 500 && !isThrottled(draft, response))
    problems.push(`the server failed with ${response.status}`)

  const body = await readJson(response)
  if (draft.refusedWith === null) problems.push(...judgeValid(draft, response, body))
  else problems.push(...judgeBroken(draft, draft.refusedWith, response, body))
  return problems
}

/** supplier_b takes so few calls a minute that what is not in the cache cannot be had for the rest of it. */
function isThrottled({ operation, path }: Draft, { status }: Response): boolean {
  return status === 502 && operation.id === 'readProduct' && decodeURIComponent(path.source ?? '') === 'supplier_b'
}

function judgeValid(draft: Draft, response: Response, body: Json | undefined): string[] {
  if (FAIR.includes(response.status) || isThrottled(draft, response)) return []
  const issues = issuesOf(body)
  const ofOperation = ({ operations }: { operations: string[] }) => operations.includes(draft.operation.id)
  const isExcused = ({ path, message }: Issue) =>
    RULES_BEYOND_SCHEMAS.some((rule) => ofOperation(rule) && rule.path.test(path) && rule.message.test(message))
  if (response.status === 400 && issues.length > 0 && issues.every(isExcused)) return []
  // The response to HEAD has no reason.
  if (response.status === 400 && draft.method === 'HEAD' && RULES_BEYOND_SCHEMAS.some(ofOperation)) return []
  return [`a valid request returned ${response.status}: ${JSON.stringify(body ?? null).slice(0, 500)}`]
}

function judgeBroken(draft: Draft, expected: number, response: Response, body: Json | undefined): string[] {
  if (response.status !== expected) return [`${draft.kind}: returned ${response.status}, not ${expected}`]
  const { field } = draft
  if (response.status !== 400 || field === null || body === undefined) return []
  // A long name is cut.
  const isNamed = issuesOf(body).some(({ path }) =>
    path.endsWith('…') ? field.startsWith(path.slice(0, -1)) : path === field || path.startsWith(`${field}.`),
  )
  return isNamed
    ? []
    : [`${draft.kind}: no issue names ${JSON.stringify(field)}: ${JSON.stringify(body).slice(0, 500)}`]
}

interface Issue {
  path: string
  message: string
}

function issuesOf(body: Json | undefined): Issue[] {
  const error = isObject(body) && isObject(body.error) ? body.error : {}
  const issues = isObject(error.details) && Array.isArray(error.details.issues) ? error.details.issues : []
  return issues.map((issue) => {
    const { path, message } = asObject(issue)
    return { path: String(path), message: String(message) }
  })
}

async function readJson(response: Response): Promise<Json | undefined> {
  try {
    return JSON.parse(await response.clone().text())
  } catch {
    return undefined
  }
}

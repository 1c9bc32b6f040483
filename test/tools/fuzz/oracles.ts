import { asObject, isObject, type Json } from '../../../src/site/reference/json.ts'
import { expectConforms } from '../../support/conformance.ts'
import { bearer, type Wire } from '../harness/http.ts'
import type { Operation } from './description.ts'
import { RULES_BEYOND_SCHEMAS } from './rules.ts'

/** A request under construction, with what must come of it. */
export interface Draft {
  operation: Operation
  /** What was broken in it, or `valid`. */
  kind: string
  /** The only allowed status; null for a valid request, which must not be refused as invalid. */
  refusedWith: number | null
  /** The field that the issues of a 400 must name. */
  field: string | null
  method: string
  /** Segments as they are sent. */
  path: Record<string, string>
  slash: '' | '/'
  /** Names as they are, values as they are sent. */
  query: [name: string, value: string][]
  headers: Record<string, string>
  /** A JSON object: names, and values as JSON text. */
  members: [name: string, json: string][] | null
  /** Sent instead of the members. */
  body: string | Uint8Array | null
  isAuthorized: boolean
}

export function toWire(draft: Draft): Wire {
  const { operation, path, query, members } = draft
  const filled = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => path[name] ?? '')
  const pairs = query.map(([name, value]) => `${encodeURIComponent(name)}=${value}`)
  const body = draft.body ?? (members && writeObject(members))
  return {
    method: draft.method,
    path: `/api/v1${filled}${draft.slash}${pairs.length > 0 ? `?${pairs.join('&')}` : ''}`,
    headers: draft.headers,
    body,
  }
}

export function writeObject(members: readonly [string, string][]): string {
  return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}

const SHOWN_BYTES = 4_000

/** A command that sends the request again. */
export function toCurl(url: string, token: string | null, { method, path, headers = {}, body }: Wire): string {
  const all = { ...headers, ...(token !== null && bearer(token)) }
  const parts = ['curl -si', method === 'HEAD' ? '-I' : `-X ${method}`]
  for (const [name, value] of Object.entries(all)) {
    parts.push(`-H ${quote(value === '' ? `${name};` : `${name}: ${value}`)}`)
  }
  parts.push(quote(url + path))
  if (!body) return parts.join(' ')
  const text = Buffer.from(body)
  const sent = text.subarray(0, SHOWN_BYTES).toString('base64')
  const shown = text.length <= SHOWN_BYTES ? sent : `${sent}... (${text.length} bytes)`
  return `echo ${shown} | base64 -d | ${parts.join(' ')} --data-binary @-`
}

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** Statuses of a valid request besides 200 and 304: the resource does not exist or is unavailable. */
const FAIR = [200, 304, 404, 409, 412]

/**
 * Lists what is wrong with a response, as sentences.
 *
 * @param draft what was sent, and what was to come of it
 */
export async function judge(draft: Draft, url: string, wire: Wire, response: Response): Promise<string[]> {
  const problems: string[] = []
  const address = new Request(new URL(wire.path, url), { method: draft.method })
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

import type { Operation } from './description.ts'

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

/** A request as it goes over the wire. */
export interface WireRequest {
  method: string
  target: string
  headers: Record<string, string>
  body: Uint8Array | null
}

export function toWire(draft: Draft): WireRequest {
  const { operation, path, query, members } = draft
  const filled = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => path[name] ?? '')
  const pairs = query.map(([name, value]) => `${encodeURIComponent(name)}=${value}`)
  const body = draft.body ?? (members && writeObject(members))
  return {
    method: draft.method,
    target: `/api/v1${filled}${draft.slash}${pairs.length > 0 ? `?${pairs.join('&')}` : ''}`,
    headers: draft.headers,
    body: typeof body === 'string' ? Buffer.from(body) : body,
  }
}

export function writeObject(members: readonly [string, string][]): string {
  return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`
}

const SHOWN_BYTES = 4_000

/** A command that sends the request again. */
export function toCurl(url: string, token: string | null, { method, target, headers, body }: WireRequest): string {
  const all = { ...headers, ...(token !== null && { authorization: `Bearer ${token}` }) }
  const parts = ['curl -si', method === 'HEAD' ? '-I' : `-X ${method}`]
  for (const [name, value] of Object.entries(all))
    parts.push(`-H ${quote(value === '' ? `${name};` : `${name}: ${value}`)}`)
  parts.push(quote(url + target))
  if (!body) return parts.join(' ')
  const text = Buffer.from(body)
  const sent = text.subarray(0, SHOWN_BYTES).toString('base64')
  const shown = text.length <= SHOWN_BYTES ? sent : `${sent}... (${text.length} bytes)`
  return `echo ${shown} | base64 -d | ${parts.join(' ')} --data-binary @-`
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

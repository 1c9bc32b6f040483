import { env, exports } from 'cloudflare:workers'
import { request, sql, type TestCompany } from '../../support/app.ts'

let nextThread = 1

/** A legacy id that no other thread of this file has. */
export function freshThreadId(): string {
  return `18c2f0a9${String(nextThread++).padStart(8, '0')}`
}

export const MAILBOX = 'sales@shop.example'

export function threadPath(legacyId: string, accountEmail?: string): string {
  const query = accountEmail === undefined ? '' : `?account_email=${encodeURIComponent(accountEmail)}`
  return `/mail/email-threads/${legacyId}${query}`
}

/** Stores a thread of the mailbox, by default without messages. */
export const putThread = (by: TestCompany, legacyId: string, fields: object = {}) =>
  by.call('PUT', threadPath(legacyId), { account_email: MAILBOX, messages: [], ...fields })

export interface RawResponse {
  status: number
  headers: Headers
  text: string
}

/** Sends JSON text and returns the response's text, both unparsed. */
export async function sendText(
  { token }: TestCompany,
  method: 'GET' | 'PUT' | 'DELETE',
  path: string,
  body?: string,
  headers: Record<string, string> = {},
): Promise<RawResponse> {
  const response = await exports.default.fetch(request(token, method, path, body, headers))
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** The JSON text of the messages in a response, where they are the last member. */
export function messagesIn(response: RawResponse): string {
  return response.text.slice(response.text.indexOf('"messages":') + '"messages":'.length, -'}}'.length)
}

/** The length of the content in the row of the one thread with this id, in base64; null where R2 has it. */
export async function contentLengthOf(legacyId: string): Promise<number | null> {
  const [row] = await sql<{ length: number | null }>(
    'SELECT octet_length(content) AS length FROM email_threads WHERE legacy_thread_id = ?',
    legacyId,
  )
  return row?.length ?? null
}

export function noiseBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536))
  return bytes
}

/** Text of so many characters of base64, which compresses to three quarters. */
export const noise = (length: number): string =>
  noiseBytes(Math.ceil((length * 3) / 4))
    .toBase64()
    .slice(0, length)

/** Adds rows of objects that R2 does not have. @param columns SQL of `id` … `remove_at` by `i`, which counts from 1 */
export const writeObjects = (companyId: number, count: number, columns: string) =>
  sql(
    `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
     INSERT INTO email_thread_objects (company_id, content_hash, bytes, id, state, thread_id, remove_at)
     SELECT ?1, 'x', 1, ${columns} FROM n`,
    ...[companyId, count],
  )

/** The objects that the one thread with this id names. */
export async function objectsOf(legacyId: string) {
  return sql<{ id: string; bytes: number; content_hash: string }>(
    `SELECT o.id, o.bytes, o.content_hash FROM email_thread_objects AS o
     JOIN email_threads AS t ON t.id = o.thread_id WHERE t.legacy_thread_id = ?`,
    legacyId,
  )
}

/** The keys of a company's mail contents in R2. */
export async function storedObjects(companyId: number): Promise<string[]> {
  const { objects } = await env.FILES.list({ prefix: `mail/${companyId}/` })
  return objects.map(({ key }) => key)
}

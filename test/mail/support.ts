import { exports } from 'cloudflare:workers'
import { request, sql, type TestCompany } from '../support/app.ts'

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

export interface StoredSegment {
  field: string
  position: number
  length: number
  rowid: number
}

/** The segments of the one thread with this id. */
export async function segmentsOf(legacyId: string): Promise<StoredSegment[]> {
  return sql<StoredSegment>(
    `SELECT field, position, length(data) AS length, rowid FROM email_thread_segments
     WHERE thread_id IN (SELECT id FROM email_threads WHERE legacy_thread_id = ?) ORDER BY field, position`,
    legacyId,
  )
}

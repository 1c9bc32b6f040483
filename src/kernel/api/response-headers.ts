import type { Context } from 'hono'
import type { AppEnv } from './context.ts'

/** The response headers that pages of other origins may read. */
const EXPOSED =
  'X-Request-Id,Retry-After,RateLimit-Policy,RateLimit,Accept-Encoding,ETag,Link,Idempotency-Replayed,Server-Timing,X-Bookmark'

/** Paths that other origins may not read: their callers are signed in by the browser. */
export const OWN_ORIGIN = /^\/(admin|settings)(\/|$)/

/**
 * The headers that every response has. A response is built with them, since each header that is set afterwards is a call
 * out of the isolate.
 */
export function commonHeaders(c: Context<AppEnv>): Record<string, string> {
  const context = c.get('context')
  const db = context?.db
  const bookmark = db?.bookmark()
  return {
    'X-Request-Id': c.get('requestId'),
    'X-Content-Type-Options': 'nosniff',
    ...(!OWN_ORIGIN.test(c.req.path) && {
      'Access-Control-Allow-Origin': '*',
      'Access-Control-Expose-Headers': EXPOSED,
    }),
    ...c.get('usage')?.headers(),
    ...(context?.idempotency?.isReplayed && { 'Idempotency-Replayed': 'true' }),
    ...(bookmark && { 'X-Bookmark': bookmark }),
    ...(db && { 'Server-Timing': `db;dur=${db.waitedMs()}` }),
  }
}

/** Adds {@link commonHeaders} to a response that was built without. */
export function addCommonHeaders(c: Context<AppEnv>): void {
  const { headers } = c.res
  if (headers.has('X-Request-Id')) return
  for (const [name, value] of Object.entries(commonHeaders(c))) headers.set(name, value)
}

/** Builds the `Link` (RFC 8288) to the page after the requested one. */
export function linkNext(requestUrl: string, cursor: string): string {
  const url = new URL(requestUrl)
  url.searchParams.set('cursor', cursor)
  url.searchParams.delete('page')
  return `<${url.href}>; rel="next"`
}

import type { MiddlewareHandler } from 'hono'
import type { Env } from '../env.ts'

/**
 * Uploads in development. The local R2 at {@link LOCAL_S3} checks signatures but refuses browsers of every origin other
 * than localhost. So URLs are signed for it and given out with {@link RELAY} instead; the relay drops `Origin` and
 * forwards the rest unchanged.
 */
export const LOCAL_S3 = '/cdn-cgi/local/r2/s3/'
export const RELAY = '/uploads/'

/** Forwards an upload, its body streamed. Outside of development the route does not exist. */
export const relayUpload: MiddlewareHandler<{ Bindings: Env; Variables: { operation?: string } }> = async (c, next) => {
  if (c.env.STORAGE_RELAY !== 'development') return next()
  c.set('operation', 'relayUpload')
  const { url, headers: sent, body } = c.req.raw
  const headers = new Headers(sent)
  headers.delete('origin')
  const response = await fetch(url.replace(RELAY, LOCAL_S3), { method: 'PUT', headers, body, redirect: 'manual' })
  // The headers of a fetched response are immutable.
  return new Response(response.body, response)
}

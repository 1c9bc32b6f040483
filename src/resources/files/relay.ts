import type { MiddlewareHandler } from 'hono'
import type { Env } from '../../env.ts'

/**
 * Presigned URLs in development. The local R2 at {@link LOCAL_S3} checks signatures but refuses browsers of every origin
 * other than localhost. So URLs are signed for it and given out with {@link RELAY} instead; the relay drops `Origin` and
 * forwards the rest unchanged.
 */
export const LOCAL_S3 = '/cdn-cgi/local/r2/s3/'
export const RELAY = '/uploads/'

/** Forwards an upload or a download, its body streamed. Outside of development the route does not exist. */
export const relayFile: MiddlewareHandler<{ Bindings: Env; Variables: { operation?: string } }> = async (c, next) => {
  if (c.env.STORAGE_RELAY !== 'development') return next()
  c.set('operation', 'relayFile')
  const { url, method, headers: sent, body } = c.req.raw
  const headers = new Headers(sent)
  headers.delete('origin')
  const response = await fetch(url.replace(RELAY, LOCAL_S3), { method, headers, body, redirect: 'manual' })
  // The headers of a fetched response are immutable.
  const relayed = new Response(response.body, response)
  // Signed with the rest of the query, and ignored by the local R2, unlike the deployed one.
  const disposition = c.req.query('response-content-disposition')
  if (disposition !== undefined && response.ok) relayed.headers.set('Content-Disposition', disposition)
  return relayed
}

import type { MiddlewareHandler } from 'hono'
import type { AppEnv } from '../context.ts'

/**
 * The way of uploads in development. The local R2 is served at {@link LOCAL_S3}, with a signature check that is not
 * ours, but refuses every browser whose origin is not localhost. So addresses are signed for there and handed out with
 * {@link RELAY} in its place; the relay drops `Origin` and passes the rest on as it is. Preflights are answered by the
 * CORS middleware.
 */
const LOCAL_S3 = '/cdn-cgi/local/r2/s3/'
export const RELAY = '/uploads/'

/** The endpoint of the local R2 at the host that the caller used: the host is signed. */
export function localEndpoint(requestUrl: string): string {
  return new URL(LOCAL_S3, requestUrl).href
}

/** The address of the local R2 as callers get it. */
export function toRelay(url: string): string {
  return url.replace(LOCAL_S3, RELAY)
}

/** Passes an upload on, its body streamed. Outside of development there is no such route. */
export const relayUpload: MiddlewareHandler<AppEnv> = async (c, next) => {
  if (c.env.STORAGE_RELAY !== 'development') return next()
  c.set('operation', 'relayUpload')
  const { url, headers: sent, body } = c.req.raw
  const headers = new Headers(sent)
  headers.delete('origin')
  const response = await fetch(url.replace(RELAY, LOCAL_S3), { method: 'PUT', headers, body, redirect: 'manual' })
  // A fetched response takes no headers.
  return new Response(response.body, response)
}

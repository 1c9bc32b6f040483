import type { MiddlewareHandler } from 'hono'
import type { Env } from '../../env.ts'
import { UNCOMPRESSED } from '../../kernel/api/endpoint.ts'
import { ApiError } from '../../kernel/http/errors.ts'

/**
 * In development the local R2 at {@link LOCAL_S3} checks signatures, but refuses browsers of origins other than
 * localhost. URLs are signed for it but contain {@link RELAY}, which drops `Origin` and forwards the rest unchanged.
 */
export const LOCAL_S3 = '/cdn-cgi/local/r2/s3/'
export const RELAY = '/uploads/'

/** Forwards an upload or a download, streaming its body. Outside of development the route does not exist. */
export const relayFile: MiddlewareHandler<{ Bindings: Env; Variables: { operation?: string } }> = async (c, next) => {
  if (c.env.STORAGE_RELAY !== 'development') return next()
  c.set('operation', 'relayFile')
  const { url, method, headers: sent, body } = c.req.raw
  const headers = new Headers(sent)
  headers.delete('origin')
  // As S3 does: an unsigned `x-amz-copy-source` would make an upload a copy of another company's file.
  if ([...headers.keys()].some((name) => name.startsWith('x-amz-'))) throw new ApiError('forbidden')
  const response = await fetch(url.replace(RELAY, LOCAL_S3), { method, headers, body, redirect: 'manual' })
  // The headers of a fetched response are immutable. Without the coding the runtime would compress a text for everyone.
  const relayed = new Response(response.body, response)
  for (const [name, value] of Object.entries(UNCOMPRESSED)) relayed.headers.set(name, value)
  // It is signed with the rest of the query, but the local R2 ignores it, unlike the deployed one.
  const disposition = c.req.query('response-content-disposition')
  if (disposition !== undefined && response.ok) relayed.headers.set('Content-Disposition', disposition)
  return relayed
}

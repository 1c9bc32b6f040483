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

/** Passes an upload on, its body streamed. */
export async function relayUpload(request: Request): Promise<Response> {
  const headers = new Headers(request.headers)
  headers.delete('origin')
  const answer = await fetch(request.url.replace(RELAY, LOCAL_S3), {
    method: 'PUT',
    headers,
    body: request.body,
    redirect: 'manual',
  })
  // An answer that was fetched takes no headers.
  return new Response(answer.body, answer)
}

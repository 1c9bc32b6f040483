import { env, exports } from 'cloudflare:workers'
import { type ClientOptions, createClient } from '../../src/client/index.ts'
import type { TestCompany } from '../support/app.ts'

const ORIGIN = 'https://api.test'

/** The service itself in place of the network; a presigned URL reaches its bucket without a check of the signature. */
export async function fetchService(address: string, init: RequestInit = {}): Promise<Response> {
  const url = new URL(address)
  const [, key] = /^\/uploads\/[^/]+\/(.*)/.exec(decodeURIComponent(url.pathname)) ?? []
  if (key !== undefined) return useBucket(key, init)
  const response = await exports.default.fetch(new Request(url, init))
  // Read at once: what a test leaves unread would end with an error.
  return new Response(response.status === 304 ? null : await response.arrayBuffer(), response)
}

async function useBucket(key: string, init: RequestInit): Promise<Response> {
  if (init.method !== 'PUT') return new Response((await env.FILES.get(key))?.body ?? null)
  const request = new Request(ORIGIN, init)
  const contentType = request.headers.get('content-type') ?? ''
  await env.FILES.put(key, await request.arrayBuffer(), { httpMetadata: { contentType } })
  return new Response()
}

/** A client of the service; `loses` decides of each response whether it is lost on the way. */
export function openClient({ token }: TestCompany, loses = () => false, options: Partial<ClientOptions> = {}) {
  return createClient({
    baseUrl: ORIGIN,
    token,
    fetch: async (url, init) => {
      const response = await fetchService(url, init)
      if (loses()) throw new TypeError('connection reset')
      return response
    },
    sleep: async () => {},
    ...options,
  })
}

/** Loses every response but the last of a call. */
export function loseAllButEvery(count: number): () => boolean {
  let sent = 0
  return () => ++sent % count !== 0
}

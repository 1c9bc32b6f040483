import type { MiddlewareHandler } from 'hono'
import { Hono } from 'hono/tiny'
import { authenticate } from './auth/authenticate.ts'
import { routes as clients } from './clients/routes.ts'
import { type AppEnv, openContext } from './context.ts'
import { contracts } from './contracts.ts'
import { databaseMessage } from './db/client.ts'
import type { Env } from './env.ts'
import { RELAY, relayUpload } from './files/relay.ts'
import { routes as files } from './files/routes.ts'
import type { Contract } from './http/contract.ts'
import { BUDGET_MS, DeadlineError, withDeadline } from './http/deadline.ts'
import { honoPath } from './http/endpoint.ts'
import { ApiError, errorResponse, notFound } from './http/errors.ts'
import { log } from './http/log.ts'
import { routes as threadContext } from './mail/context/routes.ts'
import { routes as emailThreads } from './mail/threads/routes.ts'
import { routes as orders } from './orders/routes.ts'
import { routes as products } from './products/routes.ts'
import { rateLimit } from './rate-limit/middleware.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

export const app = new Hono<AppEnv>({ strict: false })

/** The response headers that pages of other origins may read. */
const EXPOSED_HEADERS =
  'X-Request-Id,Retry-After,RateLimit-Policy,RateLimit,Accept-Encoding,ETag,Server-Timing,X-Bookmark'

app.use(async (c, next) => {
  const startedAt = Date.now()
  const given = c.req.header('x-request-id')
  const requestId = given && REQUEST_ID.test(given) ? given : crypto.randomUUID()
  c.set('requestId', requestId)
  await next()
  const { headers, status } = c.res
  headers.set('X-Request-Id', requestId)
  headers.set('X-Content-Type-Options', 'nosniff')
  headers.set('Access-Control-Allow-Origin', '*')
  headers.set('Access-Control-Expose-Headers', EXPOSED_HEADERS)
  const token = c.get('token')
  log('request', {
    request_id: requestId,
    method: c.req.method,
    operation: c.get('operation'),
    status,
    duration_ms: Date.now() - startedAt,
    company_id: token?.companyId,
    token_id: token?.id,
  })
})

/** Every origin may send every request: what protects is the token, which no browser sends by itself. */
const preflight = async (requestedHeaders: string) =>
  new Response(null, {
    status: 204,
    headers: {
      'Access-Control-Allow-Methods': 'GET,HEAD,POST,PATCH,PUT,DELETE',
      'Access-Control-Allow-Headers': requestedHeaders,
      'Access-Control-Max-Age': '86400',
      Vary: 'Access-Control-Request-Headers',
    },
  })

app.use((c, next) =>
  c.req.method === 'OPTIONS' ? preflight(c.req.header('access-control-request-headers') ?? '') : next(),
)

// Hono passes only Errors to onError; anything else that is thrown must not become a bare 500.
const catchAnything: MiddlewareHandler<AppEnv> = async (c, next) => {
  try {
    await next()
  } catch (thrown) {
    c.res = toResponse(thrown, c.get('requestId'))
  }
}

app.use(catchAnything)

app.onError((error, c) => toResponse(error, c.get('requestId')))

/** The reference page and its files are static assets, which come through here so that every response has its headers. */
app.notFound(async (c) => {
  const mayBeAsset = ['GET', 'HEAD'].includes(c.req.method) && !c.req.path.startsWith('/api/')
  const asset = mayBeAsset ? await fetchAsset(c.env, c.req.raw) : null
  return asset && asset.status !== 404 ? asset : errorResponse(notFound('Path'))
})

const api = new Hono<AppEnv>({ strict: false })

/** The published description is a static asset; it needs no token. */
api.get('/openapi.json', async (c) => {
  c.set('operation', 'openapi')
  return fetchAsset(c.env, new Request(new URL('/openapi.json', c.req.url), c.req.raw))
})
api.all('/openapi.json', allow(['GET', 'HEAD']))

api.use(authenticate, openContext)

// Errors are caught again behind the limit, so that their responses have the limit's headers too.
api.use(rateLimit, catchAnything, async (c, next) => {
  if (c.get('context').token.suspended) throw new ApiError('forbidden', { message: 'The company is suspended' })
  await next()
})

for (const mount of [...clients, ...orders, ...products, ...threadContext, ...emailThreads, ...files]) mount(api)

for (const [path, methods] of methodsByPath(contracts)) api.all(path, allow(methods))

app.route('/api/v1', api)

app.put(`${RELAY}*`, relayUpload)

async function fetchAsset({ ASSETS }: Env, request: Request): Promise<Response> {
  const asset = await withDeadline(ASSETS.fetch(request), BUDGET_MS.assets)
  // Headers cannot be set on a fetched response.
  return new Response(asset.body, asset)
}

/** Refuses the methods of a path that no route has. */
function allow(methods: readonly string[]): MiddlewareHandler<AppEnv> {
  return () => {
    throw new ApiError('method_not_allowed', {
      message: `Method not allowed: use ${methods.join(', ')}`,
      headers: { Allow: methods.join(', ') },
    })
  }
}

/** The methods of each path; HEAD wherever GET is. */
function methodsByPath(all: readonly Contract[]): Map<string, string[]> {
  const paths = new Map<string, string[]>()
  for (const contract of all) {
    const path = honoPath(contract)
    const methods = contract.method === 'GET' ? ['GET', 'HEAD'] : [contract.method]
    paths.set(path, [...(paths.get(path) ?? []), ...methods])
  }
  return paths
}

function toResponse(thrown: unknown, requestId: string): Response {
  if (thrown instanceof ApiError) return errorResponse(thrown)
  log('failure', { request_id: requestId, error: describe(thrown) })
  return errorResponse(
    new ApiError('internal_error', { message: `Internal error: report the request id ${requestId}` }),
  )
}

/** What is logged of a failure: no message that may hold values; D1's own messages name columns only. */
function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return typeof thrown
  const message = databaseMessage(thrown)
  const isHarmless = message.startsWith('D1_') || thrown instanceof DeadlineError
  // The stack begins with the message, whose own lines could look like frames.
  const stack = (thrown.stack ?? '').replace(thrown.message, '')
  const frames = stack.split('\n').filter((line) => line.trimStart().startsWith('at '))
  return [thrown.name, isHarmless ? message : '', ...frames.slice(0, 6)].filter(Boolean).join(' | ')
}

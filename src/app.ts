import type { Context, MiddlewareHandler, NotFoundHandler } from 'hono'
import { Hono } from 'hono/tiny'
import type { Env } from './env.ts'
import { type AppEnv, openContext } from './kernel/api/context.ts'
import type { Contract } from './kernel/api/contract.ts'
import { honoPath, NO_QUERY, type Route, validate } from './kernel/api/endpoint.ts'
import { startUse } from './kernel/db/client.ts'
import { databaseText } from './kernel/db/failures.ts'
import { authenticate } from './kernel/gate/authenticate.ts'
import { rateLimit, refuseToken } from './kernel/gate/middleware.ts'
import { isLoopback } from './kernel/http/address.ts'
import { BUDGET_MS, DeadlineError, withDeadline } from './kernel/http/deadline.ts'
import { ApiError, ERRORS, errorResponse } from './kernel/http/errors.ts'
import { log } from './kernel/http/log.ts'
import { joinOr } from './kernel/http/messages.ts'
import { adminContracts } from './operation/admin/contracts.ts'
import { adminRoutes } from './operation/admin/routes.ts'
import { countFailure } from './operation/health/failures.ts'
import { routes as health } from './operation/health/routes.ts'
import { countSlow } from './operation/health/slow-statements.ts'
import { routes as account } from './resources/account/routes.ts'
import { routes as batch } from './resources/batch/routes.ts'
import { routes as changes } from './resources/changes/routes.ts'
import { routes as clients } from './resources/clients/routes.ts'
import { contracts } from './resources/contracts.ts'
import { RELAY, relayFile } from './resources/files/relay.ts'
import { routes as files } from './resources/files/routes.ts'
import { routes as mail } from './resources/mail/routes.ts'
import { routes as orders } from './resources/orders/routes.ts'
import { routes as products } from './resources/products/routes.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The response headers that pages of other origins may read. */
const EXPOSED_HEADERS =
  'X-Request-Id,Retry-After,RateLimit-Policy,RateLimit,Accept-Encoding,ETag,Link,Idempotency-Replayed,Server-Timing,X-Bookmark'

type Middleware = MiddlewareHandler<AppEnv>

/** The contracts of an API, and their routes. */
export interface Api {
  contracts: readonly Contract[]
  routes: readonly Route[]
}

/** The application: the middleware in its order around the routes of the integration API and of the administration API. */
export function createApp({ contracts, routes }: Api, administration: Api): Hono<AppEnv> {
  const app = new Hono<AppEnv>({ strict: false })
  app.use(addHeaders, refuseForeignHost, respondToPreflight, catchErrors)
  // Hono passes Errors to its own handler before the middleware sees them.
  app.onError((error, c) => toResponse(error, c))
  app.notFound(serveAsset)

  const api = new Hono<AppEnv>({ strict: false })
  serveDescription(api, 'openapi.json')
  // Errors are caught again behind the limit, so that their responses have the limit's headers too.
  api.use(authenticate, openContext, rateLimit, catchErrors, refuseSuspended)
  mount(api, { contracts, routes })
  app.route('/api/v1', api)

  const admin = new Hono<AppEnv>({ strict: false })
  serveDescription(admin, 'admin-openapi.json')
  mount(admin, administration)
  app.route('/admin/v1', admin)

  for (const { contract, respond } of health) {
    app.get(contract.path, validate('query', NO_QUERY), async (c) => {
      c.set('operation', contract.operationId)
      return respond(c.env)
    })
    app.all(contract.path, refuseMethod(['GET', 'HEAD']))
  }
  app.on(['GET', 'PUT'], `${RELAY}*`, relayFile)
  return app
}

/** The published description is a static asset; it needs no token. */
function serveDescription(api: Hono<AppEnv>, asset: string): void {
  api.get('/openapi.json', validate('query', NO_QUERY), async (c) => {
    c.set('operation', 'openapi')
    return fetchAsset(c.env, new Request(new URL(`/${asset}`, c.req.url), c.req.raw))
  })
  api.all('/openapi.json', refuseMethod(['GET', 'HEAD']))
}

function mount(api: Hono<AppEnv>, { contracts, routes }: Api): void {
  for (const add of routes) add(api)
  for (const [path, methods] of methodsByPath(contracts)) api.all(path, refuseMethod(methods))
}

/** Paths that other origins may not read: their callers are signed in by the browser. */
const OWN_ORIGIN = /^\/(admin|settings)(\/|$)/

/** Adds the headers that every response has, and logs the request. */
const addHeaders: Middleware = async (c, next) => {
  const receivedAt = Date.now()
  const use = startUse()
  c.set('receivedAt', receivedAt)
  c.set('databaseUse', use)
  const given = c.req.header('x-request-id')
  const requestId = given && REQUEST_ID.test(given) ? given : crypto.randomUUID()
  c.set('requestId', requestId)
  await next()
  const { headers, status } = c.res
  headers.set('X-Request-Id', requestId)
  headers.set('X-Content-Type-Options', 'nosniff')
  if (!OWN_ORIGIN.test(c.req.path)) {
    headers.set('Access-Control-Allow-Origin', '*')
    headers.set('Access-Control-Expose-Headers', EXPOSED_HEADERS)
  }
  const [token, actor] = [c.get('token'), c.get('actor')]
  log('request', {
    request_id: requestId,
    method: c.req.method,
    operation: c.get('operation'),
    status,
    duration_ms: Date.now() - receivedAt,
    company_id: token?.companyId ?? c.get('admin')?.companyId,
    token_id: token?.id,
    ...(actor !== undefined && { actor, address: c.req.header('cf-connecting-ip') }),
    rows_read: use.rowsRead,
    rows_written: use.rowsWritten,
    database_ms: Math.round(use.durationMs * 100) / 100,
    slow_statements: use.slow,
    served_by_region: use.region,
    served_by_primary: use.isPrimary,
    colo: c.req.raw.cf?.colo,
  })
  if (use.slow > 0) c.executionCtx.waitUntil(countSlow(c.env.CACHE, use.slow, receivedAt))
}

/**
 * In development everyone on this machine is signed in, and the commands' token is public: a page of another site whose
 * name leads to a loopback address must not use them (DNS rebinding).
 */
const refuseForeignHost: Middleware = async (c, next) => {
  if (!c.env.ADMIN_DEVELOPMENT) return next()
  const { host, hostname } = new URL(c.req.url)
  const named = URL.parse(`http://${c.req.header('host') ?? host}`)?.hostname ?? ''
  if (isLoopback(hostname) && isLoopback(named)) return next()
  const message = 'In development the service has loopback addresses only: use 127.0.0.1 or localhost'
  return errorResponse(new ApiError('forbidden', { message }))
}

/** CORS: every origin may send every request. What protects is the token, which no browser sends by itself. */
const respondToPreflight: Middleware = async (c, next) => {
  if (c.req.method !== 'OPTIONS') return next()
  if (OWN_ORIGIN.test(c.req.path)) return new Response(null, { status: 204 })
  return new Response(null, {
    status: 204,
    headers: {
      'Access-Control-Allow-Methods': 'GET,HEAD,POST,PATCH,PUT,DELETE',
      'Access-Control-Allow-Headers': c.req.header('access-control-request-headers') ?? '',
      'Access-Control-Max-Age': '86400',
      Vary: 'Access-Control-Request-Headers',
    },
  })
}

/** Hono handles only Errors; anything else that is thrown must not become a bare 500. */
const catchErrors: Middleware = async (c, next) => {
  try {
    await next()
  } catch (thrown) {
    c.res = toResponse(thrown, c)
  }
}

const refuseSuspended: Middleware = async (c, next) => {
  const context = c.get('context')
  // A token that is only assumed refuses nothing.
  if (context.token.suspended) context.token = await c.get('usage').admitted()
  const refusal = refuseToken(context.token, undefined)
  if (refusal) throw refusal
  await next()
}

const ROUTE_NOT_FOUND = 'Route not found: /api/v1/openapi.json describes every route'

/** The reference page and its files are static assets, served through the Worker so that they have its headers. */
const serveAsset: NotFoundHandler<AppEnv> = async (c) => {
  const mayBeAsset = ['GET', 'HEAD'].includes(c.req.method) && !/^\/(api|admin)(\/|$)/.test(c.req.path)
  const asset = mayBeAsset ? await fetchAsset(c.env, c.req.raw) : null
  return asset && asset.status !== 404 ? asset : errorResponse(new ApiError('not_found', { message: ROUTE_NOT_FOUND }))
}

async function fetchAsset({ ASSETS }: Env, request: Request): Promise<Response> {
  const asset = await withDeadline(ASSETS.fetch(request), BUDGET_MS.assets)
  // Headers cannot be set on a fetched response.
  return new Response(asset.body, asset)
}

function refuseMethod(allowed: readonly string[]): Middleware {
  const message = `The path does not support this method: use ${joinOr(allowed)}`
  return () => {
    throw new ApiError('method_not_allowed', { message, headers: { Allow: allowed.join(', ') } })
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

/** Every 5xx is logged with its cause: a `failure`, which the platform counts as well, or the kind of the error. */
function toResponse(thrown: unknown, c: Context<AppEnv>): Response {
  const requestId = c.get('requestId')
  if (thrown instanceof ApiError) {
    const error = afterWrites(thrown, c)
    const { kind, message, cause } = error
    const { status } = ERRORS[kind]
    const logged = cause === undefined ? message : `${message} | ${cause}`
    if (status >= 500) log(kind, { request_id: requestId, status, error: logged }, 'error')
    return errorResponse(error)
  }
  log('failure', { request_id: requestId, status: 500, error: describe(thrown) }, 'error')
  countFailure(c.executionCtx, requestId)
  return errorResponse(
    new ApiError('internal_error', { message: `Internal error: report the request id ${requestId}` }),
  )
}

/**
 * What asks for a repetition says that nothing was changed. Where something was, or may have been, by a method that may
 * not be repeated, it is another error: one without `Retry-After`.
 */
function afterWrites(error: ApiError, c: Context<AppEnv>): ApiError {
  const { rowsWritten, openWrites } = c.get('databaseUse')
  const isRepeatable = ['GET', 'HEAD', 'PUT'].includes(c.req.method)
  const asks = error.kind === 'rate_limited' || (error.kind === 'unavailable' && 'Retry-After' in error.headers)
  if (!asks || isRepeatable || rowsWritten + openWrites === 0) return error
  const message =
    'The request may have been carried out, or a part of it: send it again with the Idempotency-Key that it had; without one, first read what was changed'
  return new ApiError('unavailable', { message, cause: [error.message, error.cause].filter(Boolean).join(' | ') })
}

/** What is logged of a failure: no message that may hold values, see {@link databaseText}. */
function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return typeof thrown
  const harmless = thrown instanceof DeadlineError ? thrown.message : databaseText(thrown)
  // The stack begins with the message, whose own lines could look like frames.
  const stack = (thrown.stack ?? '').replace(thrown.message, '')
  const frames = stack.split('\n').filter((line) => line.trimStart().startsWith('at '))
  return [thrown.name, harmless, ...frames.slice(0, 6)].filter(Boolean).join(' | ')
}

export const routes = [...account, ...clients, ...orders, ...changes, ...products, ...mail, ...files, ...batch]

export const app = createApp({ contracts, routes }, { contracts: adminContracts, routes: adminRoutes })

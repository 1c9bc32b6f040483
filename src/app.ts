import type { Context, Next } from 'hono'
import { HonoBase } from 'hono/hono-base'
import { TrieRouter } from 'hono/router/trie-router'
import type { AppEnv } from './kernel/api/context.ts'
import { addCommonHeaders, mount, OWN_ORIGIN, type Route, refuseMethod } from './kernel/api/endpoint.ts'
import { refuseQuery } from './kernel/api/input.ts'
import { databaseText, startUse } from './kernel/db/client.ts'
import { startObject } from './kernel/db/company-object.ts'
import { admit } from './kernel/gate/admit.ts'
import { ApiError, ERRORS, errorResponse, unavailable } from './kernel/http/errors.ts'
import { BUDGET_MS, DeadlineError, log, withDeadline } from './kernel/http/isolate.ts'
import { addressPolicy, isLoopback } from './kernel/http/outbound.ts'
import { adminRoutes } from './operation/admin/routes.ts'
import { countException } from './operation/health/failures.ts'
import { readHealth, readLiveness } from './operation/health/routes.ts'
import { routes as account } from './resources/account/routes.ts'
import { routes as batch } from './resources/batch/routes.ts'
import { routes as changes } from './resources/changes/routes.ts'
import { routes as clients } from './resources/clients/routes.ts'
import { RELAY, relayFile } from './resources/files/relay.ts'
import { routes as files } from './resources/files/routes.ts'
import { deploymentStorage } from './resources/files/storage.ts'
import { routes as mail } from './resources/mail/routes.ts'
import { routes as orders } from './resources/orders/routes.ts'
import { routes as products } from './resources/products/routes.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

const newApp = () => new HonoBase<AppEnv>({ strict: false, router: new TrieRouter() })

export function createApp(routes: readonly Route[], administration: readonly Route[]): HonoBase<AppEnv> {
  const app = newApp()
  app.use(serve)
  // Hono passes Errors to its own handler before the middleware sees them.
  app.onError(toResponse)
  app.notFound(serveAsset)

  const api = newApp()
  serveOpen(api, '/openapi.json', 'openapi', (c) => fetchAsset(c, '/openapi.json'))
  api.use(admit, openContext)
  mount(api, routes)
  app.route('/api/v1', api)

  const admin = newApp()
  serveOpen(admin, '/openapi.json', 'openapi', (c) => fetchAsset(c, '/admin-openapi.json'))
  mount(admin, administration)
  app.route('/admin/v1', admin)

  serveOpen(app, '/health', 'readHealth', (c) => readHealth(c.env))
  serveOpen(app, '/health/live', 'readLiveness', readLiveness)
  app.on(['GET', 'PUT'], `${RELAY}*`, relayFile)
  return app
}

export const routes = [...account, ...clients, ...orders, ...changes, ...products, ...mail, ...files, ...batch]

export const app = createApp(routes, adminRoutes)

/** Serves a path that needs no token and takes no query. */
function serveOpen(app: HonoBase<AppEnv>, path: string, operation: string, respond: typeof serveAsset): void {
  app.get(path, async (c) => {
    await refuseQuery(c)
    c.set('operation', operation)
    return respond(c)
  })
  app.all(path, refuseMethod(['GET', 'HEAD']))
}

/** Serves the reference page and its files through the Worker, so that they have its headers. */
async function serveAsset(c: Context<AppEnv>): Promise<Response> {
  const [, api] = /^\/(api\/v1|admin)(?:\/|$)/.exec(c.req.path) ?? []
  const mayBeAsset = ['GET', 'HEAD'].includes(c.req.method) && !/^\/(api|admin)(\/|$)/.test(c.req.path)
  const asset = mayBeAsset ? await fetchAsset(c) : null
  if (asset && asset.status !== 404) return asset
  // Callers forget the first part.
  const hint = api ? '' : 'paths of the API start with /api/v1, such as /api/v1/clients; '
  const base = api === 'admin' ? '/admin/v1' : '/api/v1'
  const message = `Route not found: ${hint}${base}/openapi.json describes every route`
  return errorResponse(new ApiError('not_found', { message }), c.req.url)
}

/** @param url by default that of the request */
async function fetchAsset({ env, req }: Context<AppEnv>, url = req.url): Promise<Response> {
  const request = new Request(new URL(url, req.url), req.raw)
  const asset = await withDeadline(env.ASSETS.fetch(request), BUDGET_MS.assets)
  // Headers of a fetched response are immutable.
  return new Response(asset.body, asset)
}

/** Runs the request within the rules of every response: its id, its headers, its line in the log. */
async function serve(c: Context<AppEnv>, next: Next): Promise<void> {
  const receivedAt = Date.now()
  const use = startUse()
  c.set('receivedAt', receivedAt)
  c.set('databaseUse', use)
  const given = c.req.header('x-request-id')
  const requestId = given && REQUEST_ID.test(given) ? given : crypto.randomUUID()
  c.set('requestId', requestId)
  const early = refuseForeignHost(c) ?? respondToPreflight(c)
  try {
    if (early) c.res = early
    else await next()
  } catch (thrown) {
    // Hono handles only Errors; anything else must not become a bare 500.
    c.res = toResponse(thrown, c)
  }
  addCommonHeaders(c)
  const [token, actor] = [c.get('usage')?.token, c.get('actor')]
  // Fields that are undefined are left out.
  log('request', {
    request_id: requestId,
    method: c.req.method,
    operation: c.get('operation'),
    status: c.res.status,
    duration_ms: Date.now() - receivedAt,
    company_id: token?.companyId ?? c.get('companyId'),
    token_id: token?.id,
    actor,
    address: actor && c.req.header('cf-connecting-ip'),
    rows_read: use.rowsRead,
    rows_written: use.rowsWritten,
    database_ms: Math.round(use.durationMs * 100) / 100,
    slow_statements: use.slow,
    served_by_region: use.region,
    served_by_primary: use.isPrimary,
    colo: c.req.raw.cf?.colo,
  })
}

/**
 * In development everyone on this machine is signed in, and the commands' token is public: a page of another site whose
 * name leads to a loopback address must not use them (DNS rebinding).
 */
function refuseForeignHost(c: Context<AppEnv>): Response | undefined {
  if (!c.env.ADMIN_DEVELOPMENT) return
  const { host, hostname } = new URL(c.req.url)
  const named = URL.parse(`http://${c.req.header('host') ?? host}`)?.hostname ?? ''
  if (isLoopback(hostname) && isLoopback(named)) return
  const message = 'In development the service has loopback addresses only: use 127.0.0.1 or localhost'
  return errorResponse(new ApiError('forbidden', { message }), c.req.url)
}

/** CORS: every origin may send every request. What protects is the token, which no browser sends by itself. */
function respondToPreflight(c: Context<AppEnv>): Response | undefined {
  if (c.req.method !== 'OPTIONS') return
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

/** Opens the company's database and hands the bindings on, each as what it is for. Runs behind `admit`. */
async function openContext(c: Context<AppEnv>, next: Next): Promise<void> {
  const { env, req } = c
  const waitUntil = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
  const usage = c.get('usage')
  const { token } = usage
  const { companyId } = token
  c.set('context', {
    requestId: c.get('requestId'),
    now: c.get('receivedAt'),
    token,
    companyId,
    db: usage.openDatabase(),
    // Few requests need these two.
    deploymentStorage: () => deploymentStorage(env, req.url),
    addresses: () => addressPolicy(env),
    mailContents: env.FILES,
    cache: env.CACHE,
    credentialsKey: env.CREDENTIALS_KEY,
    url: req.url,
    ifNoneMatch: req.header('if-none-match') ?? null,
    ifMatch: req.header('if-match') ?? null,
    idempotency: null,
    deliverAccounting: () => waitUntil(startObject(env.ACCOUNTING_DELIVERY, 'accounting', companyId)),
    announceChange: () => {
      if (token.hasWebhooks) waitUntil(startObject(env.WEBHOOK_DELIVERY, 'webhooks', companyId))
    },
    rememberFreshness: () => usage.remember(),
    waitUntil,
  })
  await next()
}

function toResponse(thrown: unknown, c: Context<AppEnv>): Response {
  const requestId = c.get('requestId')
  // The work goes on, and may still write.
  const isLate = thrown instanceof DeadlineError
  const refusal = isLate ? unavailable(10, { cause: thrown.message }) : thrown
  if (refusal instanceof ApiError) {
    const error = withoutRetry(refusal, c, isLate)
    const { status } = ERRORS[error.kind]
    if (status >= 500) log(error.kind, { request_id: requestId, status, error: withCause(error) }, 'error')
    return errorResponse(error, c.req.url, c.get('operation'))
  }
  log('failure', { request_id: requestId, status: 500, error: describe(thrown) }, 'error')
  countException(c.executionCtx, requestId)
  const message = `Internal error: report the request id ${requestId}`
  return errorResponse(new ApiError('internal_error', { message }), c.req.url, c.get('operation'))
}

/** Leaves `Retry-After` out where another method than PUT may have written: it promises that nothing changed. */
function withoutRetry(error: ApiError, c: Context<AppEnv>, isLate: boolean): ApiError {
  const { rowsWritten, openWrites } = c.get('databaseUse')
  // Repeated, a conditional PUT would find its own change and get 412.
  const condition = c.req.header('if-match') ?? c.req.header('if-none-match')
  const isRepeatable = ['GET', 'HEAD'].includes(c.req.method) || (c.req.method === 'PUT' && condition === undefined)
  const asksForRetry = error.kind === 'rate_limited' || (error.kind === 'unavailable' && 'Retry-After' in error.headers)
  if (!asksForRetry || isRepeatable || (rowsWritten + openWrites === 0 && !isLate)) return error
  const message =
    'The request may have been carried out, or a part of it: send it again with the Idempotency-Key that it had; without one, first read what was changed'
  return new ApiError('unavailable', { message, cause: withCause(error) })
}

const withCause = ({ message, cause }: ApiError) => [message, cause].filter(Boolean).join(' | ')

/** Describes a failure for the log, without any message that may hold values: see {@link databaseText}. */
function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return typeof thrown
  // The stack begins with the message, whose own lines could look like frames.
  const stack = (thrown.stack ?? '').replace(thrown.message, '')
  const frames = stack.split('\n').filter((line) => line.trimStart().startsWith('at '))
  return [thrown.name, databaseText(thrown), ...frames.slice(0, 6)].filter(Boolean).join(' | ')
}

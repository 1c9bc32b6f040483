import type { MiddlewareHandler, NotFoundHandler } from 'hono'
import type { Hono } from 'hono/tiny'
import type { Env } from '../../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError, errorResponse } from '../http/errors.ts'
import { joinOr } from '../http/messages.ts'
import type { AppEnv } from './context.ts'
import { honoPath, type Route } from './endpoint.ts'
import { refuseQuery } from './input.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE']

/** Mounts the routes of an API, and refuses every other method of their paths. HEAD is allowed wherever GET is. */
export function mount(api: Hono<AppEnv>, routes: readonly Route[]): void {
  for (const { mount } of routes) mount(api)
  for (const [path, ofPath] of Map.groupBy(routes, ({ contract }) => honoPath(contract))) {
    const methods: string[] = ofPath.map(({ contract }) => contract.method)
    const allowed = METHODS.filter((each) => methods.includes(each === 'HEAD' ? 'GET' : each))
    api.all(path, refuseMethod(allowed))
  }
}

export function refuseMethod(allowed: readonly string[]): MiddlewareHandler<AppEnv> {
  const message = `The path does not support this method: use ${joinOr(allowed)}`
  return () => {
    throw new ApiError('method_not_allowed', { message, headers: { Allow: allowed.join(', ') } })
  }
}

/** The published description is a static asset; it needs no token. */
export function serveDescription(api: Hono<AppEnv>, asset: string): void {
  api.get('/openapi.json', async (c) => {
    await refuseQuery(c)
    c.set('operation', 'openapi')
    return fetchAsset(c.env, new Request(new URL(`/${asset}`, c.req.url), c.req.raw))
  })
  api.all('/openapi.json', refuseMethod(['GET', 'HEAD']))
}

const DESCRIBED = '/api/v1/openapi.json describes every route'
/** For a path outside of the APIs: callers forget the first part. */
const NO_PREFIX = `Route not found: paths of the API start with /api/v1, such as /api/v1/clients; ${DESCRIBED}`

/** Serves the reference page and its files through the Worker, so that they have its headers. */
export const serveAsset: NotFoundHandler<AppEnv> = async (c) => {
  const isOfApi = /^\/(api\/v1|admin)(\/|$)/.test(c.req.path)
  const mayBeAsset = ['GET', 'HEAD'].includes(c.req.method) && !/^\/(api|admin)(\/|$)/.test(c.req.path)
  const asset = mayBeAsset ? await fetchAsset(c.env, c.req.raw) : null
  if (asset && asset.status !== 404) return asset
  const message = isOfApi ? `Route not found: ${DESCRIBED}` : NO_PREFIX
  return errorResponse(new ApiError('not_found', { message }), c.req.url)
}

async function fetchAsset({ ASSETS }: Env, request: Request): Promise<Response> {
  const asset = await withDeadline(ASSETS.fetch(request), BUDGET_MS.assets)
  // Headers of a fetched response are immutable.
  return new Response(asset.body, asset)
}

import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod/mini'
import { type Issue, readApiError } from '../client/errors.ts'
import { parseJson } from '../client/transport.ts'
import type { Contract, ResponseBody } from '../kernel/api/contract.ts'
import { CommandError } from './command.ts'

/** Where the administration API of a service is, and its `ADMIN_TOKEN`. */
export interface Service {
  url: string
  token: string
  /** The service token of Cloudflare Access, where Access protects the paths of the API. */
  headers?: Record<string, string>
}

export type InputOf<T> = T extends z.ZodMiniType ? z.input<T> : object
type Texts = Record<string, string | number | boolean | undefined>

export interface RequestOf<C extends Contract> {
  params?: Texts
  query?: Texts
  body?: InputOf<C['body']>
  /** Marks a POST or DELETE that may be sent twice, as after a lost connection. Other methods always may. */
  isRepeatable?: true
}

export type Element<C extends Contract> = ResponseBody<C> extends { data: (infer T)[] } ? T : never

export class AdminError extends CommandError {
  /** The HTTP status of the API's response; 0 without one. */
  readonly status: number
  readonly issues: readonly Issue[]
  /** After which the request is sent again; null where it must not be. */
  readonly retryMs: number | null

  constructor(message: string, retryMs: number | null, status = 0, issues: readonly Issue[] = []) {
    super(message)
    this.status = status
    this.issues = issues
    this.retryMs = retryMs
  }
}

const ATTEMPTS_MAX = 4
/** Before the next attempt, where the service names no pause. */
const RETRY_MS = 500
/** Where the service names a longer pause, its error is reported. */
const PAUSE_MAX_MS = 65_000

const listPage = z.object({
  data: z.array(z.unknown()),
  pagination: z.object({ next_cursor: z.nullable(z.string()) }),
})

export type AdminApi = ReturnType<typeof openAdminApi>

/** @throws AdminError for an error response, and when there is no service of this kind at the address */
export function openAdminApi(service: Service) {
  async function retry<T>(run: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await run()
      } catch (error) {
        const retryMs = error instanceof AdminError ? error.retryMs : null
        if (retryMs === null || retryMs > PAUSE_MAX_MS || attempt === ATTEMPTS_MAX) throw error
        await sleep(retryMs * (1 + Math.random() / 4))
      }
    }
  }

  const open = (contract: Contract, request: RequestOf<Contract>) => retry(() => send(service, contract, request))

  async function call<C extends Contract>(contract: C, request: RequestOf<C> = {}): Promise<ResponseBody<C>> {
    return retry(async () => {
      const response = await send(service, contract, request)
      const text = await response.text().catch(() => {
        throw wasCut(service, retryMsOf(contract, request))
      })
      const body = parseJson(text)
      const { error } = contract.response.safeParse(body)
      // A newer service may have added fields.
      if (error?.issues.some(({ code }) => code !== 'unrecognized_keys')) throw isOther(service, response, null)
      return body as ResponseBody<C>
    })
  }

  async function find<C extends Contract>(contract: C, request: RequestOf<C>): Promise<ResponseBody<C> | null> {
    return call(contract, request).catch((error: unknown) => {
      if (error instanceof AdminError && error.status === 404) return null
      throw error
    })
  }

  async function* list<C extends Contract>(contract: C, request: RequestOf<C> = {}): AsyncGenerator<Element<C>> {
    let cursor: string | undefined
    do {
      const query = { per_page: 100, ...request.query, ...(cursor !== undefined && { cursor }) }
      const page = listPage.parse(await call(contract, { ...request, query }))
      yield* page.data as Element<C>[]
      cursor = page.pagination.next_cursor ?? undefined
    } while (cursor !== undefined)
  }

  return { open, call, find, list }
}

/** @throws AdminError */
async function send(service: Service, contract: Contract, request: RequestOf<Contract>): Promise<Response> {
  const { method, path } = contract
  const { params = {}, query = {}, body } = request
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  const url = new URL(`${service.url}/admin/v1${filled}`)
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, `${value}`)
  const headers = { authorization: `Bearer ${service.token}`, ...service.headers }
  const content = body !== undefined && {
    headers: { ...headers, 'content-type': 'application/json' },
    // A string is JSON already, to be sent as it is.
    body: typeof body === 'string' ? body : JSON.stringify(body),
  }
  const retryMs = retryMsOf(contract, request)
  const response = await fetch(url, { method, headers, redirect: 'manual', ...content }).catch((error: unknown) => {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'network'
    // A connection that ends early, as while `dev` reloads, does not tell whether the request was carried out.
    if (code === 'ECONNRESET' || code === 'UND_ERR_SOCKET') throw wasCut(service, retryMs)
    throw new AdminError(`${service.url} cannot be reached (${code}).`, null)
  })
  if (response.ok) return response
  const error = readApiError(response, parseJson(await response.text().catch(() => '')))
  const { status, code, message, issues, retryAfterSeconds } = error
  if (code === 'unexpected_answer') throw isOther(service, response, status >= 500 ? retryMs : null)
  const text = status === 401 ? `The administration token is not the ADMIN_TOKEN of ${service.url}` : message
  const isBusy = (status === 429 || status === 503) && retryAfterSeconds !== null
  const pauseMs = isBusy ? retryAfterSeconds * 1000 : status === 503 ? retryMs : null
  throw new AdminError(text.replace(/\.?$/, '.'), pauseMs, status, issues)
}

/** Milliseconds before a request without a response is sent again; null for one that must not run twice. */
function retryMsOf({ method }: Contract, { isRepeatable }: RequestOf<Contract>): number | null {
  return (method !== 'POST' && method !== 'DELETE') || isRepeatable ? RETRY_MS : null
}

const adviceFor = (retryMs: number | null) =>
  retryMs === null ? ' It may have been carried out: look with `list` before you repeat it.' : ''

function wasCut({ url }: Service, retryMs: number | null): AdminError {
  return new AdminError(`${url} ended the connection before its response was complete.${adviceFor(retryMs)}`, retryMs)
}

function isOther({ url }: Service, { status }: Response, retryMs: number | null): AdminError {
  const isRedirect = status >= 300 && status < 400
  const hint = isRedirect ? ': Cloudflare Access needs CF_ACCESS_CLIENT_ID and …_SECRET' : ''
  const advice = status >= 500 ? adviceFor(retryMs) : ''
  return new AdminError(`${url} did not respond as this service does (HTTP ${status})${hint}.${advice}`, retryMs)
}

import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod/mini'
import type { Contract, ResponseBody } from '../kernel/api/contract.ts'
import { CommandError } from './command.ts'

/** Where the administration API of a service is, and its `ADMIN_TOKEN`. */
export interface Service {
  url: string
  token: string
  /** Of a service token of Cloudflare Access, where Access protects the paths of the API. */
  headers?: Record<string, string>
}

type InputOf<T> = T extends z.ZodMiniType ? z.input<T> : undefined
type Texts = Record<string, string | number | boolean | undefined>

/** What a contract's request consists of. */
export interface RequestOf<C extends Contract> {
  params?: Texts
  query?: Texts
  body?: InputOf<C['body']>
  /** Of a POST that does no harm when it is sent twice, as after a lost connection. Other methods never do. */
  isRepeatable?: true
}

/** An error response of the API. */
export class AdminError extends CommandError {
  readonly status: number
  readonly issues: { path: string; message: string }[]

  constructor(status: number, message: string, issues: { path: string; message: string }[] = []) {
    super(message)
    this.status = status
    this.issues = issues
  }
}

/** For `catch`: an error in the command's own words where the API responds 404. */
export function whenMissing(message: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof AdminError && error.status === 404 ? new CommandError(message) : error
  }
}

const errorBody = z.object({
  error: z.object({
    message: z.string(),
    details: z.nullish(z.object({ issues: z.optional(z.array(z.object({ path: z.string(), message: z.string() }))) })),
  }),
})

/** How often a request is sent at most. */
const ATTEMPTS = 4
/** Before the next attempt, where the service names no pause. */
const RETRY_MS = 500
/** Where the service names a longer pause, its error is reported. */
const PAUSE_MAX_MS = 65_000

export interface AdminApi {
  /**
   * Sends the request of a contract.
   *
   * @throws AdminError for an error response, CommandError when there is no service of this kind at the address
   */
  call<C extends Contract>(contract: C, request?: RequestOf<C>): Promise<ResponseBody<C>>
  /** The same, for a response that is not JSON. */
  open<C extends Contract>(contract: C, request?: RequestOf<C>): Promise<Response>
  /** The elements of a list, page after page. */
  list<C extends Contract>(contract: C, request?: RequestOf<C>): AsyncGenerator<Element<C>>
}

export type Element<C extends Contract> = ResponseBody<C> extends { data: (infer T)[] } ? T : never

export function openAdminApi(service: Service): AdminApi {
  const open: AdminApi['open'] = (contract, request = {}) => send(service, contract, request)
  const call: AdminApi['call'] = async (contract, request) => {
    const response = await open(contract, request)
    const body = await readJson(response)
    const { error } = contract.response.safeParse(body)
    // A newer service may have added fields.
    const isOther = error?.issues.some(({ code }) => code !== 'unrecognized_keys')
    if (isOther) throw new CommandError(describeOther(service, response))
    return body as ResponseBody<typeof contract>
  }
  return {
    open,
    call,
    async *list<C extends Contract>(contract: C, request: RequestOf<C> = {}) {
      for (let cursor: string | undefined, hasMore = true; hasMore; ) {
        const query = { per_page: 100, ...request.query, ...(cursor !== undefined && { cursor }) }
        const page = listPage.parse(await call(contract, { ...request, query }))
        yield* page.data as Element<C>[]
        cursor = page.pagination.next_cursor ?? undefined
        hasMore = cursor !== undefined
      }
    },
  }
}

const listPage = z.object({
  data: z.array(z.unknown()),
  pagination: z.object({ next_cursor: z.nullable(z.string()) }),
})

async function send(service: Service, contract: Contract, request: RequestOf<Contract>): Promise<Response> {
  const url = new URL(`${service.url}/admin/v1${fillIn(contract.path, request.params)}`)
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, String(value))
  }
  const mayRepeat = contract.method !== 'POST' || request.isRepeatable === true
  const hasBody = request.body !== undefined
  const init = {
    method: contract.method,
    headers: {
      authorization: `Bearer ${service.token}`,
      ...service.headers,
      ...(hasBody && { 'content-type': 'application/json' }),
    },
    ...(hasBody && { body: JSON.stringify(request.body) }),
    redirect: 'manual' as const,
  }
  for (let attempt = 1; ; attempt++) {
    const outcome = await fetch(url, init).catch((error: unknown) => failureOf(error, service, mayRepeat))
    if (outcome instanceof Response && outcome.ok) return outcome
    const { error, retryMs } = outcome instanceof Response ? await readFailure(outcome, service, mayRepeat) : outcome
    if (retryMs === null || retryMs > PAUSE_MAX_MS || attempt === ATTEMPTS) throw error
    await sleep(retryMs * (1 + Math.random() / 4))
  }
}

function fillIn(path: string, params: Texts = {}): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
}

interface Failure {
  error: CommandError
  /** After which the request is sent again; null where it must not be. */
  retryMs: number | null
}

/** A connection that ends early, as while `dev` reloads, does not tell whether the request was carried out. */
function failureOf(error: unknown, { url }: Service, mayRepeat: boolean): Failure {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'network'
  const isCut = code === 'ECONNRESET' || code === 'UND_ERR_SOCKET'
  return {
    error: new CommandError(`${url} cannot be reached (${code}).`),
    retryMs: isCut && mayRepeat ? RETRY_MS : null,
  }
}

async function readFailure(response: Response, service: Service, mayRepeat: boolean): Promise<Failure> {
  const { status, headers } = response
  const { url } = service
  const { success, data } = errorBody.safeParse(await readJson(response))
  if (!success) {
    const hint = status < 400 && status >= 300 ? ': Cloudflare Access needs CF_ACCESS_CLIENT_ID and …_SECRET' : ''
    return {
      error: new CommandError(describeOther(service, response, hint)),
      retryMs: status >= 500 && mayRepeat ? RETRY_MS : null,
    }
  }
  const { message, details } = data.error
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  const isRefused = status === 429 || status === 503
  const text = status === 401 ? `The administration token is not the ADMIN_TOKEN of ${url}` : message
  return {
    error: new AdminError(status, text.replace(/\.?$/, '.'), details?.issues),
    retryMs: isRefused && Number.isFinite(seconds) ? seconds * 1000 : null,
  }
}

function describeOther({ url }: Service, { status }: Response, hint = ''): string {
  return `${url} did not respond as this service does (HTTP ${status})${hint}.`
}

async function readJson(response: Response): Promise<unknown> {
  try {
    return JSON.parse(await response.text())
  } catch {
    return null
  }
}

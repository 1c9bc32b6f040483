import type * as z from 'zod/mini'
import { ApiError, nullIfNotFound, readApiError, unexpectedAnswer } from '../client/errors.ts'
import { listOf } from '../client/lists.ts'
import { parseJson, retryByRules, toQueryString } from '../client/transport.ts'
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

export type AdminApi = ReturnType<typeof openAdminApi>

/**
 * Requests are retried by the rules of the client package.
 * @throws ApiError for an error response, and when there is no service of this kind at the address
 */
export function openAdminApi(service: Service) {
  function exchange<T>(contract: Contract, request: RequestOf<Contract>, read: (response: Response) => T) {
    // Carried out without a response, it must not run again.
    const isUnrepeatable = (contract.method === 'POST' || contract.method === 'DELETE') && !request.isRepeatable
    const attempt = async () => read(await send(service, contract, request))
    return retryByRules({ isUnrepeatable }, attempt).catch((error) => throwReworded(error, service, isUnrepeatable))
  }

  /** The lines of a response, as they arrive. */
  const open = (contract: Contract, request: RequestOf<Contract>) =>
    exchange(contract, request, ({ body }) => linesOf(body ?? new ReadableStream()))

  async function call<C extends Contract>(contract: C, request: RequestOf<C> = {}): Promise<ResponseBody<C>> {
    return exchange(contract, request, async (response) => {
      const body = parseJson(await response.text().catch(wasCut))
      const { error } = contract.response.safeParse(body)
      // A newer service may have added fields.
      if (error?.issues.some(({ code }) => code !== 'unrecognized_keys')) throw unexpectedAnswer('Another response')
      return body as ResponseBody<C>
    })
  }

  const find = <C extends Contract>(contract: C, request: RequestOf<C>): Promise<ResponseBody<C> | null> =>
    call(contract, request).catch(nullIfNotFound)

  /** The elements of all pages. */
  function list<C extends Contract>(contract: C, { query, ...request }: RequestOf<C> = {}) {
    const read = <Page>(_: unknown, options: { query?: object } = {}) =>
      call(contract, { ...request, query: { ...options.query } }) as Promise<Page>
    return listOf<Element<C>, [query?: object]>(read).all(query)
  }

  return { open, call, find, list }
}

/** Failures before anything was sent. After another, as while `dev` reloads, the request may have been carried out. */
const UNSENT =
  /^(ECONNREFUSED|E(HOST|NET)UNREACH|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|EPROTO|network)$|^ERR_SSL_|UNABLE_TO|CERT/

/** @throws ApiError for an error response or a lost connection, CommandError where there is no service */
async function send(service: Service, contract: Contract, request: RequestOf<Contract>): Promise<Response> {
  const { method, path } = contract
  const { params = {}, query = {}, body } = request
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  const url = `${service.url}/admin/v1${filled}${toQueryString(query)}`
  const type = body !== undefined && { 'content-type': 'application/json' }
  const headers = { authorization: `Bearer ${service.token}`, ...service.headers, ...type }
  // A string is JSON already, to be sent as it is.
  const json = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(url, { method, headers, body: json, redirect: 'manual' }).catch((error: unknown) => {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'network'
    if (!UNSENT.test(code)) return wasCut()
    throw new CommandError(`${service.url} cannot be reached (${code}).`)
  })
  if (response.ok) return response
  const error = readApiError(response, parseJson(await response.text().catch(() => '')))
  // A proxy's `Retry-After` does not promise that nothing was changed.
  throw error.code === 'unexpected_answer' ? new ApiError({ ...error, retryAfterSeconds: null }) : error
}

/** The lines of a text. Only line feeds end a line: JSON may have other separators within texts. */
export async function* linesOf(bytes: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  let rest = ''
  for await (const text of bytes.pipeThrough(new TextDecoderStream('utf-8', { fatal: true }))) {
    const [end = '', ...others] = text.split('\n')
    const lines = [rest + end, ...others]
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}

function wasCut(): never {
  throw new ApiError({ status: 0, code: 'network_error', message: 'The connection ended early' })
}

/** For `catch`. In the words of the command line, without the status of another service, whose 404 tells nothing. */
function throwReworded(error: unknown, { url }: Service, isUnrepeatable: boolean): never {
  if (!(error instanceof ApiError)) throw error
  const { status, code } = error
  const advice = isUnrepeatable ? ' It may have been carried out: look with `list` before you repeat it.' : ''
  const hint = status >= 300 && status < 400 ? ': Cloudflare Access needs CF_ACCESS_CLIENT_ID and …_SECRET' : ''
  const other = `${url} did not respond as this service does (HTTP ${status})${hint}.${status >= 500 ? advice : ''}`
  const cut = `${url} ended the connection before its response was complete.${advice}`
  const named = status === 401 ? `The administration token is not the ADMIN_TOKEN of ${url}` : error.message
  if (code === 'unexpected_answer') throw new ApiError({ status: 0, code, message: other })
  throw new ApiError({ ...error, message: status === 0 ? cut : named.replace(/\.?$/, '.') })
}

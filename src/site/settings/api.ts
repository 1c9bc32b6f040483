import type * as z from 'zod/mini'
import { ApiError, readApiError } from '../../client/errors.ts'
import { parseJson, toQueryString } from '../../client/transport.ts'
import type { Contract, ResponseBody } from '../../kernel/api/contract.ts'
import type * as companies from '../../operation/admin/companies/contract.ts'
import type * as integrations from '../../operation/admin/integrations/contract.ts'
import type * as tokens from '../../operation/admin/tokens/contract.ts'
import type * as webhooks from '../../operation/admin/webhooks/contract.ts'
import { button, type Child, el, replace } from './dom.ts'

type Subjects = typeof companies & typeof integrations & typeof tokens & typeof webhooks
/** The name of a company's endpoint, such as `GET /tokens`; the company's own is `GET`. */
type NameOf<Method extends string, Path> = Path extends `/companies/{company_id}${infer Rest}`
  ? `${Method}${Rest extends '' ? '' : ` ${Rest}`}`
  : never
type Endpoints = { [C in Extract<Subjects[keyof Subjects], Contract> as NameOf<C['method'], C['path']>]: C }
type Endpoint = keyof Endpoints

type Text = string | number | boolean
type Texts<T> = { [Name in keyof T]: Text | Extract<T[Name], undefined> }
/** The company is that of the view. */
type ParamsOf<C> = C extends { params: z.ZodMiniType } ? Omit<Texts<z.input<C['params']>>, 'company_id'> : object
type Sent<C> = (keyof ParamsOf<C> extends never ? object : { params: ParamsOf<C> }) &
  (C extends { query: z.ZodMiniType } ? { query?: Texts<z.input<C['query']>> } : object) &
  (C extends { body: z.ZodMiniType } ? { body: z.input<C['body']> } : object)

export type ResponseOf<Name extends Endpoint> = ResponseBody<Endpoints[Name]>
export type Me = ResponseBody<typeof companies.readSession>

type Page<Item> = { data: Item[]; pagination: { next_cursor: string | null } }
type WithState = { id: number; state: string }
type ListEndpoint = { [Name in Endpoint]: ResponseOf<Name> extends Page<unknown> ? Name : never }[Endpoint]

export type ItemOf<Name extends Endpoint> = ResponseOf<Name> extends { data: (infer Item)[] } ? Item : never

export const readMe = (): Promise<Me> => send('GET /me', {})

/** Of each state of a list. */
export const LISTED_MAX = 1_000

export type CompanyApi = ReturnType<typeof openCompany>

/** The administration API of a company, as the person who is signed in. Its functions throw the errors of `send`. */
export function openCompany(companyId: number) {
  const addressOf = (endpoint: Endpoint) => endpoint.replace(/^(\w+) ?/, `$1 /companies/${companyId}`)
  async function readAll<Item>(endpoint: ListEndpoint, state?: string): Promise<Item[]> {
    const items: Item[] = []
    let cursor: string | undefined
    do {
      const query = { state, per_page: 100, cursor }
      const page: Page<Item> = await send(addressOf(endpoint), { query })
      items.push(...page.data)
      cursor = page.pagination.next_cursor ?? undefined
    } while (cursor !== undefined && items.length < LISTED_MAX)
    return items
  }
  return {
    call: <Name extends Endpoint>(endpoint: Name, request: Sent<Endpoints[Name]>): Promise<ResponseOf<Name>> =>
      send(addressOf(endpoint), request),
    list: <Name extends ListEndpoint>(endpoint: Name) => readAll<ItemOf<Name>>(endpoint),
    /** The items in the order of the states. An item may leave the `first` state meanwhile, which is read first. */
    async listByState<Name extends ListEndpoint>(endpoint: Name, states: object, first: string) {
      const items = new Map<number, ItemOf<Name> & WithState>()
      for (const state of new Set([first, ...Object.keys(states)])) {
        for (const item of await readAll<ItemOf<Name> & WithState>(endpoint, state)) {
          items.set(item.id, item)
        }
      }
      return Object.keys(states).flatMap((state) => [...items.values()].filter((item) => item.state === state))
    },
  }
}

type Parts = { params?: Record<string, Text>; query?: Record<string, Text | undefined>; body?: unknown }

/** @returns the JSON of the response @throws ApiError */
async function send<Body>(endpoint: string, { params = {}, query = {}, body }: Parts): Promise<Body> {
  const [method = '', template = ''] = endpoint.split(' ')
  const path = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(params[name])))
  const [response, json] = await fetch(`/admin/v1${path}${toQueryString(query)}`, {
    method,
    // The sign-in in front of the API redirects to its own HTML page, which is no response of the API: an error 302.
    redirect: 'manual',
    // The form is locked meanwhile. The service gives a request 30 seconds.
    signal: AbortSignal.timeout(60_000),
    headers: { accept: 'application/json', ...(body !== undefined && { 'content-type': 'application/json' }) },
    body: JSON.stringify(body),
  })
    .then(async (response) => [response, parseJson(await response.text())] as const)
    .catch(() => {
      const advice = method === 'GET' ? 'check the connection and try again' : 'close this and look whether it was done'
      throw new ApiError({ status: 0, code: 'network_error', message: `There was no response: ${advice}.` })
    })
  if (!response.ok || json === undefined) throw readApiError(response, json)
  return json as Body
}

export async function showLoaded(element: HTMLElement, content: Promise<Child>): Promise<void> {
  replace(element, await content.catch(showError))
}

/** Shows an error at its source, with the id by which the operator finds it in the log. */
export function showError(error: unknown): HTMLElement {
  return el('div', { class: 'notice bad', role: 'alert' }, describe(error))
}

function describe(error: unknown): Child {
  if (!(error instanceof ApiError)) {
    console.error(error)
    return el('p', 'This page failed: reload it.')
  }
  const { status, message, issues, requestId } = error
  if (status === 302 || status === 401) {
    return [
      el('p', el('strong', 'Your session has ended.'), ' Sign in again to continue.'),
      status === 401 && el('p', message),
      button('Sign in again', () => location.reload()),
    ]
  }
  const listed = issues.map(({ path, message }) => el('li', path && el('code', path), ` ${message}`))
  return [
    listed.length === 0 ? el('p', message) : el('ul', listed),
    requestId !== null && el('p', { class: 'quiet' }, 'Request ', el('code', requestId)),
  ]
}

import { toWellFormed, unexpectedAnswer } from './errors.ts'
import type { CallOptions, Read } from './transport.ts'
import type * as api from './types.ts'

type ListQuery = CallOptions & { page?: number | undefined; per_page?: number | undefined; cursor?: string | undefined }

const MAX_PER_PAGE = 100
const MAX_CHANGES_PER_PAGE = 1_000
/** The API responds to a long poll at the latest then. */
const MAX_WAIT_SECONDS = 25
const expects = ['data', 'pagination']

/** @throws ApiError for a page without a cursor, which would seem to be the last one */
function cursorAfter({ pagination }: api.CursorPage<unknown>): string | null {
  const cursor: string | null | undefined = pagination.next_cursor
  if (cursor !== undefined) return cursor
  throw unexpectedAnswer('The list has no cursor: this client needs version 1.1.0 of the API')
}

/** The methods of one list, whose query is `Args`. `cursor` starts after an earlier page, and excludes `page`. */
export function listOf<Item, Args extends [query?: ListQuery], OnePage extends api.CursorPage<Item> = api.Page<Item>>(
  read: Read,
  ...segments: string[]
) {
  const readPage = ({ signal, ...query }: ListQuery) => read<OnePage>(segments, { signal, query, expects })

  /** Pages of 100 by default. A page's `pagination.next_cursor` continues after it: see the README for how long. */
  async function* pages(...[query]: Args): AsyncGenerator<OnePage, void, undefined> {
    const { page: firstPage, per_page = MAX_PER_PAGE, ...filter }: ListQuery = query ?? {}
    for (let next: ListQuery = { per_page, ...filter, page: firstPage }; ; ) {
      const page = await readPage(next)
      if (page.data.length > 0) yield page
      const cursor = cursorAfter(page)
      if (cursor === null) return
      next = { per_page, ...filter, cursor }
    }
  }

  /** One by one. What exists during the whole walk is neither skipped nor repeated, whatever else changes. */
  async function* all(...args: Args): AsyncGenerator<Item, void, undefined> {
    for await (const page of pages(...args)) yield* page.data
  }

  return { list: (...[query]: Args) => readPage({ ...query }), pages, all }
}

type Poll = api.ChangesQuery & { wait?: number | undefined }

/**
 * The changes of the company, in the order in which they were committed.
 *
 * Store a page's `pagination.next_cursor` once all of the page is processed, of an empty page too: from there `pages` and
 * `follow` continue with the same `types`, in another process and weeks later. A cursor whose changes are no longer kept
 * rejects with `CursorExpiredError`.
 */
export function changesOf(read: Read) {
  const list = ({ signal, ...query }: Poll & { start?: 'latest' } = {}, options = {}) =>
    read<api.ChangesPage>(['changes'], { signal, query, expects, waitMs: (query.wait ?? 0) * 1000, ...options })
  const large = ({ per_page, ...query }: api.ChangesQuery) => ({
    per_page: per_page ?? (query.expand ? MAX_PER_PAGE : MAX_CHANGES_PER_PAGE),
    ...query,
  })

  return {
    /** One page. With `wait`, up to 25 seconds, an empty one is returned only after that time. */
    list: (query?: Poll) => list(query),

    /** A cursor that is followed by the changes of these types from now on. Take it before a full copy of the lists. */
    latestCursor: async (query: Pick<api.ChangesQuery, 'signal' | 'types'> = {}): Promise<string> =>
      (await list({ ...query, start: 'latest' })).pagination.next_cursor,

    /** Pages until there are no further changes. */
    async *pages(query: api.ChangesQuery = {}): AsyncGenerator<api.ChangesPage, void, undefined> {
      for (let { cursor } = query; ; ) {
        const page = await list({ ...large(query), cursor })
        yield page
        if (!page.pagination.has_more) return
        cursor = page.pagination.next_cursor
      }
    },

    /** Pages without an end, each as soon as there are changes. Outages of any length are waited for, a proxy's 2xx too. */
    async *follow(query: api.ChangesQuery = {}): AsyncGenerator<api.ChangesPage, never, undefined> {
      for (let { cursor } = query; ; ) {
        const page = await list({ ...large(query), cursor, wait: MAX_WAIT_SECONDS }, { isEndless: true })
        yield page
        cursor = page.pagination.next_cursor
      }
    },
  }
}

const EVERYTHING = 'totals,client,invoice,invoice_items,payments,tax,order_status,artworks'
const TYPES = ['clients', 'orders'] as const
const OPERATIONS_MAX = 100
/** Stays below the limit of a body, 1 MiB, with what surrounds the operations. */
const BATCH_BYTES_MAX = 900_000
/** The API's limit of an operation's path, in characters. */
const PATH_MAX = 4_000

/** Where a pull continues. It is JSON: store it with the page that came with it. */
export interface PullState {
  /** The cursor of the changes since the pull began. */
  changes: string
  /** The list that is being read, from `cursor` on; null once both were read. */
  list: (typeof TYPES)[number] | null
  cursor: string | null
}

/** Clients and orders as they are now, deleted ones included: each replaces an older one of its `id`. */
export interface PullPage {
  clients: api.Client[]
  orders: api.ExpandedOrder[]
  state: PullState
}

/**
 * Copies a company, and brings the copy up to date: without a state both lists and then the changes since, with the state
 * of an earlier page what follows it. Ends when there are no further changes.
 *
 * A state is good for 7 days while the lists are read, and for about 31 after that; then it rejects with
 * `CursorExpiredError`, or with an `ApiError` that names the `cursor`: begin again without it.
 */
export async function* pull(
  read: Read,
  from?: PullState,
  { signal }: CallOptions = {},
): AsyncGenerator<PullPage, void, undefined> {
  const changes = changesOf(read)
  // The cursor comes first, so that no change falls between the lists and the feed.
  let state: PullState = from ?? {
    changes: await changes.latestCursor({ types: TYPES, signal }),
    list: 'clients',
    cursor: null,
  }
  const whole = { deleted: 'include', sort: 'id', per_page: MAX_PER_PAGE }
  while (state.list) {
    const { list } = state
    const isClients = list === 'clients'
    const query = { ...whole, cursor: state.cursor ?? undefined, expand: isClients ? undefined : EVERYTHING }
    const page = await read<api.Page<api.Client | api.ExpandedOrder>>([list], { signal, query, expects })
    const cursor = cursorAfter(page)
    state = { ...state, cursor, list: cursor === null ? (isClients ? 'orders' : null) : list }
    yield { clients: [], orders: [], [list]: page.data, state }
  }
  const query = { cursor: state.changes, types: TYPES, expand: 'object', signal } as const
  for await (const { clients = [], orders = [], pagination } of changes.pages(query)) {
    state = { ...state, changes: pagination.next_cursor }
    yield { clients, orders, state }
  }
}

/** A client by your own id. */
export type PushedClient = api.WholeClient & { external_id: string }
/** An order by your own id. `client` is the `external_id` of a pushed client; else `client_id` names one. */
export type PushedOrder = Omit<api.WholeOrder, 'client_id'> & { external_id: string } & (
    | { client: string; client_id?: never }
    | { client_id: number; client?: never }
  )

/** The result of one client or order: `status` 200 and its response, or an error, also that of an order's client. */
export type PushResult = api.BatchResult & { type: (typeof TYPES)[number]; external_id: string }

type Batch = (operations: readonly api.BatchOperation[], options: CallOptions) => Promise<api.BatchAnswer>
/** Not sent where there is a `failure`: that is its result. */
type Put = { externalId: string; operation: api.BatchOperation; failure?: api.BatchResult | undefined }

/**
 * Creates or replaces clients and then orders by your own ids, in batches: one operation for each. Sent again after an
 * interruption, from the beginning, it leaves the same. To send less, give orders the `client_id` of an earlier result.
 *
 * @returns the results of each batch, once it is carried out. An order is not sent without its client: it gets the failure
 *   of that, or a 400 where no such client is pushed
 */
export async function* push(
  batch: Batch,
  { clients = [], orders = [] }: { clients?: Iterable<PushedClient>; orders?: Iterable<PushedOrder> },
  options: CallOptions = {},
): AsyncGenerator<PushResult[], void, undefined> {
  const ids = new Map<string, number>()
  const failures = new Map<string, PushResult>()
  async function* send<T>(type: PushResult['type'], elements: Iterable<T>, toPut: (element: T) => Put) {
    for (const puts of batchesOf(elements, toPut)) {
      const sent = puts.filter(({ failure }) => !failure)
      const operations = sent.map(({ operation }) => operation)
      const { results } = operations.length > 0 ? await batch(operations, options) : { results: [] }
      if (results.length !== sent.length) throw unexpectedAnswer('The batch has another number of results')
      yield puts.map((put) => {
        const result = (put.failure ?? results[sent.indexOf(put)]) as api.BatchResult
        return { ...result, type, external_id: put.externalId }
      })
    }
  }
  for await (const results of send('clients', clients, putClient)) {
    for (const result of results) {
      const { external_id, body } = result
      if ('client' in body && !('project' in body)) ids.set(external_id, body.client.id)
      else failures.set(external_id, result)
    }
    yield results
  }
  yield* send('orders', orders, (order) => putOrder(order, ids, failures))
}

function putClient({ external_id: externalId, ...body }: PushedClient): Put {
  const path = `/clients/by-external-id/${encode(externalId)}` as const
  return { externalId, operation: { method: 'PUT', path, body } }
}

function putOrder(
  { external_id: externalId, client, client_id, ...fields }: PushedOrder,
  ids: Map<string, number>,
  failures: Map<string, PushResult>,
): Put {
  const path = `/orders/by-external-id/${encode(externalId)}` as const
  const id = client_id ?? ids.get(client ?? '')
  const body = { ...fields, client_id: id } as api.WholeOrder
  const unknown = `order ${externalId} names the client ${client}, which is not pushed`
  const failure =
    id === undefined && client !== undefined
      ? (failures.get(client) ?? refuse('client', 'is not pushed', 400, unknown))
      : undefined
  return { externalId, operation: { method: 'PUT', path, body }, failure }
}

/** A lone surrogate, which no URL can contain, is refused by {@link findProblem}. */
const encode = (externalId: string) => encodeURIComponent(toWellFormed(externalId))

/** The result of an element for which the API would refuse the whole batch. */
function findProblem({ externalId, operation }: Put, bytes: number): api.BatchResult | undefined {
  const isWellFormed = externalId === toWellFormed(externalId)
  if (!isWellFormed) return refuse('external_id', 'must be well-formed Unicode, without lone surrogates')
  if (operation.path.length > PATH_MAX) return refuse('external_id', 'must have at most 255 characters')
  return bytes > BATCH_BYTES_MAX ? refuse('', `must have at most ${BATCH_BYTES_MAX} bytes`, 413) : undefined
}

function refuse(path: string, problem: string, status = 400, message = `${path || 'The body'} ${problem}`) {
  const details = { issues: [{ path, message: problem }], documentation_url: 'about:blank' }
  const error = { code: 'invalid_request', message, details } as const
  return { status, body: { error }, transaction: null }
}

/** Lazily, since the operations of orders need the results of clients. */
function* batchesOf<T>(elements: Iterable<T>, toPut: (element: T) => Put): Generator<Put[], void, undefined> {
  let puts: Put[] = []
  let total = 0
  for (const element of elements) {
    const sent = toPut(element)
    const bytes = new TextEncoder().encode(JSON.stringify(sent.operation)).byteLength
    const put = { ...sent, failure: sent.failure ?? findProblem(sent, bytes) }
    const size = put.failure ? 0 : bytes
    if (puts.length === OPERATIONS_MAX || (puts.length > 0 && total + size > BATCH_BYTES_MAX)) {
      yield puts
      puts = []
      total = 0
    }
    puts.push(put)
    total += size
  }
  if (puts.length > 0) yield puts
}

import { changesOf } from './lists.ts'
import type { CallOptions, Read } from './transport.ts'
import type * as api from './types.ts'

/** Every part of an order in a list. */
const EVERYTHING = 'totals,client,invoice,invoice_items,payments,tax,order_status,artworks'
const TYPES = ['clients', 'orders'] as const
const PER_PAGE = 100
const OPERATIONS_MAX = 100
/** Stays below the limit of a body, 1 MiB, with what surrounds the operations. */
const BATCH_BYTES_MAX = 900_000

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
  /** With every part. */
  orders: api.ListedOrder[]
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
  const whole = { deleted: 'include', sort: 'id', per_page: PER_PAGE }
  while (state.list) {
    const query = { ...whole, cursor: state.cursor ?? undefined }
    const isClients = state.list === 'clients'
    const clients = isClients ? await read<api.Page<api.Client>>(['clients'], { signal, query }) : null
    const expanded = { ...query, expand: EVERYTHING }
    const orders = isClients ? null : await read<api.Page<api.ListedOrder>>(['orders'], { signal, query: expanded })
    const cursor = (clients ?? orders)?.pagination.next_cursor ?? null
    state = { ...state, cursor, list: cursor === null ? (isClients ? 'orders' : null) : state.list }
    yield { clients: clients?.data ?? [], orders: orders?.data ?? [], state }
  }
  const query = { cursor: state.changes, types: TYPES, per_page: PER_PAGE, expand: 'object', signal } as const
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

/** What became of one: `status` 200 and its response, or an error. */
export type PushResult = api.BatchResult & { type: (typeof TYPES)[number]; external_id: string }

type Batch = (operations: readonly api.BatchOperation[], options: CallOptions) => Promise<api.BatchAnswer>
type Put = { externalId: string; operation: api.BatchOperation }

/**
 * Creates or replaces clients and then orders by your own ids, in batches: one operation for each. Sent again after an
 * interruption, from the beginning or from the first without a result, it leaves the same.
 *
 * @returns the results of each batch, once it is carried out
 */
export async function* push(
  batch: Batch,
  { clients = [], orders = [] }: { clients?: Iterable<PushedClient>; orders?: Iterable<PushedOrder> },
  options: CallOptions = {},
): AsyncGenerator<PushResult[], void, undefined> {
  const ids = new Map<string, number>()
  async function* send<T>(type: PushResult['type'], elements: Iterable<T>, toPut: (element: T) => Put) {
    for (const puts of batchesOf(elements, toPut)) {
      const operations = puts.map(({ operation }) => operation)
      const { results } = await batch(operations, options)
      yield results.map((result, index) => ({ ...result, type, external_id: puts[index]?.externalId ?? '' }))
    }
  }
  for await (const results of send('clients', clients, putClient)) {
    for (const { external_id, body } of results) {
      if ('client' in body && !('project' in body)) ids.set(external_id, body.client.id)
    }
    yield results
  }
  yield* send('orders', orders, (order) => putOrder(order, ids))
}

function putClient({ external_id: externalId, ...body }: PushedClient): Put {
  const path = `/clients/by-external-id/${encodeURIComponent(externalId)}` as const
  return { externalId, operation: { method: 'PUT', path, body } }
}

function putOrder(
  { external_id: externalId, client, client_id, ...fields }: PushedOrder,
  ids: Map<string, number>,
): Put {
  const path = `/orders/by-external-id/${encodeURIComponent(externalId)}` as const
  // Without the id of a client that failed, the order is refused too.
  const body = { ...fields, client_id: client_id ?? ids.get(client ?? '') } as api.WholeOrder
  return { externalId, operation: { method: 'PUT', path, body } }
}

/** Lazily, since the operations of orders need the results of clients. */
function* batchesOf<T>(elements: Iterable<T>, toPut: (element: T) => Put): Generator<Put[], void, undefined> {
  let puts: Put[] = []
  let bytes = 0
  for (const element of elements) {
    const put = toPut(element)
    const size = new TextEncoder().encode(JSON.stringify(put)).byteLength
    if (puts.length === OPERATIONS_MAX || (puts.length > 0 && bytes + size > BATCH_BYTES_MAX)) {
      yield puts
      puts = []
      bytes = 0
    }
    puts.push(put)
    bytes += size
  }
  if (puts.length > 0) yield puts
}

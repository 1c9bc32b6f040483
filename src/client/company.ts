import type { CallOptions } from './transport.ts'
import type {
  BatchAnswer,
  BatchOperation,
  BatchResult,
  ChangesPage,
  ChangesQuery,
  Client,
  ClientListQuery,
  Expansion,
  ListedOrder,
  OrderListQuery,
  Page,
  WholeClient,
  WholeOrder,
} from './types.ts'

/** Every part of an order in a list. */
const EVERYTHING: readonly Expansion[] = [
  ...(['totals', 'client', 'invoice', 'invoice_items', 'payments', 'tax', 'order_status', 'artworks'] as const),
]
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
  clients: Client[]
  /** With every part. */
  orders: ListedOrder[]
  state: PullState
}

interface Reads {
  listClients: (query: ClientListQuery) => Promise<Page<Client>>
  listOrders: (query: OrderListQuery) => Promise<Page<ListedOrder>>
  listChanges: (query: ChangesQuery & { expand: 'object' }) => Promise<ChangesPage>
  latestCursor: (query: Pick<ChangesQuery, 'signal' | 'types'>) => Promise<string>
}

/**
 * Copies a company, and brings the copy up to date: without a state both lists and then the changes since, with the state
 * of an earlier page what follows it. Ends when there are no further changes.
 *
 * A state is good for 7 days while the lists are read, and for about 31 after that; then it rejects with
 * `CursorExpiredError`, or with an `ApiError` that names the `cursor`: begin again without it.
 */
export async function* pull(
  { listClients, listOrders, listChanges, latestCursor }: Reads,
  from?: PullState,
  { signal }: CallOptions = {},
): AsyncGenerator<PullPage, void, undefined> {
  // The cursor comes first, so that no change falls between the lists and the feed.
  let state: PullState = from ?? {
    changes: await latestCursor({ types: TYPES, signal }),
    list: 'clients',
    cursor: null,
  }
  while (state.list) {
    const whole = {
      deleted: 'include',
      sort: 'id',
      per_page: PER_PAGE,
      cursor: state.cursor ?? undefined,
      signal,
    } as const
    const isClients = state.list === 'clients'
    const clients = isClients ? await listClients(whole) : null
    const orders = clients ? null : await listOrders({ ...whole, expand: EVERYTHING })
    const cursor = (clients ?? orders)?.pagination.next_cursor ?? null
    state = { ...state, cursor, list: cursor === null ? (isClients ? 'orders' : null) : state.list }
    yield { clients: clients?.data ?? [], orders: orders?.data ?? [], state }
  }
  for (let hasMore = true; hasMore; ) {
    const page = await listChanges({
      cursor: state.changes,
      types: TYPES,
      per_page: PER_PAGE,
      expand: 'object',
      signal,
    })
    state = { ...state, changes: page.pagination.next_cursor }
    hasMore = page.pagination.has_more
    yield { clients: page.clients ?? [], orders: page.orders ?? [], state }
  }
}

/** A client by your own id. */
export type PushedClient = WholeClient & { external_id: string }
/** An order by your own id. `client` is the `external_id` of a pushed client; else `client_id` names one. */
export type PushedOrder = Omit<WholeOrder, 'client_id'> & { external_id: string } & (
    | { client: string; client_id?: never }
    | { client_id: number; client?: never }
  )

/** What became of one: `status` 200 and its response, or an error. */
export type PushResult = BatchResult & { type: (typeof TYPES)[number]; external_id: string }

type Batch = (operations: readonly BatchOperation[], options: CallOptions) => Promise<BatchAnswer>

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
  const send = async (type: PushResult['type'], operations: Put[]): Promise<PushResult[]> => {
    const { results } = await batch(
      operations.map(({ externalId: _, ...operation }) => operation),
      options,
    )
    return results.map((result, index) => ({ ...result, type, external_id: operations[index]?.externalId ?? '' }))
  }
  for (const operations of batchesOf(clients, putClient)) {
    const results = await send('clients', operations)
    for (const { external_id, body } of results)
      if ('client' in body && !('project' in body)) ids.set(external_id, body.client.id)
    yield results
  }
  for (const operations of batchesOf(orders, (order) => putOrder(order, ids))) yield await send('orders', operations)
}

type Put = BatchOperation & { externalId: string }

function putClient({ external_id, ...body }: PushedClient): Put {
  return {
    method: 'PUT',
    path: `/clients/by-external-id/${encodeURIComponent(external_id)}`,
    body,
    externalId: external_id,
  }
}

function putOrder({ external_id, client, client_id, ...fields }: PushedOrder, ids: ReadonlyMap<string, number>): Put {
  // Without the id of a client that failed, the order is refused too.
  const body = { ...fields, client_id: client_id ?? ids.get(client ?? '') } as WholeOrder
  return {
    method: 'PUT',
    path: `/orders/by-external-id/${encodeURIComponent(external_id)}`,
    body,
    externalId: external_id,
  }
}

/** Lazily, since the operations of orders need the results of clients. */
function* batchesOf<T>(elements: Iterable<T>, toOperation: (element: T) => Put): Generator<Put[], void, undefined> {
  let operations: Put[] = []
  let bytes = 0
  for (const element of elements) {
    const operation = toOperation(element)
    const size = new TextEncoder().encode(JSON.stringify(operation)).byteLength
    if (operations.length === OPERATIONS_MAX || (operations.length > 0 && bytes + size > BATCH_BYTES_MAX)) {
      yield operations
      operations = []
      bytes = 0
    }
    operations.push(operation)
    bytes += size
  }
  if (operations.length > 0) yield operations
}

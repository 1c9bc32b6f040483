import { changesOf, listOf, type PullState, type PushedClient, type PushedOrder, pull, push } from './lists.ts'
import {
  type CallOptions,
  type ChangeOptions,
  type ClientOptions,
  createTransport,
  type PutOptions,
  type Read,
  toEntityTag,
  type WriteOptions,
} from './transport.ts'
import type * as api from './types.ts'

type InMailbox = { account_email: string }
type SearchQuery = CallOptions & { q?: string | undefined; include?: readonly api.SearchSource[] | undefined }
type UpsertOptions = PutOptions & { ifNoneMatch?: '*' | undefined }
type TaggedRead = CallOptions & { ifNoneMatch?: string | null | undefined }

export type ApiClient = ReturnType<typeof createClient>

/**
 * A client of the API for one company's token.
 *
 * Every method takes a `signal` and rejects with an `ApiError`, or with the signal's reason once it is aborted. Failed
 * calls are retried by `RETRY_RULES`; every POST, PATCH and DELETE has an idempotency key, so that it is carried out
 * once. The `X-Bookmark` of the last response is sent with the next request, so that a client reads its own writes from
 * any replica.
 */
export function createClient(options: ClientOptions) {
  const transport = createTransport(options)

  type Request = Parameters<typeof transport.send>
  const send = async <Body>(...request: Request) => (await transport.send<Body>(...request)).body
  const read: Read = (segments, options) => send('GET', segments, options)
  /** One member of the response. */
  const sendFor = async <Value>(name: string, ...[method, segments, options]: Request) =>
    (await send<Record<string, Value>>(method, segments, { ...options, expects: [name] }))[name] as Value
  const readItems = <Item>(...request: Parameters<Read>) => sendFor<Item[]>('data', 'GET', ...request)
  const sendClient = (...request: Request) => sendFor<api.Client>('client', ...request)

  async function readTagged<Body, Value>(
    name: keyof Body & string,
    segments: Request[1],
    options: TaggedRead,
    select: (body: Body) => Value,
  ) {
    const request = { ...options, expects: [name] }
    const { isNotModified, etag, body } = await transport.send<Body>('GET', segments, request)
    const result: api.Tagged<Value> = isNotModified
      ? { notModified: true, value: null, etag: etag ?? options.ifNoneMatch ?? null }
      : { notModified: false, value: select(body), etag }
    return result
  }

  const clients = {
    ...listOf<api.Client, [query?: api.ClientListQuery]>(read, 'clients'),
    get: (id: number, options?: CallOptions) => sendClient('GET', ['clients', id], options),
    /** Case-insensitive exact match. */
    getByEmail: (email: string, options?: CallOptions) =>
      sendClient('GET', ['clients', 'by-email'], { ...options, query: { email } }),
    getByExternalId: (externalId: string, options?: CallOptions) =>
      sendClient('GET', ['clients', 'by-external-id', externalId], options),
    /** With `ifNoneMatch`, the `etag` of an earlier response, an unchanged client is returned as `notModified`. */
    getTagged: (id: number, options: TaggedRead = {}) =>
      readTagged('client', ['clients', id], options, (body: { client: api.Client }) => body.client),
    create: (body: api.NewClient, options?: WriteOptions) => sendClient('POST', ['clients'], { ...options, body }),
    /** By id or by email. `deleted: true` soft-deletes. */
    update: (idOrEmail: api.Id, body: api.ClientChanges, options?: ChangeOptions) =>
      sendClient('PATCH', ['clients', idOrEmail], { ...options, body }),
    /** Soft-deletes the client; `update` with `deleted: false` restores it. */
    delete: (idOrEmail: api.Id, options?: ChangeOptions) => sendClient('DELETE', ['clients', idOrEmail], options),
    /** Creates the client of your own id, or replaces its fields: those left out become what they are in a new client. */
    upsert: (externalId: string, body: api.WholeClient, options?: UpsertOptions) =>
      sendClient('PUT', ['clients', 'by-external-id', externalId], { ...options, body }),
  }

  const orders = {
    ...listOf<api.ListedOrder, [query?: api.OrderListQuery]>(read, 'orders'),
    /** With `deleted: 'include'` also a deleted order. */
    get: (id: api.Id, { deleted, ...options }: CallOptions & { deleted?: 'include' | undefined } = {}) =>
      send<api.FullOrder>('GET', ['orders', id], { ...options, query: { deleted } }),
    /** As {@link clients.getTagged}; the tag covers all parts of the order. */
    getTagged: (id: api.Id, options: TaggedRead = {}) =>
      readTagged('project', ['orders', id], options, (body: api.FullOrder) => body),
    create: (body: api.NewOrder, options?: WriteOptions) =>
      send<api.FullOrder>('POST', ['orders'], { ...options, body }),
    update: (id: api.Id, body: api.OrderChanges, options?: ChangeOptions) =>
      send<api.OrderAnswer>('PATCH', ['orders', id], { ...options, body }),
    /** Creates the order of your own id, or replaces its fields: a status and lists that are left out stay. */
    upsert: (externalId: string, body: api.WholeOrder, options?: UpsertOptions) =>
      send<api.PutOrderAnswer>('PUT', ['orders', 'by-external-id', externalId], { ...options, body }),
    /** Soft-deletes the order and its invoice; `update` with `deleted: false` restores what was deleted together. */
    delete: (id: api.Id, options?: ChangeOptions) => send<api.OrderAnswer>('DELETE', ['orders', id], options),
    /** Replaces all lines of the invoice. */
    putInvoiceItems: (id: api.Id, items: readonly api.NewInvoiceItem[], options?: PutOptions) =>
      send<api.InvoiceItemsAnswer>('PUT', ['orders', id, 'invoice-items'], { ...options, body: { items } }),
    addPayment: (id: api.Id, body: api.NewPayment, options?: ChangeOptions) =>
      send<api.PaymentAnswer>('POST', ['orders', id, 'payments'], { ...options, body }),
    payments: (id: api.Id, options?: CallOptions) => readItems<api.Payment>(['orders', id, 'payments'], options),
    updatePayment: (id: api.Id, paymentId: api.Id, body: api.PaymentChanges, options?: ChangeOptions) =>
      send<api.PaymentAnswer>('PATCH', ['orders', id, 'payments', paymentId], { ...options, body }),
    deletePayment: (id: api.Id, paymentId: api.Id, options?: ChangeOptions) =>
      send<api.PaymentAnswer>('DELETE', ['orders', id, 'payments', paymentId], options),
  }

  const products = {
    /** `include` limits the sources. Default: all. */
    search: ({ q, include = [], signal }: SearchQuery = {}) => {
      const query = { q, include: include.join(',') || undefined }
      return send<api.ProductSearch>('GET', ['products', 'search'], { signal, query })
    },
    info: <Source extends keyof api.ProductQueries>(
      source: Source,
      query: api.ProductQueries[Source],
      options?: CallOptions,
    ) => send<api.ProductAnswers[Source]>('GET', ['products', source], { ...options, query: { ...query } }),
  }

  const cursorListOf = <Item, Query extends CallOptions>(...segments: string[]) =>
    listOf<Item, [query: Query], api.CursorPage<Item>>(read, ...segments)
  const emailThreadPath = (legacyThreadId: string) => ['mail', 'email-threads', legacyThreadId]
  const mail = {
    getThreadContext: (legacyThreadId: string, options?: CallOptions) =>
      send<api.ThreadContext>('GET', ['mail', 'threads', legacyThreadId], options),
    /** Links the thread to clients and orders, in place of what it was linked to. */
    putThreadContext: (legacyThreadId: string, body: api.ThreadContextBody, options?: CallOptions) =>
      send<api.ThreadContext>('PUT', ['mail', 'threads', legacyThreadId], { ...options, body }),
    deleteThreadContext: (legacyThreadId: string, options?: WriteOptions) =>
      send<api.ThreadContext>('DELETE', ['mail', 'threads', legacyThreadId], options),
    /** The contexts of an order or of a client. */
    threadContexts: cursorListOf<api.ThreadContext, api.ThreadContextQuery>('mail', 'threads'),
    /** The threads of a mailbox, without their messages. */
    emailThreads: cursorListOf<api.ListedEmailThread, api.EmailThreadQuery>('mail', 'email-threads'),
    /** Soft-deletes the thread; `putEmailThread` restores it. */
    deleteEmailThread: (legacyThreadId: string, { account_email, ...options }: InMailbox & WriteOptions) => {
      const request = { ...options, query: { account_email } }
      return sendFor<api.ListedEmailThread>('email_thread', 'DELETE', emailThreadPath(legacyThreadId), request)
    },
    /** Creates or replaces the thread of this mailbox. */
    putEmailThread: (legacyThreadId: string, body: api.EmailThreadBody, options?: CallOptions) =>
      sendFor<api.EmailThread>('email_thread', 'PUT', emailThreadPath(legacyThreadId), { ...options, body }),
    /** With `ifNoneMatch`, an earlier `etag`, a thread that was not stored again since is returned as `notModified`. */
    getEmailThread: async (
      legacyThreadId: string,
      { account_email, ...options }: InMailbox & TaggedRead,
    ): Promise<api.EmailThreadAnswer> => {
      const request = { ...options, query: { account_email } }
      const select = (body: { email_thread: api.EmailThread }) => body.email_thread
      const tagged = await readTagged('email_thread', emailThreadPath(legacyThreadId), request, select)
      if (tagged.notModified) return { notModified: true, emailThread: null, etag: tagged.etag }
      return { notModified: false, emailThread: tagged.value, etag: tagged.etag }
    },
  }

  const files = {
    /** A presigned upload URL for one file. */
    presign: (orderId: api.Id, body: api.PresignRequest, options?: CallOptions) =>
      send<api.PresignedUpload>('POST', ['orders', orderId, 'files', 'presign'], { ...options, body, isRead: true }),
    /** All files of the order, or those of one thread. */
    list: (orderId: api.Id, { signal, legacyThreadId }: { legacyThreadId?: string | undefined } & CallOptions = {}) =>
      send<api.FileListing>('GET', ['orders', orderId, 'files'], { signal, query: { legacyThreadId } }),
    /** A presigned URL to download a file, by the `path` of its listing. */
    download: (orderId: api.Id, path: string, options?: CallOptions) =>
      send<api.PresignedDownload>('GET', ['orders', orderId, 'files', 'download'], { ...options, query: { path } }),
    delete: (orderId: api.Id, path: string, options?: WriteOptions) =>
      sendFor<api.OrderFile>('file', 'DELETE', ['orders', orderId, 'files'], { ...options, query: { path } }),
    /** PUTs a file's bytes to its presigned URL. */
    upload: transport.upload,
  }

  /** Up to 100 creates and updates, each with a result of its own, in their order. */
  const batch = (operations: readonly api.BatchOperation[], options?: WriteOptions) => {
    const toWire = ({ ifMatch, ...operation }: api.BatchOperation) =>
      ifMatch === undefined ? operation : { ...operation, if_match: toEntityTag(ifMatch) }
    const request = {
      body: { operations: operations.map(toWire) },
      requestCount: operations.length,
      expects: ['results'],
    }
    return send<api.BatchAnswer>('POST', ['batch'], { ...options, ...request })
  }

  return {
    clients,
    orders,
    products,
    mail,
    files,
    changes: changesOf(read),
    /** The company, the token and their limits. */
    me: (options?: CallOptions) => send<api.Account>('GET', ['me'], options),
    orderStatuses: (options?: CallOptions) => readItems<api.OrderStatus>(['order-statuses'], options),
    taxes: (options?: CallOptions) => readItems<api.Tax>(['taxes'], options),
    batch,
    /** Copies the company's clients and orders, or continues a copy: see {@link pull}. */
    pull: (state?: PullState, options?: CallOptions) => pull(read, state, options),
    /** Creates or replaces clients and orders by your own ids: see {@link push}. */
    push: (items: { clients?: Iterable<PushedClient>; orders?: Iterable<PushedOrder> }, options?: CallOptions) =>
      push(batch, items, options),
    /** Later reads have at least what a bookmark stands for: that of a webhook's event, before what it names is read. */
    follow: transport.follow,
    /** Remaining rate limit of the token, by the last responses; null before the first one. */
    readRateBudget: transport.readBudget,
  }
}

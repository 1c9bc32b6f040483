import { listOf } from './pages.ts'
import {
  type CallOptions,
  type ChangeOptions,
  type ClientOptions,
  createTransport,
  type WriteOptions,
} from './transport.ts'
import type {
  Client,
  ClientChanges,
  ClientListQuery,
  EmailThread,
  EmailThreadAnswer,
  EmailThreadBody,
  FileListing,
  FullOrder,
  Id,
  NewClient,
  NewOrder,
  OrderAnswer,
  OrderChanges,
  OrderListQuery,
  PresignedUpload,
  PresignRequest,
  ProductAnswers,
  ProductQueries,
  ProductSearch,
  Project,
  SearchSource,
  ThreadContext,
} from './types.ts'

type OneThread = { email_thread: EmailThread }

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
  const read = <Body>(segments: Request[1], options: Request[2]) => send<Body>('GET', segments, options)
  const sendClient = async (...request: Request) => (await send<{ client: Client }>(...request)).client

  const clients = {
    ...listOf<Client, ClientListQuery>(read, 'clients'),
    get: (id: number, options?: CallOptions) => sendClient('GET', ['clients', id], options),
    /** Case-insensitive exact match. */
    getByEmail: (email: string, options?: CallOptions) =>
      sendClient('GET', ['clients', 'by-email'], { ...options, query: { email } }),
    create: (body: NewClient, options?: WriteOptions) => sendClient('POST', ['clients'], { ...options, body }),
    /** By id or by email. `deleted: true` soft-deletes. */
    update: (idOrEmail: Id, body: ClientChanges, options?: ChangeOptions) =>
      sendClient('PATCH', ['clients', idOrEmail], { ...options, body }),
  }

  const orders = {
    ...listOf<Project, OrderListQuery>(read, 'orders'),
    get: (id: Id, options?: CallOptions) => send<FullOrder>('GET', ['orders', id], options),
    create: (body: NewOrder, options?: WriteOptions) => send<FullOrder>('POST', ['orders'], { ...options, body }),
    update: (id: Id, body: OrderChanges, options?: ChangeOptions) =>
      send<OrderAnswer>('PATCH', ['orders', id], { ...options, body }),
    /** Soft-deletes the order and its invoice. */
    delete: (id: Id, options?: ChangeOptions) => send<OrderAnswer>('DELETE', ['orders', id], options),
  }

  const products = {
    /** `include` limits the sources. Default: all. */
    search: ({ q, include = [], signal }: CallOptions & { q?: string; include?: SearchSource[] } = {}) => {
      const query = { q, include: include.join(',') || undefined }
      return send<ProductSearch>('GET', ['products', 'search'], { signal, query })
    },
    info: <Source extends keyof ProductQueries>(source: Source, query: ProductQueries[Source], options?: CallOptions) =>
      send<ProductAnswers[Source]>('GET', ['products', source], { ...options, query: { ...query } }),
  }

  const mail = {
    getThreadContext: (legacyThreadId: string, options?: CallOptions) =>
      send<ThreadContext>('GET', ['mail', 'threads', legacyThreadId], options),
    /** Creates or replaces the thread of this mailbox. */
    putEmailThread: async (legacyThreadId: string, body: EmailThreadBody, options?: CallOptions) =>
      (await send<OneThread>('PUT', ['mail', 'email-threads', legacyThreadId], { ...options, body })).email_thread,
    /** With `ifNoneMatch`, the `etag` of an earlier response, an unchanged thread is returned as `notModified`. */
    getEmailThread: async (
      legacyThreadId: string,
      { account_email, ifNoneMatch, signal }: { account_email: string; ifNoneMatch?: string | null } & CallOptions,
    ): Promise<EmailThreadAnswer> => {
      const request = { query: { account_email }, ifNoneMatch, signal }
      const segments = ['mail', 'email-threads', legacyThreadId]
      const { isNotModified, etag, body } = await transport.send<OneThread>('GET', segments, request)
      if (isNotModified) return { notModified: true, emailThread: null, etag: etag ?? ifNoneMatch ?? null }
      return { notModified: false, emailThread: body.email_thread, etag }
    },
  }

  const files = {
    /** A presigned upload URL for one file. */
    presign: (orderId: Id, body: PresignRequest, options?: CallOptions) =>
      send<PresignedUpload>('POST', ['orders', orderId, 'files', 'presign'], { ...options, body, isRead: true }),
    /** All files of the order, or those of one thread. */
    list: (orderId: Id, { signal, legacyThreadId }: { legacyThreadId?: string } & CallOptions = {}) =>
      send<FileListing>('GET', ['orders', orderId, 'files'], { signal, query: { legacyThreadId } }),
    /** PUTs a file's bytes to its presigned URL. */
    upload: transport.upload,
  }

  /** What is left of the token's rate limit, by the last responses; null before the first one. */
  const readRateBudget = transport.readBudget

  return { clients, orders, products, mail, files, readRateBudget }
}

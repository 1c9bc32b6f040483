import type {
  EmailThread,
  EmailThreadBody,
  FileListing,
  PresignedUpload,
  PresignRequest,
  ThreadContext,
} from './mail-types.ts'
import { type CallOptions, type ClientOptions, createTransport, type Segments } from './transport.ts'
import type {
  Client,
  ClientChanges,
  FullOrder,
  NewClient,
  NewOrder,
  OrderAnswer,
  OrderChanges,
  Page,
  ProductAnswers,
  ProductQueries,
  ProductSearch,
  Project,
  SearchSource,
} from './types.ts'

export interface ClientListQuery extends CallOptions {
  page?: number
  per_page?: number
  q?: string
}

export interface OrderListQuery extends CallOptions {
  page?: number
  per_page?: number
  client_id?: number | string
  /** Id of an order status. */
  status?: number | string
  /** `YYYY-MM-DD`, inclusive, as is `to`. */
  from?: string
  to?: string
}

export type EmailThreadAnswer =
  | { notModified: false; emailThread: EmailThread; etag: string | null }
  | { notModified: true; emailThread: null; etag: string | null }

export interface UploadOptions extends CallOptions {
  /**
   * Bytes sent of bytes in all: 0 whenever a try begins, all of them once stored. Nothing between, since fetch tells
   * nothing of a body on its way, and a body in pieces would lack the Content-Length that the address is signed for.
   */
  onProgress?: ((sentBytes: number, totalBytes: number) => void) | undefined
}

/**
 * A client of the API for one company's token.
 *
 * Every method takes a `signal` and rejects with an `ApiError`, or with the signal's reason once it is aborted.
 * A 429 is repeated after its `Retry-After` (up to 120 s; else it is the caller's); a lost answer, 502, 503 and 504 are
 * repeated for GET, PUT and presign, never for what creates, changes or deletes. The `X-Bookmark` of the last answer
 * goes with the next call, so that a client sees its own writes whichever replica answers.
 */
export function createClient(options: ClientOptions) {
  const transport = createTransport(options)

  /** Sends a call that may be repeated. */
  async function read<Body>(
    segments: Segments,
    query: Record<string, string | number | undefined>,
    signal?: AbortSignal,
  ) {
    return (await transport.send<Body>({ method: 'GET', segments, query, repeatable: true }, signal)).body
  }

  /** Sends a call that must not be carried out twice. */
  async function change<Body>(
    method: 'POST' | 'PATCH' | 'DELETE',
    segments: Segments,
    body: unknown,
    signal?: AbortSignal,
  ) {
    return (await transport.send<Body>({ method, segments, body, repeatable: false }, signal)).body
  }

  const clients = {
    list: ({ signal, ...query }: ClientListQuery = {}) => read<Page<Client>>(['clients'], query, signal),
    /** Pages from `page` on (default 1) to the last. A client created meanwhile may show up on two pages. */
    pages: (query: ClientListQuery = {}) => walkPages((page) => clients.list({ ...query, page }), query.page),
    get: async (id: number, { signal }: CallOptions = {}) =>
      (await read<{ client: Client }>(['clients', id], {}, signal)).client,
    /** Case-insensitive exact match. */
    getByEmail: async (email: string, { signal }: CallOptions = {}) =>
      (await read<{ client: Client }>(['clients', 'by-email'], { email }, signal)).client,
    create: async (client: NewClient, { signal }: CallOptions = {}) =>
      (await change<{ client: Client }>('POST', ['clients'], client, signal)).client,
    /** By id or by email. `deleted: true` soft-deletes. */
    update: async (idOrEmail: number | string, changes: ClientChanges, { signal }: CallOptions = {}) =>
      (await change<{ client: Client }>('PATCH', ['clients', idOrEmail], changes, signal)).client,
  }

  const orders = {
    list: ({ signal, ...query }: OrderListQuery = {}) => read<Page<Project>>(['orders'], query, signal),
    /** Pages from `page` on (default 1) to the last. An order created meanwhile may show up on two pages. */
    pages: (query: OrderListQuery = {}) => walkPages((page) => orders.list({ ...query, page }), query.page),
    get: (id: number | string, { signal }: CallOptions = {}) => read<FullOrder>(['orders', id], {}, signal),
    create: (order: NewOrder, { signal }: CallOptions = {}) => change<FullOrder>('POST', ['orders'], order, signal),
    update: (id: number | string, changes: OrderChanges, { signal }: CallOptions = {}) =>
      change<OrderAnswer>('PATCH', ['orders', id], changes, signal),
    /** Soft-deletes the order and its invoice. */
    delete: (id: number | string, { signal }: CallOptions = {}) =>
      change<OrderAnswer>('DELETE', ['orders', id], undefined, signal),
  }

  const products = {
    /** `include` limits the sources; left out or empty: all of them. */
    search: ({ q, include = [], signal }: CallOptions & { q?: string; include?: SearchSource[] } = {}) =>
      read<ProductSearch>(['products', 'search'], { q, include: include.join(',') || undefined }, signal),
    info: <Source extends keyof ProductQueries>(
      source: Source,
      query: ProductQueries[Source],
      { signal }: CallOptions = {},
    ) => read<ProductAnswers[Source]>(['products', source], { ...query }, signal),
  }

  const mail = {
    getThreadContext: (legacyThreadId: string, { signal }: CallOptions = {}) =>
      read<ThreadContext>(['mail', 'threads', legacyThreadId], {}, signal),
    /** Creates or replaces the thread of this mailbox. */
    putEmailThread: async (legacyThreadId: string, body: EmailThreadBody, { signal }: CallOptions = {}) => {
      const segments = ['mail', 'email-threads', legacyThreadId]
      const request = { method: 'PUT', segments, body, repeatable: true } as const
      return (await transport.send<{ email_thread: EmailThread }>(request, signal)).body.email_thread
    },
    /** With `ifNoneMatch`, the `etag` of an earlier answer, an unchanged thread comes back as `notModified`. */
    getEmailThread: async (
      legacyThreadId: string,
      query: { account_email: string; ifNoneMatch?: string | null } & CallOptions,
    ): Promise<EmailThreadAnswer> => {
      const request = {
        method: 'GET',
        segments: ['mail', 'email-threads', legacyThreadId],
        query: { account_email: query.account_email },
        headers: query.ifNoneMatch ? { 'if-none-match': query.ifNoneMatch } : {},
        repeatable: true,
      } as const
      const answer = await transport.send<{ email_thread: EmailThread }>(request, query.signal)
      const etag = answer.headers.get('etag')
      if (answer.status === 304)
        return { notModified: true, emailThread: null, etag: etag ?? query.ifNoneMatch ?? null }
      return { notModified: false, emailThread: answer.body.email_thread, etag }
    },
  }

  const files = {
    /** An upload address for one file. Changes nothing, so a lost answer is asked for again. */
    presign: async (orderId: number | string, file: PresignRequest, { signal }: CallOptions = {}) => {
      const request = { method: 'POST', segments: ['orders', orderId, 'files', 'presign'], body: file } as const
      return (await transport.send<PresignedUpload>({ ...request, repeatable: true }, signal)).body
    },
    /** All files of the order, or those of one thread. */
    list: (orderId: number | string, query: { legacyThreadId?: string } & CallOptions = {}) =>
      read<FileListing>(['orders', orderId, 'files'], { legacyThreadId: query.legacyThreadId }, query.signal),
    /**
     * PUTs the bytes to a presigned address, with the content type and the length it was signed for.
     * Rejects with an `ApiError` of code `upload_failed` when the storage refuses.
     */
    upload: async (
      presigned: Pick<PresignedUpload, 'uploadUrl' | 'contentType'>,
      data: Blob | Uint8Array,
      { onProgress, signal }: UploadOptions = {},
    ): Promise<void> => {
      const sizeBytes = sizeOf(data)
      await transport.upload(
        {
          url: presigned.uploadUrl,
          contentType: presigned.contentType,
          body: toBody(data),
          sizeBytes,
          onTry: () => onProgress?.(0, sizeBytes),
        },
        signal,
      )
      onProgress?.(sizeBytes, sizeBytes)
    },
  }

  return { clients, orders, products, mail, files }
}

export type ApiClient = ReturnType<typeof createClient>

/** Bytes. */
export function sizeOf(data: Blob | Uint8Array): number {
  return 'byteLength' in data ? data.byteLength : data.size
}

async function* walkPages<Item>(
  readPage: (page: number) => Promise<Page<Item>>,
  firstPage = 1,
): AsyncGenerator<Page<Item>, void, undefined> {
  for (let page = firstPage; ; page += 1) {
    const answer = await readPage(page)
    if (answer.data.length > 0) yield answer
    if (answer.data.length === 0 || page * answer.pagination.per_page >= answer.pagination.total) return
  }
}

/** fetch takes no view of shared memory: such bytes are copied. */
function toBody(data: Blob | Uint8Array): Blob | Uint8Array<ArrayBuffer> {
  if (!('byteLength' in data)) return data
  return hasOwnMemory(data) ? data : new Uint8Array(data)
}

function hasOwnMemory(bytes: Uint8Array): bytes is Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer
}

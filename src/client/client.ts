import type { EmailThread, EmailThreadBody, ThreadContext } from './attachments.ts'
import type { components, operations } from './schema.d.ts'
import { type CallOptions, type ClientOptions, createTransport, type Segments } from './transport.ts'

type Schemas = components['schemas']

/** The body of an operation's 200 response. */
type Body<Name extends keyof operations> = operations[Name] extends {
  responses: { 200: { content: { 'application/json': infer Content } } }
}
  ? Content
  : never

/** JSON whose shape the API does not define. */
export type Json = Schemas['JsonValue']
export type Row = { [key: string]: Json }

export type Client = Schemas['Client']
export type ClientFields = Required<Omit<Schemas['ClientChanges'], 'deleted'>>
export type NewClient = Schemas['NewClient']
/** `deleted: true` hides the client from the list, `false` restores it. */
export type ClientChanges = Schemas['ClientChanges']

export type FullOrder = Schemas['Order']
export type OrderFields = Required<Schemas['OrderChanges']>
export type NewOrder = Schemas['NewOrder']
export type OrderChanges = Schemas['OrderChanges']
export type OrderAnswer = Body<'updateOrder'>
export type Project = Schemas['Project']
/** Amounts are in the company's currency, with at most 2 decimals. */
export type Invoice = Schemas['Invoice']
export type InvoiceItem = Schemas['InvoiceItem']
export type DiscountAmountType = Invoice['discount_amount_type']
export type DiscountType = Invoice['discount_type']
export type Payment = Schemas['Payment']
/** `rate` is in percent. */
export type Tax = Schemas['Tax']
export type OrderStatus = Schemas['OrderStatus']
export type Artwork = Schemas['Artwork']

export type ProductSearch = Body<'searchProducts'>
export type SearchSource = keyof ProductSearch['sources']
/** Distinguishes "nothing found" from "failed", for each source. */
export type SourceState = ProductSearch['sources'][SearchSource]
export type SupplierASummary = Schemas['SupplierASummary']
export type ProductAnswers = { [Source in keyof ProductQueries]: Extract<Body<'readProduct'>, { source: Source }> }

export interface ProductQueries {
  supplier_a: { style: string; color?: string; size?: string }
  supplier_b: { sku: string } | { styleId: string }
  invoice_item: { id: number }
}

export type FileListing = Body<'listFiles'>
export type PresignRequest = Schemas['NewFile']
/** `expiresIn` is in seconds. */
export type PresignedUpload = Omit<Schemas['PresignedUpload'], 'expiresIn'> & { expiresIn: number }

export type Pagination = Body<'listClients'>['pagination']

export interface Page<Item> {
  data: Item[]
  pagination: Pagination
}

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
   * Bytes sent and total bytes: 0 at the start of each attempt, all once stored. Nothing between, since fetch reports
   * no upload progress, and a streamed body would lack the Content-Length that the URL is signed for.
   */
  onProgress?: ((sentBytes: number, totalBytes: number) => void) | undefined
}

/**
 * A client of the API for one company's token.
 *
 * Every method takes a `signal` and rejects with an `ApiError`, or with the signal's reason once it is aborted.
 * A 429 is retried after its `Retry-After` of up to 120 s. A lost response, 502, 503 and 504 are retried for GET, PUT
 * and presign, never for other calls. The `X-Bookmark` of the last response is sent with the next request, so that a
 * client reads its own writes from any replica.
 */
export function createClient(options: ClientOptions) {
  const transport = createTransport(options)

  /** Sends an idempotent request. */
  async function read<Body>(
    segments: Segments,
    query: Record<string, string | number | undefined>,
    signal?: AbortSignal,
  ) {
    return (await transport.send<Body>({ method: 'GET', segments, query, idempotent: true }, signal)).body
  }

  /** Sends a request that is not retried after a lost response. */
  async function change<Body>(
    method: 'POST' | 'PATCH' | 'DELETE',
    segments: Segments,
    body: unknown,
    signal?: AbortSignal,
  ) {
    return (await transport.send<Body>({ method, segments, body, idempotent: false }, signal)).body
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
    /** `include` limits the sources. Default: all. */
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
      const request = { method: 'PUT', segments, body, idempotent: true } as const
      return (await transport.send<{ email_thread: EmailThread }>(request, signal)).body.email_thread
    },
    /** With `ifNoneMatch`, the `etag` of an earlier response, an unchanged thread is returned as `notModified`. */
    getEmailThread: async (
      legacyThreadId: string,
      query: { account_email: string; ifNoneMatch?: string | null } & CallOptions,
    ): Promise<EmailThreadAnswer> => {
      const request = {
        method: 'GET',
        segments: ['mail', 'email-threads', legacyThreadId],
        query: { account_email: query.account_email },
        headers: query.ifNoneMatch ? { 'if-none-match': query.ifNoneMatch } : {},
        idempotent: true,
      } as const
      const response = await transport.send<{ email_thread: EmailThread }>(request, query.signal)
      const etag = response.headers.get('etag')
      if (response.status === 304)
        return { notModified: true, emailThread: null, etag: etag ?? query.ifNoneMatch ?? null }
      return { notModified: false, emailThread: response.body.email_thread, etag }
    },
  }

  const files = {
    /** A presigned upload URL for one file. Changes nothing, so it is retried after a lost response. */
    presign: async (orderId: number | string, file: PresignRequest, { signal }: CallOptions = {}) => {
      const request = { method: 'POST', segments: ['orders', orderId, 'files', 'presign'], body: file } as const
      return (await transport.send<PresignedUpload>({ ...request, idempotent: true }, signal)).body
    },
    /** All files of the order, or those of one thread. */
    list: (orderId: number | string, query: { legacyThreadId?: string } & CallOptions = {}) =>
      read<FileListing>(['orders', orderId, 'files'], { legacyThreadId: query.legacyThreadId }, query.signal),
    /**
     * PUTs the bytes to a presigned URL, with the content type and the length it was signed for.
     * Rejects with an `ApiError` of code `upload_failed` when the storage rejects the upload.
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
          onAttempt: () => onProgress?.(0, sizeBytes),
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
    const result = await readPage(page)
    if (result.data.length > 0) yield result
    if (result.data.length === 0 || page * result.pagination.per_page >= result.pagination.total) return
  }
}

/** fetch rejects views of shared memory, so their bytes are copied. */
function toBody(data: Blob | Uint8Array): Blob | Uint8Array<ArrayBuffer> {
  if (!('byteLength' in data)) return data
  return isUnshared(data) ? data : new Uint8Array(data)
}

function isUnshared(bytes: Uint8Array): bytes is Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer
}

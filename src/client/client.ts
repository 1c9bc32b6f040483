import type { components, operations } from './schema.d.ts'
import { type CallOptions, type ClientOptions, createTransport } from './transport.ts'

type Schemas = components['schemas']

/** The body of an operation's 200 response. */
type Body<Name extends 'listClients' | 'listFiles' | 'readProduct' | 'searchProducts' | 'updateOrder'> =
  operations[Name]['responses'][200]['content']['application/json']
type Query<Name extends keyof operations> = NonNullable<operations[Name]['parameters']['query']>
type Id = number | string

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

export type ThreadContext = Schemas['ThreadContext']
export type Mailbox = { name?: string; email?: string }
export interface Attachment {
  filename?: string
  mime_type?: string
  size_bytes?: number
  /** Set once the bytes are stored. */
  storage_key?: string | null
  mail_attachment_id?: string
  [field: string]: unknown
}
/** The suggested shape; the API stores any object. `sent_at` is ISO 8601 with an offset. */
export interface Message {
  id?: string
  sent_at?: string
  from?: Mailbox
  to?: Mailbox[]
  subject?: string
  snippet?: string
  body_plain?: string
  body_text?: string
  body_html?: string | null
  is_from_us?: boolean
  attachments?: Attachment[]
  [field: string]: unknown
}
/** All messages on every call, since nothing is merged. `null` clears a scalar; an omitted one is unchanged. */
export type EmailThreadBody = Omit<Schemas['EmailThreadBody'], 'messages' | 'participants'> & {
  messages: Message[]
  participants?: object[]
}
export type EmailThread = Omit<Schemas['EmailThread'], 'messages'> & { messages: Message[] }
export type EmailThreadAnswer =
  | { notModified: false; emailThread: EmailThread; etag: string | null }
  | { notModified: true; emailThread: null; etag: string | null }

export type OrderFile = Schemas['OrderFile']
export type FileListing = Body<'listFiles'>
export type PresignRequest = Schemas['NewFile']
/** `expiresIn` is in seconds. */
export type PresignedUpload = Omit<Schemas['PresignedUpload'], 'expiresIn'> & { expiresIn: number }

export type Page<Item> = { data: Item[]; pagination: Pagination }
export type Pagination = Body<'listClients'>['pagination']

export type ClientListQuery = CallOptions & Query<'listClients'>
/** `status` is the id of an order status, `from` and `to` are inclusive dates, `YYYY-MM-DD`. */
export type OrderListQuery = CallOptions &
  Omit<Query<'listOrders'>, 'client_id' | 'status'> & { client_id?: Id; status?: Id }

type OneThread = { email_thread: EmailThread }

export type ApiClient = ReturnType<typeof createClient>

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

  type Request = Parameters<typeof transport.send>
  const send = async <Body>(...request: Request) => (await transport.send<Body>(...request)).body
  const sendClient = async (...request: Request) => (await send<{ client: Client }>(...request)).client

  const clients = {
    list: ({ signal, ...query }: ClientListQuery = {}) => send<Page<Client>>('GET', ['clients'], { signal, query }),
    /** Pages from `page` on (default 1) to the last. A client created meanwhile may show up on two pages. */
    pages: (query: ClientListQuery = {}) => walkPages((page) => clients.list({ ...query, page }), query.page),
    get: (id: number, options?: CallOptions) => sendClient('GET', ['clients', id], options),
    /** Case-insensitive exact match. */
    getByEmail: (email: string, options?: CallOptions) =>
      sendClient('GET', ['clients', 'by-email'], { ...options, query: { email } }),
    create: (body: NewClient, options?: CallOptions) => sendClient('POST', ['clients'], { ...options, body }),
    /** By id or by email. `deleted: true` soft-deletes. */
    update: (idOrEmail: Id, body: ClientChanges, options?: CallOptions) =>
      sendClient('PATCH', ['clients', idOrEmail], { ...options, body }),
  }

  const orders = {
    list: ({ signal, ...query }: OrderListQuery = {}) => send<Page<Project>>('GET', ['orders'], { signal, query }),
    /** Pages from `page` on (default 1) to the last. An order created meanwhile may show up on two pages. */
    pages: (query: OrderListQuery = {}) => walkPages((page) => orders.list({ ...query, page }), query.page),
    get: (id: Id, options?: CallOptions) => send<FullOrder>('GET', ['orders', id], options),
    create: (body: NewOrder, options?: CallOptions) => send<FullOrder>('POST', ['orders'], { ...options, body }),
    update: (id: Id, body: OrderChanges, options?: CallOptions) =>
      send<OrderAnswer>('PATCH', ['orders', id], { ...options, body }),
    /** Soft-deletes the order and its invoice. */
    delete: (id: Id, options?: CallOptions) => send<OrderAnswer>('DELETE', ['orders', id], options),
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
      const request = { query: { account_email }, headers: ifNoneMatch ? { 'if-none-match': ifNoneMatch } : {}, signal }
      const segments = ['mail', 'email-threads', legacyThreadId]
      const { isNotModified, etag, body } = await transport.send<OneThread>('GET', segments, request)
      if (isNotModified) return { notModified: true, emailThread: null, etag: etag ?? ifNoneMatch ?? null }
      return { notModified: false, emailThread: body.email_thread, etag }
    },
  }

  const files = {
    /** A presigned upload URL for one file. Changes nothing, so it is retried after a lost response. */
    presign: (orderId: Id, body: PresignRequest, options?: CallOptions) =>
      send<PresignedUpload>('POST', ['orders', orderId, 'files', 'presign'], { ...options, body, isIdempotent: true }),
    /** All files of the order, or those of one thread. */
    list: (orderId: Id, { signal, legacyThreadId }: { legacyThreadId?: string } & CallOptions = {}) =>
      send<FileListing>('GET', ['orders', orderId, 'files'], { signal, query: { legacyThreadId } }),
    /** PUTs a file's bytes to its presigned URL. */
    upload: transport.upload,
  }

  return { clients, orders, products, mail, files }
}

async function* walkPages<Item>(readPage: (page: number) => Promise<Page<Item>>, firstPage = 1) {
  for (let page = firstPage; ; page += 1) {
    const result = await readPage(page)
    if (result.data.length > 0) yield result
    if (result.data.length === 0 || page * result.pagination.per_page >= result.pagination.total) return
  }
}

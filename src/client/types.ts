import type { components, operations } from './schema.d.ts'
import type { CallOptions } from './transport.ts'

type Schemas = components['schemas']

type Body<Name extends keyof operations> = operations[Name]['responses'] extends {
  200: { content: { 'application/json': infer Content } }
}
  ? Content
  : never
type Query<Name extends keyof operations> = OrUndefined<NonNullable<operations[Name]['parameters']['query']>>
/** With `exactOptionalPropertyTypes` too, an optional parameter may be undefined. */
type OrUndefined<T> = { [Key in keyof T]: Pick<T, Key> extends Required<Pick<T, Key>> ? T[Key] : T[Key] | undefined }
type Sent<Name extends keyof Schemas> = OrUndefined<Schemas[Name]>
export type Id = number | string

/** JSON whose shape the API does not define. */
export type Json = Schemas['JsonValue']
export type Row = { [key: string]: Json }

export type Client = Schemas['Client']
export type ClientFields = Required<Omit<Schemas['ClientChanges'], 'deleted'>>
export type NewClient = Sent<'NewClient'>
/** The external id is that of the path. */
export type WholeClient = Sent<'WholeClient'>
/** `deleted: true` hides the client from the list, `false` restores it. */
export type ClientChanges = Sent<'ClientChanges'>

export type FullOrder = Schemas['Order']
export type OrderFields = Required<Schemas['OrderChanges']>
type WithItems<N extends keyof Schemas, E> = OrUndefined<Omit<Schemas[N], 'invoice_items'> & { invoice_items?: E[] }>
export type NewOrder = WithItems<'NewOrder', Sent<'NewOrderItem'>>
/** All fields of an order: what is left out gets the value of a new order, but a status and a list stay. */
export type WholeOrder = WithItems<'WholeOrder', Sent<'NewOrderItem'>>
export type OrderChanges = WithItems<'OrderChanges', NewInvoiceItem>
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
  supplier_a: { style: string; color?: string | undefined; size?: string | undefined }
  supplier_b: { sku: string } | { styleId: string }
  invoice_item: { id: number }
}

export type ThreadContext = Schemas['ThreadContext']
export type Mailbox = Schemas['Mailbox']
/** The suggested shapes. The API stores any object, so what another program has stored may differ. */
export type Attachment = Schemas['Attachment']
export type Message = Schemas['Message']
/** All messages on every call, since nothing is merged. `null` clears a scalar; an omitted one is unchanged. */
export type EmailThreadBody = Omit<Sent<'EmailThreadBody'>, 'participants' | 'messages'> & {
  participants?: object[] | undefined
  messages: Message[]
}
export type EmailThread = Omit<Schemas['EmailThread'], 'messages'> & { messages: Message[] }
export type EmailThreadAnswer =
  | { notModified: false; emailThread: EmailThread; etag: string | null }
  | { notModified: true; emailThread: null; etag: string | null }

export type OrderFile = Schemas['OrderFile']
export type FileListing = Body<'listFiles'>
export type PresignRequest = Sent<'NewFile'>
/** `expiresIn` is in seconds. */
export type PresignedUpload = Omit<Schemas['PresignedUpload'], 'expiresIn'> & { expiresIn: number }

export type Page<Item> = { data: Item[]; pagination: Pagination }
/** Paging of a list that has cursors alone. */
export type CursorPage<Item> = { data: Item[]; pagination: Body<'listEmailThreads'>['pagination'] }
export type Pagination = Body<'listClients'>['pagination']

export type ClientListQuery = CallOptions & Query<'listClients'>
/** `status` has ids of order statuses, `from` and `to` are inclusive dates, `YYYY-MM-DD`. */
export type OrderListQuery = CallOptions &
  Omit<Query<'listOrders'>, 'client_id' | 'status' | 'expand'> & {
    client_id?: Id | undefined
    status?: Id | readonly Id[] | undefined
    expand?: readonly Expansion[] | undefined
  }
/** What a list can add to its orders. */
export type Expansion = Exclude<keyof ListedOrder, keyof Project>
/** Parts are there as far as they were expanded. */
export type ListedOrder = Schemas['ListedOrder']
/** With every part. */
export type ExpandedOrder = ListedOrder & Required<Pick<ListedOrder, Expansion>>
export type Totals = Schemas['OrderTotals']

/** A response that is not repeated while its `etag` stays the same. */
export type Tagged<T> =
  | { notModified: false; value: T; etag: string | null }
  | { notModified: true; value: null; etag: string | null }

/** The company, the token and their limits. */
export type Account = Schemas['Account']

/** `id` is that of a line which stays the same line. */
export type NewInvoiceItem = Sent<'NewInvoiceItem'>
export type InvoiceItemsAnswer = Body<'putInvoiceItems'>
export type NewPayment = Sent<'NewPayment'>
export type PaymentChanges = Sent<'PaymentChanges'>
export type PaymentAnswer = Body<'createPayment'>
export type PutOrderAnswer = Body<'putOrder'>

/** Omitted fields become null. Ids are numbers or strings of digits. A context can be sent as it was read. */
export type ThreadContextBody = Sent<'ThreadContextBody'> | ThreadContext
/** One of `order_id` and `client_id`. */
export type ThreadContextQuery = CallOptions & Query<'listThreadContexts'>
export type EmailThreadQuery = CallOptions & Query<'listEmailThreads'>
/** An email thread without its messages. */
export type ListedEmailThread = Schemas['EmailThreadSummary']

/** `downloadUrl` serves the bytes without the token, for `expiresIn` seconds. */
export type PresignedDownload = Omit<Schemas['PresignedDownload'], 'expiresIn'> & { expiresIn: number }

/** `ifMatch` is a version or an `etag`, as with the operation's own method. */
export type BatchOperation = { ifMatch?: number | string | undefined } & (
  | { method: 'POST'; path: '/clients'; body: Referring<NewClient> }
  | { method: 'POST'; path: '/orders'; body: Referring<NewOrder> }
  | { method: 'POST'; path: `/orders/${number}/payments`; body: Referring<NewPayment> }
  | { method: 'PATCH'; path: ClientPath; body: Referring<ClientChanges> }
  | { method: 'PATCH'; path: `/orders/${number}`; body: Referring<OrderChanges> }
  | { method: 'PATCH'; path: `/orders/${number}/payments/${number}`; body: Referring<PaymentChanges> }
  | { method: 'PUT'; path: `/orders/${number}/invoice-items`; body: Referring<{ items: NewInvoiceItem[] }> }
  /** External ids, emails and thread ids are percent-encoded. */
  | { method: 'PUT'; path: `/clients/by-external-id/${string}`; body: Referring<WholeClient> }
  | { method: 'PUT'; path: `/orders/by-external-id/${string}`; body: Referring<WholeOrder> }
  | { method: 'PUT'; path: `/mail/threads/${string}`; body: Referring<ThreadContextBody> }
  | { method: 'DELETE'; path: ClientPath | `/orders/${number}` | `/orders/${number}/payments/${number}` }
)
type ClientPath = `/clients/${string}`
/** Stands for a value in the result of an earlier operation of the batch: `{ $ref: '0.client.id' }`. */
export type Reference = { $ref: `${number}.${string}` }
/** A body in which any value may be a reference. */
export type Referring<T> = {
  [Name in keyof T]: unknown extends T[Name] ? unknown : Referring<T[Name]> | Reference
}
/** The status and body that the operation would have by itself, and the number of its database transaction. */
export type BatchResult = Schemas['BatchResult']
export type BatchAnswer = Body<'runBatch'>

/** One change of an object. `id` is a number, of an email thread a UUID. */
export type Change = Schemas['Change']
export type ChangesPage = Omit<Schemas['Changes'], 'orders'> & { orders?: ExpandedOrder[] }
/**
 * Without a `cursor`, from the oldest change that is kept, of about 31 days ago; without `types`, all that the token
 * may read. `per_page` is at most 1,000, with `expand` 100: the defaults of `pages` and `follow`.
 */
export type ChangesQuery = CallOptions &
  Omit<Query<'listChanges'>, 'start' | 'types' | 'wait'> & { types?: readonly Change['type'][] | undefined }

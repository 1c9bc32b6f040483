import type { components, operations } from './schema.d.ts'
import type { CallOptions } from './transport.ts'

type Schemas = components['schemas']

/** The body of an operation's 200 response. */
type Body<Name extends 'listClients' | 'listFiles' | 'readProduct' | 'searchProducts' | 'updateOrder'> =
  operations[Name]['responses'][200]['content']['application/json']
type Query<Name extends keyof operations> = NonNullable<operations[Name]['parameters']['query']>
export type Id = number | string

/** JSON whose shape the API does not define. */
export type Json = Schemas['JsonValue']
export type Row = { [key: string]: Json }

/** `version` grows with every change; `external_id` is unique in the company. */
type Versioned = { external_id: string | null; version: number }

export type Client = Schemas['Client'] & Versioned
export type ClientFields = Required<Omit<Schemas['ClientChanges'], 'deleted'>>
export type NewClient = Schemas['NewClient']
/** `deleted: true` hides the client from the list, `false` restores it. */
export type ClientChanges = Schemas['ClientChanges']

export type FullOrder = Schemas['Order']
export type OrderFields = Required<Schemas['OrderChanges']>
export type NewOrder = Schemas['NewOrder']
export type OrderChanges = Schemas['OrderChanges']
export type OrderAnswer = Body<'updateOrder'>
export type Project = Schemas['Project'] & Versioned
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
export type Pagination = Body<'listClients'>['pagination'] & { next_cursor: string | null; has_more: boolean }

export type ClientListQuery = CallOptions & Query<'listClients'> & { cursor?: string }
/** `status` is the id of an order status, `from` and `to` are inclusive dates, `YYYY-MM-DD`. */
export type OrderListQuery = CallOptions &
  Omit<Query<'listOrders'>, 'client_id' | 'status'> & { client_id?: Id; status?: Id; cursor?: string }

/** One change of an object. `id` is a number, of an email thread a UUID. */
export type Change = {
  operation: 'create' | 'update' | 'delete'
  version: number
  time: string
} & (
  | { type: 'clients' | 'orders'; id: number }
  | { type: 'email_threads'; id: string; account_email: string; legacy_thread_id: string }
)

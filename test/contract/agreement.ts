import type { paths } from 'published-description'
import type * as client from '../../src/client/index.ts'
import type { Schemas } from './api.ts'

/*
 * The types that src/client exports, by the names that integrators import. They must equal those of the published
 * description, field by field. Never run.
 */

/** Flattens intersections, so that only fields are compared. The client takes undefined in optional fields of bodies. */
type Plain<T> = unknown extends T
  ? unknown
  : T extends readonly (infer Item)[]
    ? Plain<Item>[]
    : T extends object
      ? { [Key in keyof T]: Plain<Exclude<T[Key], undefined>> }
      : T

type Same<A, B> = (<T>() => T extends Plain<A> ? 1 : 2) extends <T>() => T extends Plain<B> ? 1 : 2 ? true : false

/** Takes no argument if the two types are the same, and an impossible one if they differ. */
function same<A, B>(..._differ: Same<A, B> extends true ? [] : [never]): void {}

/** The body of an operation's 200 response. */
type Content<Path extends keyof paths, Method extends keyof paths[Path]> = paths[Path][Method] extends {
  responses: { 200: { content: { 'application/json': infer Body } } }
}
  ? Body
  : never

export function compare(): void {
  same<Schemas['Client'], client.Client>()
  same<Schemas['NewClient'], client.NewClient>()
  same<Schemas['ClientChanges'], client.ClientChanges>()
  same<Content<'/clients', 'get'>, client.Page<client.Client>>()

  same<Schemas['NewOrder'], client.NewOrder>()
  same<Schemas['WholeOrder'], client.WholeOrder>()
  same<Schemas['OrderChanges'], client.OrderChanges>()
  same<Schemas['Order'], client.FullOrder>()
  same<Schemas['Artwork'], client.Artwork>()
  same<Content<'/orders', 'get'>, client.Page<client.ListedOrder>>()
  same<Content<'/orders/{id}', 'patch'>, client.OrderAnswer>()
  same<Content<'/orders/{id}', 'delete'>, Omit<client.OrderAnswer, 'invoice_items'>>()
  same<Content<'/orders/{id}/invoice-items', 'put'>, client.InvoiceItemsAnswer>()
  same<Schemas['NewPayment'], client.NewPayment>()
  same<Content<'/orders/{id}/payments', 'post'>, client.PaymentAnswer>()
  same<Content<'/orders/{id}/payments/{payment_id}', 'delete'>, client.PaymentAnswer>()
  same<Schemas['WholeClient'], client.WholeClient>()
  same<Content<'/batch', 'post'>, client.BatchAnswer>()
  same<Schemas['BatchResult'], client.BatchResult>()
  same<Schemas['BatchOperation']['method'], client.BatchOperation['method']>()
  same<Content<'/orders/by-external-id/{external_id}', 'put'>, client.PutOrderAnswer>()

  same<Content<'/products/search', 'get'>['supplier_a']['summary'], client.SupplierASummary | null>()
  same<Content<'/products/search', 'get'>, client.ProductSearch>()
  same<Content<'/products/{source}', 'get'>, client.ProductAnswers[keyof client.ProductAnswers]>()

  same<Schemas['ThreadContext'], client.ThreadContext>()
  same<Schemas['Message'], client.Message>()
  // Of these the client has types of its own: any objects, suggested messages, or `number` for a constant.
  same<Omit<Schemas['EmailThread'], 'messages'>, Omit<client.EmailThread, 'messages'>>()
  type Own = 'participants' | 'messages'
  same<Omit<Schemas['EmailThreadBody'], Own>, Omit<client.EmailThreadBody, Own>>()
  same<Schemas['NewFile'], client.PresignRequest>()
  same<Omit<Schemas['PresignedUpload'], 'expiresIn'>, Omit<client.PresignedUpload, 'expiresIn'>>()
  same<Content<'/orders/{orderId}/files', 'get'>, client.FileListing>()

  same<Schemas['ThreadContextBody'] | Schemas['ThreadContext'], client.ThreadContextBody>()
  same<Content<'/mail/threads', 'get'>, client.CursorPage<client.ThreadContext>>()
  same<Content<'/mail/email-threads', 'get'>, client.CursorPage<client.ListedEmailThread>>()
  same<Omit<Schemas['PresignedDownload'], 'expiresIn'>, Omit<client.PresignedDownload, 'expiresIn'>>()

  same<Content<'/me', 'get'>, client.Account>()
  same<Content<'/order-statuses', 'get'>['data'], client.OrderStatus[]>()
  same<Content<'/taxes', 'get'>['data'], client.Tax[]>()
  // The client says that these orders have every part.
  same<Omit<Content<'/changes', 'get'>, 'orders'>, Omit<client.ChangesPage, 'orders'>>()
}

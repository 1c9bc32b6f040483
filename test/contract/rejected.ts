import type { Api, Schemas } from './api.ts'

/*
 * What the types must reject, one of each kind. Never run: a line without its expected error, because the types have become
 * too loose, is an error too.
 */

export async function sendInvalid(api: Api): Promise<void> {
  const id = { path: { id: '1' } }
  // @ts-expect-error The path does not exist.
  await api.GET('/customers')
  // @ts-expect-error The path does not support the method.
  await api.PUT('/clients/{id}', { params: id })
  // @ts-expect-error An unknown query parameter.
  await api.GET('/clients', { params: { query: { limit: 5 } } })
  // @ts-expect-error The body is missing.
  await api.POST('/clients')
  // @ts-expect-error company_name is missing.
  await api.POST('/clients', { body: { first_name: 'Ada' } })
  // @ts-expect-error A flag is not a string.
  await api.PATCH('/clients/{id}', { params: id, body: { deleted: 'yes' } })
  // @ts-expect-error A client's id is a number in a body.
  await api.POST('/orders', { body: { title: 'Shirts', client_id: '1' } })
  const orderId = { path: { id: 1 } }
  // @ts-expect-error The discount type does not exist.
  await api.PATCH('/orders/{id}', { params: orderId, body: { discount_amount_type: 'percent' } })
  // @ts-expect-error A title is never null.
  await api.PATCH('/orders/{id}', { params: orderId, body: { title: null } })
  // @ts-expect-error A change has its version in If-Match, as text.
  await api.DELETE('/orders/{id}', { params: { ...orderId, header: { 'If-Match': 1 } } })
  // @ts-expect-error Lists cannot be sorted by it.
  await api.GET('/orders', { params: { query: { sort: 'title' } } })
  // @ts-expect-error The source does not exist.
  await api.GET('/products/{source}', { params: { path: { source: 'supplier_c' } } })
  const thread = { path: { legacyThreadId: 't' } }
  // @ts-expect-error The mailbox is missing.
  await api.GET('/mail/email-threads/{legacyThreadId}', { params: thread })
  // @ts-expect-error An order that is linked has an id.
  await api.PUT('/mail/threads/{legacyThreadId}', { params: thread, body: { orders_data: [{ title: 'Shirts' }] } })
}

/** A batch only writes. Its bodies may have references in place of any value. */
export const operations: Schemas['BatchOperation'][] = [
  // @ts-expect-error The method is not one of a batch.
  { method: 'GET', path: '/orders/1', body: {} },
  // @ts-expect-error A body is an object.
  { method: 'POST', path: '/clients', body: 'Quay' },
]

/** openapi-fetch accepts unknown fields; the types themselves do not. */
export const bodies: [Schemas['NewClient'], Schemas['ClientChanges'], Schemas['NewOrder'], Schemas['OrderChanges']] = [
  // @ts-expect-error The company comes from the token.
  { company_name: 'Quay', company_id: 2 },
  // @ts-expect-error A read-only field cannot be written.
  { created_at: '2026-11-02T09:00:00Z' },
  // @ts-expect-error Status ids are written as status_id.
  { title: 'Shirts', client_id: 1, order_status_id: 1 },
  // @ts-expect-error A computed field cannot be written.
  { total: 5 },
]

export async function readInvalid(
  api: Api,
  order: Schemas['Order'],
  listed: Schemas['ListedOrder'],
): Promise<unknown[]> {
  const clients = await api.GET('/clients')
  const product = await api.GET('/products/{source}', { params: { path: { source: 'supplier_a' } } })
  const thread = await api.GET('/mail/threads/{legacyThreadId}', { params: { path: { legacyThreadId: 't' } } })
  const batch = await api.POST('/batch', { body: { operations } })
  const [result] = batch.data?.results ?? []
  const changes = await api.GET('/changes')
  const [change] = changes.data?.data ?? []
  const errors = clients.error
  return [
    // @ts-expect-error Success was not checked.
    clients.data.pagination,
    // @ts-expect-error The field does not exist.
    clients.data?.data[0]?.name,
    // @ts-expect-error The list may be empty.
    clients.data?.data[0].id,
    // @ts-expect-error An order may have no invoice.
    order.invoice.total,
    // @ts-expect-error A description may be null.
    order.project.description.trim(),
    // @ts-expect-error The server does not send this state.
    order.accounting.status === 'failed',
    // @ts-expect-error The source was not checked.
    product.data?.products,
    // @ts-expect-error The shape of stored JSON is unknown.
    thread.data?.orders_data.length,
    // @ts-expect-error A result may be an error.
    result?.body.client,
    // @ts-expect-error Only changes of email threads name a mailbox.
    change?.account_email,
    // @ts-expect-error Orders have their client only where it was asked for.
    listed.client.id,
    // @ts-expect-error The code does not exist.
    errors?.error.code === 'conflict',
    // @ts-expect-error Not every error has a list of issues.
    errors?.error.details?.issues,
  ]
}

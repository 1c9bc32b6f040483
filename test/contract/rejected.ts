import type { Api, Schemas } from './program.ts'

/*
 * What the types must reject. Never run: a line without its expected error, because the types have become too loose, is
 * an error too.
 */

export async function sendInvalid(api: Api): Promise<void> {
  const id = { path: { id: '1' } }
  // @ts-expect-error The path does not exist.
  await api.GET('/customers')
  // @ts-expect-error The path does not support the method.
  await api.DELETE('/clients/{id}', { params: id })
  // @ts-expect-error The id is missing.
  await api.GET('/clients/{id}', {})
  // @ts-expect-error An unknown query parameter.
  await api.GET('/clients', { params: { query: { limit: 5 } } })
  // @ts-expect-error A page is a number.
  await api.GET('/clients', { params: { query: { page: 'first' } } })
  // @ts-expect-error The body is missing.
  await api.POST('/clients')
  // @ts-expect-error company_name is missing.
  await api.POST('/clients', { body: { first_name: 'Ada' } })
  // @ts-expect-error A flag is not a string.
  await api.PATCH('/clients/{id}', { params: id, body: { deleted: 'yes' } })
  // @ts-expect-error A client's id is a number in a body.
  await api.POST('/orders', { body: { title: 'Shirts', client_id: '1' } })
  // @ts-expect-error An order's id is a number.
  await api.GET('/orders/{id}', { params: id })
  const orderId = { path: { id: 1 } }
  // @ts-expect-error The discount type does not exist.
  await api.PATCH('/orders/{id}', { params: orderId, body: { discount_amount_type: 'percent' } })
  // @ts-expect-error A title is never null.
  await api.PATCH('/orders/{id}', { params: orderId, body: { title: null } })
  // @ts-expect-error The source does not exist.
  await api.GET('/products/{source}', { params: { path: { source: 'supplier_c' } } })
  const thread = { path: { legacyThreadId: 't' } }
  // @ts-expect-error The mailbox is missing.
  await api.GET('/mail/email-threads/{legacyThreadId}', { params: thread })
  const address = '/mail/email-threads/{legacyThreadId}'
  // @ts-expect-error The messages are missing.
  await api.PUT(address, { params: thread, body: { account_email: 'a@b.example' } })
  // @ts-expect-error A message is an object.
  await api.PUT(address, { params: thread, body: { account_email: 'a@b.example', messages: ['text'] } })
  const order = { path: { orderId: 1 } }
  // @ts-expect-error The size is missing.
  await api.POST('/orders/{orderId}/files/presign', { params: order, body: { fileName: 'a', legacyThreadId: 't' } })
}

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

export async function readInvalid(api: Api, order: Schemas['Order']): Promise<unknown[]> {
  const clients = await api.GET('/clients')
  const product = await api.GET('/products/{source}', { params: { path: { source: 'supplier_a' } } })
  const thread = await api.GET('/mail/threads/{legacyThreadId}', { params: { path: { legacyThreadId: 't' } } })
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
    // @ts-expect-error A number is not a string.
    order.invoice?.total.trim(),
    // @ts-expect-error The server does not send this state.
    order.accounting.status === 'failed',
    // @ts-expect-error The source was not checked.
    product.data?.products,
    // @ts-expect-error The shape of stored JSON is unknown.
    thread.data?.orders_data.length,
    // @ts-expect-error The code does not exist.
    errors?.error.code === 'conflict',
    // @ts-expect-error Not every error has a list of issues.
    errors?.error.details?.issues,
  ]
}

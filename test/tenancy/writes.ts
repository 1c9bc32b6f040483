import { MAILBOX } from './twin-rows.ts'
import type { Actor } from './twins.ts'

const KEY = { 'idempotency-key': 'same-key' }

export async function writesOfClients({ send }: Actor) {
  await send('POST', '/clients', { company_name: 'New', email: 'c1@x.example', external_id: 'shop-11' })
  await send('POST', '/clients', { company_name: 'New', external_id: 'shop-1' })
  await send('PATCH', '/clients/1', { first_name: 'A', external_id: 'shop-12' })
  await send('PATCH', '/clients/11', { first_name: 'A' })
  await send('PATCH', '/clients/2', { external_id: 'shop-3' })
  await send('PATCH', '/clients/c3%40x.example', { deleted: false })
  await send('PATCH', '/clients/2', { deleted: true })
  await send('PUT', '/clients/by-external-id/shop-2', { company_name: 'Put' })
  for (let times = 0; times < 2; times++)
    await send('PUT', '/clients/by-external-id/shop-13', { company_name: 'Put' }, { 'if-none-match': '*' })
  const stored = await send('GET', '/clients/1')
  await send('PATCH', '/clients/1', { last_name: 'B' }, { 'if-match': stored.headers.get('etag') ?? '' })
  await send('PATCH', '/clients/1', { last_name: 'C' }, { 'if-match': '"1"' })
  await send('DELETE', '/clients/c2%40x.example')
  await send('DELETE', '/clients/11')
}

export async function writesOfOrders({ send }: Actor) {
  for (const reference of [{ client_id: 11 }, { client_id: 1, status_id: 11 }, { client_id: 1, tax_id: 11 }]) {
    for (const headers of [{}, { 'idempotency-key': JSON.stringify(reference) }]) {
      await send('POST', '/orders', { title: 'Foreign', ...reference }, headers)
      await send('PATCH', '/orders/1', reference, headers)
    }
  }
  await send('POST', '/orders', { title: 'New', client_id: 1, discount_amount: 5 }, KEY)
  await send('POST', '/orders', { title: 'New', client_id: 1, discount_amount: 5 }, KEY)
  await send('POST', '/orders', { title: 'Other', client_id: 1 }, KEY)
  await send('POST', '/orders', { title: 'New', client_id: 1, status_id: 2, tax_id: 2, external_id: 'web-11' })
  await send('POST', '/orders', { title: 'New', client_id: 1, external_id: 'web-1' })
  await send('PATCH', '/orders/1', { title: 'A', client_id: 2, status_id: 2, tax_id: 2, external_id: 'web-12' })
  await send('PATCH', '/orders/1', { discount_amount: 10, discount_amount_type: 'fixed', tax_exempt: true })
  await send('PATCH', '/orders/1', { title: 'B' }, { 'if-match': '"1"' })
  await send('PATCH', '/orders/3', { title: 'A' })
  await send('PATCH', '/orders/11', { title: 'A' })
  await send('DELETE', '/orders/2')
  await send('DELETE', '/orders/11')
  await send('PATCH', '/orders/3', { deleted: false, invoice_items: [{ id: 3, title: 'Kept' }, { title: 'Added' }] })
  const lists = { invoice_items: [{ title: 'Put' }], payments: [{ amount: 1 }] }
  for (const id of ['web-1', 'web-2', 'web-4', 'web-13'])
    await send('PUT', `/orders/by-external-id/${id}`, { title: 'Put', client_id: 1, ...lists })
}

export async function writesOfInvoices({ call, send, note, id, word }: Actor) {
  const items = [
    { id: 1, title: 'Kept' },
    { title: 'Added', quantity: 2 },
  ]
  await send('PUT', '/orders/1/invoice-items', { items })
  await send('PUT', '/orders/1/invoice-items', { items: [{ id: 103, title: 'Of another order' }] })
  await send('PUT', '/orders/2/invoice-items', { items: [{ id: 111, title: 'Of another company' }] })
  await send('PUT', '/orders/11/invoice-items', { items: [] })
  await send('POST', '/orders/1/payments', { amount: 1 })
  await send('POST', '/orders/2/payments', { amount: 100_000 })
  await send('POST', '/orders/11/payments', { amount: 1 })
  await send('POST', '/orders/3/payments', { amount: 1 })
  await send('PUT', '/orders/3/invoice-items', { items: [] })
  for (const id of [1, 11]) await send('PATCH', `/orders/1/payments/${id}`, { note: 'Changed' })
  for (const path of ['3/payments/3', '1/payments/1', '2/payments/11', '11/payments/11']) {
    await send('DELETE', `/orders/${path}`)
  }
  const operations = [
    { method: 'PATCH', path: '/clients/1', body: { last_name: 'D' } },
    { method: 'PATCH', path: '/clients/11', body: { last_name: 'D' } },
    { method: 'POST', path: '/clients', body: { company_name: 'Batch' } },
    { method: 'PATCH', path: '/orders/1', body: { description: 'D' } },
    { method: 'POST', path: '/orders', body: { title: 'Batch', client_id: { $ref: '2.client.id' } } },
  ]
  await send('POST', '/batch', { operations }, { 'idempotency-key': 'batch-key' })
  await send('POST', '/batch', { operations }, { 'idempotency-key': 'batch-key' })
  for (const order of [1, 11]) {
    const upload = { fileName: 'a.txt', size: 1, legacyThreadId: 'mail-1' }
    const presigned = await call('POST', `/orders/${order}/files/presign`, upload)
    const path = `orders/${id}/${order}/${word}.txt`
    const download = await call('GET', `/orders/${order}/files/download?path=${path}`)
    // Their signatures differ in every run.
    note('presigned', [presigned.status, presigned.body.key, download.status, download.body.path])
  }
  await send('DELETE', `/orders/1/files?path=orders/${id}/1/${word}.txt`)
  await send('DELETE', `/orders/11/files?path=orders/${id}/11/${word}.txt`)
}

const [NOISE, OTHER_NOISE] = [1, 2].map((seed) =>
  Array.from({ length: 2_000_000 }, (_, at) =>
    String.fromCharCode(40 + (((Math.imul(at + seed, 2_654_435_761) ^ (Math.imul(at, at) >>> 7)) >>> 11) % 48)),
  ).join(''),
)

export async function mail({ send }: Actor) {
  const path = (id: string) => `/mail/email-threads/${id}?account_email=${MAILBOX}`
  const thread = (text = '') => ({ account_email: MAILBOX, subject: 'New', messages: [{ text }] })
  for (const id of ['mail-1', 'mail-11', 'mail-new']) {
    await send('PUT', `/mail/email-threads/${id}`, thread('short'))
    await send('PUT', `/mail/email-threads/${id}`, thread('short'))
    await send('GET', path(id))
  }
  await send('PUT', '/mail/email-threads/mail-2', { ...thread('x'.repeat(3_000_000)), snippet: 'y'.repeat(100_000) })
  await send('GET', path('mail-2'))
  await send('PUT', '/mail/email-threads/mail-3', thread(NOISE))
  await send('PUT', '/mail/email-threads/mail-3', thread(OTHER_NOISE))
  await send('GET', path('mail-3'))
  for (const id of ['mail-1', 'mail-1', 'mail-12']) await send('DELETE', path(id))
  const own = { client_id: 1, client_data: { id: 1 }, orders_data: [{ id: 1 }], selected_order_id: 1 }
  await send('PUT', '/mail/threads/thread-1', own)
  await send('PUT', '/mail/threads/thread-1', { client_id: 11 })
  await send('PUT', '/mail/threads/thread-1', { client_id: 1, orders_data: [{ id: 11 }] })
  await send('PUT', '/mail/threads/thread-1', { client_id: 1, clients_data: [{ id: 11 }] })
  await send('PUT', '/mail/threads/thread-11', { client_id: 1, thread_id: 'context-11' })
  await send('PUT', '/mail/threads/thread-new', { client_id: 1, thread_id: 'context-3' })
  await send('PUT', '/mail/threads/thread-2', { client_id: 2 })
  for (const id of [2, 9, 12]) await send('DELETE', `/mail/threads/thread-${id}`)
}

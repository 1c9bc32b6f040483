import type { Client } from 'openapi-fetch'
import type { components, paths } from 'published-description'

export type Api = Client<paths>
export type Schemas = components['schemas']

/** A thread with a context, and the mailbox that stores it. */
export interface Task {
  legacyThreadId: string
  accountEmail: string
}

/**
 * An integrator's program, written with the types that openapi-typescript generates from the published description. It
 * calls every operation with all of its fields and uses the responses.
 *
 * @returns a line for each result
 * @throws Error with the API's message, when a call fails
 */
export async function callEveryOperation(api: Api, task: Task): Promise<string[]> {
  const client = await workOnClients(api)
  const order = await workOnOrders(api, client)
  return [
    describeClient(client),
    ...describeOrder(order),
    ...(await lookUpProducts(api)),
    ...(await workOnMail(api, task)),
    ...(await workOnFiles(api, order.project.id, task)),
  ]
}

async function workOnClients(api: Api): Promise<Schemas['Client']> {
  const { data, pagination } = await take(api.GET('/clients', { params: { query: { page: 1, per_page: 5, q: 'a' } } }))
  const shown: number = (pagination.page - 1) * pagination.per_page + data.length
  if (shown > pagination.total) throw new Error('There are more clients than there are.')

  const body: Schemas['NewClient'] = {
    company_name: 'Quay Runners',
    first_name: 'Ada',
    last_name: null,
    email: `ada-${crypto.randomUUID()}@quay.example`,
    website: 'https://quay.example',
    phone: '(555) 010-0177',
    accounting_sync_enabled: false,
    tax_exempt: true,
    tax_exempt_reason: 'A club',
    deleted: false,
  }
  const { client: created } = await take(api.POST('/clients', { body }))
  const params = { path: { id: String(created.id) } }
  await take(api.PATCH('/clients/{id}', { params, body: { company_name: 'Quay Rowers', tax_exempt: false } }))
  const byEmail = { path: { id: 'by-email' }, query: { email: created.email ?? '' } }
  return (await take(api.GET('/clients/{id}', { params: byEmail }))).client
}

async function workOnOrders(api: Api, client: Schemas['Client']): Promise<Schemas['Order']> {
  const body: Schemas['NewOrder'] = {
    title: 'Regatta shirts',
    client_id: client.id,
    description: 'Two colours',
    start_date: '2026-11-02',
    deadline: '2026-12-01',
    client_notes: null,
    tax_id: 0,
    discount_amount: 5,
    discount_amount_type: 'fixed',
    discount_type: 'after_tax',
    accounting_sync_enabled: false,
  }
  const { project } = await take(api.POST('/orders', { body }))
  const params = { path: { id: project.id } }
  const changes: Schemas['OrderChanges'] = { title: 'Regatta shirts, second lot', tax_exempt: true }
  const changed = await take(api.PATCH('/orders/{id}', { params, body: changes }))
  const order = await take(api.GET('/orders/{id}', { params }))
  if (order.invoice?.number !== changed.invoice?.number) throw new Error('The invoice is another one.')

  const spare = await take(api.POST('/orders', { body: { title: 'A mistake', client_id: client.id } }))
  const removed = await take(api.DELETE('/orders/{id}', { params: { path: { id: spare.project.id } } }))
  const today = project.created_date
  const query = { page: 1, per_page: 100, client_id: client.id, from: today, to: today }
  const { data } = await take(api.GET('/orders', { params: { query } }))
  if (data.some(({ id }) => id === removed.project.id)) throw new Error('A deleted order is listed.')
  return order
}

async function lookUpProducts(api: Api): Promise<string[]> {
  const search = await take(
    api.GET('/products/search', { params: { query: { q: 'PC61', include: 'local,supplier_a,supplier_b,lines' } } }),
  )
  const { supplier_a: found, sources } = search
  const lines = [
    `${search.query}: ${sources.local} ${sources.lines} ${sources.supplier_a} ${sources.supplier_b}`,
    ...search.local_items.map(({ id, title, price }) => `${id} ${title} ${price?.toFixed(2) ?? ''}`),
    ...search.supplier_b_styles
      .slice(0, 3)
      .map((style) => `${style.style_id} ${style.brand?.trim()} ${style.sustainable}`),
    ...search.invoice_lines.map(describeItem),
    `${found.style?.toUpperCase()} ${found.count.toFixed()} ${found.summary?.colors.join()}`,
  ]
  const item = search.invoice_lines[0]?.id ?? 1
  for (const [source, query] of [
    ['supplier_a', { style: 'PC61', color: 'White', size: 'L' }],
    ['supplier_b', { styleId: '39' }],
    ['invoice_item', { id: item }],
  ] as const) {
    const { data } = await api.GET('/products/{source}', { params: { path: { source }, query } })
    if (data) lines.push(...describeProduct(data))
  }
  return lines
}

type Product = paths['/products/{source}']['get']['responses'][200]['content']['application/json']

/** `source` discriminates the three bodies. */
function describeProduct(body: Product): string[] {
  switch (body.source) {
    case 'supplier_a':
      return body.products
        .slice(0, 3)
        .map(({ style, size, piece_price }) => `${style.trim()} ${size} ${piece_price?.toFixed(2)}`)
    case 'supplier_b':
      return body.products
        .slice(0, 3)
        .flatMap(({ color, skus }) => skus.map(({ sku, qty }) => `${color} ${sku} ${qty ?? 0}`))
    case 'invoice_item':
      return [describeItem(body.item)]
    default:
      return body satisfies never
  }
}

async function workOnMail(api: Api, { legacyThreadId, accountEmail }: Task): Promise<string[]> {
  const path = { legacyThreadId }
  const context = await take(api.GET('/mail/threads/{legacyThreadId}', { params: { path } }))
  const orders = Array.isArray(context.orders_data) ? context.orders_data.length : 0

  const body: Schemas['EmailThreadBody'] = {
    account_email: accountEmail,
    subject: 'Shirts',
    snippet: null,
    participants: [{ name: 'Ada' }],
    labels: ['inbox'],
    messages: [{ id: 'm1', sent_at: '2026-11-02T09:00:00Z', from: { name: 'Ada' }, attachments: [] }],
    last_message_at: '2026-11-02T09:00:00Z',
  }
  const { email_thread: stored } = await take(
    api.PUT('/mail/email-threads/{legacyThreadId}', { params: { path }, body }),
  )
  const address = '/mail/email-threads/{legacyThreadId}'
  const query = { account_email: accountEmail }
  const first = await api.GET(address, { params: { path, query } })
  const etag = first.response.headers.get('etag') ?? ''
  const again = await api.GET(address, { params: { path, query, header: { 'If-None-Match': etag } } })
  return [
    `${context.thread_id} ${context.selected_order_id ?? 'none'} ${orders} ${context.fetched_at}`,
    `${stored.id} ${stored.labels.join()} ${stored.message_count.toFixed()} ${stored.last_synced_at}`,
    `${first.data?.email_thread.messages.length} ${again.response.status}`,
  ]
}

async function workOnFiles(api: Api, orderId: number, { legacyThreadId }: Task): Promise<string[]> {
  const path = { orderId: orderId }
  const body: Schemas['NewFile'] = { fileName: 'crest.png', contentType: 'image/png', size: 12, legacyThreadId }
  const upload = await take(api.POST('/orders/{orderId}/files/presign', { params: { path }, body }))
  const { files, configured } = await take(
    api.GET('/orders/{orderId}/files', { params: { path, query: { legacyThreadId } } }),
  )
  return [
    `${new URL(upload.uploadUrl).protocol} ${upload.key} ${upload.contentType} ${upload.expiresIn / 60}`,
    `${configured} ${files.map((file) => `${file.path} ${file.objectName} ${file.length + 1} ${file.source}`)}`,
  ]
}

function describeClient(client: Schemas['Client']): string {
  const name = [client.first_name, client.last_name].filter((part) => part !== null).join(' ')
  return `${client.id.toFixed()} ${client.company_name.trim()} ${name} ${client.deleted ? 'deleted' : 'active'}`
}

function describeOrder({ project, invoice, invoice_items, artworks, ...rest }: Schemas['Order']): string[] {
  return [
    `${project.title.trim()} ${project.deadline?.slice(0, 4)} ${rest.order_status?.workflow_key}`,
    invoice ? `${invoice.number} ${invoice.total.toFixed(2)} ${invoice.balance_due.toFixed(2)}` : 'no invoice',
    ...invoice_items.map(describeItem),
    ...artworks.map(({ name, placements }) => `${name.trim()} ${placements.length}`),
    ...rest.payments.map(({ amount, method }) => `${amount.toFixed(2)} ${method}`),
    `${rest.tax?.rate.toFixed(2) ?? 'no tax'} ${rest.client.company_name} ${rest.accounting.status}`,
  ]
}

function describeItem({ id, title, quantity, unit_price }: Schemas['InvoiceItem']): string {
  return `${id} ${title.trim()} ${(quantity * unit_price).toFixed(2)}`
}

/** The body of a successful call. All errors have one shape. */
async function take<Data>(
  call: Promise<{ data?: Data; error?: Schemas['ErrorResponse']; response: Response }>,
): Promise<Data> {
  const { data, error, response } = await call
  if (data !== undefined) return data
  if (!error) throw new Error(`${response.url} responded with ${response.status} and no error.`)
  const { code, message, details } = error.error
  const issues = details && 'issues' in details ? details.issues.map(({ path, message }) => `${path} ${message}`) : []
  throw new Error(`${response.url} responded with ${response.status} ${code}: ${message} ${issues.join('; ')}`)
}

import type { paths } from 'published-description'
import { type Api, etagOf, newKey, type Schemas, tagOf, take } from './api.ts'
import { changeTogether, readChanges } from './batch-and-changes.ts'
import { type Task, workOnMailAndFiles } from './mail-and-files.ts'

/**
 * An integrator's program, written with the types that openapi-typescript generates from the published description. It
 * calls every operation with all of its fields and uses the responses.
 *
 * @returns a line for each result
 * @throws Error with the API's message, when a call fails
 */
export async function callEveryOperation(api: Api, task: Task): Promise<string[]> {
  const account = await take(api.GET('/me'))
  const start = await take(api.GET('/changes', { params: { query: { start: 'latest' } } }))
  const client = await workOnClients(api)
  const order = await workOnOrders(api, client)
  return [
    describeAccount(account),
    describeClient(client),
    ...describeOrder(order),
    ...(await changeTogether(api, order)),
    ...(await lookUpProducts(api)),
    ...(await workOnMailAndFiles(api, order, task)),
    ...(await readChanges(api, start.pagination.next_cursor)),
  ]
}

const BY_EXTERNAL_ID = '/clients/by-external-id/{external_id}'

async function workOnClients(api: Api): Promise<Schemas['Client']> {
  const query = { per_page: 5, q: 'a', updated_since: '2020-01-01T00:00:00Z', deleted: 'include', sort: '-id' } as const
  const first = await take(api.GET('/clients', { params: { query: { ...query, page: 1 } } }))
  const cursor = first.pagination.next_cursor ?? ''
  const second = await take(api.GET('/clients', { params: { query: { ...query, cursor } } }))
  const shown: number = first.data.length + second.data.length
  if (shown > first.pagination.total) throw new Error('There are more clients than there are.')

  const external_id = `erp-${crypto.randomUUID()}`
  const whole: Schemas['WholeClient'] = {
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
  const body: Schemas['NewClient'] = { ...whole, external_id }
  const creation = { params: { header: { 'Idempotency-Key': newKey() } }, body }
  const { client: created } = await take(api.POST('/clients', creation))
  const { client: repeated } = await take(api.POST('/clients', creation))
  if (repeated.id !== created.id) throw new Error('The client was created twice.')

  const byExternalId = { external_id }
  const current = { path: byExternalId, header: { 'If-Match': tagOf(created) } }
  const put = await take(api.PUT(BY_EXTERNAL_ID, { params: current, body: { ...whole, tax_exempt: false } }))
  const absent = { path: byExternalId, header: { 'If-None-Match': '*' } } as const
  const only = await api.PUT(BY_EXTERNAL_ID, { params: absent, body: whole })
  if (only.response.status !== 412) throw new Error('A creation replaced the client.')
  const byEmail = { path: { id: 'by-email' }, query: { email: created.email ?? '' } }
  const header = { 'If-Match': tagOf(put.client), 'Idempotency-Key': newKey() }
  const changes: Schemas['ClientChanges'] = { ...body, company_name: 'Quay Rowers' }
  await take(api.PATCH('/clients/{id}', { params: { ...byEmail, header }, body: changes }))

  const deletion = { 'If-Match': '*', 'Idempotency-Key': newKey() }
  await take(api.DELETE('/clients/{id}', { params: { ...byEmail, header: deletion } }))
  await take(api.PATCH('/clients/{id}', { params: byEmail, body: { deleted: false } }))
  const read = await api.GET('/clients/{id}', { params: byEmail })
  const unchanged = { 'If-None-Match': etagOf(read) }
  const again = await api.GET('/clients/{id}', { params: { ...byEmail, header: unchanged } })
  const same = await api.GET(BY_EXTERNAL_ID, { params: { path: byExternalId, header: unchanged } })
  if (again.data || same.data) throw new Error('An unchanged client was sent again.')
  const found = await take(api.GET('/clients', { params: { query: { external_id } } }))
  const { client } = await take(read)
  if (found.data[0]?.id !== client.id) throw new Error('The external id names another client.')
  return client
}

async function workOnOrders(api: Api, client: Schemas['Client']): Promise<Schemas['Order']> {
  const { data: statuses } = await take(api.GET('/order-statuses'))
  const { data: taxes } = await take(api.GET('/taxes'))
  const status = statuses.find(({ is_default }) => is_default)
  if (!status) throw new Error('The company has no default status.')

  const fields: Schemas['NewOrder'] = {
    title: 'Regatta shirts',
    client_id: client.id,
    description: 'Two colours',
    start_date: '2026-11-02',
    deadline: '2026-12-01',
    status_id: status.id,
    client_notes: null,
    tax_id: taxes[0]?.id ?? 0,
    tax_exempt: false,
    tax_exempt_reason: null,
    discount_amount: 5,
    discount_amount_type: 'fixed',
    discount_type: 'after_tax',
    external_id: `erp-${crypto.randomUUID()}`,
    accounting_sync_enabled: false,
  }
  const creation = { header: { 'Idempotency-Key': newKey() } }
  const { project } = await take(api.POST('/orders', { params: creation, body: fields }))
  const path = { id: project.id }
  const changes: Schemas['OrderChanges'] = { ...fields, title: 'Regatta shirts, second lot' }
  const header = { 'If-Match': tagOf(project), 'Idempotency-Key': newKey() }
  const changed = await take(api.PATCH('/orders/{id}', { params: { path, header }, body: changes }))

  const read = await api.GET('/orders/{id}', { params: { path } })
  const unchanged = { 'If-None-Match': etagOf(read) }
  const again = await api.GET('/orders/{id}', { params: { path, header: unchanged } })
  if (again.response.status !== 304) throw new Error('An unchanged order was sent again.')

  await workOnInvoice(api, changed.project)
  const order = await take(api.GET('/orders/{id}', { params: { path } }))
  if (order.invoice?.number !== changed.invoice?.number) throw new Error('The invoice is another one.')
  await listOrders(api, client, order.project)
  await putOrder(api, fields)
  return order
}

/** Creates an order by an own id, and replaces it. */
async function putOrder(api: Api, { external_id: _, ...fields }: Schemas['NewOrder']): Promise<void> {
  const path = { external_id: `erp-${crypto.randomUUID()}` }
  const address = '/orders/by-external-id/{external_id}'
  const payments = [{ amount: 5, method: 'cash', paid_at: '2026-11-02', note: 'Half' }]
  const body: Schemas['WholeOrder'] = { ...fields, invoice_items: [{ ...TEE, quantity: 2 }], payments }
  const created = await take(api.PUT(address, { params: { path, header: { 'If-None-Match': '*' } }, body }))
  const header = { 'If-Match': tagOf(created.project) }
  const { invoice_items, project } = await take(api.PUT(address, { params: { path, header }, body }))
  if (invoice_items?.[0]?.id !== created.invoice_items?.[0]?.id) throw new Error('The line is another one.')
  await take(api.DELETE('/orders/{id}', { params: { path: { id: project.id } } }))
}

/** Lists a client's orders, of which one is deleted. */
async function listOrders(api: Api, client: Schemas['Client'], project: Schemas['Project']): Promise<void> {
  const line: Schemas['NewOrderItem'] = { ...TEE, quantity: 2 }
  const lists = {
    invoice_items: [line, { title: 'Setup' }],
    payments: [{ amount: 5, method: 'cash', paid_at: '2026-11-02', note: 'Half' }],
  }
  const spare = await take(api.POST('/orders', { body: { title: 'A mistake', client_id: client.id, ...lists } }))
  const path = { id: spare.project.id }
  const header = { 'If-Match': tagOf(spare.project), 'Idempotency-Key': newKey() }
  await take(api.DELETE('/orders/{id}', { params: { path, header } }))
  await take(api.GET('/orders/{id}', { params: { path, query: { deleted: 'include' } } }))
  const id = spare.invoice_items[0]?.id ?? 0
  const back: Schemas['OrderChanges'] = { deleted: false, invoice_items: [{ ...TEE, quantity: 3, id }] }
  await take(api.PATCH('/orders/{id}', { params: { path }, body: back }))
  const removed = await take(api.DELETE('/orders/{id}', { params: { path } }))
  const query = {
    per_page: 1,
    updated_since: project.created_at,
    deleted: 'include',
    sort: 'created_at',
    client_id: client.id,
    from: project.created_date,
    to: spare.project.created_date,
    expand: 'totals,client,invoice_items',
  } as const
  const first = await take(api.GET('/orders', { params: { query: { ...query, page: 1 } } }))
  const cursor = first.pagination.next_cursor ?? ''
  const second = await take(api.GET('/orders', { params: { query: { ...query, cursor } } }))
  const all = [...first.data, ...second.data]
  if (all.find(({ deleted }) => deleted)?.id !== removed.project.id) throw new Error('The deleted order is missing.')
  if (all[0]?.client?.id !== client.id || !all[0].totals?.total) throw new Error('The order was not expanded.')

  const search = { q: 'regatta', status: String(project.order_status_id), external_id: project.external_id ?? '' }
  const { data } = await take(api.GET('/orders', { params: { query: search } }))
  if (data.length !== 1) throw new Error('The search does not find the order.')
}

const TEE = {
  title: 'Tee',
  description: null,
  unit_price: 9.5,
  taxable: true,
  supplier: 'supplier_a',
  style: 'PC61',
  color: 'White',
  size: 'L',
  sku: null,
}

/** Two lines, of which one is changed, and a deposit that is paid twice by mistake. */
async function workOnInvoice(api: Api, project: Schemas['Project']): Promise<void> {
  const path = { id: project.id }
  const line: Schemas['NewInvoiceItem'] = { ...TEE, quantity: 12 }
  const setup: Schemas['NewInvoiceItem'] = { title: 'Setup', unit_price: 25, taxable: false }
  const header = { 'If-Match': tagOf(project) }
  const address = '/orders/{id}/invoice-items'
  const lines: Schemas['NewInvoiceItems'] = { items: [line, setup] }
  const { invoice_items } = await take(api.PUT(address, { params: { path, header }, body: lines }))
  const [first, second] = invoice_items
  if (!first || !second) throw new Error('The lines are missing.')
  const items = [
    { ...line, id: first.id, quantity: 24 },
    { ...setup, id: second.id },
  ]
  const written = await api.PUT(address, { params: { path }, body: { items } })
  const { invoice } = await take(written)

  const body: Schemas['NewPayment'] = { amount: 50, method: 'card', paid_at: '2026-11-02', note: 'Deposit' }
  const deposit = { 'If-Match': etagOf(written), 'Idempotency-Key': newKey() }
  await take(api.POST('/orders/{id}/payments', { params: { path, header: deposit }, body }))
  const paid = await api.POST('/orders/{id}/payments', { params: { path }, body })
  const { payment } = await take(paid)
  const onePath = { ...path, payment_id: payment.id }
  const correction = { 'If-Match': etagOf(paid), 'Idempotency-Key': newKey() }
  const corrected = await api.PATCH('/orders/{id}/payments/{payment_id}', {
    params: { path: onePath, header: correction },
    body: { ...body, note: 'Paid twice' },
  })
  await take(corrected)
  const { data } = await take(api.GET('/orders/{id}/payments', { params: { path } }))
  if (data.at(-1)?.note !== 'Paid twice') throw new Error('The payment was not corrected.')
  const removal = { 'If-Match': etagOf(corrected), 'Idempotency-Key': newKey() }
  const params = { path: onePath, header: removal }
  const rest = await take(api.DELETE('/orders/{id}/payments/{payment_id}', { params }))
  const due = invoice.balance_due - rest.payment.amount
  if (rest.invoice.balance_due.toFixed(2) !== due.toFixed(2)) throw new Error('The deposit was not paid once.')
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
    ['supplier_b', { styleid: '39' }],
    ['supplier_b', { sku: 'B00010000' }],
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

function describeAccount({ company, token, limits }: Schemas['Account']): string {
  const share = (limits.mail_bytes / limits.mail_quota_bytes).toFixed(2)
  return `${company.name.trim()} ${token.permissions.length} ${token.expires_at ?? 'forever'} ${share}`
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

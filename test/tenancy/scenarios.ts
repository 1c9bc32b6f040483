import { env } from 'cloudflare:workers'
import * as accounting from '../../src/delivery/accounting/queries.ts'
import * as webhooks from '../../src/delivery/webhooks/queries.ts'
import { openDatabase } from '../../src/kernel/db/client.ts'
import { listDueCompanies, listWebhookCompanies } from '../../src/kernel/db/sweep.ts'
import { moveFor } from '../../src/operation/copies/move.ts'
import type { SeedInput } from '../../src/operation/copies/seed/file.ts'
import { splitSeedFile } from '../../src/operation/copies/seed/split.ts'
import { readPart } from '../../src/operation/copies/store.ts'
import { EXPANSIONS } from '../../src/resources/orders/shapes.ts'
import { backUp, manifestsOf, restore, wipe } from '../operation/copies/support.ts'
import { adminCall, operatorOf } from '../support/admin.ts'
import { sql, sqlIn } from '../support/app.ts'
import type { Actor, Scenario } from './twins.ts'
import { ENDPOINT, MAILBOX } from './twins.ts'

/** Later than all that is stored. */
const NOW = 1_800_000_000_000

const READS = [
  '/me',
  '/order-statuses',
  '/taxes',
  '/changes',
  '/changes?start=latest',
  '/changes?expand=object',
  '/clients',
  '/clients?q=tee',
  '/clients?q=te',
  '/clients?q=e',
  '/clients?q=5550100',
  '/clients?q=alpha',
  '/clients?page=2&per_page=1',
  '/clients?q=tee&page=2&per_page=1',
  '/clients?deleted=only',
  '/clients?sort=created_at&deleted=include',
  '/clients?sort=updated_at&deleted=include&updated_since=1970-01-01T00:00:00Z',
  '/clients?q=tee&sort=-created_at&deleted=include',
  '/clients?external_id=shop-2',
  '/clients?external_id=shop-11',
  '/clients/1',
  '/clients/11',
  '/clients/c3%40x.example',
  '/clients/-?email=c1@x.example',
  '/clients/by-external-id/shop-1',
  '/clients/by-external-id/shop-11',
  '/orders',
  '/orders?q=order',
  '/orders?q=tee',
  '/orders?q=tee%201',
  '/orders?q=1001',
  '/orders?q=alpha',
  '/orders?page=2&per_page=1',
  '/orders?client_id=1',
  '/orders?client_id=11',
  '/orders?client_id=1&status=1',
  '/orders?client_id=1&from=2026-01-01',
  '/orders?status=1',
  '/orders?status=1,2',
  '/orders?status=1&from=2026-01-01',
  '/orders?from=2026-01-01&to=2026-01-02',
  '/orders?deleted=only',
  '/orders?sort=-updated_at&deleted=include&updated_since=1970-01-01T00:00:00Z&expand=totals,client',
  '/orders?sort=id&deleted=include&external_id=web-2',
  '/orders?expand=totals,client',
  `/orders?deleted=include&expand=${EXPANSIONS}`,
  '/orders/1',
  '/orders/2',
  '/orders/3',
  '/orders/11',
  '/orders/3?deleted=include',
  '/orders/1/payments',
  '/orders/11/payments',
  '/orders/1/files',
  '/orders/11/files',
  '/products/search',
  '/products/search?q=tee',
  '/products/search?q=te',
  '/products/search?q=alpha',
  '/products/invoice_item?id=1',
  '/products/invoice_item?id=101',
  '/products/invoice_item?id=111',
  '/products/supplier_a?style=x',
  '/products/supplier_b?style=x',
  '/mail/threads?client_id=1',
  '/mail/threads?order_id=1',
  '/mail/threads?order_id=11',
  '/mail/threads?client_id=11',
  '/mail/threads/thread-1',
  '/mail/threads/thread-3',
  '/mail/threads/thread-8',
  '/mail/threads/thread-9',
  '/mail/threads/thread-11',
  `/mail/email-threads?account_email=${MAILBOX}`,
  `/mail/email-threads?account_email=${MAILBOX}&deleted=only`,
  `/mail/email-threads/mail-1?account_email=${MAILBOX}`,
  `/mail/email-threads/mail-3?account_email=${MAILBOX}`,
  `/mail/email-threads/mail-11?account_email=${MAILBOX}`,
]

/** Reads every list to its end through its cursors, two at a time. */
const LISTS = [
  '/clients?per_page=1',
  '/clients?per_page=1&q=tee&deleted=include',
  '/clients?per_page=1&sort=-updated_at&deleted=include',
  '/orders?per_page=1',
  '/orders?per_page=1&q=order',
  '/orders?per_page=1&status=1,2',
  '/orders?per_page=1&client_id=1',
  '/orders?per_page=1&sort=updated_at&deleted=include',
  '/changes?per_page=4',
  '/changes?per_page=4&types=orders',
  '/mail/threads?per_page=1&client_id=1',
  `/mail/email-threads?per_page=1&account_email=${MAILBOX}`,
]

async function readList({ send }: Pick<Actor, 'send'>, path: string, pages = 20, first = '') {
  for (let cursor = first, page = 0; page < pages; page++) {
    const { body } = await send('GET', `${path}${cursor}`)
    const { next_cursor: next, has_more } = body.pagination ?? {}
    if (!next || has_more === false) break
    cursor = `&cursor=${next}`
  }
}

/** What changes between two pages keeps the place that it had. */
async function walks({ call, send }: Actor) {
  for (const list of ['/clients', '/orders']) {
    const path = `${list}?per_page=1&sort=updated_at&deleted=include`
    const { body } = await send('GET', path)
    await call('PATCH', `${list}/2`, list === '/clients' ? { first_name: 'Changed' } : { title: 'Changed' })
    await readList({ send }, path, 20, `&cursor=${body.pagination.next_cursor}`)
  }
}

async function reads(actor: Actor) {
  for (const path of READS) await actor.send('GET', path)
  for (const path of LISTS) await readList(actor, path)
  const { body } = await actor.send('GET', '/changes?start=latest')
  await actor.send('GET', `/changes?cursor=${body.pagination.next_cursor}`)
}

/** Searches with more hits than are sorted one by one. */
async function manyHits(actor: Actor) {
  const rows = (from: string) =>
    `WITH RECURSIVE n (i) AS (VALUES (1001) UNION ALL SELECT i + 1 FROM n WHERE i < 2101) ${from} FROM n`
  await sql(
    rows(`INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
      SELECT ?1, iif(i = 2101, 5000, i), 'Many tee ' || i, 'MANY TEE ' || i, i, i`),
    actor.id,
  )
  await sql(
    rows(`INSERT INTO orders (company_id, id, title, title_key, client_id, created_date, created_at, updated_at)
      SELECT ?1, i, 'Many', iif(i = 2101, 'OTHER', 'MANY ORDER ' || i), iif(i = 2101, 1, 2), '2026-01-01', i, i`),
    actor.id,
  )
  for (const path of ['/clients?q=tee', '/clients?q=te', '/orders?q=order']) {
    await actor.send('GET', path)
    await readList(actor, `${path}&per_page=100&sort=-updated_at&deleted=include`, 3)
  }
}

const KEY = { 'idempotency-key': 'same-key' }

async function writesOfClients({ send }: Actor) {
  await send('POST', '/clients', { company_name: 'New', email: 'c1@x.example', external_id: 'shop-11' })
  await send('POST', '/clients', { company_name: 'New', external_id: 'shop-1' })
  await send('PATCH', '/clients/1', { first_name: 'A', external_id: 'shop-12' })
  await send('PATCH', '/clients/11', { first_name: 'A' })
  await send('PATCH', '/clients/2', { external_id: 'shop-3' })
  await send('PATCH', '/clients/c3%40x.example', { deleted: false })
  await send('PATCH', '/clients/2', { deleted: true })
  await send('PUT', '/clients/by-external-id/shop-2', { company_name: 'Put' })
  await send('PUT', '/clients/by-external-id/shop-13', { company_name: 'Put' }, { 'if-none-match': '*' })
  await send('PUT', '/clients/by-external-id/shop-13', { company_name: 'Put' }, { 'if-none-match': '*' })
  const stored = await send('GET', '/clients/1')
  await send('PATCH', '/clients/1', { last_name: 'B' }, { 'if-match': stored.headers.get('etag') ?? '' })
  await send('PATCH', '/clients/1', { last_name: 'C' }, { 'if-match': '"1"' })
  await send('DELETE', '/clients/c2%40x.example')
  await send('DELETE', '/clients/11')
}

async function writesOfOrders({ send }: Actor) {
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

async function writesOfInvoices({ call, send, note, id, word }: Actor) {
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
  await send('PATCH', '/orders/1/payments/1', { note: 'Changed' })
  await send('PATCH', '/orders/1/payments/11', { note: 'Changed' })
  await send('DELETE', '/orders/3/payments/3')
  await send('DELETE', '/orders/1/payments/1')
  await send('DELETE', '/orders/2/payments/11')
  await send('DELETE', '/orders/11/payments/11')
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

async function mail({ send }: Actor) {
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
  await send('DELETE', path('mail-1'))
  await send('DELETE', path('mail-1'))
  await send('DELETE', path('mail-12'))
  const own = { client_id: 1, client_data: { id: 1 }, orders_data: [{ id: 1 }], selected_order_id: 1 }
  await send('PUT', '/mail/threads/thread-1', own)
  await send('PUT', '/mail/threads/thread-1', { client_id: 11 })
  await send('PUT', '/mail/threads/thread-1', { client_id: 1, orders_data: [{ id: 11 }] })
  await send('PUT', '/mail/threads/thread-1', { client_id: 1, clients_data: [{ id: 11 }] })
  await send('PUT', '/mail/threads/thread-11', { client_id: 1, thread_id: 'context-11' })
  await send('PUT', '/mail/threads/thread-new', { client_id: 1, thread_id: 'context-3' })
  await send('PUT', '/mail/threads/thread-2', { client_id: 2 })
  await send('DELETE', '/mail/threads/thread-2')
  await send('DELETE', '/mail/threads/thread-9')
  await send('DELETE', '/mail/threads/thread-12')
}

async function administration({ id, administer, send, note, word, tokenId: own }: Actor) {
  const refuse = async (method: string, path: string) =>
    note(method, (await adminCall(method, path, method === 'POST' ? {} : undefined)).status)
  await refuse('GET', '/companies/5/members')
  // The token and the event before the company's own ones are those of the first company.
  await refuse('POST', `/companies/${id}/tokens/${own - 1}/rotate`)
  await refuse('DELETE', `/companies/${id}/tokens/${own - 1}`)
  await administer('GET', '')
  await administer('GET', '/usage')
  await administer('GET', '/members')
  await administer('PUT', '/members/b%40x.example', { role: 'owner' })
  await administer('DELETE', '/members/a%40x.example')
  await administer('DELETE', '/members/b%40x.example')
  await administer('DELETE', '/members/c%40x.example')
  await administer('PUT', '/members/d%40x.example', { role: 'developer' })
  await administer('GET', '/members?per_page=1')
  const { body } = await administer('POST', '/tokens', { name: 'second' })
  const tokenId: number = body.id
  await administer('GET', '/tokens')
  await administer('POST', `/tokens/${tokenId}/rotate`, {})
  await administer('DELETE', `/tokens/${tokenId}`)
  await administer('GET', '/tokens?per_page=1')
  await administer('GET', '/integrations')
  const credentials = { account_number: '7', api_key: 'k' }
  await administer('PUT', '/integrations/supplier_b', { enabled: true, base_url: 'http://127.0.0.1:9', credentials })
  await administer('GET', '/integrations')
  await administer('GET', '/webhooks')
  await administer('GET', `/webhooks/${ENDPOINT}`)
  await administer('PATCH', `/webhooks/${ENDPOINT}`, { enabled: false })
  await administer('PATCH', `/webhooks/${ENDPOINT}`, { enabled: true, event_types: ['order.created'] })
  await administer('GET', `/webhooks/${ENDPOINT}/deliveries`)
  const span = { from: '2020-01-01T00:00:00Z', to: '2030-01-01T00:00:00Z' }
  await administer('POST', `/webhooks/${ENDPOINT}/replay`, span)
  await administer('POST', '/webhooks', { url: 'https://example.com/hook' })
  await administer('DELETE', `/webhooks/${ENDPOINT}`)
  await administer('GET', '/webhooks?per_page=1')
  const { body: events } = await administer('GET', '/accounting-events')
  await refuse('POST', `/companies/${id}/accounting-events/${events.data?.[0]?.id - 1}/retry`)
  await administer('POST', `/accounting-events/${events.data?.[0]?.id}/retry`, {})
  await administer('POST', '/accounting-events/retry', { states: ['dead', 'parked'] })
  await administer('GET', '/accounting-events?per_page=1')
  await administer('PUT', '/clients/1/accounting-customer', { customer_id: '77' })
  await administer('PUT', '/clients/11/accounting-customer', { customer_id: '77' })
  await administer('GET', `/imports/${'f'.repeat(64)}`)
  await administer('GET', `/imports/${'e'.repeat(64)}`)
  await administer('GET', '/audit')
  await send('PATCH', '/clients/1', { last_name: 'B' })
  await send('PATCH', '/clients/1', { last_name: 'C' })
  await administer('GET', '/audit?source=api')
  await administer('GET', '/audit?per_page=1')
  await administer('GET', '/export')
  await administer('PATCH', '', { suspended: true })
  await send('GET', '/me')
  await administer('PATCH', '', { suspended: false, name: word })
  await administer('GET', '')
}

/** The rows of a company in every kind of line of a backup. */
async function linesOf({ id, note }: Actor) {
  for (const manifest of await manifestsOf(id)) {
    note('company', [manifest.company, manifest.counts])
    const store = { bucket: env.BACKUPS, companyId: id }
    for (const part of manifest.parts) note('lines', await readPart(store, part))
  }
}

const change = async ({ call }: Actor) => {
  await call('PATCH', '/clients/1', { first_name: 'Changed' })
  await call('PATCH', '/orders/1', { title: 'Changed' })
  await call('DELETE', '/orders/2')
  await call('PUT', '/mail/email-threads/mail-2', { account_email: MAILBOX, messages: [{ id: 'Changed' }] })
}

async function backups(actor: Actor) {
  await backUp(actor.id)
  await change(actor)
  await backUp(actor.id)
  await linesOf(actor)
  const { slot } = (await sql<{ slot: number }>('SELECT slot FROM companies WHERE id = ?', actor.id))[0] ?? { slot: 0 }
  await wipe(actor.id)
  actor.note('restore', await restore(actor.id, new Date().toISOString()))
  actor.note('slot', (await sql('SELECT slot FROM companies WHERE id = ? AND slot = ?', actor.id, slot)).length)
}

/** A file that repeats rows, changes some, and names rows of others. */
const file = (id: number): SeedInput => ({
  company: { id, name: 'Imported', accounting_sync_enabled: false },
  order_statuses: [
    { id: 1, title: 'New' },
    { id: 4, title: 'Imported', is_default: true },
  ],
  taxes: [{ id: 1, name: 'Imported', rate: 1 }],
  clients: [
    { id: 1, company_name: 'Changed', external_id: 'shop-1' },
    { id: 14, company_name: 'New', external_id: 'shop-11' },
  ],
  orders: [
    {
      ...{ id: 1, title: 'Changed', client_id: 1, artworks: [{ id: 1, name: 'Changed' }] },
      invoice: {
        ...{ id: 1, number: '1001', tax_id: 1, payments: [{ id: 1, amount: 9 }] },
        items: [{ id: 1, title: 'Changed', quantity: 9, unit_price: 9 }],
      },
    },
    {
      id: 14,
      title: 'New',
      client_id: 2,
      invoice: { id: 14, number: '1011', tax_id: 2, items: [{ id: 14, title: 'Tee', quantity: 1, unit_price: 1 }] },
    },
  ],
  catalog_items: [
    { id: 1, title: 'Changed' },
    { id: 14, title: 'New' },
  ],
  thread_contexts: [
    { thread_id: 'context-1', legacy_thread_id: 'thread-1', client_id: '2' },
    { thread_id: 'context-other', client_id: '1' },
  ],
  integrations: { supplier_b: { base_url: 'http://127.0.0.1:8', credentials: { account_number: '7', api_key: 'k' } } },
})

async function imports({ id, administer }: Actor) {
  const load = async (input: SeedInput) => {
    const { parts } = splitSeedFile(input)
    const hash = 'e'.repeat(64)
    for (const [at, part] of parts.entries()) {
      await administer('POST', '/imports', { hash, part: at + 1, parts: parts.length, ...part })
    }
    await administer('GET', `/imports/${hash}`)
  }
  const all = file(id)
  const order = { id: 15, title: 'Bad', client_id: 1 }
  for (const bad of [
    { orders: [{ ...order, client_id: 11 }] },
    { orders: [{ ...order, order_status_id: 11 }] },
    { orders: [{ ...order, invoice: { id: 15, tax_id: 11 } }] },
    { orders: [{ ...order, id: 2, invoice: { id: 1 } }] },
    { orders: [{ ...order, invoice: { id: 15, number: '1001' } }] },
    { orders: [{ ...order, external_id: 'web-1' }] },
    { clients: [{ id: 15, company_name: 'Bad', external_id: 'shop-1' }] },
  ]) {
    await load({ company: all.company, ...bad } as SeedInput)
  }
  await load(all)
  await load(all)
}

async function deliveries({ id, note }: Actor) {
  const context = { companyId: id, db: openDatabase(env.DB) }
  const set = (fields: string) => sql(`UPDATE companies SET ${fields} WHERE id = ?`, id)
  await note('paused', [await accounting.loadCompanyState(context), await webhooks.listEnabledEndpoints(context)])
  await set('deliveries_paused = 0')
  note('state', await accounting.loadCompanyState(context))
  for (const now of [1, 2, 5, 1_000]) note('queue', await accounting.loadQueue(context, now, 20))
  for (const order of [1, 2, 3, 11]) note('order', await accounting.loadOrder(context, order, NOW))
  const { events } = await accounting.loadOrder(context, 1, NOW)
  const [event, other] = events
  if (!event || !other) throw new Error('There is no event.')
  const sent = { state: 'sent', request_id: 'r-1', request_body: '{}' } as const
  const link = { external_id: '7', sync_token: '0', customer_id: '9' }
  // The event before is one of the first company.
  const before = { ...event, id: event.id - 1, request_id: null }
  await accounting.recordStep(context, before, { event: accounting.DONE }, NOW)
  const step = { event: sent, link, customer: { clientId: 1, customerId: '9' }, connection: { reason: 'x' } }
  await accounting.recordStep(context, event, step, NOW)
  note('sent', await accounting.loadOrder(context, 1, NOW))
  await accounting.recordStep(context, { ...event, ...sent }, { event: accounting.DONE }, NOW)
  await accounting.dropEvents(context, [other.id], NOW)
  await accounting.saveTokens(context, 'x')
  await accounting.switchRemoteAccount(context, 'https://x.example 2', 'https://accounting.example 1')
  await accounting.switchRemoteAccount(context, 'https://x.example 3', undefined)

  note('endpoints', await webhooks.listEnabledEndpoints(context))
  const round = await webhooks.loadRound(context, ENDPOINT, NOW)
  note('round', round)
  const due = round?.due[0]
  if (!due) throw new Error('The endpoint is not enabled, or nothing is due.')
  const retry = { attempts: 9, next_attempt_at: NOW, last_error: 'x' }
  const kept = [...round.feed.slice(0, 2), due].map((item) => ({ ...item, ...retry }))
  const ofRound = { done: [due], kept, released: [due], progress: { position: 5 } }
  const outcome = { ...ofRound, initial_failures: 2, disabledReason: null }
  note('saved', await webhooks.saveRound(context, round.endpoint, outcome, NOW))
  note('next', await webhooks.loadRound(context, ENDPOINT, NOW + 1))
  const ended = { done: [], kept: [], released: [], progress: {}, initial_failures: 3, disabledReason: 'x' }
  note('disabled', await webhooks.saveRound(context, round.endpoint, ended, NOW))
  note('none', await webhooks.loadRound(context, ENDPOINT, NOW + 1))
}

/** The sweep reads all companies: only what it finds of this one is noted. */
async function sweeps({ id, note }: Actor) {
  const db = openDatabase(env.DB)
  const setAll = (text: string) => sqlIn('DB', text, id)
  const look = async (name: string) =>
    note(name, [(await listDueCompanies(db, NOW)).includes(id), (await listWebhookCompanies(db, NOW)).includes(id)])
  const pause = (paused: number, own: '=' | '<>') =>
    setAll(
      `UPDATE companies SET deliveries_paused = ${paused} WHERE id ${own} ? AND id NOT IN (SELECT company_id FROM company_guards)`,
    )
  await pause(0, '<>')
  await look('paused')
  await pause(0, '=')
  await look('open')
  await setAll('UPDATE companies SET last_change = 0 WHERE id = ?')
  await look('due deliveries')
  await setAll('UPDATE webhook_deliveries SET next_attempt_at = NULL WHERE company_id = ?')
  await setAll("UPDATE accounting_outbox SET state = 'done' WHERE company_id = ?")
  await look('nothing due')
  await pause(1, '<>')
}

/** Moves to the other database, while clients, orders and threads change. */
async function moves(actor: Actor) {
  for (let count = 0, done = false; !done; count++) {
    if (count === 500) throw new Error('The move does not end.')
    const result = await moveFor(env, operatorOf(actor.id), 'DB_TWO', count < 12 ? 0 : 2_000)
    done = result.done
    if (count === 4 || count === 10) await change(actor)
  }
}

export const SCENARIOS = {
  reads,
  walks,
  manyHits,
  writesOfClients,
  writesOfOrders,
  writesOfInvoices,
  mail,
  administration,
  imports,
  deliveries,
  sweeps,
  backups,
  moves,
} satisfies Record<string, Scenario>

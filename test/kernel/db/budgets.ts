import type { Contract } from '../../../src/kernel/api/contract.ts'

/** What a request may cost at most, with 5,000 rows in every table for each of two companies. */
export interface Budget extends Cost {
  /** A contract's `operationId`. */
  operation: string
  /** The request, for the table. */
  name: string
  /** With `cursor=after:N`, the cursor of page N is sent. */
  path: string
  body?: unknown
  /** 200 by default. */
  status?: readonly number[]
  /** The waits for the network behind the call of the token's object, each with its depth: one batch by default. */
  waits: readonly string[]
}

interface Cost {
  rowsRead: number
  rowsWritten: number
  /** Calls to Durable Objects: the rate limiter's, and the accounting delivery's. */
  objectCalls: number
  cacheReads: number
  cacheWrites: number
}

type More = Partial<Omit<Budget, 'operation' | 'name' | 'path' | 'rowsRead' | 'rowsWritten'>>

type Row = [name: string, rowsRead: number, rowsWritten: number, path: string, more?: More]

const MAILBOX = 'box@x.example'
const PARTS = 'totals,client,invoice,invoice_items,payments,tax,order_status,artworks'
const FIELDS = { first_name: 'A', last_name: 'B', email: 'n@x.example', phone: '5', tax_exempt: true }
const ALL_OF_ORDER = { client_id: 1, status_id: 4, tax_id: 2, deadline: '2027-01-01', discount_amount: 5 }
const WHOLE_ORDER = { title: 'New', ...ALL_OF_ORDER, invoice_items: [{ title: 'A' }], payments: [{ amount: 1 }] }
const WITHOUT_EVENT = { accounting_sync_enabled: false }
const FILE = { fileName: 'a.png', size: 1, legacyThreadId: 't' }
const LINES = { items: Array.from({ length: 500 }, (_, index) => ({ title: `Line ${index}` })) }
const NEW_CLIENT = { method: 'POST', path: '/clients', body: { company_name: 'New', ...FIELDS } }
const BATCH = { operations: Array.from({ length: 100 }, () => NEW_CLIENT) }
const NINETY_LETTERS = Array.from({ length: 90 }, (_, index) => 'abcdefghijklmnopqrstuvwxyz'[index % 26]).join('%20')
const LINKS = { client_id: 1, client_data: { id: 1 }, orders_data: [{ id: 87 }, { id: 88 }], selected_order_id: 87 }

/** Text that hardly compresses, the same in every run. */
const NOISE = Array.from({ length: 2_000_000 }, (_, at) =>
  String.fromCharCode(40 + (((Math.imul(at, 2_654_435_761) ^ (Math.imul(at, at) >>> 7)) >>> 11) % 48)),
).join('')

const threadOf = (text: string) => ({ body: { account_email: MAILBOX, subject: 's', messages: [{ text }] } })
const NOT_FOUND: More = { status: [404] }
const NOT_SET_UP: More = { status: [409], cacheReads: 1, waits: ['2 CACHE.getWithMetadata', '2 DB.batch'] }
const OF_R2 = ['2 DB.batch', '3 DB.batch', '4 FILES.put', '5 DB.batch']
/** A batch of many operations counts as several requests. */
const OF_MANY = ['2 RATE_LIMITER.report', '3 DB.batch']
/** Later reads of the token are as fresh. */
const REMEMBERED: More = { waits: ['2 DB.batch', '3 RATE_LIMITER.report'] }
const WITH_OBJECTS: More = { waits: ['2 DB.batch', '3 DB.batch', '4 RATE_LIMITER.report'] }
/** The delivery is called after the response. */
const WITH_EVENT: More = { objectCalls: 3 }

/** The ids are those of `test/support/fill-company.ts`; each row that a request changes is changed by it alone. */
const ROWS: Record<string, Row[]> = {
  readAccount: [['the token', 6, 0, '/me']],
  listOrderStatuses: [['5,000', 10_100, 0, '/order-statuses']],
  listTaxes: [['5,000', 5100, 0, '/taxes']],
  listChanges: [
    ['oldest 100', 110, 0, '/changes', REMEMBERED],
    ['of the rarest type', 5100, 0, '/changes?types=email_threads&per_page=1000', REMEMBERED],
    ['only a cursor', 2, 0, '/changes?start=latest', REMEMBERED],
    ['oldest 100, with their objects', 430, 0, '/changes?expand=object', WITH_OBJECTS],
    ['25 orders, with their objects', 5100, 0, '/changes?expand=object&per_page=25&types=orders', WITH_OBJECTS],
  ],
  listClients: [
    ['first page', 54, 0, '/clients'],
    ['100 a page', 210, 0, '/clients?per_page=100'],
    ['last page', 5050, 0, '/clients?page=200'],
    ['a page far past the end', 5050, 0, '/clients?page=1000000'],
    ['search, one hit', 6, 0, '/clients?q=club%204321'],
    ['search, every client a hit', 5100, 0, '/clients?q=harbor'],
    ['search, every client a hit, last page', 10100, 0, '/clients?q=harbor&page=200'],
    ['search for digits', 6, 0, '/clients?q=5551004321'],
    ['search for two characters', 5100, 0, '/clients?q=ha'],
    ['search for one character without a hit', 3, 0, '/clients?q=z'],
    ['behind a cursor', 60, 0, '/clients?cursor=after:100'],
    ['search, every client a hit, behind a cursor', 78, 0, '/clients?q=harbor&cursor=after:100'],
    ['by created_at, deleted ones too', 54, 0, '/clients?sort=created_at&deleted=include'],
    ['a page far past the end, deleted ones too', 5050, 0, '/clients?page=900&sort=created_at&deleted=include'],
    ['search, every client a hit, by created_at', 8200, 0, '/clients?q=harbor&sort=created_at'],
    ['deleted ones', 3, 0, '/clients?deleted=only'],
    ['by updated_at behind a cursor', 85, 0, '/clients?sort=updated_at&cursor=after:100', REMEMBERED],
    ['changed since a time, 10 of them', 10, 0, '/clients?updated_since=2020-01-01T00:00:00Z'],
    ['changed since a time, all of them', 8200, 0, '/clients?updated_since=1970-01-01T00:00:00Z', REMEMBERED],
    ['the same behind a cursor', 3200, 0, '/clients?updated_since=1970-01-01T00:00:00Z&cursor=after:100', REMEMBERED],
    ['by external_id', 8, 0, '/clients?external_id=x'],
  ],
  readClient: [
    ['by id', 2, 0, '/clients/4321'],
    ['by email', 3, 0, '/clients/c4321%40x.example'],
    ['unknown', 1, 0, '/clients/99999', NOT_FOUND],
  ],
  createClient: [['all fields', 72, 10, '/clients', { body: { company_name: 'New', ...FIELDS } }]],
  updateClient: [
    ['a field that is searched', 103, 7, '/clients/101', { body: { company_name: 'Renamed' } }],
    ['a field that is not searched', 42, 5, '/clients/102', { body: { website: 'x.example' } }],
    ['by email, deleted', 39, 9, '/clients/c103%40x.example', { body: { deleted: true } }],
    ['the same again', 42, 5, '/clients/102', { body: { website: 'y.example' } }],
  ],
  deleteClient: [['by id', 35, 9, '/clients/104']],
  readClientByExternalId: [['unknown', 1, 0, '/clients/by-external-id/shop-1', NOT_FOUND]],
  putClient: [
    ['created, all fields', 71, 11, '/clients/by-external-id/shop-2', { body: { company_name: 'New', ...FIELDS } }],
    ['replaced', 55, 10, '/clients/by-external-id/shop-2', { body: { company_name: 'Other' } }],
  ],
  listOrders: [
    ['first page', 54, 0, '/orders'],
    ['last page', 5050, 0, '/orders?page=200'],
    ['a page far past the end', 5050, 0, '/orders?page=1000000'],
    ['of a client with 1 order', 8, 0, '/orders?client_id=4321'],
    ['of a client with 3,000', 3100, 0, '/orders?client_id=1'],
    ['of that client, last page', 6100, 0, '/orders?client_id=1&page=120'],
    ['of that client with a status', 3300, 0, '/orders?client_id=1&status=2'],
    ['of that client with a status that none has', 6100, 0, '/orders?client_id=1&status=9'],
    ['of that client in 300 days (600 orders)', 700, 0, '/orders?client_id=1&from=2020-01-01&to=2020-10-26'],
    ['of a status', 770, 0, '/orders?status=2'],
    ['of a status in 300 days', 230, 0, '/orders?status=2&from=2020-01-01&to=2020-10-26'],
    ['of a status since a day, a page far past the end', 1500, 0, '/orders?status=2&from=2020-01-01&page=900'],
    ['deleted ones with totals and clients', 3, 0, '/orders?deleted=only&expand=totals,client'],
    ['in 300 days of 7 statuses', 1300, 0, '/orders?from=2020-01-01&to=2020-10-26'],
    ['behind a cursor', 60, 0, '/orders?cursor=after:100'],
    ['by updated_at behind a cursor', 85, 0, '/orders?sort=-updated_at&cursor=after:100', REMEMBERED],
    ['of 3 statuses', 2500, 0, '/orders?status=1,2,3'],
    ['of 3 statuses behind a cursor', 360, 0, '/orders?status=1,2,3&cursor=after:10'],
    ['search, one hit', 15, 0, '/orders?q=order%204321'],
    ['search, every order a hit, behind a cursor', 3200, 0, '/orders?q=order&cursor=after:100'],
    ['search, every order a hit', 20000, 0, '/orders?q=order', { objectCalls: 2 }],
    ['search for a client with 1 order', 21, 0, '/orders?q=club%204321'],
    ['with totals and clients', 240, 0, '/orders?expand=totals,client'],
    ['with every part', 580, 0, `/orders?expand=${PARTS}`],
    ['100 with lines and payments', 1430, 0, '/orders?per_page=100&expand=invoice_items,payments'],
  ],
  readOrder: [
    ['1 line, payment and artwork', 29, 0, '/orders/4321'],
    ['10 lines, 5 payments, 5 artworks, 500 events', 46, 0, '/orders/1'],
    ['unknown', 5, 0, '/orders/99999', NOT_FOUND],
  ],
  createOrder: [
    ['with an event', 102, 19, '/orders', { ...WITH_EVENT, body: { title: 'New', ...ALL_OF_ORDER } }],
    ['with the default status', 79, 14, '/orders', { body: { title: 'New', client_id: 1, ...WITHOUT_EVENT } }],
    ['of an unknown client', 45, 0, '/orders', { body: { title: 'New', client_id: 99999 }, status: [400] }],
  ],
  updateOrder: [
    ['title', 63, 6, '/orders/201', { body: { title: 'Changed', ...WITHOUT_EVENT } }],
    ['all fields, with an event', 79, 14, '/orders/202', { ...WITH_EVENT, body: ALL_OF_ORDER }],
    ['10 lines, 5 payments, 500 events', 84, 11, '/orders/1', { ...WITH_EVENT, body: { title: 'Changed' } }],
    ['restored', 65, 15, '/orders/208', { ...WITH_EVENT, body: { deleted: false } }],
    ['unknown', 35, 0, '/orders/99999', { ...NOT_FOUND, body: { title: 'Changed' } }],
  ],
  putOrder: [
    ['new, with a line and a payment', 160, 28, '/orders/by-external-id/new', { ...WITH_EVENT, body: WHOLE_ORDER }],
    ['the same again', 206, 14, '/orders/by-external-id/new', { ...WITH_EVENT, body: WHOLE_ORDER }],
  ],
  deleteOrder: [
    ['with an event', 50, 14, '/orders/203', WITH_EVENT],
    ['unknown', 25, 0, '/orders/99999', NOT_FOUND],
  ],
  putInvoiceItems: [
    ['1 line for 1', 108, 18, '/orders/204/invoice-items', { ...WITH_EVENT, body: { items: [{ title: 'New' }] } }],
    ['500 lines', 14500, 2513, '/orders/205/invoice-items', { ...WITH_EVENT, body: LINES }],
    ['unknown', 20, 0, '/orders/99999/invoice-items', { ...NOT_FOUND, body: { items: [] } }],
  ],
  listPayments: [['of an order with 1', 9, 0, '/orders/4321/payments']],
  updatePayment: [['with an event', 69, 11, '/orders/209/payments/209', { ...WITH_EVENT, body: { amount: 2 } }]],
  createPayment: [['with an event', 76, 13, '/orders/206/payments', { ...WITH_EVENT, body: { amount: 1 } }]],
  deletePayment: [['with an event', 60, 12, '/orders/207/payments/207', WITH_EVENT]],
  runBatch: [['100 clients', 6100, 1000, '/batch', { objectCalls: 3, body: BATCH, waits: OF_MANY }]],
  searchProducts: [
    ['newest items', 26, 0, '/products/search'],
    ['one item and line', 11, 0, '/products/search?q=hoodie%204321', { cacheReads: 1 }],
    ['every item and line', 300, 0, '/products/search?q=hoodie', { cacheReads: 1 }],
    ['a long and a short word', 300, 0, '/products/search?q=hoodie%20xl', { cacheReads: 1 }],
    ['a long word, and a short one without a hit', 3, 0, '/products/search?q=hoodie%20qq', { cacheReads: 1 }],
    ['two characters', 300, 0, '/products/search?q=xl', { cacheReads: 1 }],
    ['90 words of one letter', 3, 0, `/products/search?q=${NINETY_LETTERS}`, { cacheReads: 1 }],
  ],
  readProduct: [
    ['invoice line', 3, 0, '/products/invoice_item?id=4321'],
    ['supplier that is not set up', 1, 0, '/products/supplier_b?style=x', NOT_SET_UP],
  ],
  readThreadContext: [
    ['1 client and 2 orders', 15, 0, '/mail/threads/t4321'],
    ['the oldest of 20 alone tied', 150, 0, '/mail/threads/many'],
    ['unknown', 1, 0, '/mail/threads/unknown', NOT_FOUND],
  ],
  listThreadContexts: [
    ['of an order with 2', 60, 0, '/mail/threads?order_id=4321'],
    ['of a client with 1', 35, 0, '/mail/threads?client_id=4321'],
    ['unknown', 8, 0, '/mail/threads?client_id=99999'],
  ],
  putThreadContext: [
    ['new, 1 client and 2 orders', 81, 11, '/mail/threads/new', { body: LINKS }],
    ['replaced', 94, 13, '/mail/threads/t301', { body: LINKS }],
    ['of an unknown client', 16, 0, '/mail/threads/new2', { body: { client_id: 99999 }, status: [400] }],
  ],
  deleteThreadContext: [
    ['1 client and 2 orders', 50, 6, '/mail/threads/t302'],
    ['unknown', 8, 0, '/mail/threads/unknown', NOT_FOUND],
  ],
  listEmailThreads: [
    ['first page', 60, 0, `/mail/email-threads?account_email=${MAILBOX}`],
    ['100 a page', 210, 0, `/mail/email-threads?account_email=${MAILBOX}&per_page=100`],
    ['without a hit', 3100, 0, `/mail/email-threads?account_email=${MAILBOX}&deleted=only`],
  ],
  deleteEmailThread: [
    ['thread', 32, 4, `/mail/email-threads/t301?account_email=${MAILBOX}`],
    ['unknown', 23, 0, `/mail/email-threads/unknown?account_email=${MAILBOX}`, NOT_FOUND],
  ],
  putEmailThread: [
    ['new, 150 KB', 43, 8, '/mail/email-threads/new', threadOf('x'.repeat(150_000))],
    ['the same again', 14, 1, '/mail/email-threads/new', threadOf('x'.repeat(150_000))],
    ['changed, 3 MB', 48, 6, '/mail/email-threads/new', threadOf('y'.repeat(3_000_000))],
    [
      'new, 2 MB that do not compress, in R2',
      65,
      15,
      '/mail/email-threads/large',
      { ...threadOf(NOISE), waits: OF_R2 },
    ],
    ['the same again', 14, 1, '/mail/email-threads/large', threadOf(NOISE)],
  ],
  readEmailThread: [
    ['3 MB', 2, 0, `/mail/email-threads/new?account_email=${MAILBOX}`],
    ['in R2', 3, 0, `/mail/email-threads/large?account_email=${MAILBOX}`, { waits: ['2 DB.batch', '3 FILES.get'] }],
    ['unknown', 1, 0, `/mail/email-threads/unknown?account_email=${MAILBOX}`, NOT_FOUND],
  ],
  presignUpload: [['file', 2, 0, '/orders/4321/files/presign', { body: FILE, status: [200, 409] }]],
  listFiles: [['of an order', 2, 0, '/orders/4321/files', { waits: ['2 DB.batch', '2 FILES.list'] }]],
  presignDownload: [['unknown', 2, 0, `/orders/4321/files/download?path=x`, { ...NOT_FOUND, waits: [] }]],
  deleteFile: [['unknown', 2, 0, `/orders/4321/files?path=x`, { ...NOT_FOUND, waits: [] }]],
}

/** Every request that is measured, in the order in which they are sent. */
export const BUDGETS: readonly Budget[] = Object.entries(ROWS).flatMap(([operation, rows]) =>
  rows.map(([name, rowsRead, rowsWritten, path, more]) => ({
    operation,
    name,
    path,
    rowsRead,
    rowsWritten,
    // The token’s object, and a report to it behind a write or much database time.
    objectCalls: 2,
    cacheReads: 0,
    cacheWrites: 0,
    waits: ['2 DB.batch'],
    ...more,
  })),
)

/** What the published example of an operation without a row in {@link BUDGETS} may cost. */
export function defaultBudget(contract: Contract, example: { path: string; body?: unknown }): Budget {
  const { operationId: operation } = contract
  const isRead = contract.method === 'GET' || contract.isReadOnly
  const cost = { rowsRead: 110, rowsWritten: isRead ? 0 : 20, objectCalls: 2, cacheReads: 0, cacheWrites: 0 }
  return { operation, name: 'example', ...example, ...cost, status: [200, 404], waits: ['2 DB.batch'] }
}

/** US dollars for one of each, beyond what a paid plan includes: Workers, D1, Durable Objects and KV. */
const REQUEST_PRICE = 0.3 / 1e6
const PRICES: Cost = {
  rowsRead: 0.001 / 1e6,
  rowsWritten: 1 / 1e6,
  objectCalls: 0.15 / 1e6,
  cacheReads: 0.5 / 1e6,
  cacheWrites: 5 / 1e6,
}

/** What a million of a request cost at most. */
export function dollarsPerMillion(cost: Cost): number {
  const kinds = Object.keys(PRICES) as (keyof Cost)[]
  return 1e6 * kinds.reduce((sum, kind) => sum + cost[kind] * PRICES[kind], REQUEST_PRICE)
}

const costOf = ({ operation, rowsRead, rowsWritten }: Budget) => [operation, rowsRead, rowsWritten].join()

/** What the guide on costs shows: no refused requests, and of an operation's requests at the same cost the first. */
const SHOWN = BUDGETS.filter(
  (budget, index) =>
    (budget.status ?? [200]).includes(200) && BUDGETS.findIndex((each) => costOf(each) === costOf(budget)) === index,
)

/** The table of the guide on costs. */
export function formatBudgets(): string {
  const rows = SHOWN.map((budget) => {
    const { operation, name, rowsRead, rowsWritten, objectCalls, cacheReads, cacheWrites } = budget
    const cells = [operation, name, rowsRead, rowsWritten, objectCalls, cacheReads + cacheWrites]
    return `| ${[...cells, dollarsPerMillion(budget).toFixed(2)].join(' | ')} |`
  })
  const head = '| Operation | Request | Rows read | Rows written | Object calls | KV calls | US$ a million |'
  return [head, '|---|---|---:|---:|---:|---:|---:|', ...rows].join('\n')
}

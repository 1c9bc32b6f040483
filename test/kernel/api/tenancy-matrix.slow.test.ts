import { describe, expect, it } from 'vitest'
import { contracts, endpoints } from '../../support/endpoints.ts'
import { type Decided, EMPTY, placesOf, testTenancy } from '../../support/tenancy.ts'

/*
 * Every endpoint × every place in its path, query and body × every id of another company: never data, never an effect,
 * always the expected status. Endpoints and places come from the contracts.
 */

const ownFields = {
  company_name: 200,
  first_name: 200,
  last_name: 200,
  website: 200,
  phone: 200,
  tax_exempt_reason: 200,
}
const clientFields = { ...ownFields, external_id: 200 }
const orderFields = {
  external_id: 200,
  title: 200,
  description: 200,
  start_date: 200,
  client_notes: 200,
  tax_exempt_reason: 200,
}
const { external_id: _own, ...wholeFields } = orderFields
const references = { 'body.client_id': 400, 'body.status_id': 400, 'body.tax_id': 400 }
const inBody = (fields: Record<string, number>) =>
  Object.fromEntries(Object.entries(fields).map(([name, status]) => [`body.${name}`, status]))

const ownFile: Decided['own'] = ({ order, thread }, { id, marker }) => ({
  params: { orderId: String(order) },
  query: { path: `orders/${id}/${order}/email/${thread}/${marker}.png` },
})

const LIST: Record<string, number | typeof EMPTY> = {
  'query.page': EMPTY,
  'query.per_page': 200,
  'query.cursor': 400,
  'query.q': 200,
  'query.external_id': EMPTY,
}

const EXPECTED: Record<string, Decided> = {
  readAccount: { own: () => ({}), places: {} },
  listOrderStatuses: { own: () => ({}), places: {} },
  listTaxes: { own: () => ({}), places: {} },
  listChanges: { own: () => ({ query: {} }), places: { 'query.cursor': 400, 'query.per_page': 200 } },
  listClients: { own: () => ({ query: {} }), places: LIST },
  createClient: {
    own: () => ({ body: { company_name: 'Own' } }),
    places: inBody({ ...clientFields, email: 200 }),
  },
  readClient: {
    own: ({ client }) => ({ params: { id: String(client) }, query: {} }),
    places: { 'params.id': 404, 'query.email': 404 },
  },
  updateClient: {
    own: ({ client }) => ({ params: { id: String(client) }, body: { phone: '1' } }),
    places: { 'params.id': 404, 'query.email': 404, ...inBody({ ...clientFields, email: 200 }) },
  },
  deleteClient: {
    own: ({ client }) => ({ params: { id: String(client) } }),
    places: { 'params.id': 404, 'query.email': 404 },
  },
  readClientByExternalId: {
    own: ({ thread }) => ({ params: { external_id: thread } }),
    places: { 'params.external_id': 404 },
  },
  putClient: {
    own: ({ thread }) => ({ params: { external_id: thread }, body: { company_name: 'Own' } }),
    places: { 'params.external_id': 200, ...inBody({ ...ownFields, email: 200 }) },
  },
  putInvoiceItems: {
    own: ({ order }) => ({ params: { id: String(order) }, body: { items: [{ title: 'Own' }] } }),
    places: { 'params.id': 404 },
  },
  createPayment: {
    own: ({ order }) => ({ params: { id: String(order) }, body: { amount: 1 } }),
    places: { 'params.id': 404, ...inBody({ amount: 200, method: 200, note: 200 }) },
  },
  listPayments: { own: ({ order }) => ({ params: { id: String(order) } }), places: { 'params.id': 404 } },
  updatePayment: {
    own: ({ order, payment }) => ({
      params: { id: String(order), payment_id: String(payment) },
      body: { amount: 1 },
    }),
    places: { 'params.id': 404, 'params.payment_id': 404, ...inBody({ amount: 200, method: 200, note: 200 }) },
  },
  deletePayment: {
    own: ({ order, payment }) => ({ params: { id: String(order), payment_id: String(payment) } }),
    places: { 'params.id': 404, 'params.payment_id': 404 },
  },
  runBatch: {
    own: ({ client }) => ({
      body: { operations: [{ method: 'PATCH', path: `/clients/${client}`, body: { phone: '1' } }] },
    }),
  },
  listOrders: {
    own: () => ({ query: {} }),
    places: { ...LIST, 'query.client_id': EMPTY, 'query.status': EMPTY },
  },
  createOrder: {
    own: ({ client }) => ({ body: { title: 'Own', client_id: client, discount_amount_type: 'fixed' } }),
    places: { ...inBody({ ...orderFields, discount_amount: 200 }), ...references },
  },
  putOrder: {
    own: ({ thread, client }) => ({
      params: { external_id: thread },
      body: { title: 'Own', client_id: client, discount_amount_type: 'fixed' },
    }),
    places: { 'params.external_id': 200, ...inBody({ ...wholeFields, discount_amount: 200 }), ...references },
  },
  readOrder: { own: ({ order }) => ({ params: { id: String(order) } }), places: { 'params.id': 404 } },
  updateOrder: {
    own: ({ order }) => ({ params: { id: String(order) }, body: { title: 'Own', discount_amount_type: 'fixed' } }),
    places: { 'params.id': 404, ...inBody({ ...orderFields, discount_amount: 200 }), ...references },
  },
  deleteOrder: {
    own: ({ doomedOrder }) => ({ params: { id: String(doomedOrder) } }),
    places: { 'params.id': 404 },
  },
  searchProducts: { own: () => ({ query: { q: 'own' } }), places: { 'query.q': 200 } },
  readProduct: {
    own: ({ item }) => ({ params: { source: 'invoice_item' }, query: { id: String(item) } }),
    places: {
      ...Object.fromEntries(
        ['style', 'color', 'size', 'sku', 'styleId', 'styleid'].map((name) => [`query.${name}`, 200]),
      ),
      'query.id': 404,
    },
  },
  readThreadContext: {
    own: ({ thread }) => ({ params: { legacyThreadId: thread } }),
    places: { 'params.legacyThreadId': 404 },
  },
  listThreadContexts: {
    own: ({ client }) => ({ query: { client_id: String(client) } }),
    places: { 'query.client_id': EMPTY, 'query.order_id': 400, 'query.per_page': 200, 'query.cursor': 400 },
  },
  listEmailThreads: {
    own: ({ mailbox }) => ({ query: { account_email: mailbox } }),
    places: { 'query.account_email': EMPTY, 'query.per_page': 200, 'query.cursor': 400 },
  },
  deleteEmailThread: {
    own: ({ thread, mailbox }) => ({ params: { legacyThreadId: thread }, query: { account_email: mailbox } }),
    places: { 'params.legacyThreadId': 404, 'query.account_email': 404 },
  },
  putThreadContext: {
    own: ({ thread, client, order }) => ({
      params: { legacyThreadId: thread },
      body: { client_id: client, orders_data: [{ id: order }] },
    }),
    places: {
      // Whichever comes first gives some of these ids to contexts of its own, which the other may not take again.
      'params.legacyThreadId': [200, 400],
      'body.thread_id': [200, 400],
      ...inBody({ sender_email: 200, legacy_thread_id: 200, fetched_at: 200, updated_at: 200 }),
      ...inBody({ client_id: 400, selected_order_id: 400 }),
    },
  },
  deleteThreadContext: {
    own: ({ thread }) => ({ params: { legacyThreadId: thread } }),
    places: { 'params.legacyThreadId': 404 },
  },
  putEmailThread: {
    own: ({ thread, mailbox }) => ({
      params: { legacyThreadId: thread },
      body: { account_email: mailbox, messages: [] },
    }),
    places: {
      'params.legacyThreadId': 200,
      ...inBody({ account_email: 200, subject: 200, snippet: 200, mail_thread_id: 200, mail_history_id: 200 }),
    },
  },
  readEmailThread: {
    own: ({ thread, mailbox }) => ({ params: { legacyThreadId: thread }, query: { account_email: mailbox } }),
    places: { 'params.legacyThreadId': 404, 'query.account_email': 404 },
  },
  presignUpload: {
    own: ({ order, thread }) => ({
      params: { orderId: String(order) },
      body: { fileName: 'own.png', size: 1, legacyThreadId: thread },
    }),
    places: { 'params.orderId': 404, ...inBody({ fileName: 200, size: 200, legacyThreadId: 200 }) },
  },
  listFiles: {
    own: ({ order }) => ({ params: { orderId: String(order) }, query: {} }),
    places: { 'params.orderId': 404, 'query.legacyThreadId': 200 },
  },
  presignDownload: {
    own: ownFile,
    places: { 'params.orderId': 404, 'query.path': 404 },
  },
  deleteFile: {
    own: ownFile,
    places: { 'params.orderId': 404, 'query.path': 404 },
  },
}

describe('the table', () => {
  it('has every endpoint, and no unknown place', () => {
    expect(Object.keys(EXPECTED).sort()).toEqual(contracts.map(({ operationId }) => operationId).sort())
    for (const contract of contracts) {
      expect(placesOf(contract)).toEqual(
        expect.arrayContaining(Object.keys(EXPECTED[contract.operationId]?.places ?? {})),
      )
    }
  })
})

describe.each(endpoints)('%s', (_, contract) => {
  testTenancy(contract, EXPECTED[contract.operationId] ?? { own: () => ({}) })
})

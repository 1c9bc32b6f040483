import { describe, expect, it } from 'vitest'
import type { Contract } from '../../../src/kernel/api/contract.ts'
import { contracts, endpoints } from '../../support/endpoints.ts'
import { type Decided, EMPTY, placesOf, testTenancy } from '../../support/tenancy.ts'
import type { Ids } from '../../support/two-companies.ts'

/*
 * Every endpoint × every place in its path, query and body × every id of another company: never data, never an effect,
 * always the expected status. Endpoints and places come from the contracts.
 */

const references = { 'body.client_id': 400, 'body.status_id': 400, 'body.tax_id': 400 }

const ownFile: Decided['own'] = ({ order, thread }, { id, marker }) => ({
  query: { path: `orders/${id}/${order}/email/${thread}/${marker}.png` },
})
const ownOrder: Decided['own'] = ({ client }) => ({
  body: { title: 'Own', client_id: client, discount_amount_type: 'fixed' },
})
const ofMail: Decided['own'] = ({ mailbox }) => ({ query: { account_email: mailbox } })

const OF_SUPPLIERS = Object.fromEntries(
  ['style', 'color', 'size', 'sku', 'styleId', 'styleid'].map((name) => [`query.${name}`, 200]),
)

const LIST: Record<string, number | typeof EMPTY> = {
  'query.page': EMPTY,
  'query.per_page': 200,
  'query.cursor': 400,
  'query.q': 200,
  'query.external_id': EMPTY,
}

/** The requests beyond the ids in their paths, and the statuses for places other than {@link decide} assumes. */
const EXPECTED: Record<string, Partial<Decided>> = {
  readAccount: {},
  listOrderStatuses: {},
  listTaxes: {},
  listChanges: { places: { 'query.cursor': 400, 'query.per_page': 200 } },
  listClients: { places: LIST },
  createClient: { own: () => ({ body: { company_name: 'Own' } }) },
  readClient: { places: { 'query.email': 404 } },
  updateClient: { own: () => ({ body: { phone: '1' } }), places: { 'query.email': 404 } },
  deleteClient: { places: { 'query.email': 404 } },
  readClientByExternalId: {},
  putClient: { own: () => ({ body: { company_name: 'Own' } }), places: { 'params.external_id': 200 } },
  putInvoiceItems: { own: () => ({ body: { items: [{ title: 'Own' }] } }) },
  createPayment: { own: () => ({ body: { amount: 1 } }) },
  listPayments: {},
  updatePayment: { own: () => ({ body: { amount: 1 } }) },
  deletePayment: {},
  runBatch: {
    own: ({ client }) => ({
      body: { operations: [{ method: 'PATCH', path: `/clients/${client}`, body: { phone: '1' } }] },
    }),
  },
  listOrders: { places: { ...LIST, 'query.client_id': EMPTY, 'query.status': EMPTY } },
  createOrder: { own: ownOrder, places: references },
  putOrder: { own: ownOrder, places: { 'params.external_id': 200, ...references } },
  readOrder: {},
  updateOrder: { own: () => ({ body: { title: 'Own', discount_amount_type: 'fixed' } }), places: references },
  deleteOrder: { own: ({ doomedOrder }) => ({ params: { id: String(doomedOrder) } }) },
  searchProducts: { own: () => ({ query: { q: 'own' } }), places: { 'query.q': 200 } },
  readProduct: {
    own: ({ item }) => ({ query: { id: String(item) } }),
    places: { ...OF_SUPPLIERS, 'query.id': 404 },
  },
  readThreadContext: {},
  listThreadContexts: {
    own: ({ client }) => ({ query: { client_id: String(client) } }),
    places: { 'query.client_id': EMPTY, 'query.order_id': 400, 'query.per_page': 200, 'query.cursor': 400 },
  },
  listEmailThreads: {
    own: ofMail,
    places: { 'query.account_email': EMPTY, 'query.per_page': 200, 'query.cursor': 400 },
  },
  deleteEmailThread: { own: ofMail, places: { 'query.account_email': 404 } },
  putThreadContext: {
    own: ({ client, order }) => ({ body: { client_id: client, orders_data: [{ id: order }] } }),
    places: {
      // Whichever comes first gives some of these ids to contexts of its own, which the other may not take again.
      ...{ 'params.legacyThreadId': [200, 400], 'body.thread_id': [200, 400] },
      ...{ 'body.client_id': 400, 'body.selected_order_id': 400 },
    },
  },
  deleteThreadContext: {},
  putEmailThread: {
    own: ({ mailbox }) => ({ body: { account_email: mailbox, messages: [] } }),
    places: { 'params.legacyThreadId': 200 },
  },
  readEmailThread: { own: ofMail, places: { 'query.account_email': 404 } },
  presignUpload: { own: ({ thread }) => ({ body: { fileName: 'own.png', size: 1, legacyThreadId: thread } }) },
  listFiles: { places: { 'query.legacyThreadId': 200 } },
  presignDownload: { own: ownFile, places: { 'query.path': 404 } },
  deleteFile: { own: ownFile, places: { 'query.path': 404 } },
}

/** The company's own ids in the path. */
function paramsOf({ path }: Contract, { client, order, payment, thread }: Ids): Record<string, string> {
  const id = path.startsWith('/clients') ? client : order
  const texts = { external_id: thread, legacyThreadId: thread, source: 'invoice_item' }
  const all = Object.entries({ id, orderId: order, payment_id: payment, ...texts })
  const used = all.filter(([name]) => path.includes(`{${name}}`))
  return Object.fromEntries(used.map(([name, value]) => [name, String(value)]))
}

/** Another company's id in a path is 404, and in a body mere text, unless the table says otherwise. */
function decide(contract: Contract): Decided {
  const { own, places } = EXPECTED[contract.operationId] ?? {}
  const assumed = placesOf(contract).flatMap((place) => {
    if (place.startsWith('query.')) return []
    return [[place, place.startsWith('params.') ? 404 : 200] as const]
  })
  return {
    own: (ids, company) => ({ params: paramsOf(contract, ids), ...own?.(ids, company) }),
    places: { ...Object.fromEntries(assumed), ...places },
  }
}

it('the table has every endpoint, and no unknown place', () => {
  expect(Object.keys(EXPECTED).sort()).toEqual(contracts.map(({ operationId }) => operationId).sort())
  for (const contract of contracts) {
    const places = Object.keys(EXPECTED[contract.operationId]?.places ?? {})
    expect(placesOf(contract)).toEqual(expect.arrayContaining(places))
  }
})

describe.each(endpoints)('%s', (_, contract) => {
  testTenancy(contract, decide(contract))
})

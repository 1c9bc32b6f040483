import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import type { Contract } from '../../src/http/contract.ts'
import { type ApiResponse, call, migrate, mintToken } from '../support/app.ts'
import { contracts, endpoints } from '../support/endpoints.ts'
import {
  dump,
  type FilledCompany,
  fillCompany,
  giveIntegrations,
  type Ids,
  makeIds,
  rowsOf,
} from '../support/two-companies.ts'

/*
 * Every endpoint × every place in its path, query and body × every id of another company: never data, never an effect,
 * always the decided status. Endpoints and places come from the contracts; one without an entry in DECIDED fails.
 */

/** 200 and a list without elements. */
const EMPTY = 'empty'

interface Decided {
  /** A request of the company's own, which is answered 200. */
  own: (ids: Ids) => Input
  /** What is answered where a place holds an id of the other company that its schema takes. */
  places: Record<string, number | typeof EMPTY>
}

interface Input {
  params?: Record<string, string>
  query?: Record<string, string>
  body?: Record<string, unknown>
}

const clientFields = {
  company_name: 200,
  first_name: 200,
  last_name: 200,
  website: 200,
  phone: 200,
  tax_exempt_reason: 200,
}
const orderFields = { title: 200, description: 200, start_date: 200, client_notes: 200, tax_exempt_reason: 200 }
const references = { 'body.client_id': 400, 'body.status_id': 400, 'body.tax_id': 400 }
const inBody = (fields: Record<string, number>) =>
  Object.fromEntries(Object.entries(fields).map(([name, status]) => [`body.${name}`, status]))

const DECIDED: Record<string, Decided> = {
  listClients: { own: () => ({ query: {} }), places: { 'query.page': EMPTY, 'query.per_page': 200, 'query.q': 200 } },
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
  listOrders: {
    own: () => ({ query: {} }),
    places: { 'query.page': EMPTY, 'query.per_page': 200, 'query.client_id': EMPTY, 'query.status': EMPTY },
  },
  createOrder: {
    own: ({ client }) => ({ body: { title: 'Own', client_id: client, discount_amount_type: 'fixed' } }),
    places: { ...inBody({ ...orderFields, discount_amount: 200 }), ...references },
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
}

/** Places that no contract has, and where a company could try to name another. */
const FOREIGN_NAMES = ['company_id', 'companyId', 'company', 'tenant_id']

beforeAll(migrate)

/** Each endpoint has companies of its own, so that what one changed does not meet the next. */
let nextRange = 1

function entryOf(contract: Contract): Decided {
  const entry = DECIDED[contract.operationId]
  if (!entry) throw new Error(`${contract.operationId} has no entry in DECIDED.`)
  return entry
}

function shapeOf(schema: z.ZodMiniType | undefined): string[] {
  return schema instanceof z.ZodMiniObject ? Object.keys(schema.shape) : []
}

/** Every place of an endpoint that a value can stand in. */
function placesOf({ params, query, body }: Contract): string[] {
  return [
    ...shapeOf(params).map((name) => `params.${name}`),
    ...shapeOf(query).map((name) => `query.${name}`),
    ...shapeOf(body).map((name) => `body.${name}`),
  ]
}

/** The request with a value in one place. */
function put(input: Input, place: string, value: string | number): Input {
  const [part = '', name = ''] = place.split('.')
  const before = part === 'params' ? input.params : part === 'query' ? input.query : input.body
  return { ...input, [part]: { ...before, [name]: part === 'body' ? value : String(value) } }
}

/** Whether the contract's own schemas take the request; what it names no schema of is taken only where nothing is sent. */
function isTaken(contract: Contract, input: Input): boolean {
  return (['params', 'query', 'body'] as const).every((part) => {
    const value = input[part] ?? {}
    return contract[part]?.safeParse(value).success ?? Object.keys(value).length === 0
  })
}

async function send(
  token: string,
  contract: Contract,
  input: Input,
  headers?: Record<string, string>,
): Promise<ApiResponse> {
  const path = contract.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(input.params?.[name] ?? ''),
  )
  const query = new URLSearchParams(input.query).toString()
  return call(token, contract.method, query === '' ? path : `${path}?${query}`, input.body, headers)
}

/** Nothing that another company keeps stands in an answer. */
function expectNothingOf(other: FilledCompany, answer: ApiResponse, what: string) {
  const text = JSON.stringify(answer.body)
  expect(text, what).not.toContain(other.marker)
  expect(text, what).not.toContain(`orders/${other.id}/`)
}

describe('the table', () => {
  it('has every endpoint, and no place that there is not', () => {
    expect(Object.keys(DECIDED).sort()).toEqual(contracts.map(({ operationId }) => operationId).sort())
    for (const contract of contracts) {
      expect(placesOf(contract)).toEqual(expect.arrayContaining(Object.keys(entryOf(contract).places)))
    }
  })
})

describe.each(endpoints)('%s', (_, contract) => {
  const { operationId } = contract
  let a: FilledCompany
  let b: FilledCompany
  let twinA: FilledCompany
  let twinB: FilledCompany

  beforeAll(async () => {
    const from = 10_000 * nextRange++
    a = await fillCompany(
      'ALPHA',
      makeIds((n) => from + 2 * n, `alpha-${from}`),
    )
    b = await fillCompany(
      'BETA',
      makeIds((n) => from + 2 * n + 1, `beta-${from}`),
    )
    twinA = await fillCompany(
      'GAMMA',
      makeIds((n) => from + 1_000 + n, `twin-${from}`),
    )
    twinB = await fillCompany(
      'DELTA',
      makeIds((n) => from + 1_000 + n, `twin-${from}`),
    )
    await giveIntegrations(b)
    await giveIntegrations(twinB)
  })

  it('answers 200 to the company itself, with what is its own', async () => {
    const { own } = entryOf(contract)
    if (operationId === 'deleteOrder') return
    for (const company of [a, twinA]) {
      const answer = await send(company.token, contract, own(company.ids))
      expect(answer.status).toBe(200)
      expectNothingOf(company === a ? b : twinB, answer, operationId)
    }
  })

  it.each(placesOf(contract))('with another company’s ids in %s', async (place) => {
    const { own, places } = entryOf(contract)
    const token = await mintToken(a.id)
    const before = await dump()
    let hasChanged = false
    for (const [kind, value] of Object.entries({ ...b.ids, company: b.id })) {
      const input = put(own(a.ids), place, value)
      const answer = await send(token, contract, input)
      const what = `${operationId} with ${kind} ${value} in ${place}`
      const refused = place.startsWith('params.') && contract.invalidParams !== 'invalid_request' ? 404 : 400
      const decided = isTaken(contract, input) ? places[place] : refused
      expect(decided, `${what} is taken, and nothing is decided`).toBeDefined()
      expect(answer.status, what).toBe(decided === EMPTY ? 200 : decided)
      if (decided === EMPTY) expect(answer.body.data, what).toEqual([])
      expectNothingOf(b, answer, what)
      hasChanged ||= answer.status === 200 && contract.method !== 'GET'
    }
    const after = await dump()
    expect(rowsOf(after, b.id)).toEqual(rowsOf(before, b.id))
    if (!hasChanged) expect(after).toEqual(before)
  })

  it('lets nobody name a company', async () => {
    const { own } = entryOf(contract)
    const token = await mintToken(a.id)
    const before = rowsOf(await dump(), b.id)
    for (const name of FOREIGN_NAMES) {
      const parts = [...(contract.body ? ['body'] : []), 'query']
      for (const part of operationId === 'deleteOrder' ? [] : parts) {
        const input = put(own(a.ids), `${part}.${name}`, b.id)
        const answer = await send(token, contract, input)
        expect(answer.status, `${name} in the ${part}`).toBe(isTaken(contract, input) ? 200 : 400)
        expectNothingOf(b, answer, `${name} in the ${part}`)
      }
    }
    if (operationId !== 'deleteOrder') {
      const answer = await send(token, contract, own(a.ids), { 'x-company-id': String(b.id), 'x-tenant': String(b.id) })
      expect(answer.status).toBe(200)
      expectNothingOf(b, answer, 'a header')
    }
    expect(rowsOf(await dump(), b.id)).toEqual(before)
  })

  it('keeps apart two companies whose ids are equal', async () => {
    const { own } = entryOf(contract)
    const token = await mintToken(twinA.id)
    const before = rowsOf(await dump(), twinB.id)
    const files = await env.FILES.list({ prefix: `orders/${twinB.id}/` })
    const pointing = placesOf(contract).filter((place) => !place.startsWith('body.') || place in references)
    for (const place of pointing) {
      for (const [kind, value] of Object.entries(twinB.ids)) {
        const answer = await send(token, contract, put(own(twinA.ids), place, value))
        expectNothingOf(twinB, answer, `${kind} in ${place}`)
      }
    }
    expect(rowsOf(await dump(), twinB.id)).toEqual(before)
    expect((await env.FILES.list({ prefix: `orders/${twinB.id}/` })).objects.length).toBe(files.objects.length)
  })
})

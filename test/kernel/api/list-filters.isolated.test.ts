import { describe, expect, it } from 'vitest'
import type { Contract } from '../../../src/kernel/api/contract.ts'
import { adminCall } from '../../support/admin.ts'
import { adminContracts, contracts } from '../../support/endpoints.ts'
import { insert, insertEndpoint } from '../../support/rows.ts'
import { fillCompany, makeIds } from '../../support/two-companies.ts'

/*
 * A filter that a contract accepts and no statement uses would return everything with 200. So each parameter of each list
 * has a value here that must change the response: a parameter without one fails, and so does one that changes nothing.
 */

// The first of its database, whose rows no filter of another company may show.
const ids = makeIds((n) => 900_000 + n, 'filters')
await fillCompany('LOOKALIKE', ids)
const company = await fillCompany('FILTERED', ids)
const { id: company_id } = company
const created = await company.call('POST', '/orders', { title: 'Deleted', client_id: ids.client })
const deletedOrder: number = created.body.project.id
await company.call('DELETE', `/orders/${deletedOrder}`)
await insertEndpoint(company_id, 'we_000000000000000001')
await insert('accounting_outbox', {
  ...{ company_id, order_id: ids.order, operation: 'create', state: 'dead' },
  ...{ next_attempt_at: 0, created_at: 0, updated_at: 0 },
})

type Value = string | number
interface List {
  /** A query whose response has rows. */
  base?: Record<string, Value>
  path?: string
  /** Values that change the response. */
  values: Record<string, Value>
}

const FUTURE = '2090-01-01T00:00:00Z'
const LISTS: Record<string, List> = {
  listClients: {
    values: { q: 'no such text', sort: 'id', deleted: 'only', updated_since: FUTURE, external_id: 'none' },
    base: { deleted: 'include' },
  },
  listOrders: {
    values: {
      ...{ q: 'no such text', sort: 'id', deleted: 'only', updated_since: FUTURE, external_id: 'none' },
      ...{ client_id: 1, status: 1, from: '2090-01-01', to: '1990-01-01', expand: 'client' },
    },
  },
  listChanges: { values: { types: 'email_threads', start: 'latest', expand: 'object' } },
  readOrder: { path: `/orders/${deletedOrder}`, base: { deleted: 'include' }, values: { deleted: 'exclude' } },
  searchProducts: { base: { q: 'text' }, values: { q: 'nothing', include: 'lines' } },
  readProduct: { path: '/products/invoice_item', base: { id: ids.item }, values: { id: 1 } },
  listEmailThreads: {
    base: { account_email: ids.mailbox },
    values: { account_email: 'other@mail.example', deleted: 'only', updated_since: FUTURE },
  },
  listThreadContexts: { base: { client_id: ids.client }, values: { client_id: 1 } },
  listFiles: { path: `/orders/${ids.order}/files`, values: { legacyThreadId: 'other' } },
  readClient: { path: `/clients/${ids.client}`, values: { email: 'other@mail.example' } },
  readEmailThread: {
    path: `/mail/email-threads/${ids.thread}`,
    base: { account_email: ids.mailbox },
    values: { account_email: 'other@mail.example' },
  },
  presignDownload: {
    path: `/orders/${ids.order}/files/download`,
    base: { path: `orders/${company.id}/${ids.order}/email/${ids.thread}/FILTERED.png` },
    values: { path: `orders/${company.id}/1/other.png` },
  },
  listAllEvents: { values: { company_id: 1, state: 'pending', id: 1_000_000 } },
  listEvents: { values: { state: 'pending' } },
  listAllWebhooks: { values: { company_id: 1, id: 'we_000000000000000002' } },
  listAllTokens: { values: { company_id: 1, id: 1_000_000_000, state: 'expired' } },
  listTokens: { values: { state: 'expired' } },
  listAudit: { values: { source: 'api' } },
  readUsage: { values: { hours: 1 } },
}

/** Which page, and for how long to wait: other tests are about them. */
const PAGING = /^(page|per_page|cursor|wait)$/
/** An export has nothing but its cursor; product info of the suppliers is tested beside their simulators. */
const ELSEWHERE: Record<string, RegExp> = {
  readProduct: /^(style|color|size|sku|styleId|styleid)$/,
  listThreadContexts: /^order_id$/,
}

async function send({ path }: Contract, list: List, query: Record<string, Value>, isAdmin: boolean) {
  const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, `${value}`]))
  const target = `${list.path ?? path.replace('{company_id}', `${company.id}`)}?${search}`
  const { status, body } = await (isAdmin ? adminCall('GET', target) : company.call('GET', target))
  return { status, body: JSON.stringify(body, (key, value) => (/^(request_id|next_cursor)$/.test(key) ? '' : value)) }
}

describe.each([
  ['the API', contracts, false],
  ['the administration API', adminContracts, true],
] as const)('each query parameter of %s', (_, all, isAdmin) => {
  const parameters = all
    .filter(({ method, query }) => method === 'GET' && query)
    .flatMap((contract) => {
      const { query, operationId } = contract
      const shape = query && 'shape' in query ? Object.keys(query.shape as object) : ['unknown']
      return shape
        .filter((name) => !PAGING.test(name) && !ELSEWHERE[operationId]?.test(name))
        .map((name) => [`${operationId} ${name}`, name, contract] as const)
    })

  it('is found in the contracts', () => {
    expect(parameters.length).toBeGreaterThan(5)
  })

  it.each(parameters)('changes the response: %s', async (title, name, contract) => {
    const list = LISTS[contract.operationId]
    const value = list?.values[name]
    if (!list || value === undefined) throw new Error(`${title}: name a value that changes the response in LISTS`)
    const without = await send(contract, list, list.base ?? {}, isAdmin)
    expect(without.status, without.body).toBe(200)
    const response = await send(contract, list, { ...list.base, [name]: value }, isAdmin)
    expect(response, title).not.toEqual(without)
    expect(response.status, response.body).toBeOneOf([200, 404])
  })
})

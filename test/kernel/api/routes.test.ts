import { beforeEach, describe, expect, it } from 'vitest'
import { routes } from '../../../src/app.ts'
import { isPermission, PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { adminRoutes } from '../../../src/operation/admin/routes.ts'
import { call, mintCompany, mintToken } from '../../support/app.ts'
import { contracts, endpoints, exampleOf, methodsByPath, nameOf } from '../../support/endpoints.ts'

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE']

let company = await mintCompany()
const suspended = await mintCompany({ suspended: true })

let tests = 0
/** All requests are more than one token may send in a minute. */
beforeEach(async () => {
  if (tests++ % 20 === 0) company = { ...company, token: await mintToken(company.id) }
})

/** The endpoints of the API and their permissions, null for any token: nothing is beside them. */
const SPECIFIED: Record<string, string | null> = {
  'GET /me': null,
  'GET /changes': null,
  'GET /order-statuses': 'orders:read',
  'GET /taxes': 'orders:read',
  'POST /batch': null,
  'GET /clients/by-external-id/{external_id}': 'clients:read',
  'PUT /clients/by-external-id/{external_id}': 'clients:write',
  'PUT /orders/{id}/invoice-items': 'orders:write',
  'POST /orders/{id}/payments': 'orders:write',
  'DELETE /orders/{id}/payments/{payment_id}': 'orders:write',
  'GET /mail/threads': 'mail:read',
  'PUT /mail/threads/{legacyThreadId}': 'mail:write',
  'DELETE /mail/threads/{legacyThreadId}': 'mail:write',
  'GET /mail/email-threads': 'mail:read',
  'DELETE /mail/email-threads/{legacyThreadId}': 'mail:write',
  'GET /orders/{orderId}/files/download': 'files:read',
  'DELETE /orders/{orderId}/files': 'files:write',
  'GET /clients': 'clients:read',
  'POST /clients': 'clients:write',
  'GET /clients/{id}': 'clients:read',
  'PATCH /clients/{id}': 'clients:write',
  'GET /orders': 'orders:read',
  'POST /orders': 'orders:write',
  'GET /orders/{id}': 'orders:read',
  'GET /orders/{id}/payments': 'orders:read',
  'PATCH /orders/{id}/payments/{payment_id}': 'orders:write',
  'PUT /orders/by-external-id/{external_id}': 'orders:write',
  'DELETE /clients/{id}': 'clients:write',
  'PATCH /orders/{id}': 'orders:write',
  'DELETE /orders/{id}': 'orders:write',
  'GET /products/search': 'products:read',
  'GET /products/{source}': 'products:read',
  'GET /mail/threads/{legacyThreadId}': 'mail:read',
  'PUT /mail/email-threads/{legacyThreadId}': 'mail:write',
  'GET /mail/email-threads/{legacyThreadId}': 'mail:read',
  'POST /orders/{orderId}/files/presign': 'files:write',
  'GET /orders/{orderId}/files': 'files:read',
}

interface Endpoint {
  method: string
  path: string
}

/** Routes of which an earlier one takes requests: where their paths first differ, it has a parameter and they a name. */
function findHidden(all: readonly Endpoint[]): string[] {
  const isParameter = (segment = '') => segment.startsWith('{')
  const hides = (earlier: Endpoint, later: Endpoint) => {
    const [own, others] = [earlier.path.split('/'), later.path.split('/')]
    const isAlike = own.every((each, at) => each === others[at] || isParameter(each) || isParameter(others[at]))
    const at = own.findIndex((each, index) => isParameter(each) !== isParameter(others[index]))
    return earlier.method === later.method && own.length === others.length && isAlike && isParameter(own[at])
  }
  const hidden = all.filter((later, index) => all.slice(0, index).some((earlier) => hides(earlier, later)))
  return hidden.map(({ method, path }) => `${method} ${path}`)
}

describe('the route table', () => {
  it('holds the specified endpoints, each with its permission', () => {
    const table = Object.fromEntries(contracts.map((contract) => [nameOf(contract), contract.permission]))
    expect(table).toEqual(SPECIFIED)
    expect(contracts.every(({ permission }) => permission === null || isPermission(permission))).toBe(true)
    expect(new Set(contracts.map(({ operationId }) => operationId)).size).toBe(contracts.length)
  })

  it('has no route that hides a later one', () => {
    expect(findHidden(routes.map(({ contract }) => contract))).toEqual([])
    expect(findHidden(adminRoutes.map(({ contract }) => contract))).toEqual([])
    const [first, hidden] = ['/clients/{id}/summary', '/clients/by-external-id/{external_id}']
    const made = [first, hidden, '/clients/{id}/x', '/{a}/{b}/{c}'].map((path) => ({ method: 'GET', path }))
    expect(findHidden(made)).toEqual([`GET ${hidden}`])
  })

  it('has the nine permissions of the contract', () => {
    expect([...PERMISSIONS].sort()).toEqual(
      [...new Set(Object.values(SPECIFIED))].filter((permission) => permission !== null).sort(),
    )
  })
})

describe.each([...methodsByPath()])('%s', (path, methods) => {
  const [url = ''] = contracts.filter((each) => each.path === path).map((each) => exampleOf(each).path.split('?')[0])

  const others = METHODS.filter((each) => !methods.includes(each))
  const [first = ''] = others

  it('returns 405 for every other method', async () => {
    const requests = [...others.map((method) => [method, url] as const), [first, `${url}/`] as const]
    for (const [method, address] of requests) {
      const body = method === 'GET' || method === 'HEAD' ? undefined : {}
      const response = await call(company.token, method, address, body)
      expect(response.status, method).toBe(405)
      expect(response.headers.get('allow')?.split(', ').sort()).toEqual([...methods].sort())
      if (method !== 'HEAD') expect(response.body.error.code).toBe('invalid_request')
    }
  })

  it('returns 405 whatever the permissions of the token, but 401 or 403 for one that is not valid', async () => {
    expect((await call(await mintToken(company.id, []), first, url)).status).toBe(405)
    expect((await call(null, first, url)).status).toBe(401)
    expect((await call(suspended.token, first, url)).status).toBe(403)
  })
})

it.each(endpoints)('%s treats a trailing slash as the same path', async (_, contract) => {
  const { path, body } = exampleOf(contract)
  const plain = await call(company.token, contract.method, path, body)
  const [before, query] = path.split('?')
  const slashed = await call(company.token, contract.method, `${before}/${query ? `?${query}` : ''}`, body)
  // A deletion finds only once what an example before has created.
  if (contract.method === 'DELETE') expect(slashed.status).toBeOneOf([plain.status, 404])
  else expect(slashed.status).toBe(plain.status)
  expect(typeof slashed.body).toBe(typeof plain.body)
})

const reads = endpoints.filter(([, { method }]) => method === 'GET')
it.each(reads)('%s responds to HEAD as to GET, without the body', async (_, contract) => {
  const { path } = exampleOf(contract)
  const get = await call(company.token, 'GET', path)
  const head = await call(company.token, 'HEAD', path)
  expect(head).toMatchObject({ status: get.status, body: null })
  for (const name of ['content-type', 'cache-control', 'ratelimit-policy', 'access-control-allow-origin']) {
    expect(head.headers.get(name), name).toBe(get.headers.get(name))
  }
  expect((await call(null, 'HEAD', path)).status).toBe(401)
})

it.each(['/nope', '/client', '/clients/1/orders', '/orders/1/files/presign/x', '/', '', '/Clients', '/clients//1'])(
  'the unknown path %s returns 404, and 401 without a token',
  async (path) => {
    for (const method of METHODS) {
      const { status, body } = await call(company.token, method, path)
      expect([status, method === 'HEAD' || body.error.code === 'not_found']).toEqual([404, true])
    }
    expect((await call(null, 'GET', path)).status).toBe(401)
  },
)

it('the published description returns 405 for another method without a token', async () => {
  const { status, headers } = await call(null, 'POST', '/openapi.json', {})
  expect([status, headers.get('allow')]).toEqual([405, 'GET, HEAD'])
})

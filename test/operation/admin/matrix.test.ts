import { validate } from '@cfworker/json-schema'
import { describe, expect, it } from 'vitest'
import { type Contract, ROLES } from '../../../src/kernel/api/contract.ts'
import { adminRoutes } from '../../../src/operation/admin/routes.ts'
import { describeAdminApi } from '../../../src/site/reference/document.ts'
import examples from '../../../src/site/reference/examples.json'
import { asObject, type Json, type JsonObject } from '../../../src/site/reference/json.ts'
import { addMember, adminCall, adminCallWith, adminRequest, adminSend, startAccess } from '../../support/admin.ts'
import { type ApiResponse, mintCompany } from '../../support/app.ts'
import {
  adminContracts,
  documentationOf,
  exampleOf,
  nameOf,
  publishedOfAdministration,
} from '../../support/endpoints.ts'

// What holds for every endpoint of the administration API: a new contract is taken in by itself.
const all = adminContracts.map((contract): [string, Contract] => [nameOf(contract), contract])
const ofCompany = all.filter(([, { path }]) => path.startsWith('/companies/{company_id}'))

const recorded: Record<string, unknown> = examples

const access = await startAccess()
const company = await mintCompany()
const other = await mintCompany()
await addMember(other.id, 'stranger@example.com', 'owner')
await addMember(company.id, 'developer@example.com', 'developer')
await addMember(company.id, 'owner@example.com', 'owner')

/** The documented example, of the company of this file. */
const example = (contract: Contract) => exampleOf(contract, { company_id: String(company.id) })

describe.each(all)('%s', (_, contract) => {
  it('has an example that fits its contract', () => {
    const { params, query, body, response = recorded[contract.operationId] } = documentationOf(contract).example
    const asText = Object.fromEntries(Object.entries(query ?? {}).map(([name, value]) => [name, String(value)]))
    if (contract.params) expect(contract.params.safeParse(params).error?.issues ?? []).toEqual([])
    if (contract.query) expect(contract.query.safeParse(asText).error?.issues ?? []).toEqual([])
    if (contract.body) expect(contract.body.safeParse(body).error?.issues ?? []).toEqual([])
    expect(contract.response.safeParse(response).error?.issues ?? []).toEqual([])
  })

  it('refuses who is not signed in, and an API token', async () => {
    const { path, body } = example(contract)
    expect((await adminSend(adminRequest(contract.method, path, body))).status).toBe(401)
    const headers = { authorization: `Bearer ${company.token}` }
    expect((await adminSend(adminRequest(contract.method, path, body, headers))).status).toBe(401)
  })

  it('refuses every role that is too low', async () => {
    const { path, body } = example(contract)
    const needed = ROLES.indexOf(contract.role ?? 'operator')
    for (const role of ['developer', 'owner'] as const) {
      if (ROLES.indexOf(role) >= needed) continue
      expect((await access.callAs(`${role}@example.com`, contract.method, path, body)).status).toBe(403)
    }
  })

  it('refuses an unknown parameter', async () => {
    const { path, body } = example(contract)
    const { status } = await adminCall(contract.method, `${path}${path.includes('?') ? '&' : '?'}unknown=1`, body)
    expect([400, 404]).toContain(status)
  })
})

describe.each(ofCompany)('%s', (_, contract) => {
  it('does not exist for a member of another company', async () => {
    const { path, body } = example(contract)
    expect((await access.callAs('stranger@example.com', contract.method, path, body)).status).toBe(404)
  })
})

/** What a developer of a company may not do. A contract without a role needs an operator. */
const DECIDED = {
  operator: [
    ...['createCompany', 'listCompanies', 'moveCompany', 'updateCompany', 'listDatabases', 'rotateKey'],
    ...['createImport', 'importEmailThread', 'readImport', 'listBackups', 'recoverDeployment', 'restoreCompany'],
    ...['listAllEvents', 'listAllTokens', 'listAllWebhooks'],
  ],
  owner: [
    ...['deleteMember', 'listMembers', 'putMember', 'exportCompany', 'putCurrency'],
    ...['putIntegration', 'testIntegration'],
  ],
}

it.each(Object.entries(DECIDED))('the role %s is needed where that was decided, and nowhere else', (role, names) => {
  const found = adminContracts.filter((contract) => (contract.role ?? 'operator') === role)
  expect(found.map(({ operationId }) => operationId).sort()).toEqual(names.sort())
})

it('every contract has one route', () => {
  expect(adminRoutes.map(({ contract }) => nameOf(contract)).sort()).toEqual(adminContracts.map(nameOf).sort())
})

// What the administration sends and accepts is as its description says.
const described: JsonObject = JSON.parse(JSON.stringify(describeAdminApi(publishedOfAdministration)))
const components = asObject(described.components)
const responses = asObject(components.responses)

/** By the published schema of this name, but a member that it does not name is a problem too. */
function problemsOf(body: Json, name = 'ErrorResponse'): unknown[] {
  const closed = JSON.parse(
    JSON.stringify(components.schemas).replaceAll('#/components/schemas/', '#/$defs/'),
    (_key, value) => (value?.properties ? { ...value, additionalProperties: false } : value),
  )
  return validate(body, { ...closed[name], $defs: closed }, '2020-12').errors.map(({ error }) => error)
}

const owner = (method: string, path: string, body?: unknown) =>
  access.callAs('owner@example.com', method, `/companies/${company.id}${path}`, body)

const currency = `/companies/${company.id}/currency`
const busy = { ADMIN_REQUESTS: { limit: async () => ({ success: false }) } }
const CASES: [string, number, () => Promise<ApiResponse>][] = [
  ['InvalidRequest', 400, () => owner('PUT', '/members/x@example.com', { role: 'king' })],
  ['Unauthenticated', 401, () => adminSend(adminRequest('GET', '/me'))],
  ['Forbidden', 403, () => access.callAs('developer@example.com', 'GET', `/companies/${company.id}/members`)],
  ['NotFound', 404, () => owner('DELETE', '/members/nobody@example.com')],
  ['Conflict', 409, () => owner('DELETE', '/members/owner@example.com')],
  ['BodyTooLarge', 413, () => owner('PUT', '/members/x@example.com', { role: 'x'.repeat(1_048_577) })],
  ['UnsupportedMediaType', 415, () => adminCall('PUT', currency, '{}', { 'content-type': 'text/plain' })],
  ['RateLimited', 429, () => adminCallWith(busy, 'GET', '/me')],
]

it.each(CASES)('%s is sent as it is described', async (name, status, cause) => {
  const response = asObject(responses[name])
  const sent = await cause()
  expect(sent.status).toBe(status)
  expect(problemsOf(sent.body)).toEqual([])
  const { example } = asObject(asObject(response.content)['application/json'])
  expect(problemsOf(example ?? null)).toEqual([])
  const { details, message } = sent.body.error
  const shown = asObject(asObject(example).error)
  expect(Object.keys(asObject(shown.details)).sort()).toEqual(Object.keys(details).sort())
  if (['Conflict', 'RateLimited'].includes(name)) expect(shown.message).toBe(message)
  // A JSON document has no parts for a fragment to lead to.
  expect(details.documentation_url).toBe('https://api.test/admin/v1/openapi.json')

  const headers = asObject(response.headers)
  const always = Object.keys(headers).filter((header) => header !== 'Accept-Encoding')
  expect(always).toEqual(expect.arrayContaining(['X-Request-Id']))
  for (const header of always) expect([header, sent.headers.has(header)]).toEqual([header, true])
})

it('the description says when stored credentials do not stay, and names nothing of the integration API that this one lacks', () => {
  const text = JSON.stringify(described)
  expect(text).toContain('another host')
  const absent = ['Idempotency-Key', 'RateLimit-Policy', 'payments_limit', '"storage_quota"', '300 requests']
  expect(absent.filter((each) => text.includes(each))).toEqual([])
})

it.each(adminContracts.filter(({ body }) => body).map((contract) => [nameOf(contract), contract] as const))(
  'an empty body of %s is described as valid where it is accepted',
  (_, { method, path, body }) => {
    const { requestBody } = asObject(asObject(asObject(described.paths)[path])[method.toLowerCase()])
    const { schema } = asObject(asObject(asObject(requestBody).content)['application/json'])
    const name = String(asObject(schema).$ref).split('/').at(-1)
    expect(problemsOf({}, name).length === 0).toBe(body?.safeParse({}).success)
  },
)

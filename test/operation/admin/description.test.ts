import { validate } from '@cfworker/json-schema'
import { expect, it } from 'vitest'
import { describeAdminApi } from '../../../src/site/reference/document.ts'
import { asObject, type Json, type JsonObject } from '../../../src/site/reference/json.ts'
import { addMember, adminCall, adminCallWith, adminRequest, adminSend, startAccess } from '../../support/admin.ts'
import { type ApiResponse, mintCompany } from '../../support/app.ts'
import { adminContracts, nameOf, publishedOfAdministration } from '../../support/endpoints.ts'

// What the administration sends and accepts is as its description says.
const described: JsonObject = JSON.parse(JSON.stringify(describeAdminApi(publishedOfAdministration)))
const components = asObject(described.components)
const responses = asObject(components.responses)

const access = await startAccess()
await mintCompany()
const company = (await mintCompany()).id
await addMember(company, 'owner@example.com', 'owner')
await addMember(company, 'dev@example.com', 'developer')

/** By the published schema of this name, but a member that it does not name is a problem too. */
function problemsOf(body: Json, name = 'ErrorResponse'): unknown[] {
  const closed = JSON.parse(
    JSON.stringify(components.schemas).replaceAll('#/components/schemas/', '#/$defs/'),
    (_key, value) => (value?.properties ? { ...value, additionalProperties: false } : value),
  )
  return validate(body, { ...closed[name], $defs: closed }, '2020-12').errors.map(({ error }) => error)
}

const owner = (method: string, path: string, body?: unknown) =>
  access.callAs('owner@example.com', method, `/companies/${company}${path}`, body)

const currency = `/companies/${company}/currency`
const busy = { ADMIN_REQUESTS: { limit: async () => ({ success: false }) } }
const CASES: [string, number, () => Promise<ApiResponse>][] = [
  ['InvalidRequest', 400, () => owner('PUT', '/members/x@example.com', { role: 'king' })],
  ['Unauthenticated', 401, () => adminSend(adminRequest('GET', '/me'))],
  ['Forbidden', 403, () => access.callAs('dev@example.com', 'GET', `/companies/${company}/members`)],
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

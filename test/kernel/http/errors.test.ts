import { env, exports } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import * as z from 'zod/mini'
import { createApp } from '../../../src/app.ts'
import { contractsOf } from '../../../src/kernel/api/contract.ts'
import { route } from '../../../src/kernel/api/endpoint.ts'
import { BUDGET_MS } from '../../../src/kernel/http/isolate.ts'
import { type ApiResponse, call, issuesOf, mintCompany, request, send } from '../../support/app.ts'
import { contracts } from '../../support/endpoints.ts'
import { pathOf } from '../../support/lists.ts'
import { linesOf, logLines } from '../../support/log.ts'
import { holdTimers } from '../../support/time.ts'
import { breakCalls } from '../../support/wrap-bindings.ts'

const company = await mintCompany()

describe('validation', () => {
  it.each<[string, string, object?]>([
    ['POST', '/clients', { company_name: ' ', email: 'nobody', tax_exempt: 'yes', phone: 5, company_id: 7, extra: {} }],
    ['POST', '/orders', { title: 'x'.repeat(256), client_id: '1', status_id: 0, discount_amount: 101, deadline: 'x' }],
    ['GET', '/clients?page=0&per_page=101&company_id=1'],
    ['GET', '/orders?client_id=x&status=-1&from=2026-13-01&to=now'],
  ])('returns every issue at once, each with its name: %s %s', async (method, path, body) => {
    const names = body ? Object.keys(body) : [...new URL(path, 'https://api.test').searchParams.keys()]
    expect(issuesOf(await company.call(method, path, body)).sort()).toEqual(names.sort())
  })

  it.each(['0', '101', '-1', '1.5', 'x', '', '1e1', ' 1', '9999999999999999999'])(
    'refuses per_page=%s',
    async (value) => {
      for (const list of ['/clients', '/orders']) {
        expect(issuesOf(await company.call('GET', pathOf(list, { per_page: value })))).toEqual(['per_page'])
      }
    },
  )
})

describe('many issues', () => {
  const unknown = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 0]))

  it.each<[string, object, number | undefined]>([
    ['are all listed up to 100, without a count', { company_name: 'a', ...unknown(100) }, undefined],
    ['are counted where there are more, of whatever kind', { company_name: 5, email: 'x', ...unknown(150) }, 152],
    ['of a body of a megabyte make a small response', { company_name: 'a', ...unknown(80_000) }, 80_000],
  ])('%s', async (_, fields, count) => {
    const { status, body } = await company.call('POST', '/clients', fields)
    expect(status).toBe(400)
    expect(body.error.details.issues).toHaveLength(100)
    expect(body.error.details.issue_count).toBe(count)
    if (count) expect(body.error.message).toContain(`(and ${count - 3} more)`)
    expect(JSON.stringify(body).length).toBeLessThan(10_000)
  })

  it('with long names are cut', async () => {
    const names = Array.from({ length: 9 }, (_, i) => `${i}${'😀'.repeat(20_000)}`)
    const fields = { company_name: 'a', ...Object.fromEntries(names.map((name) => [name, 0])) }
    const { status, body } = await company.call('POST', '/clients', fields)
    expect(status).toBe(400)
    expect(JSON.stringify(body).length).toBeLessThan(10_000)
    for (const { path } of body.error.details.issues) {
      expect(path).toHaveLength(200)
      expect(path.isWellFormed()).toBe(true)
    }
    const query = await company.call('GET', `/clients?${'x'.repeat(5_000)}=1`)
    expect(query.status).toBe(400)
    expect(JSON.stringify(query.body).length).toBeLessThan(1_000)
  })

  it('of an email thread are cut, too', async () => {
    const messages = Array.from({ length: 5_000 }, () => 1)
    const thread = { account_email: 'a@x.example', messages }
    const { status, body } = await company.call('PUT', '/mail/email-threads/t', thread)
    expect(status).toBe(400)
    expect(body.error.details.issues).toHaveLength(100)
    expect(body.error.details.issue_count).toBeGreaterThanOrEqual(1_000)
  })
})

it.each<[string, number, string, RequestInit?]>([
  ['an upload address with another method', 404, '/uploads/x', { method: 'DELETE' }],
  ['the page', 200, '/'],
  ['a file of the page', 200, '/page.css'],
  ['the description as a file', 200, '/openapi.json'],
  ['a file by its other name', 307, '/index.html', { redirect: 'manual' }],
  ['a method that no file knows', 404, '/page.css', { method: 'POST' }],
  ['an unknown path', 404, '/nowhere'],
  ['the API without a version', 404, '/api'],
  ['the API with an unknown version', 404, '/api/v2/clients'],
  ['a path that begins as that of the API', 404, '/apiv1'],
])('a response outside of the API forbids to guess its type, and has an id: %s', async (_, status, path, init) => {
  const response = await exports.default.fetch(new Request(`https://api.test${path}`, init))
  await response.arrayBuffer()
  expect(response.status).toBe(status)
  expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  expect(response.headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{1,128}$/)
})

describe('CORS', () => {
  it('responds to a preflight with 204, without a token, to be cached for 24 h', async () => {
    for (const path of ['/clients', '/orders/1', '/mail/email-threads/x', '/nowhere']) {
      const result = await call(null, 'OPTIONS', path, undefined, {
        origin: 'chrome-extension://abc',
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'authorization,content-type,x-request-id,x-bookmark',
      })
      expect(result).toMatchObject({ status: 204, body: null })
      expect(result.headers.get('access-control-allow-origin')).toBe('*')
      expect(result.headers.get('access-control-max-age')).toBe('86400')
      expect(result.headers.has('access-control-allow-credentials')).toBe(false)
      const allowed = result.headers.get('access-control-allow-headers')?.toLowerCase().split(/, */)
      expect(allowed).toEqual(expect.arrayContaining(['authorization', 'content-type', 'x-request-id']))
      const methods = result.headers.get('access-control-allow-methods')?.split(/, */)
      expect(methods).toEqual(expect.arrayContaining(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE']))
    }
  })

  it('exposes what a browser must read', async () => {
    const needed =
      'x-request-id retry-after ratelimit ratelimit-policy etag server-timing allow www-authenticate deprecation sunset'
    for (const result of [await company.call('GET', '/clients'), await call(null, 'GET', '/clients')]) {
      const exposed = result.headers.get('access-control-expose-headers')?.toLowerCase().split(/, */)
      expect(exposed).toEqual(expect.arrayContaining(needed.split(' ')))
    }
  })
})

describe('the request id', () => {
  it.each(['a', 'A-b_c.9', 'x'.repeat(128)])('is taken from the request: %s', async (id) => {
    const sent = { 'x-request-id': id }
    for (const path of ['/clients', '/nowhere', '/clients/0']) {
      expect((await company.call('GET', path, undefined, sent)).headers.get('x-request-id')).toBe(id)
    }
    expect((await call(null, 'GET', '/clients', undefined, sent)).headers.get('x-request-id')).toBe(id)
    expect(linesOf(id).length).toBeGreaterThan(0)
  })

  it.each(['x'.repeat(129), 'a b', 'a/b', 'a"b', 'a,b', '<a>', 'a;b=c'])(
    'is made where it is malformed: %s',
    async (id) => {
      const { headers } = await company.call('GET', '/clients', undefined, { 'x-request-id': id })
      expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    },
  )
})

const words = 'SELECT hunter2 FROM api_tokens\n    at secret (place.ts:1:2)'
it.each([
  ['an Error', new Error(words)],
  ['an Error with a cause', new Error('Failed query', { cause: new Error(words) })],
  ['text', words],
  ['nothing', undefined],
  ['null', null],
  ['an object', { message: words }],
])('a failure of any kind returns a 500 with the request id and nothing else: %s', async (_, thrown) => {
  const path = '/clients?q=hunter2'
  for (const sent of [
    request(company.token, 'GET', path),
    request(company.token, 'POST', '/clients', { company_name: 'hunter2' }),
  ]) {
    const result = await send(sent, { env: breakCalls(env, /^DB\.batch$/, thrown) })
    const id = result.headers.get('x-request-id')
    expect([result.status, result.body.error.code]).toEqual([500, 'internal_error'])
    expect(result.body.error.message).toContain(id)
    expect(JSON.stringify([result.body, ...result.headers])).not.toMatch(/hunter2|secret|SELECT|place\.ts/)
    expect(result.headers.has('ratelimit')).toBe(true)
    expect(linesOf(id)).toHaveLength(2)
    expect(linesOf(id)).toContainEqual(expect.objectContaining({ event: 'failure', error: expect.any(String) }))
    expect(JSON.stringify(linesOf(id))).not.toMatch(/hunter2|secret/)
  }
})

it('the log has one line a request, with its id and no secret, body or query text', async () => {
  const before = logLines.length
  const results = [
    await company.call('GET', '/clients?q=hunter2'),
    await company.call('POST', '/clients', { company_name: 'hunter2', email: 'hunter2@x.example' }),
    await company.call('POST', '/clients', '{"hunter2'),
    await company.call('GET', '/clients/hunter2%40x.example'),
    await call(null, 'GET', '/clients?q=hunter2', undefined, { authorization: 'Bearer hunter2' }),
    await company.call('GET', '/hunter2'),
  ]
  // Objects of earlier files may write lines of their own meanwhile.
  const lines = logLines.slice(before).filter(({ request_id }) => request_id !== undefined)
  expect(lines.map((line) => line.request_id)).toEqual(results.map(({ headers }) => headers.get('x-request-id')))
  expect(lines.map((line) => line.status)).toEqual(results.map(({ status }) => status))
  expect(JSON.stringify(lines)).not.toMatch(/hunter2/)
  expect(JSON.stringify(lines)).not.toContain(company.token)
  expect(lines[0]).toMatchObject({ operation: 'listClients', method: 'GET', company_id: company.id })
})

describe('the documentation_url of an error', () => {
  it('leads to the operation, or to the part of the reference about the kind of error', async () => {
    const url = async (sent: Request) => (await send(sent)).body.error.details.documentation_url.replace(/^.*\/#/, '#')
    const { token } = company
    expect(await url(request(token, 'POST', '/clients', {}))).toBe('#createClient')
    expect(await url(request(token, 'GET', '/orders/999999'))).toBe('#readOrder')
    expect(await url(request(token, 'GET', '/nothing'))).toBe('#guide-errors')
    expect(await url(request('0'.repeat(64), 'GET', '/clients'))).toBe('#guide-authentication')
    const known = { method: 'PATCH', path: '/orders/999999', body: { title: 'a' } }
    const { body } = await company.call('POST', '/batch', { operations: [known, { method: 'PATCH', path: '/x' }] })
    const urls = body.results.map(({ body }: ApiResponse) => body.error.details.documentation_url)
    expect(urls.map((each: string) => new URL(each).hash)).toEqual(['#updateOrder', '#runBatch'])
  })

  it('leads to a page that names each of them', async () => {
    const page = await (await exports.default.fetch(new Request('https://api.test/'))).text()
    const ids = Array.from(page.matchAll(/<section id="([^"]+)"/g), ([, id]) => id)
    const guides = ['guide-errors', 'guide-authentication', 'guide-rate-limit']
    expect(ids).toEqual(expect.arrayContaining([...guides, ...contracts.map(({ operationId }) => operationId)]))
  })
})

const define = contractsOf('Clients', 'clients')
const response = z.strictObject({})
const late = [define('readLate', 'GET /late', { response }), define('writeLate', 'POST /late', { response })]
const app = createApp(
  late.map((contract) => route(contract, () => new Promise<never>(() => undefined))),
  [],
)

it.each([
  ['GET', '10', 'Retry-After'],
  ['POST', null, 'may have been carried out'],
] as const)(
  'a %s that passes its deadline is a 503 that asks for a repetition where nothing is written twice',
  async (method, seconds, text) => {
    const deadlines = holdTimers(BUDGET_MS.handler)
    const sent = send(request(company.token, method, '/late'), { app })
    await vi.waitUntil(() => deadlines.length > 0)
    deadlines[0]?.()
    const { status, headers, body } = await sent
    expect([status, headers.get('retry-after'), body.error.code]).toEqual([503, seconds, 'internal_error'])
    expect(body.error.message).toContain(text)
  },
)

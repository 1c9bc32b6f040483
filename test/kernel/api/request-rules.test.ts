import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { issuesOf, mintCompany, request, send } from '../../support/app.ts'
import { endpoints, exampleOf } from '../../support/endpoints.ts'

const company = await mintCompany()

const withBody = endpoints.filter(([, { body }]) => body !== undefined)

it.each(endpoints)('%s refuses unknown query parameters, also one without a name', async (_, contract) => {
  const { path, body } = exampleOf(contract)
  const sendWith = (more: string) =>
    company.call(contract.method, `${path}${path.includes('?') ? '&' : '?'}${more}`, body)
  expect(issuesOf(await sendWith('x=1&company_id=2')).sort()).toEqual(['company_id', 'x'])
  const unnamed = await sendWith('=1')
  expect(issuesOf(unnamed)).toEqual(['query'])
  expect(unnamed.body.error.details.issues[0].message).toBe('must have a name before each =')
})

const CODINGS = ['br', 'deflate', 'GZIP', 'identity, gzip', 'zstd', 'x-unknown']

// Every endpoint by one coding, and every coding by one endpoint.
it.each([
  ...withBody.map(([name, contract]) => ['gzip', name, contract] as const),
  ...withBody.slice(0, 1).flatMap(([name, contract]) => CODINGS.map((coding) => [coding, name, contract] as const)),
])('a body with Content-Encoding: %s is refused by %s', async (coding, _, contract) => {
  const { path, body } = exampleOf(contract)
  const made = request(company.token, contract.method, path, body, { 'content-encoding': coding })
  const result = await send(new Request(made, { body: gzipSync(JSON.stringify(body)) }))
  expect(result.status).toBe(415)
  expect(result.body.error.message).toContain('without Content-Encoding')
  expect(result.headers.get('accept-encoding')).toBe('identity')
})

/** The changes that depend on a header; every other one refuses it. */
const CONDITIONAL: Record<string, RegExp> = {
  'If-Match': /^((PATCH|PUT|DELETE) \/(clients|orders)|POST \/orders\/\{id\}\/payments)(?!.*files)/,
  'If-None-Match': /^PUT \/(clients|orders)\/by-external-id/,
}
const changing = endpoints.filter(([, { method, isReadOnly }]) => method !== 'GET' && !isReadOnly)

it.each(changing)('%s takes or refuses If-Match and If-None-Match', async (_, contract) => {
  for (const [name, taking] of Object.entries(CONDITIONAL)) {
    const { path, body } = exampleOf(contract)
    const { status, body: answer } = await company.call(contract.method, path, body, { [name]: '"nope"' })
    const refusal = { path: name, message: 'has no effect on this operation: send the request without it' }
    expect(status).not.toBe(200)
    if (taking.test(`${contract.method} ${contract.path}`)) expect(answer.error?.details.issues).not.toEqual([refusal])
    else expect([status, answer.error.details.issues]).toEqual([400, [refusal]])
  }
})

async function putThread(id: string) {
  const [path, account_email] = [`/mail/email-threads/${id}`, 'a@x.example']
  await company.call('PUT', path, { account_email, messages: [{ id: '1' }] })
  return { path, account_email, url: `${path}?account_email=${account_email}` }
}

it('replaces no email thread where its tag is sent', async () => {
  const { path, account_email, url } = await putThread('18c2f0ac')
  const { headers } = await company.call('GET', url)
  const known = { 'if-match': headers.get('etag') ?? '' }
  expect((await company.call('PUT', path, { account_email, messages: [] }, known)).status).toBe(400)
  expect((await company.call('DELETE', url, undefined, known)).status).toBe(400)
  const { body } = await company.call('GET', url)
  expect(body.email_thread.messages).toHaveLength(1)
})

it('takes a body with Content-Encoding: identity', async () => {
  const client = { company_name: 'Club' }
  expect((await company.call('POST', '/clients', client, { 'content-encoding': 'Identity' })).status).toBe(200)
})

describe('a plus sign in a query', () => {
  const email = 'ines+crm@x.example'

  it('that form decoding made a space finds the client', async () => {
    const { body } = await company.call('POST', '/clients', { company_name: 'Ines', email })
    const { id } = body.client
    for (const query of [email, 'ines%2Bcrm@x.example', 'ines%20crm@x.example', `${email}%20`]) {
      const result = await company.call('GET', `/clients/0?email=${query}`)
      expect(result.body.client?.id, query).toBe(id)
    }
    const changed = await company.call('PATCH', '/clients/0?email=INES+crm@x.example', { phone: '1' })
    expect(changed.body.client).toMatchObject({ id, phone: '1' })
  })

  it('that form decoding made a space finds the thread of the mailbox', async () => {
    const path = '/mail/email-threads/18c2f0a9'
    expect((await company.call('PUT', path, { account_email: email, messages: [] })).status).toBe(200)
    const result = await company.call('GET', `${path}?account_email=${email}`)
    expect(result.body.email_thread).toMatchObject({ account_email: email })
  })

  it('stays a space in a search text', async () => {
    const { id } = (await company.call('POST', '/clients', { company_name: 'Plus Two' })).body.client
    const { body } = await company.call('GET', '/clients?q=plus+two')
    expect(body.data.map((client: { id: number }) => client.id)).toEqual([id])
  })
})

describe('a response with an ETag', () => {
  it.each([
    ['gzip', true],
    ['gzip, deflate, br', true],
    ['identity, br;q=0.5', true],
    ['*', true],
    ['identity', false],
    ['', false],
  ])('to Accept-Encoding: %s carries a weak one: %s', async (coding, isWeak) => {
    const { url } = await putThread('18c2f0ab')
    const headers = { 'accept-encoding': coding }
    const etag = (await company.call('GET', url, undefined, headers)).headers.get('etag') ?? ''
    expect(etag).toMatch(isWeak ? /^W\/"[^"]+"$/ : /^"[^"]+"$/)
    const known = { ...headers, 'if-none-match': etag }
    const again = await company.call('GET', url, undefined, known)
    expect(again).toMatchObject({ status: 304, body: null })
    expect(again.headers.get('etag')).toBe(etag)
  })

  it('varies by coding, as its 304 does', async () => {
    const { url } = await putThread('18c2f0aa')
    const first = await company.call('GET', url)
    expect(first.headers.get('vary')).toBe('Accept-Encoding')
    const etag = first.headers.get('etag') ?? ''
    for (const known of [etag, `W/${etag}`]) {
      const { status, headers } = await company.call('GET', url, undefined, { 'if-none-match': known })
      expect([status, headers.get('vary')]).toEqual([304, 'Accept-Encoding'])
    }
  })
})

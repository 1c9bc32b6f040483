import { env } from 'cloudflare:workers'
import { generateKeyPair } from 'jose'
import { describe, expect, it } from 'vitest'
import {
  ADMIN_TOKEN,
  addMember,
  adminCall,
  adminCallWith,
  adminRequest,
  adminSend,
  startAccess,
} from '../../support/admin.ts'
import { call, mintCompany, sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'

const access = await startAccess()
const company = await mintCompany()
const other = await mintCompany()
await addMember(company.id, 'owner@example.com', 'owner')
await addMember(company.id, 'dev@example.com', 'developer')
await addMember(other.id, 'stranger@example.com', 'owner')

const asOwner = async () => ({ 'cf-access-jwt-assertion': await access.sign({ email: 'owner@example.com' }) })
const withAssertion = async (assertion: string, bindings = access.bindings) =>
  adminSend(adminRequest('GET', '/me', undefined, { 'cf-access-jwt-assertion': assertion }), bindings)

describe('a person', () => {
  it('is who Cloudflare Access says, in any case', async () => {
    const { status, body } = await access.callAs('Owner@Example.com', 'GET', '/me')
    expect(status).toBe(200)
    expect(body).toEqual({
      actor: 'owner@example.com',
      operator: false,
      companies: [{ id: company.id, name: `Company ${company.id}`, role: 'owner' }],
    })
  })

  it('is an operator when the configuration names them', async () => {
    expect((await access.callAs('operator@example.com', 'GET', '/me')).body).toMatchObject({ operator: true })
    expect((await access.callAs('operator@example.com', 'GET', `/companies/${other.id}/members`)).status).toBe(200)
  })

  it('who is a member of no company gets 403', async () => {
    expect((await access.callAs('nobody@example.com', 'GET', '/me')).status).toBe(403)
    expect((await access.callAs('nobody@example.com', 'GET', `/companies/${company.id}/members`)).status).toBe(403)
  })

  it('of one company gets 404 for another, as for one that does not exist', async () => {
    for (const id of [other.id, 999_999]) {
      const { status, body } = await access.callAs('owner@example.com', 'GET', `/companies/${id}/members`)
      expect([status, body.error.message]).toEqual([404, 'Company not found'])
    }
  })

  it('whose role is too low gets 403', async () => {
    const { status, body } = await access.callAs('dev@example.com', 'GET', `/companies/${company.id}/members`)
    expect([status, body.error.message]).toEqual([403, 'This needs the role `owner`'])
    const keys = await access.callAs('dev@example.com', 'POST', '/key-rotation')
    const message = 'send `Authorization: Bearer ADMIN_TOKEN`, or sign in as one of OPERATORS'
    expect([keys.status, keys.body.error.message]).toEqual([403, `This needs the role \`operator\`: ${message}`])
  })

  it.each([
    ['no Origin', undefined],
    ['another origin', 'https://evil.example'],
    ['an opaque origin', 'null'],
  ])('cannot change anything from a page of %s', async (_, origin) => {
    const path = `/companies/${company.id}/members/victim%40example.com`
    const headers = { ...(await asOwner()), ...(origin !== undefined && { origin }) }
    const { status } = await adminSend(adminRequest('PUT', path, { role: 'owner' }, headers), access.bindings)
    expect(status).toBe(403)
    expect(await sql("SELECT * FROM members WHERE email = 'victim@example.com'")).toEqual([])
  })

  it.each([
    ['cross-site', 403],
    ['same-site', 403],
    ['same-origin', 200],
    ['none', 200],
  ])('reads for a page that the browser calls %s: %d, counted only where it is allowed', async (site, expected) => {
    const headers = { ...(await asOwner()), 'sec-fetch-site': site }
    const sent = adminRequest('GET', `/companies/${company.id}/members`, undefined, headers)
    const counted: string[] = []
    const ADMIN_REQUESTS = { limit: async ({ key }: { key: string }) => ({ success: counted.push(key) > 0 }) }
    expect((await adminSend(sent, { ...access.bindings, ADMIN_REQUESTS })).status).toBe(expected)
    expect(counted).toHaveLength(expected === 200 ? 1 : 0)
  })
})

describe('a token of the sign-in is refused with 401 and logged', () => {
  const refused = async (assertion: string, problem: string | RegExp, bindings = access.bindings) => {
    const { status, body, headers } = await withAssertion(assertion, bindings)
    expect([status, body.error.message]).toEqual([401, 'The sign-in is not valid for this service: sign in again'])
    expect(headers.get('www-authenticate')).toContain('error="invalid_token"')
    expect(logLines.findLast(({ event }) => event === 'admin_refused')?.problem).toMatch(problem)
  }
  const unsigned = (header: object) => {
    const part = (value: object) => btoa(JSON.stringify(value)).replaceAll('=', '').replaceAll('+', '-')
    const now = Math.floor(Date.now() / 1000)
    const claims = { iss: access.issuer, aud: 'f1c0ffee', email: 'owner@example.com', iat: now, exp: now + 60 }
    return `${part(header)}.${part(claims)}.`
  }

  const sign = access.sign
  const otherKey = async () => (await generateKeyPair('RS256')).privateKey
  it.each<[string, () => string | Promise<string>, string | RegExp]>([
    ['has expired', () => sign({ exp: Math.floor(Date.now() / 1000) - 60 }), 'ERR_JWT_EXPIRED'],
    ['is of another audience', () => sign({ aud: 'another' }), 'ERR_JWT_CLAIM'],
    ['is of another issuer', () => sign({ iss: 'https://evil.example' }), 'ERR_JWT_CLAIM'],
    ['is unsigned', () => unsigned({ alg: 'none' }), /ERR_JOSE|ERR_JWS/],
    ['lacks its signature', () => unsigned({ alg: 'RS256', kid: 'key-1' }), 'ERR_JWS'],
    ['was signed with another key', async () => sign({}, {}, await otherKey()), 'ERR_JWS_SIGNATURE'],
    ['names another key', async () => sign({}, { kid: 'key-2' }, await otherKey()), 'ERR_JWKS_NO_MATCHING_KEY'],
    ['has no email', () => sign({ email: undefined }), /ERR_JWT_CLAIM|no_email/],
    ['is no token', () => 'x', 'ERR_J'],
    ['is huge', () => 'x'.repeat(20_000), 'too_long'],
  ])('when it %s', async (_, make, problem) => {
    await refused(await make(), problem)
  })

  it('when the deployment has no sign-in', async () => {
    const { ACCESS_AUDIENCE: _, ...bindings } = access.bindings
    await refused(await access.sign({ email: 'owner@example.com' }), 'access_not_configured', bindings as typeof env)
  })
})

it('responds 503 while the keys of the sign-in cannot be read', async () => {
  const bindings = { ...access.bindings, ACCESS_ISSUER: 'http://127.0.0.1:9' }
  const { status, headers } = await withAssertion(await access.sign({ iss: 'http://127.0.0.1:9' }), bindings)
  expect([status, headers.get('retry-after')]).toEqual([503, '5'])
})

describe('the secret of the deployment', () => {
  it('is an operator', async () => {
    const { status, body } = await adminCall('GET', '/me')
    expect([status, body.actor, body.operator]).toEqual([200, 'operator', true])
  })

  it.each([
    ['another secret', `Bearer ${'0'.repeat(64)}`],
    ['a part of it', `Bearer ${ADMIN_TOKEN.slice(0, 63)}`],
    ['another scheme', `Basic ${ADMIN_TOKEN}`],
    ['nothing', ''],
  ])('is not %s', async (_, authorization) => {
    const { status, body } = await adminCall('GET', '/me', undefined, { authorization })
    expect([status, body.error.message]).toEqual([401, 'The Authorization header must be Bearer <ADMIN_TOKEN>'])
  })

  it.each([['unset'], ['']])('is refused where it is %s', async (value) => {
    const { ADMIN_TOKEN: _, ...rest } = env
    const bindings = value === 'unset' ? rest : { ...rest, ADMIN_TOKEN: value }
    const sent = adminRequest('GET', '/me', undefined, { authorization: 'Bearer ' })
    expect((await adminSend(sent, bindings as typeof env)).status).toBe(401)
  })

  // That none of those is the secret, `matrix.test.ts` says of every endpoint.
  it('is not a token of the API', async () => {
    expect((await call(ADMIN_TOKEN, 'GET', '/me')).status).toBe(401)
  })
})

describe('everyone', () => {
  it('without a sign-in gets 401 on this machine, too, unless it is for development', async () => {
    const local = new Request('http://127.0.0.1/admin/v1/me')
    expect((await adminSend(local.clone() as Request)).status).toBe(401)
    const { status, body } = await adminSend(local as Request, { ...env, ADMIN_DEVELOPMENT: 'development' })
    const message = 'owner@ridgeline.example is a member of no company: ask an owner to add you'
    expect([status, body.error?.message]).toEqual([403, message])
  })

  it('has a limit of requests', async () => {
    const ADMIN_REQUESTS = { limit: async () => ({ success: false }) }
    const { status, headers } = await adminCallWith({ ADMIN_REQUESTS }, 'GET', '/me')
    expect([status, headers.get('retry-after')]).toEqual([429, '60'])
  })

  it('of a network with too many refused requests gets 429', async () => {
    const bindings = { ...env, AUTH_FAILURES: { limit: async () => ({ success: false }) } }
    const { status, headers } = await adminSend(adminRequest('GET', '/me'), bindings)
    expect([status, headers.get('retry-after')]).toEqual([429, '60'])
  })
})

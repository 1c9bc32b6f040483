import { describe, expect, it } from 'vitest'
import type { Contract } from '../../../src/kernel/api/contract.ts'
import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { call, mintCompany, mintToken, sql } from '../../support/app.ts'
import { endpoints, exampleOf } from '../../support/endpoints.ts'
import { useUp } from '../gate/support.ts'

/*
 * Every endpoint of the API, found through its contract: a new one is in these tables the moment it is registered.
 */

const company = await mintCompany()
const suspended = await mintCompany({ suspended: true })
const revoked = await mintToken(company.id)
await sql('UPDATE api_tokens SET revoked_at = 1 WHERE token_hash = ?', hashToken(revoked))

const tokens = new Map<string, Promise<string>>()
/** A token with these permissions. Tests share it: the object of each new one takes longer than its requests. */
function tokenWith(permissions: readonly string[]): Promise<string> {
  const token = tokens.get(permissions.join()) ?? mintToken(company.id, permissions)
  tokens.set(permissions.join(), token)
  return token
}

function send(token: string | null, contract: Contract) {
  const { path, body } = exampleOf(contract)
  return call(token, contract.method, path, body)
}

function expectError(response: Awaited<ReturnType<typeof call>>, status: number, code: string) {
  expect(response).toMatchObject({ status, body: { error: { code, message: expect.any(String) } } })
}

describe.each(endpoints)('%s', (_, contract) => {
  it.each([
    ['without a token', null, /^Bearer$/],
    ['with a token of another form', company.token.slice(1), /^Bearer$/],
    ['with an unknown token', hashToken(company.token), /^Bearer error="invalid_token", error_description="/],
    ['with a revoked token', revoked, /^Bearer error="invalid_token", error_description="/],
  ])('refuses a request %s', async (_name, token, challenge) => {
    const response = await send(token, contract)
    expectError(response, 401, 'unauthenticated')
    expect(response.headers.get('www-authenticate')).toMatch(challenge)
    expect(response.headers.has('ratelimit')).toBe(false)
  })

  it.skipIf(!contract.permission)('refuses a token that lacks its permission, before anything else', async () => {
    const others = PERMISSIONS.filter((permission) => permission !== contract.permission)
    const token = await tokenWith(others)
    expectError(await send(token, contract), 403, 'forbidden')
    const bad = contract.body ? '{' : undefined
    expectError(await call(token, contract.method, `${exampleOf(contract).path}`, bad), 403, 'forbidden')
    expectError(await send(await tokenWith([]), contract), 403, 'forbidden')
  })

  it('needs no permission but its own', async () => {
    const permissions = contract.permission ? [contract.permission] : PERMISSIONS
    const response = await send(await tokenWith(permissions), contract)
    expect([401, 403]).not.toContain(response.status)
  })

  it('refuses a suspended company', async () => {
    const response = await send(suspended.token, contract)
    expectError(response, 403, 'forbidden')
    expect(response.headers.get('ratelimit')).toMatch(
      /^"default";r=\d+;t=\d+, "database";r=\d+;t=\d+, "company";r=\d+;t=\d+$/,
    )
  })

  it('refuses a token that has used up its allowance before it checks the permission', async () => {
    const token = await mintToken(company.id, [])
    await useUp(token)
    const response = await send(token, contract)
    expectError(response, 429, 'rate_limited')
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(response.headers.get('ratelimit')).toMatch(
      /^"default";r=0;t=\d+, "database";r=1[45]\d{3};t=\d+, "company";r=\d+;t=\d+$/,
    )
    expect(response.headers.get('ratelimit-policy')).toBe(
      '"default";q=300;w=60, "database";q=15000;w=60;qu="milliseconds", "company";q=40000;w=60;qu="milliseconds"',
    )
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
    // An unknown token gets no rate limit headers, however often it is sent.
    expectError(await send(null, contract), 401, 'unauthenticated')
  })
})

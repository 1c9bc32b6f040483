import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { blockNetwork, hashToken } from '../../../src/kernel/gate/tokens.ts'
import { call, mintCompany, mintToken, randomToken, request, send, sql } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { watchCalls } from '../../support/wrap-bindings.ts'
import { guarded, tokenObject } from './support.ts'

beforeEach(stopTime)

describe('a token', () => {
  it.each([
    ['was revoked', 401, 'UPDATE api_tokens SET revoked_at = 1 WHERE token_hash = ?'],
    ['was deleted', 401, 'DELETE FROM api_tokens WHERE token_hash = ?'],
    ['lost the permission', 403, `UPDATE api_tokens SET permissions = '["orders:read"]' WHERE token_hash = ?`],
    [
      'belongs to a company that was suspended',
      403,
      'UPDATE companies SET suspended = 1 WHERE id = (SELECT company_id FROM api_tokens WHERE token_hash = ?)',
    ],
  ])('that %s is refused with %i once its object was told, or after 30 s', async (_, status, change) => {
    const [told, other] = [await mintCompany(), await mintCompany()]
    for (const { token } of [told, other]) {
      expect((await call(token, 'GET', '/clients')).status).toBe(200)
      await sql(change, hashToken(token))
    }
    await tokenObject(told.token).forget()
    const response = await call(told.token, 'GET', '/clients')
    expect(response.status).toBe(status)
    expect(response.body.data).toBeUndefined()
    if (status === 401) expect(response.headers.get('www-authenticate')).toContain('invalid_token')
    moveTime(30_000)
    expect((await call(other.token, 'GET', '/clients')).status).toBe(status)
    expect((await call(other.token, 'POST', '/clients', { company_name: 'a' })).status).toBe(status)
  })

  it('is not refused for a permission that it lacked before, once its object was told', async () => {
    const { token } = await mintCompany({ permissions: ['orders:read'] })
    expect((await call(token, 'GET', '/clients')).status).toBe(403)
    await sql(`UPDATE api_tokens SET permissions = '["clients:read"]' WHERE token_hash = ?`, hashToken(token))
    await tokenObject(token).forget()
    expect((await call(token, 'GET', '/clients')).status).toBe(200)
  })

  it('is accepted as soon as it is created, although it was unknown before', async () => {
    const { id } = await mintCompany()
    const token = randomToken()
    expect((await call(token, 'GET', '/clients')).status).toBe(401)
    const row = { company_id: id, name: 'x', permissions: '["clients:read"]', created_at: 0 }
    await insert('api_tokens', { ...row, token_hash: hashToken(token) })
    expect((await call(token, 'GET', '/clients')).status).toBe(200)
  })

  it.each(['bearer', 'BEARER'])('is accepted behind the scheme in any case: %s', async (scheme) => {
    const { token } = await mintCompany()
    for (const sent of [token, token.toUpperCase()]) {
      expect((await call(null, 'GET', '/clients', undefined, { authorization: `${scheme} ${sent}` })).status).toBe(200)
    }
  })
})

describe('an Authorization header', () => {
  const token = '0123456789abcdef'.repeat(4)
  it.each([
    // No token, no scheme, another scheme, a longer one, and one without a space.
    ...['Bearer', 'Bearer ', token, `Token ${token}`, `Bearers ${token}`, `Bearer${token}`],
    // 63 and 65 characters, and one that is not hexadecimal.
    ...[`Bearer ${token.slice(1)}`, `Bearer ${token}0`, `Bearer ${token.slice(1)}g`],
    // Two tokens, and what stands before, within and around one.
    ...[`Bearer ${token} ${token}`, `Bearer ${token}, Bearer ${token}`, `Bearer crm_${token}`],
    ...[`Bearer ${token.slice(0, 32)} ${token.slice(32)}`, `Bearer "${token}"`],
  ])('of another form is refused: %s', async (authorization) => {
    const { calls, env: watched } = watchCalls(env)
    const sent = request(null, 'GET', '/clients', undefined, { authorization })
    const { status, headers } = await send(sent, { env: watched })
    expect(calls).toEqual([])
    // An unknown token has a longer challenge.
    expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
  })

  it('cannot be replaced by a token in the query', async () => {
    const { token } = await mintCompany()
    for (const name of ['token', 'access_token', 'api_key']) {
      expect((await call(null, 'GET', `/clients?${name}=${token}`)).status).toBe(401)
    }
  })
})

it('the last use of a token is written behind the response, at most once a minute', async () => {
  const { token } = await mintCompany()
  const use = () => send(request(token, 'GET', '/clients'), { env })
  const lastUsed = async () =>
    (await sql('SELECT last_used_at AS at FROM api_tokens WHERE token_hash = ?', hashToken(token)))[0]?.at
  const isAt = (time: number) => expect.poll(lastUsed).toBe(time)
  expect(await lastUsed()).toBeNull()
  const first = Date.now()
  await use()
  await isAt(first)
  moveTime(59_999)
  await use()
  moveTime(1)
  expect(await lastUsed()).toBe(first)
  await use()
  await isAt(first + 60_000)
})

describe('a token that is no longer valid', () => {
  it.each([
    ['expired', 'expires_at'],
    ['revoked', 'revoked_at'],
  ])('because it is %s is refused by the isolate for 30 s after each look-up', async (_, column) => {
    const { token } = await mintCompany()
    await sql(`UPDATE api_tokens SET ${column} = ? WHERE token_hash = ?`, Date.now() - 1, hashToken(token))
    const { seen, get } = guarded()
    for (let i = 0; i < 5; i++) expect((await get(token)).status).toBe(401)
    expect(seen).toMatchObject({ admitted: [hashToken(token)], failures: [] })
    moveTime(30_000)
    for (let i = 0; i < 5; i++) expect((await get(token)).status).toBe(401)
    expect(seen.admitted).toHaveLength(2)
  })

  it('because it expired meanwhile is refused by the isolate', async () => {
    const { id } = await mintCompany()
    const token = await mintToken(id, PERMISSIONS, Date.now() + 5_000)
    const { seen, get } = guarded()
    expect((await get(token)).status).toBe(200)
    moveTime(4_999)
    expect((await get(token)).status).toBe(200)
    moveTime(1)
    for (let i = 0; i < 5; i++) expect((await get(token)).status).toBe(401)
    expect(seen.admitted).toHaveLength(2)
  })

  it('is looked up from a blocked network no more often than an unknown one', async () => {
    const { id } = await mintCompany()
    const tokens = await Promise.all(Array.from({ length: 5 }, () => mintToken(id, PERMISSIONS, Date.now() - 1)))
    const { seen, use } = await block('9.9.9.9')
    for (const token of tokens) expect((await use(token)).status).toBe(429)
    expect(seen.admitted).toEqual([])
  })
})

const from = (address: string) => ({ 'cf-connecting-ip': address })

/** Blocks a network. */
async function block(address: string) {
  const { seen, get } = guarded(0)
  const use = (token: string, by = address) => get(token, from(by))
  expect((await use(randomToken())).status).toBe(429)
  seen.admitted.length = 0
  return { seen, use }
}

describe('a network that sends unknown tokens', () => {
  it('has no new token looked up after too many failures', async () => {
    const { seen, get } = guarded(3)
    for (let i = 0; i < 3; i++) expect((await get(randomToken(), from('1.1.1.1'))).status).toBe(401)
    for (let i = 0; i < 5; i++) {
      const response = await get(randomToken(), from('1.1.1.1'))
      expect(response).toMatchObject({ status: 429, body: { error: { code: 'rate_limited' } } })
      expect(response.headers.get('retry-after')).toBe('1')
    }
    expect(seen.admitted).toHaveLength(4)
    expect(seen).toMatchObject({ failures: Array.from({ length: 4 }, () => '1.1.1.1') })
    moveTime(1_000)
    for (let i = 0; i < 5; i++) expect((await get(randomToken(), from('1.1.1.1'))).status).toBe(429)
    expect(seen.admitted).toHaveLength(4)
    expect((await guarded().get(randomToken(), from('2.2.2.2'))).status).toBe(401)
    moveTime(61_000)
    expect((await guarded().get(randomToken(), from('1.1.1.1'))).status).toBe(401)
  })

  it('is a whole /48 of IPv6 in any notation', async () => {
    const { seen, use } = await block('2001:db8:5:5::1')
    for (const address of ['2001:DB8:5:5:ffff::', '2001:db8:0005:0006:1:2:3:4', '2001:db8:5::9.9.9.9']) {
      expect((await use(randomToken(), address)).status, address).toBe(429)
    }
    expect(seen).toMatchObject({ admitted: [], failures: ['2001:db8:5::/48'] })
    await use(randomToken(), '2001:db8:6:5::1')
    expect(seen.admitted).toHaveLength(1)
    expect(seen.failures).toEqual(['2001:db8:5::/48', '2001:db8:6::/48'])
  })

  it('may use a token that the isolate knows, even when it must be looked up again', async () => {
    const { token } = await mintCompany()
    const { use } = await block('3.3.3.3')
    expect((await use(token, '3.3.3.4')).status).toBe(200)
    expect((await use(token)).status).toBe(200)
    moveTime(30_000)
    expect((await use(token)).status).toBe(200)
  })

  it('may use a valid token once its Retry-After has passed, and always from then on', async () => {
    const { token } = await mintCompany()
    const { seen, use } = await block('4.4.4.4')
    const refused = await use(token)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    moveTime(1_000)
    // A new token uses no turn of the retried ones.
    expect((await use(randomToken())).status).toBe(429)
    expect((await use(token)).status).toBe(200)
    expect(seen.admitted).toHaveLength(1)
    for (let i = 0; i < 3; i++) expect((await use(token)).status).toBe(200)
  })

  it('stays blocked when many other networks are blocked', async () => {
    const { seen, use } = await block('5.5.5.5')
    for (let i = 0; i < 1_500; i++) blockNetwork(`10.0.${i >> 8}.${i & 255}`, Date.now())
    expect((await use(randomToken())).status).toBe(429)
    expect(seen.admitted).toEqual([])
  })

  it('is not limited by requests without a token or with a malformed one', async () => {
    const { seen, bindings, get } = guarded(0)
    expect((await send(request(null, 'GET', '/clients'), { env: bindings })).status).toBe(401)
    for (const token of ['x', `${randomToken()}0`]) expect((await get(token)).status).toBe(401)
    expect(seen).toMatchObject({ admitted: [], failures: [] })
  })
})

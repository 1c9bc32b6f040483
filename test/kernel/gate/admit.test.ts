import { createExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { app } from '../../../src/app.ts'
import type { Env } from '../../../src/env.ts'
import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { blockNetwork, hashToken } from '../../../src/kernel/gate/tokens.ts'
import { call, mintCompany, mintToken, randomToken, request, send, sql } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { holdTimers, moveTime, stopTime } from '../../support/time.ts'
import { breakCalls, noteSessions, wrapBindings } from '../../support/wrap-bindings.ts'
import { tokenObject } from './support.ts'

beforeEach(stopTime)

/** Bindings that note the tokens admitted by their objects, failures and bookmarks, and allow so many failures. */
function guarded(allowed = Number.POSITIVE_INFINITY) {
  const { database: DB, sessions: bookmarks } = noteSessions(env.DB)
  const seen = { admitted: [] as unknown[], failures: [] as unknown[], bookmarks }
  const bindings = wrapBindings({ ...env, DB }, async (name, work, [input]) => {
    if (name === 'RATE_LIMITER.admit') seen.admitted.push(input)
    if (name !== 'AUTH_FAILURES.limit') return work()
    return { success: seen.failures.push(Object(input).key) <= allowed }
  })
  const get = (token: string, headers?: Record<string, string>, path = '/clients') =>
    send(request(token, 'GET', path, undefined, headers), { env: bindings })
  return { seen, bindings, get }
}

/** Where the token's next read may run, as its object knows. */
async function constraintOf(token: string) {
  const admission = await tokenObject(token).admit(hashToken(token), { databaseMs: 0, isWrite: false })
  return admission.kind === 'admitted' ? admission.constraint : admission.kind
}

/** Bindings whose reports to the objects are lost. */
const withoutReports = (bindings: Env, report: () => Promise<unknown> = () => Promise.reject(new Error('lost'))) =>
  wrapBindings(bindings, (name, work) => (name === 'RATE_LIMITER.report' ? report() : work()))

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
    const row = {
      company_id: id,
      token_hash: hashToken(token),
      name: 'x',
      permissions: '["clients:read"]',
      created_at: 0,
    }
    await insert('api_tokens', row)
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
  const forms: [string, (token: string) => string][] = [
    ['no token', () => 'Bearer'],
    ['a blank token', () => 'Bearer '],
    ['no scheme', (token) => token],
    ['another scheme', (token) => `Token ${token}`],
    ['a longer scheme', (token) => `Bearers ${token}`],
    ['63 characters', (token) => `Bearer ${token.slice(1)}`],
    ['65 characters', (token) => `Bearer ${token}0`],
    ['a character that is not hexadecimal', (token) => `Bearer ${token.slice(1)}g`],
    ['the token twice', (token) => `Bearer ${token} ${token}`],
    ['two credentials', (token) => `Bearer ${token}, Bearer ${token}`],
    ['a prefix', (token) => `Bearer crm_${token}`],
    ['a space in between', (token) => `Bearer ${token.slice(0, 32)} ${token.slice(32)}`],
    ['quotes', (token) => `Bearer "${token}"`],
    ['no space', (token) => `Bearer${token}`],
  ]

  it.each(forms)('with %s is refused', async (_, form) => {
    const { token } = await mintCompany()
    const response = await call(null, 'GET', '/clients', undefined, { authorization: form(token) })
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer')
  })

  it('cannot be replaced by a token in the query', async () => {
    const { token } = await mintCompany()
    for (const name of ['token', 'access_token', 'api_key']) {
      expect((await call(null, 'GET', `/clients?${name}=${token}`)).status).toBe(401)
    }
  })
})

describe('last used', () => {
  it('is written behind the response, at most once a minute', async () => {
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

describe('a bookmark', () => {
  const ZERO = `00000000-00000000-00000000-${'0'.repeat(32)}`
  const LAST = `ffffffff-ffffffff-ffffffff-${'f'.repeat(32)}`

  it('is sent with every response; a token that wrote reads at least that version, without sending it', async () => {
    const { token } = await mintCompany()
    const { seen, bindings, get } = guarded()
    await get(token)
    const written = await send(request(token, 'POST', '/clients', { company_name: 'a' }), { env: bindings })
    const bookmark = written.headers.get('x-bookmark') ?? ''
    expect(bookmark).toMatch(/^[0-9a-f-]{20,}$/)
    expect((await get(token)).body.pagination.total).toBe(1)
    // An older one changes nothing, a newer one is followed: another token may have written it.
    await get(token, { 'x-bookmark': ZERO })
    await get(token, { 'x-bookmark': LAST })
    expect(seen.bookmarks).toEqual(['first-unconstrained', 'first-primary', bookmark, bookmark, LAST])
  })

  it('of a write that has not been reported is not waited for: the primary is read', async () => {
    const { token } = await mintCompany()
    const { seen, bindings, get } = guarded()
    // The isolate takes the report for delivered.
    const delivered = { allowed: true, window: { startedAt: 0, count: 0, databaseMs: 0 } }
    const lossy = withoutReports(bindings, async () => delivered)
    await send(request(token, 'POST', '/clients', { company_name: 'a' }), { env: lossy })
    await get(token)
    await get(token, { 'x-bookmark': ZERO })
    expect(seen.bookmarks.slice(1)).toEqual(['first-primary', 'first-primary'])
    // The read that replaces the lost report is the last one at the primary.
    moveTime(61_000)
    for (let i = 0; i < 2; i++) await get(token)
    expect(seen.bookmarks.slice(3)).toEqual(['first-primary', expect.stringMatching(/^[0-9a-f-]{20,}$/)])
  })

  it('of a write that failed counts as not reported: it may happen still', async () => {
    const { token } = await mintCompany()
    const { seen, bindings, get } = guarded()
    const { DB } = breakCalls(env, /^DB\.batch$/, new Error('no'))
    const made = request(token, 'POST', '/clients', { company_name: 'a' })
    expect((await send(made, { env: { ...bindings, DB } })).status).toBe(500)
    await get(token)
    expect(seen.bookmarks).toEqual(['first-primary'])
  })

  it.each([
    ['of a write whose object failed is known to the object with the next call', 'POST', 5_000, 'GET', /^$/],
    ['of a write is awaited again once an object that failed may be called', 'GET', 600_000, 'POST', /report$/],
  ])('%s', async (_, before, laterMs, after, failsLater) => {
    const { token } = await mintCompany({ home: 'DB' })
    let failing = /^RATE_LIMITER\./
    const bindings = wrapBindings(env, (name, work) =>
      failing.test(name) ? Promise.reject(new Error('down')) : work(),
    )
    const use = (method: string) => {
      const body = method === 'POST' ? { company_name: 'a' } : undefined
      return send(request(token, method, '/clients', body), { env: bindings })
    }
    expect((await use(before)).status).toBe(200)
    failing = failsLater
    moveTime(laterMs)
    await use(after)
    expect(await constraintOf(token)).toBe('primary')
  })

  /** A PUT as large as a body must be that may take so long; `meanwhile` runs before its end arrives. */
  function slowPut(token: string, meanwhile: () => Promise<unknown>): Request {
    const [begin, end] = [`{"account_email":"a@x.example","messages":[{"a":"${'x'.repeat(8_000_000)}`, '"}]}']
    let isFirst = true
    const body = new ReadableStream({
      type: 'bytes',
      async pull(controller) {
        if (isFirst) {
          isFirst = false
          return controller.enqueue(new TextEncoder().encode(begin))
        }
        await meanwhile()
        controller.enqueue(new TextEncoder().encode(end))
        controller.close()
      },
    })
    return new Request(request(token, 'PUT', '/mail/email-threads/slow', {}), { body })
  }

  it('of a write whose body takes longer than a minute is awaited from its batch on', async () => {
    const { token } = await mintCompany({ home: 'DB' })
    const bindings = wrapBindings(env, (name, work, [report]) =>
      name === 'RATE_LIMITER.report' && Object(report).seen?.write ? Promise.reject(new Error('lost')) : work(),
    )
    const put = slowPut(token, async () => {
      moveTime(61_000)
      await send(request(token, 'GET', '/clients'), { env: bindings })
      expect(await constraintOf(token)).not.toBe('primary')
    })
    expect((await app.fetch(put, bindings, createExecutionContext())).status).toBe(200)
    expect(await constraintOf(token)).toBe('primary')
  })

  it('of a write with a slow body waits for its silent object no longer than 2 s', async () => {
    const { token } = await mintCompany({ home: 'DB' })
    const twoSeconds = holdTimers(2_000)
    const silence = Promise.withResolvers<never>()
    const bindings = withoutReports(env, async () => {
      await scheduler.wait(1)
      for (const pass of twoSeconds) pass()
      return silence.promise
    })
    const put = slowPut(token, async () => moveTime(25_000))
    expect((await app.fetch(put, bindings, createExecutionContext())).status).toBe(200)
    silence.reject(new Error('lost'))
  })

  it('of the feed of changes is remembered before the response: what it names is read as it is there', async () => {
    const { token } = await mintCompany()
    const { seen, bindings, get } = guarded()
    for (const path of ['/changes?start=latest', '/changes']) {
      seen.bookmarks.length = 0
      await sql('UPDATE companies SET updated_at = updated_at + 1')
      const feed = await get(token, {}, path)
      await send(request(token, 'GET', '/clients'), { env: withoutReports(bindings) })
      expect(seen.bookmarks.at(-1)).toBe(feed.headers.get('x-bookmark'))
    }
  })

  it.each([
    ['/clients?per_page=1&sort=-updated_at', true],
    ['/clients?per_page=1&updated_since=2026-01-01T00:00:00Z', true],
    ['/mail/email-threads?per_page=1&account_email=a@x.example&updated_since=2026-01-01T00:00:00Z', true],
    ['/clients?per_page=1', false],
  ])('of a page of %s is remembered for the next one: %s', async (path, isRemembered) => {
    const { token } = await mintCompany()
    const { seen, bindings, get } = guarded()
    for (const name of ['a', 'b']) {
      const thread = { account_email: 'a@x.example', messages: [{ id: name }] }
      await send(request(token, 'POST', '/clients', { company_name: name }), { env: bindings })
      await send(request(token, 'PUT', `/mail/email-threads/${name}`, thread), { env: bindings })
    }
    await sql('UPDATE companies SET updated_at = updated_at + 1')
    const page = await get(token, {}, path)
    const next = `${path}&cursor=${page.body.pagination.next_cursor}`
    expect((await send(request(token, 'GET', next), { env: withoutReports(bindings) })).status).toBe(200)
    expect(seen.bookmarks.at(-1) === page.headers.get('x-bookmark')).toBe(isRemembered)
  })

  it.each([
    '',
    'x',
    'first-unconstrained',
    'first-primary',
    '00000000-00000000-00000000',
    "'; DROP TABLE clients",
    'f'.repeat(400),
  ])('that is not well-formed is ignored: %s', async (mark) => {
    const { token } = await mintCompany()
    const { seen, get } = guarded()
    expect((await get(token, { 'x-bookmark': mark })).status).toBe(200)
    expect(seen.bookmarks).toEqual(['first-unconstrained'])
  })
})

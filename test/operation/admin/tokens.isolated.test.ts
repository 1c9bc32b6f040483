import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { addMember, adminCall, adminCallWith, startAccess } from '../../support/admin.ts'
import { call, mintCompany, mintToken, sql } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { holdTimers } from '../../support/time.ts'

const access = await startAccess()
const company = await mintCompany()
const other = await mintCompany()
await addMember(company.id, 'dev@example.com', 'developer')

const path = () => `/companies/${company.id}/tokens`
const as = (method: string, at: string, body?: unknown) => access.callAs('dev@example.com', method, at, body)
const DOWN = { put: () => Promise.reject(new Error('down')) }
const statusOf = async (token: string) => (await call(token, 'GET', '/me')).status

describe('a token', () => {
  it('is made by a developer, shown once, and works', async () => {
    const sent = { name: ' Website ', permissions: ['orders:read', 'clients:read'] }
    const made = { company_id: company.id, created_by: 'dev@example.com', state: 'active', expires_at: null }
    const { status, body } = await as('POST', path(), sent)
    expect(status).toBe(200)
    expect(body).toMatchObject({ ...made, name: 'Website', permissions: ['clients:read', 'orders:read'] })
    expect(await statusOf(body.token)).toBe(200)
    expect((await call(body.token, 'POST', '/clients', { company_name: 'A' })).status).toBe(403)
    const [row] = await sql('SELECT * FROM api_tokens WHERE id = ?', body.id)
    expect(JSON.stringify(row)).not.toContain(body.token)
    const { data } = (await as('GET', path())).body
    const { token: _, ...shown } = { ...body, last_used_at: expect.any(String) }
    expect(data.find(({ id }: { id: number }) => id === body.id)).toEqual(shown)
  })

  it('has all permissions and no expiry unless some are named', async () => {
    const { body } = await adminCall('POST', path(), { name: 'All' })
    expect(body).toMatchObject({ permissions: PERMISSIONS, expires_at: null, created_by: null })
  })

  it('ends when it is revoked, twice if need be, and its end is kept outside of the database', async () => {
    const { body } = await as('POST', path(), { name: 'Short' })
    const revoked = await as('DELETE', `${path()}/${body.id}`)
    expect(revoked.body).toMatchObject({ state: 'revoked', revoked_at: expect.any(String) })
    expect(await statusOf(body.token)).toBe(401)
    expect((await as('DELETE', `${path()}/${body.id}`)).body).toEqual(revoked.body)
    const kept = await env.CACHE.get(`revoked/${hashToken(body.token)}`)
    expect(Number(kept)).toBe(Date.parse(revoked.body.revoked_at))
    const entries = "SELECT * FROM admin_log WHERE action = 'tokens.revoke' AND entity_id = ?"
    expect(await sql(entries, String(body.id))).toHaveLength(1)
  })

  it('is revoked without an effect on another token under load', async () => {
    const revoked = (await as('POST', path(), { name: 'Revoked' })).body
    const used = (await as('POST', path(), { name: 'Used' })).body
    const statuses: number[] = []
    let isEnding = false
    const loads = Array.from({ length: 4 }, async () => {
      while (!isEnding && statuses.length < 250) statuses.push(await statusOf(used.token))
    })
    await as('DELETE', `${path()}/${revoked.id}`)
    const before = statuses.length
    expect(await statusOf(revoked.token)).toBe(401)
    isEnding = true
    await Promise.all(loads)
    expect(statuses.length).toBeGreaterThan(before)
    expect(new Set(statuses)).toEqual(new Set([200]))
  })

  it('is refused at once when it is revoked or replaced, although its object knows it', async () => {
    for (const [method, at, body] of [
      ['DELETE', '', undefined],
      ['POST', '/rotate', { overlap_seconds: 0 }],
    ] as const) {
      const { token, id } = (await as('POST', path(), { name: 'Used' })).body
      expect(await statusOf(token)).toBe(200)
      expect((await as(method, `${path()}/${id}${at}`, body)).status).toBe(200)
      expect(await statusOf(token)).toBe(401)
    }
  })

  it('that was never used is revoked without its object, which would be made near the operator', async () => {
    const { id } = (await as('POST', path(), { name: 'Unused' })).body
    const RATE_LIMITER = { getByName: () => expect.fail('The object is called.') }
    expect((await adminCallWith({ RATE_LIMITER }, 'DELETE', `${path()}/${id}`)).body.state).toBe('revoked')
  })

  it('is revoked also where its object fails, which is logged', async () => {
    const { token, id } = (await as('POST', path(), { name: 'Used' })).body
    expect(await statusOf(token)).toBe(200)
    const RATE_LIMITER = { getByName: () => ({ forget: () => Promise.reject(new Error('down')) }) }
    const response = await adminCallWith({ RATE_LIMITER }, 'DELETE', `${path()}/${id}`)
    expect(response.body.state).toBe('revoked')
    expect(linesOf(response.headers.get('x-request-id'))).toContainEqual(
      expect.objectContaining({ event: 'tokens_not_forgotten', tokens: 1 }),
    )
  })

  it('is refused at once when its company is suspended, also where the object of another token hangs', async () => {
    const tokens = await Promise.all(Array.from({ length: 8 }, () => mintToken(other.id)))
    for (const token of tokens) expect(await statusOf(token)).toBe(200)
    const hanging = hashToken(tokens[0] ?? '')
    const RATE_LIMITER = {
      getByName: (hash: string) =>
        hash === hanging ? { forget: () => new Promise(() => {}) } : env.RATE_LIMITER.getByName(hash),
    }
    const suspended = await adminCallWith({ RATE_LIMITER }, 'PATCH', `/companies/${other.id}`, { suspended: true })
    expect(suspended.status).toBe(200)
    const statuses = await Promise.all(tokens.map(statusOf))
    expect(statuses).toEqual(tokens.map((_, at) => (at === 0 ? 200 : 403)))
    await adminCall('PATCH', `/companies/${other.id}`, { suspended: false })
  })

  it.each<[string, (calls: number, passTime: () => void) => Promise<void>]>([
    [
      'fails once',
      async (calls) => {
        if (calls === 1) throw new Error('down')
      },
    ],
    [
      'takes longer than a second',
      async (_, passTime) => {
        await scheduler.wait(1)
        passTime()
      },
    ],
  ])('has its end kept also where KV %s', async (_, spoilPut) => {
    const { body } = await as('POST', path(), { name: 'Short' })
    const seconds = holdTimers(1_000)
    let calls = 0
    const put = async (key: string, value: string) => {
      await spoilPut(++calls, () => {
        for (const pass of seconds) pass()
      })
      await env.CACHE.put(key, value)
    }
    const { headers } = await adminCallWith({ CACHE: { put } }, 'DELETE', `${path()}/${body.id}`)
    expect(await env.CACHE.get(`revoked/${hashToken(body.token)}`)).not.toBeNull()
    expect(linesOf(headers.get('x-request-id')).map(({ event }) => event)).not.toContain('revocation_not_kept')
  })

  it('is revoked also where KV fails twice, which is logged', async () => {
    const { body } = await as('POST', path(), { name: 'Short' })
    const { headers, body: revoked } = await adminCallWith({ CACHE: DOWN }, 'DELETE', `${path()}/${body.id}`)
    expect([revoked.state, await statusOf(body.token)]).toEqual(['revoked', 401])
    const line = { event: 'revocation_not_kept', request_id: headers.get('x-request-id'), error: 'Error' }
    expect(linesOf(line.request_id)).toContainEqual(line)
  })

  it('is replaced: both work for the overlap, and the new one lives as long as the old one did', async () => {
    const expires_at = new Date(Date.now() + 30 * 86_400_000).toISOString()
    const { body } = await as('POST', path(), { name: 'Old', permissions: ['clients:read'], expires_at })
    const { body: next } = await as('POST', `${path()}/${body.id}/rotate`, { overlap_seconds: 604_800 })
    expect(next).toMatchObject({ name: 'Old', permissions: ['clients:read'], state: 'active' })
    expect(Date.parse(next.expires_at) - Date.now()).toBeGreaterThan(29.9 * 86_400_000)
    expect([await statusOf(body.token), await statusOf(next.token)]).toEqual([200, 200])
    const [old] = await sql<{ expires_at: number }>('SELECT expires_at FROM api_tokens WHERE id = ?', body.id)
    expect(Math.abs((old?.expires_at ?? 0) - Date.now() - 604_800_000)).toBeLessThan(60_000)
  })

  it('is not replaced twice unless an expiry is named, since its own is the end of the overlap by then', async () => {
    const { body } = await as('POST', path(), { name: 'Lost' })
    const rotate = (id: number, change: object) => as('POST', `${path()}/${id}/rotate`, change)
    const { body: lost } = await rotate(body.id, {})
    const { status, body: refused } = await rotate(body.id, {})
    const message = 'The token was already rotated: rotate its successor, or create another token'
    expect([status, refused.error.message]).toEqual([409, message])
    const { body: named } = await rotate(body.id, { expires_at: '2090-01-01T00:00:00.000Z' })
    expect(named.expires_at).toBe('2090-01-01T00:00:00.000Z')
    const { body: next } = await rotate(lost.id, { overlap_seconds: 0 })
    expect([next.expires_at, await statusOf(next.token), await statusOf(lost.token)]).toEqual([null, 200, 401])
  })

  it.each([
    ['for another hour', { overlap_seconds: 3_600 }, {}],
    ['no longer', { overlap_seconds: 0 }, { expires_at: '2090-01-01T00:00:00.000Z' }],
  ])('has its end kept by the repetition of an interrupted request, valid %s', async (_, overlap, expiry) => {
    const { body } = await as('POST', path(), { name: 'Old' })
    const rotate = (bindings: object) =>
      adminCallWith(bindings, 'POST', `${path()}/${body.id}/rotate`, { ...overlap, ...expiry })
    expect((await rotate({ CACHE: DOWN })).status).toBe(200)
    expect(await env.CACHE.get(`revoked/${hashToken(body.token)}`)).toBeNull()
    expect((await rotate({})).status).toBe(409)
    const [old] = await sql<{ expires_at: number }>('SELECT expires_at FROM api_tokens WHERE id = ?', body.id)
    expect(await env.CACHE.get(`revoked/${hashToken(body.token)}`)).toBe(String(old?.expires_at))
  })

  it('is replaced although another company rotated its own', async () => {
    const { body } = await as('POST', path(), { name: 'Mine' })
    await sql(
      `INSERT INTO admin_log (company_id, actor, action, entity_id, address, request_id, at)
       VALUES (?, 'operator', 'tokens.rotate', ?, '127.0.0.1', 'r', 0)`,
      other.id,
      String(body.id),
    )
    expect((await as('POST', `${path()}/${body.id}/rotate`, {})).body.expires_at).toBeNull()
  })

  it('expires within the year 9999 when it replaces one that did', async () => {
    const expires_at = '9999-12-31T23:59:59.999Z'
    const { body } = await as('POST', path(), { name: 'Long', expires_at })
    await sql('UPDATE api_tokens SET created_at = created_at - 86400000 WHERE id = ?', body.id)
    const { body: next } = await as('POST', `${path()}/${body.id}/rotate`, { overlap_seconds: 0 })
    expect(next.expires_at).toBe(expires_at)
    expect((await call(next.token, 'GET', '/me')).body.token.expires_at).toBe(expires_at)
    await as('DELETE', `${path()}/${next.id}`)
  })

  it.each([
    ['no name', {}],
    ['a blank name', { name: ' ' }],
    ['no permission', { name: 'a', permissions: [] }],
    ['an unknown permission', { name: 'a', permissions: ['all'] }],
    ['an expiry in the past', { name: 'a', expires_at: '2020-01-01T00:00:00Z' }],
    ['an expiry beyond the year 9999', { name: 'a', expires_at: '9999-12-31T23:59:59-00:01' }],
    ['a date for an expiry', { name: 'a', expires_at: '2090-01-01' }],
    ['an unknown field', { name: 'a', company_id: 1 }],
  ])('is not made with %s', async (_, body) => {
    expect((await as('POST', path(), body)).status).toBe(400)
  })

  it('is not replaced with an overlap of more than seven days', async () => {
    expect((await as('POST', `${path()}/1/rotate`, { overlap_seconds: 604_801 })).status).toBe(400)
  })
})

describe('the list of all tokens', () => {
  it('is one of operators, of one company or one token where that is asked for', async () => {
    const all = (await adminCall('GET', '/tokens?per_page=100')).body.data
    expect(new Set(all.map(({ company_id }: { company_id: number }) => company_id)).size).toBeGreaterThan(1)
    const { data } = (await adminCall('GET', `/tokens?company_id=${other.id}`)).body
    expect(new Set(data.map(({ company_id }: { company_id: number }) => company_id))).toEqual(new Set([other.id]))
    expect((await adminCall('GET', `/tokens?id=${data[0].id}`)).body.data).toEqual([data[0]])
    expect(JSON.stringify(all)).not.toContain(hashToken(other.token))
  })

  it('is one of a state where that is asked for, as that of a company', async () => {
    const [active, revoked] = [await as('POST', path(), { name: 'A' }), await as('POST', path(), { name: 'R' })]
    await as('DELETE', `${path()}/${revoked.body.id}`)
    const expired = (await as('POST', path(), { name: 'E', expires_at: '2100-01-01T00:00:00Z' })).body
    await sql('UPDATE api_tokens SET expires_at = created_at WHERE id = ?', expired.id)
    // A token may be revoked after its end.
    const both = (await as('POST', path(), { name: 'B' })).body
    await as('DELETE', `${path()}/${both.id}`)
    await sql('UPDATE api_tokens SET expires_at = created_at WHERE id = ?', both.id)
    const ids: Record<string, number[]> = {}
    for (const state of ['active', 'expired', 'revoked']) {
      const { data } = (await as('GET', `${path()}?state=${state}&per_page=100`)).body
      expect(new Set(data.map((token: { state: string }) => token.state))).toEqual(new Set([state]))
      ids[state] = data.map(({ id }: { id: number }) => id)
      const named = await adminCall('GET', `/tokens?state=${state}&per_page=100&company_id=${company.id}`)
      expect(named.body.data).toEqual(data)
    }
    expect(ids.active).toContain(active.body.id)
    expect(ids.expired).toContain(expired.id)
    expect(ids.expired).not.toContain(both.id)
    expect(ids.revoked).toEqual(expect.arrayContaining([revoked.body.id, both.id]))
    expect((await as('GET', `${path()}?state=ended`)).status).toBe(400)
  })
})

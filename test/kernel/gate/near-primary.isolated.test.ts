import { env } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { hintOf } from '../../../src/kernel/gate/authenticate.ts'
import { isPrimaryNear, recordDistance } from '../../../src/kernel/gate/distances.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { freshThreadId, MAILBOX, noise, threadPath } from '../../resources/mail/support.ts'
import { migrate, mintCompany, request, send, sql, type TestCompany } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { useUp } from './support.ts'

beforeAll(migrate)
afterEach(() => {
  vi.useRealTimers()
})

const PRIMARY = { isPrimary: true, region: 'WEUR' }
const REPLICA = { isPrimary: false, region: 'OC' }

describe('whether the primary is near', () => {
  const gateMs = 8
  const cases: [string, boolean, ((database: string) => void)[]][] = [
    ['in its own region, where it is the nearest itself', true, [(db) => recordDistance(db, PRIMARY, true, 10)]],
    [
      'far from it, with a replica next door',
      false,
      [(db) => recordDistance(db, REPLICA, true, 8), (db) => recordDistance(db, PRIMARY, false, 200)],
    ],
    [
      'far from everything',
      true,
      [(db) => recordDistance(db, REPLICA, true, 120), (db) => recordDistance(db, PRIMARY, false, 125)],
    ],
    ['before any read may have gone to a replica', false, [(db) => recordDistance(db, PRIMARY, false, 1)]],
    [
      'in a local database, which names no region',
      false,
      [(db) => recordDistance(db, { ...PRIMARY, region: undefined }, true, 1)],
    ],
  ]
  it.each(cases)('%s: %s', (_, isNear, measurements) => {
    const database = crypto.randomUUID()
    for (const record of measurements) record(database)
    expect(isPrimaryNear(database, gateMs)).toBe(isNear)
  })

  it('is not known before the object was called', () => {
    const database = crypto.randomUUID()
    recordDistance(database, PRIMARY, true, 1)
    expect(isPrimaryNear(database, undefined)).toBe(false)
  })

  it('follows a primary that moves away', () => {
    const database = crypto.randomUUID()
    recordDistance(database, PRIMARY, true, 10)
    recordDistance(database, REPLICA, true, 10)
    for (let i = 0; i < 5; i++) recordDistance(database, PRIMARY, false, 200)
    expect(isPrimaryNear(database, gateMs)).toBe(false)
  })
})

/** Bindings whose database says that its primary is in a region, and by how fresh a read each batch was. */
function near() {
  const marks: string[] = []
  const named = wrapBindings(env, async (name, work) => {
    const results = await work()
    if (name !== 'DB.batch' || !Array.isArray(results)) return results
    return results.map((each) => ({
      ...each,
      meta: { ...each.meta, served_by_region: 'WEUR', served_by_primary: true },
    }))
  })
  const DB = new Proxy(named.DB, {
    get: (target, name) => {
      if (name !== 'withSession') return Reflect.get(target, name)
      return (mark: string) => {
        marks.push(mark)
        return target.withSession(mark)
      }
    },
  })
  return { bindings: { ...named, DB } satisfies Env, marks }
}

describe('a read near the primary', () => {
  /** A company whose token this isolate knows, having seen where the primary is. */
  async function open(options?: Parameters<typeof mintCompany>[0]): Promise<TestCompany & ReturnType<typeof near>> {
    const company = await mintCompany(options)
    const { bindings, marks } = near()
    for (let i = 0; i < 2; i++) await measureHops(request(company.token, 'GET', '/clients'), bindings)
    marks.length = 0
    return { ...company, bindings, marks }
  }

  it('begins beside the call of the object, at the primary', async () => {
    const { token, bindings, marks } = await open()
    const { hops, response } = await measureHops(request(token, 'GET', '/clients'), bindings)
    expect(response.status).toBe(200)
    expect(hops).toEqual([
      { name: 'RATE_LIMITER.enter', depth: 1 },
      { name: 'DB.batch', depth: 1 },
    ])
    expect(marks).toEqual(['first-primary'])
  })

  it('waits for the call where it writes, and with a token that the isolate has not seen for 30 s', async () => {
    const { token, bindings } = await open()
    const made = await measureHops(request(token, 'POST', '/clients', { company_name: 'a' }), bindings)
    expect(made.depth).toBe(2)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 30_000 })
    expect((await measureHops(request(token, 'GET', '/clients'), bindings)).depth).toBe(2)
  })

  it('is discarded when the call refuses it', async () => {
    const { token, bindings } = await open()
    await useUp(token)
    const refused = await send(request(token, 'GET', '/clients'), { env: bindings })
    expect(refused).toMatchObject({ status: 429, body: { error: { code: 'rate_limited' } } })
    expect(refused.headers.get('ratelimit')).toMatch(/^"default";r=0;/)
  })

  const changes: [string, number, string][] = [
    ['was revoked', 401, 'UPDATE api_tokens SET revoked_at = 1 WHERE token_hash = ?'],
    ['lost the permission', 403, `UPDATE api_tokens SET permissions = '["orders:read"]' WHERE token_hash = ?`],
    [
      'belongs to a company that was suspended',
      403,
      'UPDATE companies SET suspended = 1 WHERE id = (SELECT company_id FROM api_tokens WHERE token_hash = ?)',
    ],
  ]
  it.each(changes)('is discarded when its token %s: %i', async (_, status, change) => {
    const { token, bindings } = await open()
    await sql(change, hashToken(token))
    await env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(hashToken(token))).forget()
    const response = await send(request(token, 'GET', '/clients'), { env: bindings })
    expect(response.status).toBe(status)
    expect(response.body.data).toBeUndefined()
    if (status === 401) expect(response.headers.get('www-authenticate')).toContain('invalid_token')
  })

  it('does not go on to the storage when the call refuses it', async () => {
    const { token, bindings } = await open()
    const thread = { account_email: MAILBOX, messages: [{ text: noise(2_000_000) }] }
    const id = freshThreadId()
    expect((await send(request(token, 'PUT', threadPath(id), thread), { env: bindings })).status).toBe(200)
    const get = async () =>
      (await measureHops(request(token, 'GET', threadPath(id, MAILBOX)), bindings)).hops.map(({ name }) => name)
    expect(await get()).toContain('FILES.get')
    await useUp(token)
    expect(await get()).not.toContain('FILES.get')
  })

  it('is not refused for what its token was before', async () => {
    const suspended = await open({ suspended: true })
    await sql('UPDATE companies SET suspended = 0 WHERE id = ?', suspended.id)
    const limited = await open({ permissions: ['orders:read'] })
    await sql(`UPDATE api_tokens SET permissions = '["clients:read"]' WHERE token_hash = ?`, hashToken(limited.token))
    for (const { token, bindings } of [suspended, limited]) {
      await env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(hashToken(token))).forget()
      const { status } = await send(request(token, 'GET', '/clients'), { env: bindings })
      expect([200, 503]).toContain(status)
      expect((await send(request(token, 'GET', '/clients'), { env: bindings })).status).toBe(200)
    }
  })
})

describe('the place of a token’s object', () => {
  it.each([
    [{ continent: 'EU', longitude: '4.9' }, 'weur'],
    [{ continent: 'EU', longitude: '21.0' }, 'eeur'],
    [{ continent: 'NA', longitude: '-74.0' }, 'enam'],
    [{ continent: 'NA', longitude: '-122.3' }, 'wnam'],
    [{ continent: 'NA' }, undefined],
    [{ continent: 'AS', longitude: '139.7' }, 'apac'],
    [{ continent: 'AS', longitude: '55.3' }, 'me'],
    [{ continent: 'AF' }, 'afr'],
    [{ continent: 'OC' }, 'oc'],
    [{ continent: 'SA' }, 'sam'],
    [{ continent: 'AN' }, undefined],
    [{}, undefined],
    [undefined, undefined],
  ])('for a caller in %j is %s', (cf, hint) => {
    expect(hintOf(cf)).toBe(hint)
  })

  it('is named with the first request, and never by the administration', async () => {
    const { token } = await mintCompany()
    const hints: unknown[] = []
    const RATE_LIMITER = new Proxy(env.RATE_LIMITER, {
      get: (target, name) => {
        if (name !== 'get') return Reflect.get(target, name).bind(target)
        return (id: DurableObjectId, options?: DurableObjectNamespaceGetDurableObjectOptions) => {
          hints.push(options?.locationHint)
          return target.get(id, options)
        }
      },
    })
    const sent = new Request(request(token, 'GET', '/clients'), { cf: { continent: 'OC' } })
    expect((await send(sent, { env: { ...env, RATE_LIMITER } })).status).toBe(200)
    expect(hints).toEqual(['oc'])
  })
})

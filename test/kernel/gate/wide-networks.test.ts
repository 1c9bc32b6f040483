import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { adminRequest, adminSend } from '../../support/admin.ts'
import { migrate, mintCompany, randomToken, request, send } from '../../support/app.ts'

beforeAll(async () => {
  await migrate()
  // The companies below are not the first of their database.
  await mintCompany({ home: 'DB' })
})

/** Limiters that count by key, the first with a limit of 3 and the wide one with 12. */
function limited() {
  const counts = new Map<string, number>()
  const limiter = (limit: number) => ({
    limit: async ({ key }: { key: string }) => {
      const count = (counts.get(key) ?? 0) + 1
      counts.set(key, count)
      return { success: count <= limit }
    },
  })
  const bindings: Env = { ...env, AUTH_FAILURES: limiter(3), AUTH_FAILURES_WIDE: limiter(12) }
  const use = async (address: string, token = randomToken()) =>
    (await send(request(token, 'GET', '/clients', undefined, { 'cf-connecting-ip': address }), { env: bindings }))
      .status
  return { counts, bindings, use }
}

/** A /48 that no other test has. */
const freshSite = () =>
  `2a00:${crypto.randomUUID().slice(0, 4)}:${crypto.randomUUID().slice(0, 4)}`.replaceAll(/:0+(?=.)/g, ':')

describe('unknown tokens from many /64 of one /48', () => {
  it('are counted together, with a higher bound', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const [site, other] = [freshSite(), freshSite()]
    const { counts, use } = limited()
    for (let each = 1; each <= 12; each++) expect(await use(`${site}:${each}::1`)).toBe(401)
    expect(await use(`${site}:aaaa::1`)).toBe(429)
    expect(counts.get(`${site}::/48`)).toBe(13)
    // Blocked by now: no further one of any /64 is looked up or counted.
    for (let each = 1; each <= 5; each++) expect(await use(`${site}:b${each}::1`)).toBe(429)
    expect(counts.get(`${site}::/48`)).toBe(13)
    expect(await use(`${other}:1::1`)).toBe(401)
    vi.setSystemTime(Date.now() + 1_000)
    expect(await use(`${site}:c::1`)).toBe(429)
    expect(counts.get(`${site}::/48`)).toBe(14)
  })

  it('of one /64 block that one only', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const site = freshSite()
    const { use } = limited()
    for (let each = 1; each <= 3; each++) expect(await use(`${site}:1::${each}`)).toBe(401)
    expect(await use(`${site}:1::4`)).toBe(429)
    expect(await use(`${site}:1::5`)).toBe(429)
    expect(await use(`${site}:2::1`)).toBe(401)
  })

  it('do not keep a valid token out: it is accepted when it is retried', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const { token } = await mintCompany()
    const site = freshSite()
    const { use } = limited()
    for (let each = 1; each <= 13; each++) await use(`${site}:${each}::1`)
    expect(await use(`${site}:aaaa::1`, token)).toBe(429)
    vi.setSystemTime(Date.now() + 1_000)
    expect(await use(`${site}:bbbb::1`)).toBe(429)
    expect(await use(`${site}:aaaa::1`, token)).toBe(200)
  })

  it('are counted so for refused administrators too', async () => {
    const site = freshSite()
    const { bindings, counts } = limited()
    const refuse = async (each: number) =>
      (await adminSend(adminRequest('GET', '/me', undefined, { 'cf-connecting-ip': `${site}:${each}::1` }), bindings))
        .status
    for (let each = 1; each <= 12; each++) expect(await refuse(each)).toBe(401)
    expect(await refuse(13)).toBe(429)
    expect(counts.get(`${site}::/48`)).toBe(13)
  })
})

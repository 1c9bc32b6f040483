import { describe, expect, it } from 'vitest'
import { mintCompany, request, sql } from '../../support/app.ts'
import { type Hop, measureHops } from '../../support/hops.ts'
import { freshThreadId, MAILBOX, noise, threadPath } from './support.ts'

const company = await mintCompany()
const token: string = company.token
await measureHops(request(token, 'GET', '/mail/threads/warm'))

const SMALL = [{ a: 1 }]
const LARGE = [{ body_html: 'x'.repeat(2_000_000) }]
const IN_R2 = [{ body_html: noise(2_000_000) }]

/** Every request that comes over the network has a Content-Length. */
function put(legacyId: string, messages: object[]) {
  const body = JSON.stringify({ account_email: MAILBOX, messages })
  return measureHops(request(token, 'PUT', threadPath(legacyId), body, { 'content-length': String(body.length) }))
}

const LIMIT: Hop = { name: 'RATE_LIMITER.admit', depth: 1 }

function inDepths(hops: Hop[]): string[] {
  return hops.map(({ name, depth }) => `${depth} ${name}`).sort()
}

describe('behind the call of the token’s object', () => {
  it('GET of a thread waits for one batch', async () => {
    const id = freshThreadId()
    await put(id, LARGE)
    const { response, hops, depth } = await measureHops(request(token, 'GET', threadPath(id, MAILBOX)))
    expect(response.status).toBe(200)
    expect(inDepths(hops)).toEqual(['1 RATE_LIMITER.admit', '2 DB.batch'])
    expect(depth).toBe(2)
    const headers = { 'if-none-match': response.headers.get('etag') ?? '' }
    const again = await measureHops(request(token, 'GET', threadPath(id, MAILBOX), undefined, headers))
    expect([again.response.status, again.depth]).toEqual([304, 2])
  })

  it('GET of a thread of more than 192 KB compressed waits for a second batch, when it has the memory', async () => {
    const id = freshThreadId()
    for (const [length, waits] of [
      [240_000, ['2 DB.batch']],
      [280_000, ['2 DB.batch', '3 DB.batch']],
    ] as const) {
      await put(id, [{ body_html: noise(length) }])
      const { response, hops } = await measureHops(request(token, 'GET', threadPath(id, MAILBOX)))
      expect(response.status).toBe(200)
      expect(inDepths(hops)).toEqual(['1 RATE_LIMITER.admit', ...waits])
    }
  })

  it('GET of a thread that R2 holds waits for one batch and for R2, and with its ETag not for R2', async () => {
    const id = freshThreadId()
    await put(id, IN_R2)
    const { response, hops } = await measureHops(request(token, 'GET', threadPath(id, MAILBOX)))
    expect(response.status).toBe(200)
    expect(inDepths(hops)).toEqual(['1 RATE_LIMITER.admit', '2 DB.batch', '3 FILES.get'])
    const headers = { 'if-none-match': response.headers.get('etag') ?? '' }
    const again = await measureHops(request(token, 'GET', threadPath(id, MAILBOX), undefined, headers))
    expect([again.response.status, inDepths(again.hops)]).toEqual([304, ['1 RATE_LIMITER.admit', '2 DB.batch']])
  })

  it('PUT of content for R2 announces it, writes it and names it: two waits more; unchanged it waits for one batch', async () => {
    const id = freshThreadId()
    await put(id, SMALL)
    for (const messages of [IN_R2, [...IN_R2, {}]]) {
      const { response, hops } = await put(id, messages)
      expect(response.status).toBe(200)
      expect(inDepths(hops)).toEqual(['1 RATE_LIMITER.admit', '2 DB.batch', '3 FILES.put', '4 DB.batch'])
    }
    expect((await put(id, [...IN_R2, {}])).depth).toBe(2)
  })

  it('PUT waits for one batch, whether it creates, changes or repeats a thread', async () => {
    const id = freshThreadId()
    for (const messages of [SMALL, [{ a: 2 }], [{ a: 2 }]]) {
      const { response, hops } = await put(id, messages)
      expect(response.status).toBe(200)
      expect(hops).toEqual([LIMIT, { name: 'DB.batch', depth: 2 }])
    }
  })

  it('a large PUT first tries whether its content is stored, unless the isolate knows the thread', async () => {
    const id = freshThreadId()
    const made = await put(id, LARGE)
    expect(inDepths(made.hops)).toEqual(['1 RATE_LIMITER.admit', '2 DB.batch', '3 DB.batch'])
    // Now the isolate knows the stored hash.
    for (const messages of [LARGE, [...LARGE, {}]]) {
      expect((await put(id, messages)).hops).toEqual([LIMIT, { name: 'DB.batch', depth: 2 }])
    }
    // The isolate does not know the thread by this id.
    const renamed = freshThreadId()
    await sql('UPDATE email_threads SET legacy_thread_id = ? WHERE legacy_thread_id = ?', renamed, id)
    expect((await put(renamed, [...LARGE, {}])).hops).toEqual([LIMIT, { name: 'DB.batch', depth: 2 }])
  })

  it('a PUT that repeats what another isolate has replaced needs a second batch', async () => {
    const id = freshThreadId()
    await put(id, SMALL)
    await sql("UPDATE email_threads SET content_hash = 'other' WHERE legacy_thread_id = ?", id)
    const { response, depth } = await put(id, SMALL)
    expect([response.status, depth]).toEqual([200, 3])
    expect((await put(id, SMALL)).depth).toBe(2)
  })

  it('a PUT that is forbidden, or whose path is invalid, does not reach the database', async () => {
    const reader = await mintCompany({ permissions: ['mail:read'] })
    await measureHops(request(reader.token, 'GET', '/mail/threads/warm'))
    const body = JSON.stringify({ account_email: MAILBOX, messages: LARGE })
    const forbidden = await measureHops(request(reader.token, 'PUT', threadPath(freshThreadId()), body))
    expect([forbidden.response.status, forbidden.hops]).toEqual([403, [LIMIT]])
    const refused = await measureHops(request(token, 'PUT', threadPath('a%20b'), body))
    expect([refused.response.status, refused.hops]).toEqual([400, [LIMIT]])
  })
})

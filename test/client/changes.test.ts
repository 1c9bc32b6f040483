import { describe, expect, it } from 'vitest'
import { ApiError, type ClientOptions, CursorExpiredError } from '../../src/client/index.ts'
import { clientWith } from './support.ts'

const change = (id: number) => ({
  type: 'clients',
  id,
  operation: 'update',
  version: 2,
  time: '2026-01-31T00:00:00.000Z',
})
const EXPIRED = { code: 'invalid_request', message: 'Copy the lists again', details: { reason: 'cursor_expired' } }

describe('pages', () => {
  it('follow each other by their cursors until nothing is left, and show the cursor to store', async () => {
    const { api, paths } = openFeed(5)
    const seen: [ids: unknown[], cursor: string][] = []
    for await (const { data, pagination } of api.changes.pages({ types: ['clients'], per_page: 2 })) {
      seen.push([data.map(({ id }) => id), pagination.next_cursor])
    }
    expect(seen).toEqual([
      [[1, 2], '2'],
      [[3, 4], '4'],
      [[5], '5'],
    ])
    expect(paths).toEqual([
      '/changes?per_page=2&types=clients',
      '/changes?per_page=2&types=clients&cursor=2',
      '/changes?per_page=2&types=clients&cursor=4',
    ])
  })

  it('end with a CursorExpiredError when the cursor is too old', async () => {
    const { api } = openFeed(5, { fetch: async () => Response.json({ error: EXPIRED }, { status: 410 }) })
    const page = api.changes.pages({ cursor: 'old' }).next()
    await expect(page).rejects.toBeInstanceOf(CursorExpiredError)
    await expect(page).rejects.toBeInstanceOf(ApiError)
    const error = { status: 410, reason: 'cursor_expired', message: 'Copy the lists again' }
    await expect(page).rejects.toMatchObject(error)
  })
})

describe('follow', () => {
  it('goes on after the last change, through empty pages and outages of any length', async () => {
    const { api, feed, paths, failures } = openFeed(1)
    const ids: unknown[] = []
    for await (const { data } of api.changes.follow()) {
      ids.push(...data.map(({ id }) => id))
      if (ids.length === 1 && paths.length === 1) feed.down = 20
      if (paths.length === 23) feed.last = 3
      if (ids.length === 3) break
    }
    expect(ids).toEqual([1, 2, 3])
    expect(failures).toEqual(Array(20).fill(503))
    expect(paths[0]).toBe('/changes?per_page=1000&wait=25')
    expect(new Set(paths.slice(1))).toEqual(new Set(['/changes?per_page=1000&cursor=1&wait=25']))
  })

  it('goes on after an outage that names any length, and asks again after two minutes at most', async () => {
    const waits: number[] = []
    const lengths = ['100', '3600', '999999999']
    const { api } = openFeed(1, {
      maxRetries: 0,
      sleep: async (delayMs) => void waits.push(delayMs),
      fetch: async () => {
        const length = lengths.shift()
        if (length !== undefined) return new Response('', { status: 503, headers: { 'retry-after': length } })
        return Response.json({ data: [change(1)], pagination: { next_cursor: '1', has_more: false } })
      },
    })
    await expect(api.changes.follow().next()).resolves.toMatchObject({ value: { data: [{ id: 1 }] } })
    expect(waits).toEqual([100_000, 120_000, 120_000])
  })

  it.each([
    ['a proxy’s own status', 520, 'error code: 520'],
    ['a proxy’s timeout', 408, ''],
    ['a page of a proxy', 200, '<html></html>'],
    ['an object of a proxy', 200, '{"status":"maintenance"}'],
    ['a response that was cut off', 200, '{"data":[{"ty'],
    ['an empty response', 204, null],
  ])('goes on after %s, however often it comes', async (_, status, body) => {
    const outage = Array.from({ length: 10 }, () => new Response(body, { status }))
    const page = { data: [change(1)], pagination: { next_cursor: '1', has_more: false } }
    const { api } = openFeed(1, { fetch: async () => outage.shift() ?? Response.json(page) })
    await expect(api.changes.follow().next()).resolves.toMatchObject({ value: { data: [{ id: 1 }] } })
  })

  it.each([403, 404])('rejects a page of a proxy with %i', async (status) => {
    const { api } = openFeed(1, { fetch: async () => new Response('<html></html>', { status }) })
    await expect(api.changes.follow().next()).rejects.toMatchObject({ status, code: 'unexpected_answer' })
  })

  it('has time for the whole wait', async () => {
    const { api } = openFeed(0, {
      timeoutMs: 50,
      fetch: async (_url, { signal }) => {
        await new Promise((resolve) => setTimeout(resolve, 200))
        signal?.throwIfAborted()
        return Response.json({ data: [], pagination: { next_cursor: '0', has_more: false } })
      },
    })
    await expect(api.changes.follow().next()).resolves.toMatchObject({ value: { data: [] } })
  })

  it('ends when it is aborted', async () => {
    const { api, feed } = openFeed(0)
    feed.down = Number.POSITIVE_INFINITY
    const stop = new AbortController()
    const next = api.changes.follow({ signal: stop.signal }).next()
    setTimeout(() => stop.abort(new Error('closed')), 20)
    await expect(next).rejects.toThrow('closed')
  })

  it('rejects what no retry can mend', async () => {
    const { api } = openFeed(0, { fetch: async () => Response.json({ error: EXPIRED }, { status: 410 }) })
    await expect(api.changes.follow({ cursor: 'old' }).next()).rejects.toBeInstanceOf(CursorExpiredError)
  })
})

/** A feed of changes with the ids 1 to `last`, whose cursors are the id before the next; `down` counts its failures. */
function openFeed(last: number, options: Partial<ClientOptions> = {}) {
  const feed = { last, down: 0 }
  const paths: string[] = []
  const failures: number[] = []
  const respond: ClientOptions['fetch'] = async (address) => {
    const url = new URL(address)
    paths.push(`${url.pathname.replace('/api/v1', '')}${url.search}`)
    if (feed.down > 0) {
      feed.down -= 1
      return new Response('', { status: 503 })
    }
    const after = Number(url.searchParams.get('cursor') ?? 0)
    const count = Math.min(Number(url.searchParams.get('per_page') ?? 100), feed.last - after)
    const data = Array.from({ length: count }, (_, index) => change(after + index + 1))
    const next = after + count
    return Response.json({ data, pagination: { next_cursor: String(next), has_more: next < feed.last } })
  }
  const sleep = () => new Promise<void>((resolve) => setTimeout(resolve, 0))
  const api = clientWith(respond, { sleep, onRetry: ({ status }) => failures.push(status), ...options })
  return { api, feed, paths, failures }
}

import { describe, expect, it, vi } from 'vitest'
import { readRetryAfter } from '../../src/client/errors.ts'
import { type ApiClient, ApiError, type ClientOptions, createClient } from '../../src/client/index.ts'
import type { Fault } from '../../src/simulators/kit.ts'
import { clientWith, headersOf, listLines, openCrm, THREAD_ID, TOKEN } from './support.ts'

const account_email = 'sales@shop.example'
const seed = { clients: [{ id: 1, company_name: 'Oak' }], orders: [{ id: 12 }] }
const rateLimited = {
  status: 429,
  headers: { 'retry-after': '7', 'x-request-id': 'r-9' },
  body: '{"error":{"code":"rate_limited","message":"Too many","details":null}}',
}

const reads: [string, (api: ApiClient) => Promise<unknown>][] = [
  ['GET', (api) => api.clients.get(1)],
  ['PUT of a thread', (api) => api.mail.putEmailThread(THREAD_ID, { account_email, messages: [] })],
  ['presign', (api) => api.files.presign(12, { fileName: 'a', size: 1, legacyThreadId: THREAD_ID })],
]
const writes: [string, (api: ApiClient) => Promise<unknown>][] = [
  ['POST of a client', (api) => api.clients.create({ company_name: 'Elm' })],
  ['POST of an order', (api) => api.orders.create({ title: 'Caps', client_id: 1 })],
  ['PATCH of a client', (api) => api.clients.update(1, { phone: '1' })],
  ['PATCH that names a version', (api) => api.clients.update(1, { phone: '1' }, { ifMatch: 1 })],
  ['PATCH of an order', (api) => api.orders.update(12, { title: 'x' })],
  ['DELETE of an order', (api) => api.orders.delete(12)],
]

describe('a 429', () => {
  it.each([...reads, ...writes])('is retried after its Retry-After: %s', async (_name, call) => {
    const crm = await openCrm(seed, { ...rateLimited, times: 2 })
    await call(crm.api)
    expect(crm.waits).toEqual([7000, 7000])
    expect((await crm.look()).calls).toHaveLength(3)
  })

  it('rejects after maxRetries, with its details', async () => {
    const crm = await openCrm(seed, { ...rateLimited, times: -1 })
    const call = crm.client({ maxRetries: 2 }).clients.get(1)
    await expect(call).rejects.toBeInstanceOf(ApiError)
    await expect(call).rejects.toMatchObject({ code: 'rate_limited', requestId: 'r-9', retryAfterSeconds: 7 })
    expect((await crm.look()).calls).toHaveLength(3)
  })
})

it.each([...reads, ...writes])('a 304 that was not asked for rejects with an ApiError: %s', async (_name, call) => {
  const api = clientWith(async () => new Response(null, { status: 304 }))
  await expect(call(api)).rejects.toMatchObject({ name: 'ApiError', status: 304, code: 'unexpected_answer' })
})

const losses: [string, Fault][] = [
  ...[500, 502, 503, 504].map((status): [string, Fault] => [`${status}`, { status, apply: true }]),
  ['a closed connection', { destroy: true, apply: true }],
  ['a truncated body', { cutAfterBytes: 5 }],
]

describe.each(losses)('a lost response: %s', (_loss, fault) => {
  it.each(reads)('%s is retried without a key', async (_name, call) => {
    const crm = await openCrm(seed, { ...fault, match: '/api/' })
    await call(crm.api)
    expect(await headersOf(crm, 'idempotency-key')).toEqual([undefined, undefined])
    expect(crm.waits).toHaveLength(1)
  })

  it.each(writes)('%s is retried with the same key, and carried out once', async (_name, call) => {
    const crm = await openCrm(seed, { ...fault, match: '/api/', times: 2 })
    await call(crm.api)
    const { calls, state } = await crm.look()
    const keys = calls.map(({ headers }) => headers['idempotency-key'])
    expect(keys).toEqual(Array(3).fill(expect.stringMatching(/^[0-9a-f]{32}$/)))
    expect(new Set(keys).size).toBe(1)
    expect(state.changes).toBe(1)
    expect(crm.waits).toHaveLength(2)
  })

  it('the PUT of bytes is retried, and its progress restarts', async () => {
    const { api, ...crm } = await openCrm(seed)
    const presigned = await api.files.presign(12, { fileName: 'a', size: 3, legacyThreadId: THREAD_ID })
    // An upload's response has no body to truncate.
    await crm.spoil({ match: '/upload/', ...('cutAfterBytes' in fault ? { destroy: true } : fault) })
    const progress: number[] = []
    await api.files.upload(presigned, new Blob(['abc']), { onProgress: (sent) => progress.push(sent) })
    expect(progress).toEqual([0, 0, 3])
    expect((await crm.look()).state.files[presigned.key]?.body).toBe('abc')
  })
})

describe('a retry whose first attempt is still running', () => {
  const inUse = {
    status: 409,
    headers: { 'retry-after': '1' },
    body: '{"error":{"code":"conflict","message":"In use","details":{"reason":"idempotency_key_in_use"}}}',
  }

  it.each(writes)('waits for it for 30 s, which count as no retry: %s', async (_name, call) => {
    const crm = await openCrm(seed, { destroy: true, apply: true }, { ...inUse, times: 30 })
    await call(crm.client({ maxRetries: 1 }))
    const { calls, state } = await crm.look()
    expect(new Set(calls.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
    expect(state.changes).toBe(1)
    expect(crm.waits.slice(1)).toEqual(Array(30).fill(1000))
  })

  it('rejects after that, and at once where nothing is retried', async () => {
    const crm = await openCrm(seed, { destroy: true, apply: true }, { ...inUse, times: -1 })
    const create = (maxRetries: number) => crm.client({ maxRetries }).clients.create({ company_name: 'Elm' })
    await expect(create(1)).rejects.toMatchObject({ reason: 'idempotency_key_in_use' })
    expect(crm.waits).toHaveLength(31)
    await expect(create(0)).rejects.toMatchObject({ reason: 'idempotency_key_in_use' })
    expect(crm.waits).toHaveLength(31)
  })
})

describe('other failures', () => {
  it.each([400, 401, 403, 404, 409, 413])('%i is not retried', async (status) => {
    const crm = await openCrm(seed, { status, times: -1 })
    await expect(crm.api.clients.get(1)).rejects.toMatchObject({ status, code: 'unexpected_answer' })
    expect((await crm.look()).calls).toHaveLength(1)
  })

  it('carry code, message, details and request id', async () => {
    const crm = await openCrm()
    // @ts-expect-error company_name is required
    await expect(crm.api.clients.create({ phone: '1' })).rejects.toMatchObject({
      name: 'ApiError',
      status: 400,
      code: 'invalid_request',
      message: 'The request is invalid',
      details: { issues: [{ path: 'company_name', message: 'Required' }] },
      issues: [{ path: 'company_name', message: 'Required' }],
      reason: null,
      requestId: 'request-1',
      retryAfterSeconds: null,
    })
    const wrong = crm.client({ token: 'wrong' }).clients.list()
    await expect(wrong).rejects.toMatchObject({ status: 401, code: 'unauthenticated', details: null, issues: [] })
  })

  it.each(['null', '[]', '7', '<html>Sign in to the network</html>'])(
    'a successful response that is %s rejects',
    async (body) => {
      const crm = await openCrm(seed, { body })
      await expect(crm.api.clients.get(1)).rejects.toMatchObject({ status: 200, code: 'unexpected_answer' })
    },
  )

  it.each<[string, (api: ApiClient) => Promise<unknown>]>([
    ['a list', (api) => api.clients.list()],
    ['all pages of a list', (api) => api.clients.all().next()],
    ['changes', (api) => api.changes.latestCursor()],
    ['a copy', (api) => api.pull({ changes: '1', list: 'orders', cursor: null }).next()],
    ['results of a batch', (api) => api.push({ clients: [{ external_id: 'a', company_name: 'Oak' }] }).next()],
    ['a client', (api) => api.clients.get(1)],
    ['a client with its tag', (api) => api.clients.getTagged(1)],
    ['a deletion', (api) => api.clients.delete(1)],
    ['taxes', (api) => api.taxes()],
    ['a file', (api) => api.files.delete(12, 'a')],
  ])('a successful response without what was asked for rejects: %s', async (_name, call) => {
    const crm = await openCrm(seed, { body: '{"status":"maintenance","client":null}' })
    await expect(call(crm.api)).rejects.toMatchObject({ status: 200, code: 'unexpected_answer' })
  })

  it.each([...reads, ...writes])('a redirect is not followed, and names the remedy: %s', async (_name, call) => {
    for (const status of [301, 303, 307]) {
      const crm = await openCrm(seed, { status, headers: { location: '/api/v1/clients/1' } })
      const message = expect.stringContaining('redirects to another address: use that one as `baseUrl`')
      await expect(call(crm.api)).rejects.toMatchObject({ name: 'ApiError', status, message })
      expect((await crm.look()).calls).toHaveLength(1)
    }
  })

  it('a redirect whose status a browser hides rejects without a retry', async () => {
    const crm = await openCrm()
    // No constructor makes such a response.
    const shown = { status: { value: 0 }, ok: { value: false } }
    const hidden = Object.defineProperties(new Response(''), shown)
    const api = crm.client({ fetch: async () => hidden })
    await expect(api.orders.delete(12)).rejects.toMatchObject({ message: expect.stringContaining('redirects') })
    expect(crm.waits).toEqual([])
  })

  it.each(['', 'a\nb', 'ü', Number.NaN])('an invalid ifMatch rejects without a request: %j', async (ifMatch) => {
    const crm = await openCrm(seed)
    await expect(crm.api.clients.update(1, { phone: '1' }, { ifMatch })).rejects.toThrow('ifMatch must be')
    expect((await crm.look()).calls).toEqual([])
  })

  it.each([{ maxRetries: Number.NaN }, { maxRetries: -1 }, { timeoutMs: Number.NaN }, { timeoutMs: 0 }])(
    'an invalid number throws at once: %j',
    (options) => {
      expect(() => createClient({ baseUrl: 'http://127.0.0.1', token: TOKEN, ...options })).toThrow(
        `${Object.keys(options)} must be`,
      )
    },
  )

  it.each([Number.POSITIVE_INFINITY, 2 ** 31, 30_000.5])('a timeout may have %d ms', async (timeoutMs) => {
    const crm = await openCrm(seed)
    expect(await crm.client({ timeoutMs }).clients.get(1)).toMatchObject({ id: 1 })
    expect(crm.waits).toEqual([])
  })

  it('never quote the token, neither for a missing or invalid one nor when a call fails', async () => {
    for (const token of [undefined as unknown as string, 'very-secret\nvalue']) {
      const message = 'token must consist of visible ASCII characters'
      expect(() => createClient({ baseUrl: 'http://127.0.0.1', token })).toThrow(message)
    }
    const crm = await openCrm({}, { destroy: true, times: -1 })
    const error = await crm
      .client({ maxRetries: 0 })
      .clients.list()
      .catch((thrown) => thrown)
    expect(error).toMatchObject({ status: 0, code: 'network_error' })
    expect(`${error.stack} ${error.cause} ${JSON.stringify(error)}`).not.toContain(TOKEN)
  })
})

describe('timeouts and delays', () => {
  it('end an attempt after timeoutMs and retry', async () => {
    const crm = await openCrm(seed, { hold: true })
    // A busy machine may need many attempts for one within the timeout.
    await expect(crm.client({ timeoutMs: 100, maxRetries: 200 }).clients.get(1)).resolves.toMatchObject({ id: 1 })
    await crm.spoil({ hold: true })
    const call = crm.client({ timeoutMs: 100, maxRetries: 0 }).clients.get(1)
    await expect(call).rejects.toMatchObject({
      code: 'network_error',
      message: 'GET: no complete response within 100 ms',
    })
  })

  it('end on an aborted signal: the call rejects with its reason and is not retried', async () => {
    const crm = await openCrm(seed, { hold: true, times: -1 })
    const stop = new AbortController()
    const call = crm.api.clients.get(1, { signal: stop.signal })
    await vi.waitFor(async () => expect(await listLines(crm)).toHaveLength(1), 30_000)
    stop.abort(new Error('closed the window'))
    await expect(call).rejects.toThrow('closed the window')
    expect(await listLines(crm)).toHaveLength(1)
  })

  it('end on an aborted signal: the delay stops, and a later call sends nothing', async () => {
    const crm = await openCrm(seed, { ...rateLimited, times: -1 })
    const stop = new AbortController()
    // The delay has begun by then.
    const onRetry = () => void setTimeout(() => stop.abort(new Error('enough')), 0)
    const api = createClient({ baseUrl: crm.base, token: TOKEN, onRetry })
    const call = api.clients.get(1, { signal: stop.signal })
    await expect(call).rejects.toThrow('enough')
    await expect(api.clients.get(1, { signal: stop.signal })).rejects.toThrow('enough')
    expect(await listLines(crm)).toHaveLength(1)
  })

  it('end on an aborted signal: after an abort in onRetry no delay begins', async () => {
    const stop = new AbortController()
    const onRetry = () => stop.abort(new Error('given up'))
    const api = clientWith(async () => new Response('', { status: 429, headers: { 'retry-after': '1' } }), { onRetry })
    const timers = vi.spyOn(globalThis, 'setTimeout')
    await expect(api.clients.get(1, { signal: stop.signal })).rejects.toThrow('given up')
    expect(timers).not.toHaveBeenCalled()
    timers.mockRestore()
  })

  it('allow for the size of the JSON that is sent', async () => {
    const body = { account_email, messages: [{ body_plain: '語'.repeat(10_000) }] }
    const limitMs = 50 + Math.ceil((JSON.stringify(body).length + 20_000) / 100)
    const hang: ClientOptions['fetch'] = (_url, { signal }) =>
      new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
    const api = clientWith(hang, { timeoutMs: 50, maxRetries: 0 })
    await expect(api.mail.putEmailThread(THREAD_ID, body)).rejects.toMatchObject({
      message: `PUT: no complete response within ${limitMs} ms`,
    })
  })

  it.each([
    [null, null],
    ['0', 0],
    ['60', 60],
    ['9999999999', 9_999_999_999],
    [' 5 ', 5],
    ['-1', null],
    ['1.5', null],
    ['soon', null],
    ['Sat, 31 Jan 2026 00:00:30 GMT', null],
  ])('read Retry-After %j as %j', (header, seconds) => {
    expect(readRetryAfter(header)).toBe(seconds)
  })
})

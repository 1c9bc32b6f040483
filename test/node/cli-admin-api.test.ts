import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import * as z from 'zod/mini'
import { openAdminApi } from '../../src/cli/admin-api.ts'
import { contractsOf } from '../../src/kernel/api/contract.ts'
import { serve } from './cli-support.ts'
import { chooseFreePort } from './servers.ts'

const define = contractsOf('X', null)
const read = define('x', 'GET /companies/{company_id}/things/{name}', { response: z.object({ id: z.number() }) })
const list = define('x', 'GET /things', { response: z.object({ data: z.array(z.object({ id: z.number() })) }) })
const remove = define('x', 'DELETE /things', { response: z.object({ id: z.number() }) })
const create = define('x', 'POST /things', {
  body: z.object({ name: z.string() }),
  response: z.object({ id: z.number() }),
})

type Reply = (request: IncomingMessage, response: ServerResponse) => void

/** A service that sends one reply after the other, the last one again and again. */
async function serveReplies(...replies: Reply[]) {
  const requests: { method: string; url: string; authorization: string; body: string }[] = []
  const url = await serve(async (request, response) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    const { method = '', url = '', headers } = request
    requests.push({ method, url, authorization: headers.authorization ?? '', body })
    replies[Math.min(requests.length, replies.length) - 1]?.(request, response)
  })
  return { requests, url, api: openAdminApi({ url, token: 'secret', headers: { 'cf-access-client-id': 'a' } }) }
}

function reply(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  return (_, response) => void response.writeHead(status, headers).end(JSON.stringify(body))
}

const failure = (status: number, message: string, headers?: Record<string, string>, details: unknown = null) =>
  reply(status, { error: { code: status === 404 ? 'not_found' : 'x', message, details } }, headers)
const cut: Reply = (request) => void request.socket.destroy()
const cutBody: Reply = (request, response) =>
  void response.writeHead(200, { 'content-length': 9 }).write('{"id"', () => request.socket.destroySoon())
const params = { company_id: 7, name: 'a/b ?' }

describe('the client of the administration API', () => {
  it('sends the request of a contract with the token and returns the response', async () => {
    const { api, requests } = await serveReplies(reply(200, { id: 1 }))
    expect(await api.call(read, { params, query: { hours: 3, state: undefined } })).toEqual({ id: 1 })
    expect(await api.call(create, { body: { name: 'x' } })).toEqual({ id: 1 })
    expect(requests).toEqual([
      {
        method: 'GET',
        url: '/admin/v1/companies/7/things/a%2Fb%20%3F?hours=3',
        authorization: 'Bearer secret',
        body: '',
      },
      { method: 'POST', url: '/admin/v1/things', authorization: 'Bearer secret', body: '{"name":"x"}' },
    ])
  })

  it('reads every page of a list', async () => {
    const page = (id: number, next_cursor: string | null) => reply(200, { data: [{ id }], pagination: { next_cursor } })
    const { api, requests } = await serveReplies(page(1, 'two'), page(2, 'three'), page(3, null))
    expect(await Array.fromAsync(api.list(list, { query: { state: 'dead' } }))).toEqual([
      { id: 1 },
      { id: 2 },
      { id: 3 },
    ])
    expect(requests.map(({ url }) => url.replace('/admin/v1/things', ''))).toEqual([
      '?per_page=100&state=dead',
      '?per_page=100&state=dead&cursor=two',
      '?per_page=100&state=dead&cursor=three',
    ])
  })

  it('repeats a request after the pause that the service asks for', async () => {
    const busy = { 'retry-after': '1' }
    const { api, requests } = await serveReplies(
      failure(429, 'Wait', busy),
      failure(503, 'Busy', busy),
      reply(200, { id: 1 }),
    )
    const start = Date.now()
    expect(await api.call(create, { body: { name: 'x' } })).toEqual({ id: 1 })
    expect(requests).toHaveLength(3)
    expect(Date.now() - start).toBeGreaterThanOrEqual(2000)
  })

  const restart: Reply = (_, response) => void response.writeHead(503).end('restarted mid-request')
  // A proxy's `Retry-After` does not promise that nothing was changed.
  const proxy: Reply = (_, response) => void response.writeHead(503, { 'retry-after': '1' }).end('<html>')
  const unknown = failure(503, 'Nobody knows')
  const advice = 'It may have been carried out: look with `list` before you repeat it.'

  it.each([
    ['a lost connection', cut, advice],
    ['a response that was cut off', cutBody, advice],
    ['a restart', restart, advice],
    ["a proxy's 503", proxy, advice],
    ['a 503 that does not tell whether it was carried out', unknown, 'Nobody knows.'],
  ])('repeats after %s what may run twice, and nothing else', async (_, trouble, message) => {
    const responses = [trouble, reply(200, { id: 1 })]
    const first = await serveReplies(...responses)
    expect(await first.api.call(read, { params })).toEqual({ id: 1 })
    const second = await serveReplies(...responses)
    expect(await second.api.call(create, { body: { name: 'x' }, isRepeatable: true })).toEqual({ id: 1 })
    const { api, requests } = await serveReplies(...responses)
    await expect(api.call(create, { body: { name: 'x' } })).rejects.toThrow(message)
    expect(requests).toHaveLength(1)
  })

  /** @returns the fetch that fails once with this code, before the service is asked */
  const failOnce = (code: string) => {
    const cause = Object.assign(new Error('x'), { code })
    const failing = vi.spyOn(globalThis, 'fetch').mockRejectedValueOnce(new TypeError('fetch failed', { cause }))
    onTestFinished(() => failing.mockRestore())
    return failing
  }

  it.each(['UND_ERR_HEADERS_TIMEOUT', 'EPIPE', 'ETIMEDOUT', 'HPE_INVALID_CONSTANT'])(
    'takes a request that failed with %s as one that may have been carried out',
    async (code) => {
      const { api, requests } = await serveReplies(reply(200, { id: 1 }))
      failOnce(code)
      await expect(api.call(create, { body: { name: 'x' } })).rejects.toThrow('It may have been carried out')
      expect(requests).toHaveLength(0)
      failOnce(code)
      expect(await api.call(create, { body: { name: 'x' }, isRepeatable: true })).toEqual({ id: 1 })
    },
  )

  it.each([
    'ENOTFOUND',
    'EAI_AGAIN',
    'ENETUNREACH',
    'UND_ERR_CONNECT_TIMEOUT',
    'CERT_HAS_EXPIRED',
    'ERR_SSL_WRONG_VERSION_NUMBER',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  ])('reports at once a service that cannot be reached, of %s', async (code) => {
    const { api, url } = await serveReplies(reply(200, { id: 1 }))
    const failing = failOnce(code)
    const sent = api.call(create, { body: { name: 'x' }, isRepeatable: true })
    await expect(sent).rejects.toThrow(`${url} cannot be reached (${code}).`)
    expect(failing).toHaveBeenCalledOnce()
  })

  it('does not repeat a DELETE whose response was lost: the second one would be a 404', async () => {
    const { api, requests } = await serveReplies(cut, failure(404, 'Member not found'))
    await expect(api.call(remove)).rejects.toThrow('It may have been carried out: look with `list`')
    expect(requests).toHaveLength(1)
  })

  it('reports a response that is cut off again and again', async () => {
    const { api, url } = await serveReplies(cutBody)
    const message = `${url} ended the connection before its response was complete.`
    await expect(api.call(read, { params })).rejects.toThrow(message)
  })

  it.each<[string, Reply, string]>([
    ['an error in the words of the API', failure(409, 'It is taken'), 'It is taken.'],
    ['no pause that is too long', failure(503, 'Much later', { 'retry-after': '3600' }), 'Much later.'],
    ['a refused token', failure(401, 'x'), 'The administration token is not the ADMIN_TOKEN of http://127.0.0.1:'],
    ['another service', reply(404, 'nothing'), 'did not respond as this service does (HTTP 404).'],
    ['the sign-in page of Access', reply(302, ''), '(HTTP 302): Cloudflare Access needs CF_ACCESS_CLIENT_ID'],
  ])('reports %s', async (_, answer, message) => {
    const { api, requests } = await serveReplies(answer)
    await expect(api.call(create, { body: { name: 'x' } })).rejects.toThrow(message)
    expect(requests).toHaveLength(1)
  })

  it.each([
    ['nothing', ''],
    ['a page', '<!doctype html><title>Welcome</title>'],
    ['other JSON', '{"status":"ok"}'],
    ['a list', '[]'],
    ['null', 'null'],
    ['a page of other things', '{"data":[{"name":"x"}],"pagination":{"next_cursor":null}}'],
  ])('reports another service that responds 200 with %s', async (_, text) => {
    const { api } = await serveReplies((_request, response) => void response.end(text))
    const message = 'did not respond as this service does (HTTP 200).'
    await expect(api.call(read, { params })).rejects.toThrow(message)
    await expect(Array.fromAsync(api.list(list))).rejects.toThrow(message)
  })

  it('reports a service that is not there at once', async () => {
    const url = `http://127.0.0.1:${await chooseFreePort()}`
    await expect(openAdminApi({ url, token: 'x' }).call(read, { params })).rejects.toThrow(
      `${url} cannot be reached (ECONNREFUSED).`,
    )
  })

  it('gives the issues of invalid input, and null for what is missing alone', async () => {
    const issues = [{ path: 'url', message: 'must be an https address' }]
    const { api } = await serveReplies(
      failure(400, 'Invalid', {}, { issues }),
      failure(404, 'None'),
      failure(403, 'Forbidden'),
      reply(404, 'nothing'),
    )
    await expect(api.call(create, { body: { name: 'x' } })).rejects.toMatchObject({ status: 400, issues })
    expect(await api.find(read, { params })).toBe(null)
    await expect(api.find(read, { params })).rejects.toThrow('Forbidden.')
    await expect(api.find(read, { params })).rejects.toThrow('did not respond as this service does (HTTP 404).')
  })
})

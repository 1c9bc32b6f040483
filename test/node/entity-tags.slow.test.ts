import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { freshState } from './cli-support.ts'
import { serveState } from './dev-server.ts'

/** Sends what is given and nothing more, and decodes nothing. */
async function ask(url: string, method: string, headers: OutgoingHttpHeaders, body?: object) {
  const sent = request(url, { method, headers: { ...headers, ...(body && { 'content-type': 'application/json' }) } })
  sent.end(body && JSON.stringify(body))
  const [response] = await once(sent, 'response')
  const { statusCode, headers: received }: IncomingMessage = response
  return { status: statusCode, headers: received, bytes: await buffer(response) }
}

it('serves the same bytes with a strong tag of the version to every Accept-Encoding', async () => {
  const { url, token } = await serveState(await freshState())
  const authorization = `Bearer ${token}`
  for (const [path, change] of [
    ['clients/17', { phone: '1' }],
    ['orders/44', { title: 'Renamed' }],
  ] as const) {
    const address = `${url}/api/v1/${path}`
    const plain = await ask(address, 'GET', { authorization })
    for (const coding of ['gzip', 'gzip, br', 'br', '*']) {
      const headers = { authorization, 'accept-encoding': coding }
      const { status, headers: received, bytes } = await ask(address, 'GET', headers)
      expect([status, received.etag, bytes]).toEqual([200, plain.headers.etag, plain.bytes])
      expect(received.etag).toMatch(/^"\d+-[0-9a-f]{16}"$/)
      const known = await ask(address, 'GET', { ...headers, 'if-none-match': `W/${received.etag}` })
      expect([known.status, known.headers.etag]).toEqual([304, received.etag])
    }
    const headers = { authorization, 'accept-encoding': 'gzip, br', 'if-match': plain.headers.etag }
    const changed = await ask(address, 'PATCH', headers, change)
    expect([changed.status, changed.headers.etag]).toEqual([200, expect.stringMatching(/^"\d+"$/)])
    expect(JSON.parse(changed.bytes.toString())).toBeTypeOf('object')
    expect((await ask(address, 'PATCH', headers, change)).status).toBe(412)
  }
  // What has no version is compressed still.
  const list = await ask(`${url}/api/v1/clients`, 'GET', { authorization, 'accept-encoding': 'gzip' })
  expect(list.headers['content-encoding']).toBe('gzip')
})

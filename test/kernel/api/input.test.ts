import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { isolateMemory } from '../../../src/kernel/http/isolate.ts'
import { type ApiResponse, issuesOf, mintCompany, send } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'

const company = await mintCompany()

const expectMalformed = (response: ApiResponse) => expect(issuesOf(response)).toEqual([''])

/** A body that comes in pieces of 64 KiB and announces no length. */
function streamed(bytes: number, onPull?: () => void): ReadableStream<Uint8Array> {
  let left = bytes
  return new ReadableStream({
    pull(controller) {
      onPull?.()
      const size = Math.min(left, 65_536)
      if (size > 0) controller.enqueue(new Uint8Array(size).fill(32))
      left -= size
      if (left === 0) controller.close()
    },
  })
}

function post(body: BodyInit, headers: Record<string, string> = { 'content-type': 'application/json' }, bindings = {}) {
  const init = { method: 'POST', headers: { authorization: `Bearer ${company.token}`, ...headers }, body }
  return send(new Request('https://api.test/api/v1/clients', init), bindings)
}

describe('a body', () => {
  // Others are in `messages.test.ts`.
  it.each([' ', '{"company_name":"a"} x', 'company_name=a', "{'company_name':'a'}", '\0', 'true', '1', '"a"'])(
    'that is malformed JSON or no object returns 400: %j',
    async (body) => expectMalformed(await post(body)),
  )

  const OTHER = ['text/plain', 'application/x-www-form-urlencoded', 'text/json', 'multipart/form-data; boundary=x']
  const ALIKE = ['jsonp', 'json2; charset=utf-8', 'merge-patch+json', 'json,text/plain']
  it.each([...OTHER, ...ALIKE.map((subtype) => `application/${subtype}`)])(
    'of the media type %s returns 415',
    async (type) => {
      const response = await post('{"company_name":"a"}', { 'content-type': type })
      expect([response.status, response.body.error.code]).toEqual([415, 'invalid_request'])
      expect(response.headers.has('accept-encoding')).toBe(false)
    },
  )

  it('without a media type returns 415', async () => {
    const bytes = new TextEncoder().encode('{"company_name":"a"}')
    expect((await post(bytes, {})).status).toBe(415)
  })

  const JSON_TYPES = ['application/json', 'application/json; charset=utf-8', 'Application/JSON;charset=UTF-8']
  it.each([...JSON_TYPES, 'application/json ;x=y'])('of the media type %s is read', async (type) => {
    const response = await post('{"company_name":"Ünï"}', { 'content-type': type })
    expect(response).toMatchObject({ status: 200, body: { client: { company_name: 'Ünï' } } })
  })

  it('may begin with one byte order mark', async () => {
    expect((await post('\uFEFF{"company_name":"a"}')).status).toBe(200)
    expectMalformed(await post('\uFEFF\uFEFF{"company_name":"a"}'))
  })

  it.each(['ff', 'c328', 'eda080', 'e282'])('that is not UTF-8 returns 400: %s', async (bytes) => {
    const text = Buffer.from('{"company_name":""}')
    const parts = [text.subarray(0, -2), Buffer.from(bytes, 'hex'), text.subarray(-2)]
    expectMalformed(await post(new Uint8Array(Buffer.concat(parts))))
  })

  it('over 1 MiB returns 413 by its Content-Length, or by its bytes without one', async () => {
    const limit = 1_048_576
    for (const body of [' '.repeat(limit + 1), streamed(limit + 1)]) {
      const { status, body: sent } = await post(body)
      const { code, message, details } = sent.error
      const refusal = [413, 'invalid_request', 'The body must have at most 1 MiB', limit]
      expect([status, code, message, details.limit_bytes]).toEqual(refusal)
    }
  })

  it('of 1 MiB exactly is read', async () => {
    const text = '{"company_name":"a"}'
    expect((await post(text.padEnd(1_048_576))).status).toBe(200)
    expectMalformed(await post(streamed(1_048_576)))
  })

  it('over the limit is taken from the caller, who could not read the response else, but not without end', async () => {
    const pullsOf = async (mebibytes: number) => {
      let pulls = 0
      expect((await post(streamed(mebibytes * 1_048_576, () => pulls++))).status).toBe(413)
      return pulls
    }
    expect(await pullsOf(30)).toBe(30 * 16)
    expect(await pullsOf(200)).toBeLessThan(70 * 16)
  })

  it('has its limit counted in bytes, not in characters', async () => {
    expect((await post(JSON.stringify({ company_name: '€'.repeat(400_000) }))).status).toBe(413)
  })
})

it('of many tiny values leases their memory, and one of long texts of the same size none', async () => {
  const resize = vi.spyOn(isolateMemory, 'tryResize')
  const sent = async (first_name: unknown) => {
    resize.mockClear()
    expect((await post(JSON.stringify({ company_name: 'a', first_name }))).status).toBe(400)
    return Math.max(...resize.mock.calls.map(([, bytes]) => bytes))
  }
  expect(await sent('x'.repeat(240_000))).toBe(0)
  expect(await sent(Array.from({ length: 80_000 }, () => []))).toBeGreaterThan(4_000_000)
  resize.mockRestore()
})

it('that breaks off gets 408, and is no failure of the service', async () => {
  const broken = () =>
    new ReadableStream({
      type: 'bytes',
      start: (controller) => controller.enqueue(new TextEncoder().encode('{"company_name":')),
      pull: (controller) => controller.error(new Error('Network connection lost.')),
    })
  const before = logLines.length
  const { status, body } = await post(broken(), undefined, { env })
  expect([status, body.error.code]).toEqual([408, 'invalid_request'])
  expect(logLines.slice(before)).not.toContainEqual(expect.objectContaining({ event: 'failure' }))
})

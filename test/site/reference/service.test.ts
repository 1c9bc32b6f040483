import { createExecutionContext } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { app } from '../../../src/app.ts'
import committed from '../../../src/site/reference/openapi.json'
import { expectConforms } from '../../support/conformance.ts'

const ORIGIN = 'https://api.test'

const get = (path: string, headers = {}) => exports.default.fetch(new Request(ORIGIN + path, { headers }))

describe('the service publishes', () => {
  it('its description without a token, for any origin', async () => {
    const response = await get('/api/v1/openapi.json')
    expect(response.status).toBe(200)
    await expectConforms(new Request(`${ORIGIN}/api/v1/openapi.json`), response)
    expect(await response.json()).toEqual(committed)
  })

  it('its description with an ETag, which gives 304 while it is unchanged', async () => {
    const read = (headers = {}) => get('/api/v1/openapi.json', headers)
    const etag = (await read()).headers.get('etag') ?? ''
    expect(etag).not.toBe('')
    const again = await read({ 'if-none-match': etag })
    expect([again.status, await again.text()]).toEqual([304, ''])
    expect((await read({ 'if-none-match': '"another"' })).status).toBe(200)
  })

  it('its page at /, under a strict policy', async () => {
    const response = await env.ASSETS.fetch(`${ORIGIN}/`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toMatch(/^text\/html/)
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'")
    expect((await response.text()).includes('src="page.js"')).toBe(true)
  })

  it.each([
    ['/llms.txt', /^text\/plain/, '# CRM integration API'],
    ['/postman_collection.json', /^application\/json/, 'schema.getpostman.com'],
  ])('its description as %s', async (path, type, text) => {
    const response = await get(path)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toMatch(type)
    expect((await response.text()).includes(text)).toBe(true)
  })

  it.each([
    ['GET', '/page', 200],
    ['HEAD', '/page', 200],
    ['POST', '/page', 404],
    ['DELETE', '/', 404],
    ['GET', '/api/page', 404],
    ['GET', '/admin/page', 404],
  ])('files only, never in the place of the API: %s %s', async (method, path, status) => {
    const ASSETS = { fetch: async () => new Response('A file.') } as unknown as Fetcher
    const sent = new Request(ORIGIN + path, { method })
    expect((await app.fetch(sent, { ...env, ASSETS }, createExecutionContext())).status).toBe(status)
  })
})

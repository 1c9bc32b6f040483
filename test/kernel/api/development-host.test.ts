import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { app } from '../../../src/app.ts'
import type { Env } from '../../../src/env.ts'
import { ADMIN_TOKEN } from '../../support/admin.ts'
import { mintCompany, send } from '../../support/app.ts'

const DEVELOPMENT: Env = Object.assign({}, env, { ADMIN_DEVELOPMENT: 'development' })

// The company under test is not the first of its database.
await mintCompany({ home: 'DB' })
const company = await mintCompany({ home: 'DB' })

/** One of each part of the service. */
const PATHS = `/admin/v1/me /admin/v1/openapi.json /api/v1/me /api/v1/openapi.json /api/v1/nowhere /health /health/live
  /uploads/crm-integration-api-files/x /settings /`.split(/\s+/)

function requestTo(origin: string, path: string, { headers, ...rest }: RequestInit = {}) {
  const authorization = `Bearer ${path.startsWith('/admin') ? ADMIN_TOKEN : company.token}`
  return new Request(`${origin}${path}`, { ...rest, headers: { authorization, ...headers } })
}

const status = async (...input: Parameters<typeof requestTo>) => {
  const { status, body } = await send(requestTo(...input), { env: DEVELOPMENT, app })
  return [status, body?.error?.code, body?.error?.message]
}
const REFUSED = [403, 'forbidden', 'In development the service has loopback addresses only: use 127.0.0.1 or localhost']

describe('in development', () => {
  const FOREIGN = `http://evil.example http://evil.example:8787 http://localhost.evil.example http://127.0.0.1.evil.example
    http://127-0-0-1.example http://192.168.1.2:8787 http://[2001:db8::1]:8787 http://0.0.0.0:8787 https://api.test`
  it.each(FOREIGN.split(/\s+/))('%s is refused on every path, by every method', async (origin) => {
    for (const path of PATHS) {
      for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS']) {
        expect(await status(origin, path, { method }), `${method} ${path}`).toEqual(REFUSED)
      }
    }
  })

  it('a Host header that differs from the address counts too', async () => {
    const sentTo = (host: string) => status('http://127.0.0.1:8787', '/admin/v1/me', { headers: { host } })
    for (const host of ['evil.example:8787', 'evil.example', 'not a host']) expect(await sentTo(host)).toEqual(REFUSED)
    expect((await sentTo('localhost:8787'))[0]).toBe(200)
  })

  it.each(['127.0.0.1:8787', 'localhost:8787', 'LOCALHOST', '[::1]:8787', '127.8.8.8'])(
    '%s is served',
    async (host) => {
      for (const path of ['/admin/v1/me', '/api/v1/me', '/health/live']) {
        expect((await status(`http://${host}`, path))[0], path).toBe(200)
      }
    },
  )
})

it('a deployment is served at its own host', async () => {
  expect((await send(requestTo('https://crm.example', '/api/v1/me'), { env, app })).status).toBe(200)
})

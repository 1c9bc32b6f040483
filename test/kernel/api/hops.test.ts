import { describe, expect, it } from 'vitest'
import { mintCompany, mintToken, request, send } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { refuse, withLimiter } from '../gate/support.ts'

/*
 * How many waits for the network stand one behind the other, counted at the bindings, not by the clock. The budget of
 * each endpoint is in `../db/budgets.ts`, those of files and mail are beside their slices.
 */
const company = await mintCompany({ home: 'DB' })
await company.call('PUT', '/clients/by-external-id/shop-1', { company_name: 'a tee' })

const NEW_CLIENT = { company_name: 'a' }

describe('serial waits for the network', () => {
  it.each([
    ['GET', '/clients', undefined],
    ['GET', '/clients?q=a&sort=-updated_at&deleted=include&updated_since=2026-01-01T00:00:00Z', undefined],
    ['GET', '/clients/by-external-id/shop-1', undefined],
    ['GET', '/orders?q=a&sort=updated_at&deleted=include&expand=totals,client', undefined],
    ['POST', '/clients', NEW_CLIENT],
    ['POST', '/batch', { operations: [{ method: 'POST', path: '/clients', body: NEW_CLIENT }] }],
  ])('are two for the first %s %s of a token in an isolate and for later ones', async (method, path, body) => {
    const own = await mintToken(company.id)
    for (let i = 0; i < 3; i++) {
      const { response, hops } = await measureHops(request(own, method, path, body))
      expect(response.status).toBe(200)
      expect(hops).toEqual([
        { name: 'RATE_LIMITER.admit', depth: 1 },
        { name: 'DB.batch', depth: 2 },
      ])
    }
  })

  it('are none for a request without a token, and none for a refused token until its reset', async () => {
    expect((await measureHops(request(null, 'GET', '/clients'))).depth).toBe(0)
    const token = await mintToken(company.id)
    const { bindings } = withLimiter(refuse)
    expect((await send(request(token, 'GET', '/clients'), { env: bindings })).status).toBe(429)
    const { response, depth } = await measureHops(request(token, 'GET', '/clients'))
    expect({ status: response.status, depth }).toEqual({ status: 429, depth: 0 })
  })
})

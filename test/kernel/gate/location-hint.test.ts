import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { locationHint } from '../../../src/kernel/http/location-hint.ts'
import { migrate, mintCompany, request, send } from '../../support/app.ts'

beforeAll(migrate)

describe('the place of a token’s object', () => {
  it.each([
    [{ continent: 'EU', longitude: '4.9' }, 'weur'],
    [{ continent: 'EU', longitude: '21.0' }, 'eeur'],
    [{ continent: 'NA', longitude: '-74.0' }, 'enam'],
    [{ continent: 'NA', longitude: '-122.3' }, 'wnam'],
    [{ continent: 'NA' }, undefined],
    [{ continent: 'AS', longitude: '139.7' }, 'apac'],
    [{ continent: 'AS', longitude: '55.3' }, 'me'],
    [{ continent: 'AF' }, 'afr'],
    [{ continent: 'OC' }, 'oc'],
    [{ continent: 'SA' }, 'sam'],
    [{ continent: 'AN' }, undefined],
    [{}, undefined],
    [undefined, undefined],
  ])('for a caller in %j is %s', (cf, hint) => {
    expect(locationHint(cf)).toBe(hint)
  })

  it('is named with the first request, and never by the administration', async () => {
    const { token } = await mintCompany()
    const hints: unknown[] = []
    const RATE_LIMITER = new Proxy(env.RATE_LIMITER, {
      get: (target, name) => {
        if (name !== 'get') return Reflect.get(target, name).bind(target)
        return (id: DurableObjectId, options?: DurableObjectNamespaceGetDurableObjectOptions) => {
          hints.push(options?.locationHint)
          return target.get(id, options)
        }
      },
    })
    const sent = new Request(request(token, 'GET', '/clients'), { cf: { continent: 'OC' } })
    expect((await send(sent, { env: { ...env, RATE_LIMITER } })).status).toBe(200)
    expect(hints).toEqual(['oc'])
  })
})

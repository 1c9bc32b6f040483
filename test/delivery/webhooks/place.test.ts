import { createScheduledController } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import worker from '../../../src/index.ts'
import { ADMIN_TOKEN, adminRequest, adminSend } from '../../support/admin.ts'
import { migrate, request, send, sql } from '../../support/app.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { Subscriber } from './support.ts'

beforeAll(migrate)

/** Bindings whose database has its primary in a region, and the hints with which objects that deliver messages are asked for. */
function inRegion(region: string) {
  const hints: [company: string, hint: string | undefined][] = []
  const named = wrapBindings(env, async (name, work) => {
    const results = await work()
    if (!/^DB(_\w+)?\.batch$/.test(name) || !Array.isArray(results)) return results
    const place = { served_by_region: region, served_by_primary: true }
    return results.map((each) => ({ ...each, meta: { ...each.meta, ...place } }))
  })
  const WEBHOOK_DELIVERY = new Proxy(env.WEBHOOK_DELIVERY, {
    get: (target, key) => {
      if (key !== 'get') return Reflect.get(target, key).bind(target)
      return (id: DurableObjectId, options?: DurableObjectNamespaceGetDurableObjectOptions) => {
        hints.push([id.name ?? '', options?.locationHint])
        return target.get(id, options)
      }
    },
  })
  return { bindings: { ...named, WEBHOOK_DELIVERY } satisfies Env, hints }
}

describe('an object that delivers is made near the primary of its company’s database', () => {
  const ways: [string, (subscriber: Subscriber, endpointId: string, bindings: Env) => Promise<unknown>][] = [
    [
      'by a write',
      ({ company }, _, bindings) =>
        send(request(company.token, 'POST', '/clients', { company_name: 'A' }), { env: bindings }),
    ],
    [
      'by an administrator',
      ({ company }, endpointId, bindings) =>
        adminSend(
          adminRequest(
            'PATCH',
            `/companies/${company.id}/webhooks/${endpointId}`,
            { enabled: true },
            { authorization: `Bearer ${ADMIN_TOKEN}` },
          ),
          bindings,
        ),
    ],
    [
      'by the sweep',
      async ({ company }, _, bindings) => {
        await sql('UPDATE companies SET last_change = last_change + 1 WHERE id = ?', company.id)
        await worker.scheduled(createScheduledController({ scheduledTime: Date.now() }), bindings)
      },
    ],
  ]
  it.each(ways)('%s', async (_, start) => {
    const subscriber = await Subscriber.open()
    const { endpointId } = await subscriber.subscribe()
    const { bindings, hints } = inRegion('APAC')
    await start(subscriber, endpointId, bindings)
    const own = hints.filter(([company]) => company === String(subscriber.company.id)).map(([, hint]) => hint)
    expect(new Set(own)).toEqual(new Set(['apac']))
  })
})

import { describe, expect, it, vi } from 'vitest'
import type { Fault } from '../../../src/simulators/kit.ts'
import { look, spoil } from '../../../src/simulators/steer.ts'
import { adminCallWith } from '../../support/admin.ts'
import { sql } from '../../support/app.ts'
import { countStarts } from '../alarm.ts'
import { openResolver, openSubscription, Subscriber } from './support.ts'

describe('an address', () => {
  async function openFailingResolver(fault: Fault) {
    const WEBHOOK_RESOLVER = await openResolver({})
    const scope = WEBHOOK_RESOLVER.replace('/dns-query', '')
    await spoil(scope, { times: -1, ...fault })
    return { scope, bindings: { WEBHOOK_RESOLVER } }
  }

  it('is resolved before deliveries: one that leads into a private network by now is not called', async () => {
    const subscriber = await Subscriber.open()
    const receiver = await subscriber.subscribe({ url: 'https://hooks.example/hook' })
    const called: string[] = []
    const fetchBefore = globalThis.fetch
    globalThis.fetch = async (input, init) => {
      const url = String(input instanceof Request ? input.url : input)
      if (!url.startsWith('https://hooks.example/')) return fetchBefore(input, init)
      called.push(url)
      return new Response(null, { status: 204 })
    }
    try {
      await subscriber.createClient()
      const WEBHOOK_RESOLVER = await openResolver({ 'hooks.example': '1.1.1.1' })
      expect(await subscriber.deliver({ WEBHOOK_RESOLVER })).toBeNull()
      expect(called).toEqual(['https://hooks.example/hook'])

      await openResolver({ 'hooks.example': '10.0.0.1' }, WEBHOOK_RESOLVER)
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 6_000 })
      await subscriber.createClient()
      await subscriber.deliver({ WEBHOOK_RESOLVER })
      expect(called).toHaveLength(1)
      expect(await receiver.deliveries()).toMatchObject([
        { attempts: 1, last_error: 'the address must resolve to public addresses only' },
      ])
    } finally {
      globalThis.fetch = fetchBefore
    }
  })

  it('has 15 s to respond, however long its look-up took', async () => {
    const subscriber = await Subscriber.open()
    const receiver = await subscriber.subscribe({ url: 'https://slow.example/hook' })
    await subscriber.createClient()
    const WEBHOOK_RESOLVER = await openResolver({ 'slow.example': '1.1.1.1' })
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() })
    const { fetch } = globalThis
    const called = vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
      const isLookup = String(input).startsWith(WEBHOOK_RESOLVER)
      await scheduler.wait(1)
      // One look-up for each kind of address.
      vi.advanceTimersByTime(isLookup ? 2_000 : 12_000)
      return isLookup ? fetch(input, init) : new Response(null, { status: 204 })
    })
    await subscriber.run({ WEBHOOK_RESOLVER })
    expect(called).toHaveBeenCalledWith('https://slow.example/hook', expect.anything())
    called.mockRestore()
    expect(await receiver.deliveries()).toEqual([])
  })

  it('on loopback is not called outside of development', async () => {
    const { subscriber, receiver } = await openSubscription()
    await subscriber.createClient()
    await subscriber.deliver({ WEBHOOK_LOOPBACK: '' })
    expect(await receiver.lines()).toEqual([])
    expect(await receiver.deliveries()).toMatchObject([{ last_error: 'the address must be an https address' }])
  })

  it('that cannot be resolved for want of the resolver waits, and counts no attempt', async () => {
    const { scope, bindings } = await openFailingResolver({ status: 503 })
    const subscriber = await Subscriber.open()
    const receiver = await subscriber.subscribe({ url: 'https://waiting.example/hook' })
    for (let each = 0; each < 8; each++) await subscriber.createClient()
    const startedAt = Date.now()
    expect(await subscriber.deliver(bindings)).toBeGreaterThan(startedAt + 20_000)
    const rows = await receiver.deliveries()
    expect(rows.length).toBeLessThanOrEqual(4)
    const waiting = { attempts: 0, last_error: 'the resolver does not respond' }
    expect(rows).toEqual(rows.map(() => expect.objectContaining(waiting)))
    const asked = (await look(scope)).calls.length
    expect(asked).toBeLessThanOrEqual(8)
    await subscriber.passTime()
    await subscriber.deliver(bindings)
    expect((await look(scope)).calls.length).toBeLessThanOrEqual(asked + 8)
    expect(await receiver.row()).toMatchObject({ enabled: 1 })
  })

  it('whose name servers fail counts as failed attempts, until the endpoint is disabled', async () => {
    const { bindings } = await openFailingResolver({ body: '{"Status":2}' })
    const subscriber = await Subscriber.open()
    const receiver = await subscriber.subscribe({ url: 'https://servfail.example/hook' })
    await subscriber.createClient()
    const last_error = 'the address has a host that does not resolve to an address'
    for (const attempts of [1, 2]) {
      await subscriber.deliver(bindings)
      expect(await receiver.deliveries()).toMatchObject([{ attempts, last_error }])
      await subscriber.passTime()
    }
    await receiver.set('initial_failures = 19')
    await subscriber.deliver(bindings)
    expect(await receiver.row()).toMatchObject({
      enabled: 0,
      disabled_reason: expect.stringContaining(`failed, the last one with: ${last_error}.`),
    })
  })
})

describe('the address of an endpoint', () => {
  const url = 'https://hooks.example/crm'
  const WEBHOOK_DELIVERY = countStarts('WEBHOOK_DELIVERY').bindings.WEBHOOK_DELIVERY

  /** A company with an endpoint. @returns tries to create another one, and to change it */
  async function openEndpoint() {
    const { id: companyId } = (await Subscriber.open()).company
    const at = `/companies/${companyId}/webhooks`
    const WEBHOOK_RESOLVER = await openResolver({ 'hooks.example': '1.1.1.1', 'inside.example': '10.0.0.1' })
    const send = (method: string, path: string, body: object, bindings = {}) =>
      adminCallWith({ WEBHOOK_RESOLVER, WEBHOOK_DELIVERY, ...bindings }, method, path, body)
    const { id } = (await send('POST', at, { url })).body
    const create = (body: object, bindings?: object) => send('POST', at, body, bindings)
    const change = (body: object) => send('PATCH', `${at}/${id}`, body)
    const stored = () => sql('SELECT url FROM webhook_endpoints WHERE company_id = ?', companyId)
    return { create, change, stored }
  }

  it.each([
    ['is no URL', 'hooks', 'must be a URL'],
    ['is too long', `https://hooks.example/${'a'.repeat(2_048)}`, 'must have at most 2048 characters'],
    ['is too long once it is escaped', `https://hooks.example/${'ü'.repeat(1_000)}`, 'must be a URL of at most 2048'],
    ['has a line break', 'https://hooks.example/a\nb', 'must not contain control characters'],
    // Other addresses are in `test/kernel/http/address.test.ts`.
    ['resolves into a private network', 'https://inside.example/', 'must resolve to public addresses only'],
  ])('is refused where it %s', async (_, wrong, message) => {
    const { create, change, stored } = await openEndpoint()
    for (const { status, body } of [await create({ url: wrong }), await change({ url: wrong })]) {
      const issues = [{ path: 'url', message: expect.stringContaining(message) }]
      expect([status, body.error.details.issues]).toEqual([400, issues])
    }
    expect(await stored()).toEqual([{ url }])
  })

  it('may be a loopback address in development only', async () => {
    const { create } = await openEndpoint()
    const loopback = { url: 'http://127.0.0.1:9/hook' }
    expect((await create(loopback)).status).toBe(200)
    const { status, body } = await create(loopback, { WEBHOOK_LOOPBACK: '' })
    expect([status, body.error.details.issues[0].message]).toEqual([400, 'must be an https address'])
  })

  it('is not accepted while the resolver does not respond', async () => {
    const { create, stored } = await openEndpoint()
    const { status, headers } = await create({ url }, { WEBHOOK_RESOLVER: 'http://127.0.0.1:9/dns-query' })
    expect([status, headers.get('retry-after'), await stored()]).toEqual([503, '5', [{ url }]])
  })
})

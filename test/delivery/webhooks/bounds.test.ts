import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import {
  DELIVERIES_PER_SECOND,
  deliverChanges,
  HostPace,
  MAX_INITIAL_FAILURES,
} from '../../../src/delivery/webhooks/delivery.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { addressPolicy } from '../../../src/kernel/http/outbound.ts'
import { look } from '../../../src/simulators/steer.ts'
import { call, mintCompany, sqlIn } from '../../support/app.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { administer, createEndpoint, openSubscription, Receiver, Subscriber } from './support.ts'

// The companies below are not the first of their database.
await mintCompany({ home: 'DB' })

const FOREVER = { times: -1 }

describe('deliveries to one host', () => {
  it('begin at most ten times in any second, however late the timers are', () => {
    const deliveries = fc.array(fc.tuple(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 700 })), {
      minLength: 1,
      maxLength: 100,
    })
    fc.assert(
      fc.property(deliveries, (sent) => {
        const pace = new HostPace()
        let clock = 1_000_000
        const waiting = sent.map(([pause, lateMs]) => {
          clock += pause
          return { at: clock, lateMs }
        })
        const begins: number[] = []
        while (waiting.length > 0) {
          const [next] = waiting.sort((a, b) => a.at - b.at)
          if (!next) break
          // The same host, with the root's dot.
          const delay = pace.begin(next.lateMs % 2 ? 'hooks.example' : 'hooks.example.', next.at)
          if (delay > 0) next.at += delay + next.lateMs
          else {
            begins.push(next.at)
            waiting.shift()
          }
        }
        expect(begins).toHaveLength(sent.length)
        begins.forEach((begin, index) => {
          const later = begins[index + DELIVERIES_PER_SECOND]
          if (later !== undefined) expect(later - begin).toBeGreaterThanOrEqual(1_000)
        })
      }),
    )
  })

  it('do not wait until a clock that went back is where it was', () => {
    const pace = new HostPace()
    for (let each = 0; each < DELIVERIES_PER_SECOND; each++) pace.begin('a.example', 3_600_000)
    expect(pace.begin('a.example', 60_000)).toBe(0)
  })

  it('do not wait for those to another host, nor where there are few', () => {
    const pace = new HostPace()
    for (let each = 0; each < DELIVERIES_PER_SECOND; each++) expect(pace.begin('a.example', 1_000)).toBe(0)
    expect(pace.begin('a.example', 1_000)).toBe(1_000)
    expect(pace.begin('b.example', 1_000)).toBe(0)
    expect(pace.begin('a.example', 2_500)).toBe(0)
  })

  it('share the pace over all endpoints of the company', async () => {
    const subscriber = await Subscriber.open()
    const receivers = [await subscriber.subscribe(), await subscriber.subscribe(), await subscriber.subscribe()]
    await subscriber.createClients(7)
    subscriber.isPaced = true
    vi.useFakeTimers({ toFake: ['Date'], shouldAdvanceTime: true })
    const start = performance.now()
    await subscriber.deliver()
    // 21 deliveries: the last one begins 2 s after the first.
    expect(performance.now() - start).toBeGreaterThanOrEqual(1_990)
    for (const receiver of receivers) expect(await receiver.lines()).toHaveLength(7)
  })
})

describe('a run', () => {
  it('starts no delivery once its time is over, and one that has time left does', async () => {
    await Subscriber.open({ home: 'DB' })
    const subscriber = await Subscriber.open({ home: 'DB' })
    const { endpointId, ...receiver } = await subscriber.subscribe()
    await subscriber.createClients(1)
    const context = { companyId: subscriber.company.id, db: openDatabase(env.DB), endpointId }
    const means = {
      credentialsKey: env.CREDENTIALS_KEY,
      addresses: addressPolicy(env),
      pace: new HostPace(),
      concurrency: 1,
    }
    const now = Date.now()
    vi.useFakeTimers({ toFake: ['Date'], now })
    const run = async (endMs: number) => {
      await deliverChanges({ ...context, ...means }, endMs)
      return (await look(receiver.url)).calls.length
    }
    expect(await run(now)).toBe(0)
    expect(await run(now + 1)).toBe(1)
  })

  it('ends after 5 s: what another endpoint has got meanwhile does not wait for it', async () => {
    const { subscriber, receiver } = await openSubscription()
    await subscriber.createClients(3)
    const now = Date.now()
    vi.useFakeTimers({ toFake: ['Date'], now })
    const begin = vi.spyOn(HostPace.prototype, 'begin').mockImplementation(() => {
      vi.setSystemTime(now + 5_000)
      return 0
    })
    await runInDurableObject(subscriber.object, async (instance, state) => {
      state.storage.kv.put('company', subscriber.company.id)
      await instance.alarm()
      await state.storage.deleteAlarm()
    })
    begin.mockRestore()
    expect((await look(receiver.url)).calls).toHaveLength(1)
  })

  it.each([2_600, 6_000])('delivers also where each batch of the database takes %i ms', async (batchMs) => {
    const { subscriber, receiver } = await openSubscription()
    await subscriber.createClients(1)
    const slow = wrapBindings(env, async (name, work) => {
      const result = await work()
      if (/^DB\w*\.batch$/.test(name)) vi.setSystemTime(Date.now() + batchMs)
      return result
    })
    await subscriber.run(slow)
    expect(await receiver.lines()).toHaveLength(1)
  })

  it('waits for at most six responses at once, so that no call waits in a queue while its time runs out', async () => {
    await Subscriber.open()
    const subscriber = await Subscriber.open()
    const receivers = [await subscriber.subscribe(), await subscriber.subscribe(), await subscriber.subscribe()]
    for (const receiver of receivers) await receiver.spoil({ hold: true, times: -1 })
    await subscriber.createClients(12)
    const delivered = subscriber.deliver()
    const received = async () => Promise.all(receivers.map(async (receiver) => (await receiver.lines()).length))
    await expect.poll(async () => (await received()).every((calls) => calls > 1)).toBe(true)
    expect(await received()).toEqual([2, 2, 2])
    for (const receiver of receivers) await receiver.spoil()
    await delivered
    expect(await received()).toEqual([12, 12, 12])
  })

  it('makes fewer than 1,000 queries, also where ten endpoints have only changes to skip', async () => {
    const subscriber = await Subscriber.open()
    for (let each = 0; each < 10; each++) await subscriber.subscribe({ event_types: ['email_thread.deleted'] })
    const { id, home } = subscriber.company
    await sqlIn(
      home,
      `INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at)
       WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
       SELECT id, last_change + i, 'orders', i, 'update', 1, 1 FROM n JOIN companies ON id = ?`,
      id,
    )
    await sqlIn(home, 'UPDATE companies SET last_change = last_change + 1000 WHERE id = ?', id)
    let [runs, queries] = [0, 0]
    const counting = wrapBindings(env, async (name, work) => {
      const result = await work()
      if (/^DB\w*\.batch$/.test(name)) queries += (result as unknown[]).length
      return result
    })
    for (let at: number | null = 0; at !== null; runs++) {
      queries = 0
      at = await subscriber.run(counting)
      expect(queries).toBeLessThan(1_000)
    }
    expect(runs).toBeGreaterThan(1)
    const behind = `SELECT e.id FROM webhook_endpoints AS e JOIN companies AS c ON c.id = e.company_id
      WHERE c.id = ? AND e.position < c.last_change`
    expect(await sqlIn(home, behind, id)).toEqual([])
  })
})

describe('an attempt that fails', () => {
  it.each([
    ['has a new address', (next: Receiver) => ({ url: `${next.url}/hook` })],
    ['is enabled', () => ({ enabled: true })],
  ])('does not delay the change of an endpoint that meanwhile %s', async (_, change) => {
    const subscriber = await Subscriber.open()
    const { id, receiver } = await createEndpoint(subscriber)
    await receiver.spoil({ status: 500, times: 2 })
    await subscriber.createClients(1)
    expect(await subscriber.deliver()).not.toBeNull()
    await subscriber.passTime()
    const next = new Receiver('', subscriber.company.home)
    let isChanged = false
    const changing = wrapBindings(env, async (name, work) => {
      // The second attempt is made, and its outcome is to be stored.
      if (!isChanged && /^DB.*batch$/.test(name) && (await receiver.lines()).length === 2) {
        isChanged = true
        await administer(subscriber, 'PATCH', `/${id}`, change(next))
      }
      return work()
    })
    expect(await subscriber.deliver(changing)).toBeNull()
    expect([...(await receiver.lines()), ...(await next.lines())]).toHaveLength(3)
  })
})

describe('an address that accepted no message yet', () => {
  it('is given up after twenty attempts, with a reason', async () => {
    const subscriber = await Subscriber.open()
    const { receiver, read } = await createEndpoint(subscriber)
    await receiver.spoil({ status: 500, ...FOREVER })
    await subscriber.createClients(15)
    await subscriber.deliver()
    // Ten objects fail, and nothing new is sent.
    expect((await read()).enabled).toBe(true)
    expect(await subscriber.deliverLater()).toBeNull()
    expect(await read()).toMatchObject({
      enabled: false,
      disabled_reason: 'The first 20 deliveries to this address failed, the last one with: HTTP 500.',
    })
    const attempts = (await receiver.lines()).length
    expect(attempts).toBeGreaterThanOrEqual(MAX_INITIAL_FAILURES)
    // Up to three more were under way.
    expect(attempts).toBeLessThan(MAX_INITIAL_FAILURES + 4)
  })

  it('gets twenty more when it is enabled again, and loses nothing', async () => {
    const subscriber = await Subscriber.open()
    const { id, receiver, read } = await createEndpoint(subscriber)
    await receiver.spoil({ status: 500, ...FOREVER })
    await subscriber.createClients(12)
    for (let round = 0; round < 2; round++) {
      await subscriber.deliver()
      await subscriber.passTime()
    }
    expect((await read()).enabled).toBe(false)
    const before = (await receiver.lines()).length
    await administer(subscriber, 'PATCH', `/${id}`, { enabled: true })
    await subscriber.deliver()
    expect((await read()).enabled).toBe(true)
    expect((await receiver.lines()).length).toBeGreaterThan(before)
    await receiver.spoil()
    expect(await subscriber.deliverLater()).toBeNull()
    expect(await receiver.deliveries()).toEqual([])
    expect(await read()).toMatchObject({ enabled: true, behind: 0 })
    expect(new Set(await receiver.lines()).size).toBe(12)
  })

  it('is trusted from its first success on, until it is another address', async () => {
    const subscriber = await Subscriber.open()
    const { id, receiver, read } = await createEndpoint(subscriber)
    await subscriber.createClients(1)
    await subscriber.deliver()
    const fail = async (at: Receiver) => {
      await at.spoil({ status: 500, ...FOREVER })
      await subscriber.createClients(12)
      for (let round = 0; round < 3; round++) {
        await subscriber.deliver()
        await subscriber.passTime()
      }
    }
    await fail(receiver)
    expect((await receiver.lines()).length).toBeGreaterThan(MAX_INITIAL_FAILURES + 4)
    expect((await read()).enabled).toBe(true)

    const next = new Receiver('', subscriber.company.home)
    await next.spoil({ status: 500, ...FOREVER })
    await administer(subscriber, 'PATCH', `/${id}`, { url: `${next.url}/hook` })
    await fail(next)
    expect(await read()).toMatchObject({ enabled: false, disabled_reason: expect.stringContaining('The first 20') })
    expect((await next.lines()).length).toBeLessThan(MAX_INITIAL_FAILURES + 4)
  })

  it('of one company does not count for another', async () => {
    const [one, other] = [await Subscriber.open({ home: 'DB' }), await Subscriber.open({ home: 'DB' })]
    const endpoints = [await createEndpoint(one), await createEndpoint(other)] as const
    await endpoints[0].receiver.spoil({ status: 500, ...FOREVER })
    for (const subscriber of [one, other]) await subscriber.createClients(12)
    for (let round = 0; round < 2; round++) {
      for (const subscriber of [one, other]) await subscriber.deliver()
      await one.passTime()
    }
    expect((await endpoints[0].read()).enabled).toBe(false)
    expect(await endpoints[1].read()).toMatchObject({ enabled: true, behind: 0 })
    expect((await call(other.company.token, 'GET', '/clients')).status).toBe(200)
  })
})

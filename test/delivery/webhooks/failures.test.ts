import { describe, expect, it, vi } from 'vitest'
import { MAX_FAILING } from '../../../src/delivery/webhooks/delivery.ts'
import { sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { openSubscription } from './support.ts'

const HOUR_MS = 3_600_000
const FOREVER = { times: -1 }

describe('a failed delivery', () => {
  it.each([
    ['an error', { status: 500 }, 'HTTP 500'],
    ['a response that is not a success', { status: 404 }, 'HTTP 404'],
    ['no response', { destroy: true }, 'no connection'],
  ])('after %s is repeated as the same message, with a new time and signature', async (_, fault, error) => {
    const { subscriber, receiver } = await openSubscription(fault)
    const id = await subscriber.createClient()
    const now = Date.now()
    const at = await subscriber.deliver()
    expect(await receiver.deliveries()).toMatchObject([{ entity_id: String(id), attempts: 1, last_error: error }])
    expect(at).toBeGreaterThanOrEqual(now + 5_000)
    vi.useFakeTimers({ toFake: ['Date'], now: Number(at) + 1_000 })
    expect(await subscriber.deliver()).toBeNull()
    const [first, second, ...others] = await receiver.messages()
    expect(others).toEqual([])
    expect([second?.id, second?.text]).toEqual([first?.id, first?.text])
    expect(second?.timestamp).toBeGreaterThan(first?.timestamp ?? 0)
    expect(await receiver.deliveries()).toEqual([])
  })

  it('of a redirect is not followed', async () => {
    const { subscriber, receiver } = await openSubscription()
    const other = await subscriber.subscribe({ event_types: ['order.created'] })
    await receiver.spoil({ status: 307, headers: { location: `${other.url}/hook` }, ...FOREVER })
    await subscriber.deliverClient()
    expect(await receiver.lines()).toHaveLength(1)
    expect(await other.lines()).toEqual([])
    expect(await receiver.deliveries()).toMatchObject([
      { attempts: 1, last_error: 'HTTP 307, redirects are not followed' },
    ])
  })

  it('delays the later changes of its object, in order, and no other object', async () => {
    const { subscriber, receiver } = await openSubscription()
    const [bad, good] = [await subscriber.createClient('bad'), await subscriber.createClient('good')]
    await subscriber.rename(bad, 'bad 2')
    await subscriber.rename(good, 'good 2')
    // The first attempt of all: that of the first client.
    await receiver.spoil({ status: 500 })
    await subscriber.deliver()
    await subscriber.rename(bad, 'bad 3')
    await subscriber.deliverRename(good, 'good 3')
    const goodLines = ['client.created', 'client.updated', 'client.updated'].map(
      (type, at) => `${type} ${good} v${at + 1}`,
    )
    const ofGood = (lines: string[]) => lines.filter((line) => line.includes(` ${good} `))
    const ofBad = (lines: string[]) => lines.filter((line) => line.includes(` ${bad} `))
    expect(ofGood(await receiver.lines())).toEqual(goodLines)
    expect(ofBad(await receiver.lines())).toEqual([`client.created ${bad} v1`])
    const waiting = await receiver.deliveries()
    expect(waiting.map((row) => [row.entity_id, row.attempts, row.next_attempt_at === null])).toEqual([
      [String(bad), 1, false],
      [String(bad), 0, true],
      [String(bad), 0, true],
    ])
    expect(await subscriber.deliverLater()).toBeNull()
    expect(ofBad(await receiver.lines())).toEqual([
      `client.created ${bad} v1`,
      `client.created ${bad} v1`,
      `client.updated ${bad} v2`,
      `client.updated ${bad} v3`,
    ])
    expect(ofGood(await receiver.lines())).toEqual(goodLines)
    expect(await receiver.deliveries()).toEqual([])
  })

  it('keeps no other object waiting for the queue that it leaves', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 500 })
    const bad = await subscriber.deliverClient('bad')
    for (let each = 2; each <= 12; each++) await subscriber.rename(bad, `bad ${each}`)
    await subscriber.deliver()
    await subscriber.passTime()
    const good = await subscriber.createClient('good')
    expect(await subscriber.deliver()).toBeNull()
    const lines = (await receiver.lines()).slice(1)
    const ofBad = Array.from({ length: 12 }, (_, at) => `client.${at ? 'updated' : 'created'} ${bad} v${at + 1}`)
    expect(lines.filter((line) => !line.includes(` ${good} `))).toEqual(ofBad)
    expect(lines.indexOf(`client.created ${good} v1`)).toBeLessThan(6)
  })

  it('is repeated for three days by the schedule; then the endpoint is disabled with a reason, and stays so', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 503, ...FOREVER })
    const id = await subscriber.createClient()
    const start = Date.now()
    const pauses: number[] = []
    vi.useFakeTimers({ toFake: ['Date'], now: start })
    for (;;) {
      const now = Date.now()
      const at = await subscriber.deliver()
      if (at === null) break
      pauses.push(at - now)
      vi.setSystemTime(at)
    }
    const hours = [5 / 3_600, 1 / 12, 0.5, 2, 5, 10, 14, 20, 24]
    expect(pauses).toHaveLength(hours.length)
    pauses.forEach((pause, index) => {
      const ms = (hours[index] ?? 0) * HOUR_MS
      expect(pause).toBeGreaterThanOrEqual(ms)
      expect(pause).toBeLessThanOrEqual(ms * 1.1 + 5_000)
    })
    expect(Date.now() - start).toBeGreaterThan(3 * 24 * HOUR_MS)
    const row = await receiver.row()
    expect(row).toMatchObject({ enabled: 0 })
    expect(row.disabled_reason).toMatch(
      new RegExp(`^The delivery of client.created of ${id} failed 10 times since .*: HTTP 503\\.$`),
    )
    expect(logLines).toContainEqual({
      event: 'webhook_disabled',
      company_id: subscriber.company.id,
      endpoint_id: receiver.endpointId,
    })
    await subscriber.createClient()
    expect(await subscriber.deliver()).toBeNull()
    expect(await receiver.lines()).toHaveLength(10)
  })

  it('with 410 (Gone) disables the endpoint at once', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 410 })
    await subscriber.createClient()
    expect(await subscriber.deliver()).toBeNull()
    expect(await receiver.row()).toMatchObject({
      enabled: 0,
      disabled_reason: 'The endpoint responded with HTTP 410 (Gone).',
    })
  })

  it('does not disable an endpoint whose address was changed meanwhile', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 410, hold: true })
    await subscriber.createClient()
    const delivered = subscriber.deliver()
    await expect.poll(() => receiver.lines()).toHaveLength(1)
    await receiver.set('updated_at = 5')
    await sql('UPDATE webhook_deliveries SET next_attempt_at = 9e15 WHERE endpoint_id = ?', receiver.endpointId)
    await receiver.spoil()
    await delivered
    expect(await receiver.row()).toMatchObject({ enabled: 1 })
  })

  it('after a success for its object is retried, though the endpoint was changed meanwhile', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 500 })
    const id = await subscriber.createClient()
    await subscriber.deliverRename(id, 'Other')
    await subscriber.passTime()
    await receiver.spoil({ status: 204 }, { status: 500, hold: true })
    const delivered = subscriber.deliver()
    await expect.poll(() => receiver.lines()).toHaveLength(3)
    await receiver.set('updated_at = updated_at + 1')
    await receiver.spoil()
    await delivered
    await subscriber.rename(id, 'Third')
    await subscriber.deliverLater()
    expect((await receiver.lines()).slice(2)).toEqual([2, 2, 3].map((version) => `client.updated ${id} v${version}`))
    expect(await receiver.deliveries()).toEqual([])
  })

  it('of many objects stops the reading of the feed until one of them succeeds', async () => {
    const { subscriber, receiver } = await openSubscription()
    const count = MAX_FAILING * 3
    await subscriber.createClients(count)
    await receiver.spoil({ status: 500, ...FOREVER })
    expect(await subscriber.deliver()).not.toBeNull()
    const tried = await receiver.lines()
    expect(tried.length).toBeGreaterThanOrEqual(MAX_FAILING)
    expect(tried.length).toBeLessThan(MAX_FAILING + 4)
    await receiver.spoil()
    expect(await subscriber.deliverLater()).toBeNull()
    const lines = (await receiver.lines()).slice(tried.length)
    expect(new Set(lines).size).toBe(count)
    expect(lines).toHaveLength(count)
  })

  it('does not delay another endpoint of the company', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 500, ...FOREVER })
    const other = await subscriber.subscribe()
    await subscriber.deliverClient()
    expect(await other.lines()).toHaveLength(1)
    expect(await other.deliveries()).toEqual([])
    expect(await receiver.deliveries()).toHaveLength(1)
  })
})

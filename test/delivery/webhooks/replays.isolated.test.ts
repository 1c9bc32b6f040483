import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { adminCallWith } from '../../support/admin.ts'
import { mintCompany, sql } from '../../support/app.ts'
import { meterBindings } from '../../support/meter.ts'
import { countStarts } from '../alarm.ts'
import { administer, createEndpoint, type Message, openSubscription, Subscriber } from './support.ts'

const ALWAYS = { from: '2000-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' }
const SPAN = { from: '2026-01-02T00:00:00Z', to: '2026-01-03T01:00:00+01:00' }

let subscriber: Subscriber
beforeEach(async () => {
  subscriber = await Subscriber.open()
})

const replay = (id: string, span: object = SPAN) => administer(subscriber, 'POST', `/${id}/replay`, span)

/** An endpoint that was sent one change on each of three days. */
async function deliverDays() {
  const { company } = subscriber
  const endpoint = await createEndpoint(subscriber)
  const neighbour = await mintCompany()
  for (const name of ['One', 'Two', 'Three']) {
    await subscriber.createClient(name)
    await neighbour.call('POST', '/clients', { company_name: name })
  }
  await subscriber.deliver()
  await sql("UPDATE webhook_endpoints SET created_at = unixepoch('2026-01-01') * 1000 WHERE id = ?", endpoint.id)
  // Each of the company's changes is of another day, all of the neighbour's are of the second.
  await sql(
    "UPDATE changes SET at = unixepoch('2026-01-01') * 1000 + iif(company_id = ?, sequence - 1, 1) * 86400000",
    company.id,
  )
  return endpoint
}

describe('a replay', () => {
  it('delivers what a time span changed again, with the same ids', async () => {
    const { id, receiver, read } = await deliverDays()
    const { started, bindings } = countStarts('WEBHOOK_DELIVERY')
    const path = `/companies/${subscriber.company.id}/webhooks/${id}/replay`
    const { status, body } = await adminCallWith(bindings, 'POST', path, SPAN)
    expect([status, body.replaying, started]).toEqual([200, true, [subscriber.company.id]])
    await subscriber.deliver()
    const ids = (await receiver.messages()).map((message) => message.id)
    expect(ids.slice(0, 3).sort()).toEqual([1, 2, 3].map((each) => `msg_${id.slice(3)}_${each}`))
    expect(ids.slice(3)).toEqual([`msg_${id.slice(3)}_2`])
    expect((await read()).replaying).toBe(false)
  })

  it('is found among as many changes as there are at the cost of a few rows', async () => {
    const { id } = await deliverDays()
    const { company } = subscriber
    const { env: metered, take } = meterBindings(env)
    const measure = async (from: string, to: string) => {
      const path = `/companies/${company.id}/webhooks/${id}/replay`
      const { status } = await adminCallWith(metered, 'POST', path, { from, to })
      return { status, rows: take().rowsRead }
    }
    const none = ['2026-01-05T00:00:00Z', '2026-01-06T00:00:00Z'] as const
    const few = await measure(...none)
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (4) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
       INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at)
       SELECT ?, i, 'clients', '1', 'update', 1, unixepoch('2026-01-10') * 1000 + i FROM n`,
      company.id,
    )
    await sql('UPDATE webhook_endpoints SET position = 5000 WHERE id = ?', id)
    const many = await measure(...none)
    expect([few.status, many.status]).toEqual([409, 409])
    expect(many.rows - few.rows).toBeLessThan(100)
    expect((await measure('2026-01-10T00:00:00.500Z', '2026-01-10T00:00:00.700Z')).status).toBe(200)
    const [row] = await sql('SELECT replay_position, replay_end FROM webhook_endpoints WHERE id = ?', id)
    expect(row).toEqual({ replay_position: 499, replay_end: 699 })
  })

  it('waits until the endpoint is enabled', async () => {
    const { id } = await deliverDays()
    await administer(subscriber, 'PATCH', `/${id}`, { enabled: false })
    const { started, bindings } = countStarts('WEBHOOK_DELIVERY')
    const path = `/companies/${subscriber.company.id}/webhooks/${id}/replay`
    expect((await adminCallWith(bindings, 'POST', path, SPAN)).body).toMatchObject({ enabled: false, replaying: true })
    expect(started).toEqual([])
  })

  it('is refused where the endpoint was sent nothing then', async () => {
    const { id, read } = await deliverDays()
    expect((await replay(id, { from: '2025-01-01T00:00:00Z', to: '2026-01-01T00:00:00Z' })).status).toBe(409)
    for (const state of ['position = 1', "position = 3, created_at = unixepoch('2026-01-03') * 1000"]) {
      await sql(`UPDATE webhook_endpoints SET ${state} WHERE id = ?`, id)
      expect((await replay(id)).status).toBe(409)
    }
    expect((await read()).replaying).toBe(false)
  })

  it.each([
    ['no end', { from: SPAN.from }],
    ['an end before its beginning', { from: SPAN.to, to: SPAN.from }],
    ['no time at all', { from: SPAN.from, to: SPAN.from }],
    ['a time without an offset', { ...SPAN, to: '2026-01-03T00:00:00' }],
    ['an unknown field', { ...SPAN, events: [] }],
  ])('is refused with %s', async (_, body) => {
    const { id } = await createEndpoint(subscriber)
    expect((await replay(id, body)).status).toBe(400)
  })

  it('is one at a time for each endpoint, and another one is refused without a trace', async () => {
    const endpoints = [await createEndpoint(subscriber), await createEndpoint(subscriber)]
    await subscriber.createClients(2)
    await subscriber.deliver()
    for (const { id } of endpoints) {
      const responses = await Promise.all([1, 2, 3].map(() => replay(id, ALWAYS)))
      expect(responses.map(({ status }) => status).sort()).toEqual([200, 409, 409])
      const refused = responses.find(({ status }) => status === 409)
      expect(refused?.body.error.message).toBe('A replay of the endpoint is under way: wait until `replaying` is false')
      const entries = await sql("SELECT id FROM admin_log WHERE entity_id = ? AND action = 'webhooks.replay'", id)
      expect(entries).toHaveLength(1)
    }
    await subscriber.deliver()
    for (const { id, receiver } of endpoints) {
      expect(await receiver.lines()).toHaveLength(4)
      expect((await replay(id, ALWAYS)).status).toBe(200)
    }
  })

  it('comes before new changes, with the same messages', async () => {
    const { subscriber, receiver } = await openSubscription()
    const [first, second] = [await subscriber.createClient('a'), await subscriber.createClient('b')]
    await subscriber.deliverRename(first, 'a2')
    const sequenceOf = ({ id }: { id: string }) => Number(id.split('_').at(-1))
    // Different objects are delivered at once.
    const before = (await receiver.messages()).sort((a, b) => sequenceOf(a) - sequenceOf(b))
    const [span] = await sql<{ first: number; last: number }>(
      'SELECT min(sequence) AS first, max(sequence) AS last FROM changes WHERE company_id = ?',
      subscriber.company.id,
    )
    await receiver.set('replay_position = ?2, replay_end = ?3', Number(span?.first) - 1, Number(span?.last) - 1)
    await subscriber.rename(second, 'b2')
    expect(await subscriber.deliver()).toBeNull()
    const replayed = (await receiver.messages()).slice(before.length)
    const idsOf = (messages: Message[]) => messages.map(({ id }) => id).sort()
    expect(idsOf(replayed.slice(0, 2))).toEqual(idsOf(before.slice(0, 2)))
    expect(replayed.slice(2).map(({ body }) => body.data)).toMatchObject([{ id: second, version: 2 }])
    expect(await receiver.row()).toMatchObject({ replay_position: null, replay_end: null })
  })

  it('keeps the pauses between attempts for an object whose later change failed', async () => {
    const { subscriber, receiver } = await openSubscription()
    const id = await subscriber.deliverClient()
    await subscriber.rename(id, 'b')
    await receiver.spoil({ status: 500, times: -1 })
    const at = await subscriber.deliver()
    await sql('UPDATE webhook_deliveries SET attempts = 3 WHERE endpoint_id = ?', receiver.endpointId)
    const [later] = await receiver.deliveries()
    await receiver.set('replay_position = ?2 - 2, replay_end = ?2 - 1', later?.sequence ?? 0)
    expect(await subscriber.deliver()).toBe(at)

    const now = Number(at) + 1_000
    vi.useFakeTimers({ toFake: ['Date'], now })
    expect(await subscriber.deliver()).toBeGreaterThanOrEqual(now + 5_000)
    const [created, updated] = [`client.created ${id} v1`, `client.updated ${id} v2`]
    expect(await receiver.lines()).toEqual([created, updated, created])
    expect((await receiver.deliveries()).map((row) => [row.attempts, row.next_attempt_at === null])).toEqual([
      [1, false],
      [0, true],
    ])
    await receiver.spoil()
    expect(await subscriber.deliverLater()).toBeNull()
    expect((await receiver.lines()).slice(3)).toEqual([created, updated])
    expect(await receiver.deliveries()).toEqual([])
  })
})

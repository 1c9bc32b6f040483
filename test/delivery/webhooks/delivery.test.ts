import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { HostPace, MAX_FAILING } from '../../../src/delivery/webhooks/delivery.ts'
import { rotateSecret, sealSecrets } from '../../../src/delivery/webhooks/message.ts'
import { adminCall } from '../../support/admin.ts'
import { sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { insert } from '../../support/rows.ts'
import { expectedSignature, type Message, openSubscription } from './support.ts'

const HOUR_MS = 3_600_000
const FOREVER = { times: -1 }

describe('a message', () => {
  it('is signed, and holds the change as the feed has it', async () => {
    const { subscriber, receiver } = await openSubscription()
    const id = await subscriber.createClient()
    expect(await subscriber.deliver()).toBeNull()
    const [message, ...others] = await receiver.messages()
    if (!message) throw new Error('There is no message.')
    expect(others).toEqual([])
    const [change] = await sql<{ at: number; sequence: number }>(
      'SELECT at, sequence FROM changes WHERE company_id = ?',
      subscriber.company.id,
    )
    const time = new Date(change?.at ?? 0).toISOString()
    expect(message.body).toEqual({
      type: 'client.created',
      timestamp: time,
      data: { type: 'clients', id, operation: 'create', version: 1, time },
    })
    expect(message).toMatchObject({
      id: `msg_${receiver.endpointId.slice(3)}_${change?.sequence}`,
      contentType: 'application/json',
      // That of the database when the change was read from it.
      bookmark: expect.stringMatching(/^[0-9a-f-]{20,}(@DB_TWO)?$/),
      signature: await expectedSignature(receiver.secrets.secret, message),
    })
    expect(Math.abs(message.timestamp - Date.now() / 1_000)).toBeLessThan(30)
    expect(await receiver.deliveries()).toEqual([])
  })

  it('of an email thread also has its mailbox and legacy id', async () => {
    const { subscriber, receiver } = await openSubscription()
    const put = await subscriber.call('PUT', '/mail/email-threads/t1', { account_email: 'Box@x.example', messages: [] })
    await subscriber.deliver()
    expect((await receiver.messages()).map(({ body }) => body)).toMatchObject([
      {
        type: 'email_thread.created',
        data: {
          type: 'email_threads',
          id: put.body.email_thread.id,
          account_email: 'box@x.example',
          legacy_thread_id: 't1',
        },
      },
    ])
  })

  it('is sent for each create, update and delete, of the subscribed types only', async () => {
    const { subscriber, receiver } = await openSubscription()
    const few = await subscriber.subscribe({ event_types: ['order.deleted', 'client.updated'] })
    const client_id = await subscriber.createClient()
    const order = (await subscriber.call('POST', '/orders', { title: 'T', client_id })).body.project.id
    await subscriber.rename(client_id, 'Other')
    await subscriber.call('DELETE', `/orders/${order}`)
    await subscriber.call('PATCH', `/clients/${client_id}`, { deleted: true })
    expect(await subscriber.deliver()).toBeNull()
    const lines = await receiver.lines()
    expect(lines.filter((line) => line.startsWith('client'))).toEqual([
      `client.created ${client_id} v1`,
      `client.updated ${client_id} v2`,
      `client.deleted ${client_id} v3`,
    ])
    expect(lines.filter((line) => line.startsWith('order')).map((line) => line.split(' ')[0])).toEqual([
      'order.created',
      'order.deleted',
    ])
    expect((await few.lines()).map((line) => line.split(' ')[0]).sort()).toEqual(['client.updated', 'order.deleted'])
  })

  it('is signed with each secret until 24 hours after its own replacement', async () => {
    const { subscriber, receiver } = await openSubscription()
    const now = Date.now()
    const second = rotateSecret(receiver.secrets, now - HOUR_MS)
    const third = rotateSecret(second, now)
    const sealed = await sealSecrets(env.CREDENTIALS_KEY, subscriber.company.id, receiver.endpointId, third)
    await receiver.set('secret = ?2', sealed)
    for (const hours of [0, 23.5, 25]) {
      vi.useFakeTimers({ toFake: ['Date'], now: now + hours * HOUR_MS })
      await subscriber.deliverClient()
    }
    const secrets = [third.secret, second.secret, receiver.secrets.secret]
    const messages = await receiver.messages()
    expect(messages).toHaveLength(3)
    for (const [index, message] of messages.entries()) {
      const valid = secrets.slice(0, secrets.length - index)
      const signatures = await Promise.all(valid.map((secret) => expectedSignature(secret, message)))
      expect(message.signature).toBe(signatures.join(' '))
    }
  })
})

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

describe('deliveries', () => {
  it('of more changes than one round are all made, each object in order', async () => {
    const { subscriber, receiver } = await openSubscription()
    const ids = await Promise.all(Array.from({ length: 20 }, (_, index) => subscriber.createClient(`c${index}`)))
    for (let round = 0; round < 4; round++) await Promise.all(ids.map((id) => subscriber.rename(id, `r${round}`)))
    expect(await subscriber.deliver()).toBeNull()
    const lines = await receiver.lines()
    expect(lines).toHaveLength(100)
    for (const id of ids) {
      const versions = lines.filter((line) => line.includes(` ${id} `)).map((line) => line.split(' v')[1])
      expect(versions).toEqual(['1', '2', '3', '4', '5'])
    }
    expect(new Set((await receiver.messages()).map((message) => message.id)).size).toBe(100)
  })

  it('of random failures reach the endpoint at least once, each object in order', async () => {
    const { subscriber, receiver } = await openSubscription()
    const ids = await Promise.all(Array.from({ length: 8 }, (_, index) => subscriber.createClient(`c${index}`)))
    for (let round = 0; round < 12; round++) {
      await receiver.spoil({ status: 500, times: 1 + (round % 3) })
      await Promise.all(
        ids.filter((_, index) => (index * 7 + round) % 3 > 0).map((id) => subscriber.rename(id, `r${round}`)),
      )
      await subscriber.deliver()
      if (round % 4 === 3) await subscriber.passTime()
    }
    await receiver.spoil()
    expect(await subscriber.deliverLater()).toBeNull()
    const lines = await receiver.lines()
    for (const id of ids) {
      const [row] = await sql<{ version: number }>(
        'SELECT version FROM clients WHERE company_id = ? AND id = ?',
        subscriber.company.id,
        id,
      )
      const versions = lines.filter((line) => line.includes(` ${id} `)).map((line) => Number(line.split(' v')[1]))
      expect(versions, `${versions}`).toEqual([...versions].sort((a, b) => a - b))
      expect([...new Set(versions)]).toEqual(Array.from({ length: row?.version ?? 0 }, (_, index) => index + 1))
    }
  })

  it('of a replay come before new changes, and are the same messages', async () => {
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

  it('of a replay keep the pauses between attempts for an object whose later change failed', async () => {
    const { subscriber, receiver } = await openSubscription()
    const id = await subscriber.deliverClient()
    await subscriber.rename(id, 'b')
    await receiver.spoil({ status: 500, ...FOREVER })
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

  it('skip what the feed no longer holds', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 500 })
    const id = await subscriber.deliverClient()
    await subscriber.deliverRename(id, 'b')
    await sql('DELETE FROM changes WHERE company_id = ? AND version = 1', subscriber.company.id)
    await subscriber.passTime()
    const path = `/companies/${subscriber.company.id}/webhooks/${receiver.endpointId}`
    expect((await adminCall('GET', path)).body).toMatchObject({ behind: 0, removed_changes: 1 })
    expect(await subscriber.deliver()).toBeNull()
    expect(await receiver.lines()).toEqual([`client.created ${id} v1`, `client.updated ${id} v2`])
    expect(await receiver.deliveries()).toEqual([])
  })

  it('go on within seconds where a move has refused a write of theirs', async () => {
    const { subscriber, receiver } = await openSubscription()
    await subscriber.createClient()
    const { id } = subscriber.company
    const guard = { company_id: id, state: 'read_only', destination: 'DB_TWO', slot: 0, read_only_at: Date.now() }
    await insert('company_guards', guard)
    const now = Date.now()
    const next = await subscriber.deliver()
    expect(next).toBeGreaterThan(now)
    expect(next).toBeLessThan(now + 10_000)
    await sql('DELETE FROM company_guards WHERE company_id = ?', id)
    expect(await subscriber.deliver()).toBeNull()
    expect(await receiver.lines()).not.toEqual([])
  })

  it('end while the company is suspended', async () => {
    const { subscriber, receiver } = await openSubscription()
    await subscriber.createClient()
    await sql('UPDATE companies SET suspended = 1 WHERE id = ?', subscriber.company.id)
    expect(await subscriber.deliver()).toBeNull()
    expect(await receiver.lines()).toEqual([])
  })

  it('of an endpoint whose secret cannot be decrypted are postponed until it can, and count no attempt', async () => {
    const { subscriber, receiver } = await openSubscription()
    await subscriber.createClient()
    const now = Date.now()
    expect(await subscriber.deliver({ CREDENTIALS_KEY: btoa('k'.repeat(32)) })).toBeGreaterThanOrEqual(now + 30_000)
    expect(await receiver.row()).toMatchObject({ enabled: 1, disabled_reason: null })
    expect(await receiver.deliveries()).toMatchObject([
      { attempts: 0, last_error: 'the signing secret cannot be read' },
    ])
    expect(await receiver.lines()).toEqual([])
    const of = { company_id: subscriber.company.id, endpoint_id: receiver.endpointId }
    expect(logLines).toContainEqual({ event: 'webhooks_failed', ...of, error: expect.stringContaining('Credentials') })
    expect(await subscriber.deliverLater()).toBeNull()
    expect(await receiver.lines()).toHaveLength(1)
  })

  it('that fail unexpectedly count as attempts, and delay no other object', async () => {
    const { subscriber, receiver } = await openSubscription()
    const failing = await subscriber.createClient()
    const other = await subscriber.createClient()
    subscriber.isPaced = true
    const begin = vi.spyOn(HostPace.prototype, 'begin').mockImplementationOnce(() => {
      throw new TypeError('unexpected')
    })
    await subscriber.deliver()
    begin.mockRestore()
    expect(await receiver.lines()).toEqual([`client.created ${other} v1`])
    expect(await receiver.deliveries()).toMatchObject([
      { entity_id: String(failing), attempts: 1, last_error: 'an internal error' },
    ])
    const of = { company_id: subscriber.company.id, endpoint_id: receiver.endpointId }
    expect(logLines).toContainEqual({ event: 'webhooks_failed', ...of, error: expect.stringContaining('TypeError') })
  })
})

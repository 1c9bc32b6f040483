import {
  abortAllDurableObjects,
  createScheduledController,
  evictDurableObject,
  runDurableObjectAlarm,
  runInDurableObject,
} from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { EVENT_TYPES } from '../../../src/delivery/webhooks/event-types.ts'
import { nextAttemptAt, rotateSecret, signedHeaders } from '../../../src/delivery/webhooks/message.ts'
import worker from '../../../src/index.ts'
import { openCompany } from '../../../src/kernel/db/placement.ts'
import { raiseSequences } from '../../../src/operation/copies/restore-queries.ts'
import { SEQUENCES, type Sequences } from '../../../src/operation/copies/tables.ts'
import { call, mintToken, request, sql } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { logLines } from '../../support/log.ts'
import { countStarts } from '../alarm.ts'
import { openSubscription, Subscriber } from './support.ts'

const MAILBOX = 'box@x.example'

const runSweep = (bindings = env) =>
  worker.scheduled(createScheduledController({ scheduledTime: Date.now() }), bindings)

describe('the object of a company', () => {
  it('is started by writes of every kind, and delivers after the response', async () => {
    const { subscriber, receiver } = await openSubscription()
    const token = await subscriber.freshToken()
    let messages = 0
    const write = async (...sent: [method: string, path: string, body?: object]) => {
      const { body } = await call(token, ...sent)
      messages++
      await expect.poll(() => receiver.lines()).toHaveLength(messages)
      return body
    }
    const client_id = (await write('POST', '/clients', { company_name: 'A' })).client.id
    const order = (await write('POST', '/orders', { title: 'T', client_id })).project.id
    const thread = { account_email: MAILBOX, messages: [] }
    await write('PUT', '/mail/email-threads/t', thread)
    await write('PUT', '/mail/email-threads/t', { ...thread, mail_history_id: '2' })
    await write('DELETE', `/orders/${order}`)
    const types = (await receiver.messages()).map(({ body }) => body.type)
    expect(types).toEqual([
      'client.created',
      'order.created',
      'email_thread.created',
      'email_thread.updated',
      'order.deleted',
    ])
    expect(await runInDurableObject(subscriber.object, (_, state) => state.storage.getAlarm())).toBeNull()
  })

  it('costs a write no wait', async () => {
    const subscriber = await Subscriber.open({ home: 'DB' })
    await subscriber.subscribe()
    const token = await subscriber.freshToken()
    const { bindings } = countStarts('WEBHOOK_DELIVERY', 300)
    const post = request(token, 'POST', '/clients', { company_name: 'A' })
    const { response, hops, depth } = await measureHops(post, bindings)
    expect(response.status).toBe(200)
    expect(hops.map(({ name }) => name)).toEqual(['RATE_LIMITER.admit', 'DB.batch'])
    expect(depth).toBe(2)
    const put = request(token, 'PUT', '/mail/email-threads/t', { account_email: MAILBOX, messages: [] })
    expect((await measureHops(put, bindings)).depth).toBeLessThanOrEqual(3)
  })

  it('resumes by its alarm after it was evicted', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 500 })
    await subscriber.createClient()
    await subscriber.object.start(subscriber.company.id)
    await expect.poll(() => receiver.deliveries()).toMatchObject([{ attempts: 1 }])
    await evictDurableObject(subscriber.object)
    await subscriber.passTime()
    await runDurableObjectAlarm(subscriber.object)
    await expect.poll(() => receiver.deliveries()).toEqual([])
    expect(await receiver.lines()).toHaveLength(2)
  })

  it('delivers the same message again when it was killed before the result was stored', async () => {
    const { subscriber, receiver } = await openSubscription({ hold: true, status: 204 })
    await subscriber.createClient()
    await subscriber.object.start(subscriber.company.id)
    await expect.poll(() => receiver.lines()).toHaveLength(1)
    await abortAllDurableObjects()
    expect(await receiver.deliveries()).toEqual([])
    await receiver.spoil()
    await runSweep()
    await expect.poll(() => receiver.lines()).toHaveLength(2)
    const [first, second] = await receiver.messages()
    expect([second?.id, second?.text]).toEqual([first?.id, first?.text])
    const [company] = await sql('SELECT last_change AS position FROM companies WHERE id = ?', subscriber.company.id)
    await expect.poll(() => receiver.row()).toMatchObject({ position: company?.position })
  })

  it('retries when the database fails', async () => {
    const { subscriber, receiver } = await openSubscription()
    await subscriber.createClient()
    await sql('ALTER TABLE webhook_deliveries RENAME TO webhook_deliveries_away')
    try {
      const startedAt = Date.now()
      expect(await subscriber.deliver()).toBeGreaterThan(startedAt + 20_000)
    } finally {
      await sql('ALTER TABLE webhook_deliveries_away RENAME TO webhook_deliveries')
    }
    expect(logLines).toContainEqual(
      expect.objectContaining({ event: 'webhooks_failed', company_id: subscriber.company.id }),
    )
    expect(await subscriber.deliver()).toBeNull()
    expect(await receiver.lines()).toHaveLength(1)
  })

  it('logs neither addresses, secrets nor contents', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 410 })
    await subscriber.deliverClient('Confidential')
    const text = JSON.stringify(logLines)
    for (const secret of [receiver.url, receiver.secrets.secret, 'Confidential', '127.0.0.1']) {
      expect(text).not.toContain(secret)
    }
  })
})

describe('the sweep', () => {
  it('starts companies with changes to deliver, whoever made them, and no others', async () => {
    const [written, failed, replayed, current, suspended] = await Promise.all(
      Array.from({ length: 5 }, () => Subscriber.open()),
    )
    if (!written || !failed || !replayed || !current || !suspended) throw new Error('unreachable')
    for (const subscriber of [failed, replayed, current]) {
      const receiver = await subscriber.subscribe()
      if (subscriber === failed) await receiver.spoil({ status: 500 })
      await subscriber.deliverClient()
    }
    await failed.passTime()
    await sql(
      'UPDATE webhook_endpoints SET replay_position = position - 1, replay_end = position WHERE company_id = ?',
      replayed.company.id,
    )
    const receiver = await written.subscribe()
    await suspended.subscribe()
    for (const { company } of [written, suspended]) {
      await sql(
        `INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
         VALUES (?, 5, 'Seeded', 'SEEDED', 0, 0)`,
        company.id,
      )
    }
    await sql('UPDATE companies SET suspended = 1 WHERE id = ?', suspended.company.id)
    const { started, bindings } = countStarts('WEBHOOK_DELIVERY')
    await runSweep(bindings)
    const own = [written, failed, replayed, current, suspended].map(({ company }) => company.id)
    expect(started.filter((id) => own.includes(id)).sort()).toEqual(
      [written, failed, replayed].map(({ company }) => company.id).sort(),
    )
    await written.deliver()
    expect(await receiver.lines()).toEqual(['client.created 5 v1'])
  })
})

describe('an endpoint whose company is recovered during a delivery', () => {
  it('goes on from the end of the new feed, not from before it', async () => {
    const { subscriber, receiver } = await openSubscription({ hold: true })
    await subscriber.createClient()
    const delivered = subscriber.deliver()
    await expect.poll(() => receiver.lines()).toHaveLength(1)
    const { position } = await receiver.row()
    const ids = Object.fromEntries(SEQUENCES.map((name) => [name, 0])) as Sequences
    const last_change = Number(position) + 1_000_000
    await raiseSequences(await openCompany(env, subscriber.company.id), { ...ids, last_change }, null)
    await receiver.spoil()
    expect(await delivered).toBeNull()
    expect(await receiver.row()).toMatchObject({ position: last_change })
  })

  it('stores no change behind another one that the recovery has removed', async () => {
    const { subscriber, receiver } = await openSubscription({ status: 500 })
    const id = await subscriber.deliverClient()
    await receiver.spoil({ hold: true })
    await subscriber.rename(id, 'Waits for its creation')
    await subscriber.createClient('Held')
    const delivered = subscriber.deliver()
    await expect.poll(() => receiver.lines()).toHaveLength(2)
    const ids = Object.fromEntries(SEQUENCES.map((name) => [name, 0])) as Sequences
    const last_change = Number((await receiver.row()).position) + 1_000_000
    await raiseSequences(await openCompany(env, subscriber.company.id), { ...ids, last_change }, null)
    await receiver.spoil()
    expect(await delivered).toBeNull()
    expect(await receiver.deliveries()).toEqual([])
    await subscriber.deliverRename(id, 'After the recovery')
    expect((await receiver.lines()).at(-1)).toBe(`client.updated ${id} v3`)
  })
})

describe('a deleted endpoint', () => {
  it('leaves nothing behind when it is deleted during a delivery', async () => {
    const { subscriber, receiver } = await openSubscription({ hold: true, status: 500 })
    await subscriber.createClient()
    const delivered = subscriber.deliver()
    await expect.poll(() => receiver.lines()).toHaveLength(1)
    await sql('DELETE FROM webhook_endpoints WHERE id = ?', receiver.endpointId)
    await receiver.spoil()
    expect(await delivered).toBeNull()
    expect(await receiver.deliveries()).toEqual([])
    expect((await call(await mintToken(subscriber.company.id), 'GET', '/clients')).status).toBe(200)
  })
})

describe('signedHeaders', () => {
  it('makes the signature of the convention’s published example', () => {
    const secrets = { secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }
    const headers = signedHeaders(secrets, 'msg_p5jXN8AQM9LWM0D4loKWxJek', '{"test": 2432232314}', 1_614_265_330_999)
    expect(headers).toMatchObject({
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    })
  })
})

describe('rotateSecret', () => {
  it('remembers at most two earlier ones, as long as they sign', () => {
    const endingAt = (until: number) => ({ secret: `whsec_${until}`, until })
    const present = { secret: 'whsec_0', previous: endingAt(30), earlier: [endingAt(20), endingAt(10)] }
    expect(rotateSecret(present, 0).earlier).toEqual([endingAt(30), endingAt(20)])
    expect(rotateSecret(present, 25).earlier).toEqual([endingAt(30)])
  })
})

describe('nextAttemptAt', () => {
  it('adds at most a tenth at random', () => {
    expect([nextAttemptAt(2, 1_000, 0), nextAttemptAt(2, 1_000, 1)]).toEqual([301_000, 331_000])
  })
})

describe('the event types', () => {
  it('are a create, an update and a delete of every type of the feed, and a new status of an order', () => {
    expect(EVENT_TYPES).toEqual([
      'client.created',
      'client.updated',
      'client.deleted',
      'order.created',
      'order.updated',
      'order.deleted',
      'order.status_changed',
      'email_thread.created',
      'email_thread.updated',
      'email_thread.deleted',
    ])
  })
})

import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { HostPace } from '../../../src/delivery/webhooks/delivery.ts'
import { rotateSecret, sealSecrets } from '../../../src/delivery/webhooks/message.ts'
import { adminCall } from '../../support/admin.ts'
import { sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { insert } from '../../support/rows.ts'
import { expectedSignature, openSubscription } from './support.ts'

const HOUR_MS = 3_600_000

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

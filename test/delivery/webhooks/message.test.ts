import { describe, expect, it } from 'vitest'
import { EVENT_TYPES } from '../../../src/delivery/webhooks/event-types.ts'
import { nextAttemptAt, rotateSecret, signedHeaders } from '../../../src/delivery/webhooks/message.ts'

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
  it('makes secrets of 32 random bytes in base64, and remembers the previous one only', () => {
    const first = rotateSecret(null, 0)
    const second = rotateSecret(first, 10)
    const third = rotateSecret(second, 20)
    for (const { secret } of [first, second, third]) {
      expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    }
    expect(new Set([first.secret, second.secret, third.secret]).size).toBe(3)
    expect(third.previous).toEqual({ secret: second.secret, until: 86_400_020 })
  })
})

describe('nextAttemptAt', () => {
  it('spreads nine retries over three days', () => {
    const pauses = Array.from({ length: 9 }, (_, index) => nextAttemptAt(index + 1, 0, 0) ?? 0)
    expect(pauses.reduce((sum, pause) => sum + pause, 0) / 3_600_000).toBeCloseTo(75.58, 1)
    expect(pauses).toEqual([...pauses].sort((a, b) => a - b))
    expect(nextAttemptAt(10, 0, 0)).toBeNull()
  })

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

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

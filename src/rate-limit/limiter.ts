import { DurableObject } from 'cloudflare:workers'
import { type Grant, take, type Window } from './window.ts'

/**
 * Counts the requests of one token, for the whole world: the object's name is the token's hash.
 *
 * Requests are counted when they are given out, and stored before the answer leaves. So an eviction, a crash or a
 * deploy, of the object or of an isolate that holds some, never gives a second allowance.
 */
export class RateLimiter extends DurableObject {
  private window: Window | undefined = this.ctx.storage.kv.get<Window>('window')

  take(wanted: number): Grant {
    const { window, grant } = take(this.window, Date.now(), wanted)
    if (grant.units > 0) this.ctx.storage.kv.put('window', window)
    this.window = window
    return grant
  }
}

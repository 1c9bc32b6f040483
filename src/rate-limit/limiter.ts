import { DurableObject } from 'cloudflare:workers'
import { acquire, type Demand, type Lease, type Window } from './window.ts'

/**
 * Counts the requests and the database time of one token across all isolates; the object's name is the token's hash.
 * Requests are counted when they are leased, and stored before the response leaves: no crash gives a second allowance.
 */
export class RateLimiter extends DurableObject {
  private window: Window | undefined = this.ctx.storage.kv.get<Window>('window')

  acquire(demand: Demand): Lease {
    const { window, lease } = acquire(this.window, Date.now(), demand)
    if (lease.permits > 0 || demand.databaseMs > 0) this.ctx.storage.kv.put('window', window)
    this.window = window
    return lease
  }
}

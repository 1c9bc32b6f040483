import { DurableObject } from 'cloudflare:workers'
import { acquire, addUsage, type Demand, type HourOfUsage, type Lease, type Window } from './window.ts'

/** As stored: the window, and the usage of the last hours. */
type Stored = Window & { hours?: HourOfUsage[] }

/**
 * Counts the requests and the database time of one token across all isolates; the object's name is the token's hash.
 * Requests are counted when they are leased, and stored before the response leaves: no crash gives a second allowance.
 */
export class RateLimiter extends DurableObject {
  private stored: Stored | undefined = this.ctx.storage.kv.get<Stored>('window')

  acquire(demand: Demand): Lease {
    const now = Date.now()
    const { window, lease } = acquire(this.stored, now, demand)
    const isUsed = lease.permits > 0 || demand.databaseMs > 0 || demand.refused !== undefined
    const hours = addUsage(this.stored?.hours ?? [], now, { ...demand, permits: lease.permits })
    this.stored = isUsed ? { ...window, hours } : { ...this.stored, ...window }
    if (isUsed) this.ctx.storage.kv.put('window', this.stored)
    return lease
  }

  /** The usage of the last day by hour. */
  usage(): HourOfUsage[] {
    return this.stored?.hours ?? []
  }

  /** For the health check. */
  ping(): void {}
}

import { DurableObject } from 'cloudflare:workers'
import type { Env } from '../../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { log, nameOf } from '../http/errors.ts'
import { COMPANY_LIMIT_MS, count, DATABASE_LIMIT_MS, isClosed, type RemainingTime, type Window } from './window.ts'

/** The object of a token calls that of its company at most this often, and half as often while it uses nothing. */
const EXCHANGE_MS = 2_000

/** A crash may lose this much database time. */
const UNSTORED_MS = 1_000

/** Counts the database time of one company, whose id is its name: the objects of the company's tokens report it. */
export class CompanyLimiter extends DurableObject<Env> {
  private stored = this.ctx.storage.kv.get<Window>('window')
  private window = this.stored

  report(databaseMs: number): RemainingTime {
    const { window, decision } = count(this.window, Date.now(), { requests: 0, databaseMs }, COMPANY_LIMIT_MS)
    this.window = window
    const storedMs = window.startedAt === this.stored?.startedAt ? this.stored.databaseMs : 0
    if (window.databaseMs >= storedMs + UNSTORED_MS) {
      this.stored = window
      this.ctx.storage.kv.put('window', window)
    }
    return { resetAt: decision.resetAt, databaseMs: decision.databaseMs }
  }

  /** For the health check. */
  ping(): void {}
}

/**
 * The company's database time as one token's object knows it. The object exchanges it with the company's object behind
 * the requests. A company's object that fails opens this limit and no other.
 */
export class CompanyShare {
  remaining: RemainingTime | undefined
  private readonly objects: Env['COMPANY_LIMITER']
  private unsentMs = 0
  private isScheduled = false
  private nextAt = 0

  constructor(objects: Env['COMPANY_LIMITER']) {
    this.objects = objects
  }

  isClosed(now: number): boolean {
    return isClosed(this.remaining, now, COMPANY_LIMIT_MS)
  }

  /** @param companyId undefined while the token is unknown: the time then waits */
  add(companyId: number | undefined, databaseMs: number, now: number): void {
    // After an outage of the company's object, only the time of one window matters.
    this.unsentMs = Math.min(this.unsentMs + databaseMs, DATABASE_LIMIT_MS)
    // Also a token that uses nothing learns what the others have used.
    const isFresh = this.unsentMs === 0 && now < this.nextAt + EXCHANGE_MS
    if (companyId === undefined || isFresh || this.isScheduled) return
    this.isScheduled = true
    setTimeout(() => this.exchange(companyId), Math.min(Math.max(0, this.nextAt - now), EXCHANGE_MS))
  }

  private async exchange(companyId: number): Promise<void> {
    const sentMs = this.unsentMs
    this.unsentMs = 0
    this.nextAt = Date.now() + EXCHANGE_MS
    const report = async () => this.objects.get(this.objects.idFromName(String(companyId))).report(sentMs)
    const answer = await withDeadline(report(), BUDGET_MS.afterwards).catch((error) => {
      log('company_limiter_failed', { company_id: companyId, reason: nameOf(error) })
    })
    this.isScheduled = false
    this.remaining = answer ?? this.remaining
    // After a failure the next request begins the next exchange.
    if (!answer) this.unsentMs += sentMs
    else if (this.unsentMs > 0) this.add(companyId, 0, Date.now())
  }
}

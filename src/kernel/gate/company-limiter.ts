import { DurableObject } from 'cloudflare:workers'
import type { Env } from '../../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { log, nameOf } from '../http/log.ts'
import { COMPANY_LIMIT_MS, count, DATABASE_LIMIT_MS, type DatabaseRest, isClosed, type Window } from './window.ts'

/** A token's object calls that of its company at most so often. */
const EXCHANGE_MS = 2_000

/** Database time that a crash may lose. */
const UNSTORED_MS = 1_000

/** Counts the database time of one company, whose id is its name: the objects of the company's tokens report it. */
export class CompanyLimiter extends DurableObject<Env> {
  private stored = this.ctx.storage.kv.get<Window>('window')
  private window = this.stored

  report(databaseMs: number): DatabaseRest {
    const use = { requests: 0, databaseMs }
    const { window, verdict } = count(this.window, Date.now(), use, COMPANY_LIMIT_MS)
    this.window = window
    const storedMs = window.startedAt === this.stored?.startedAt ? this.stored.databaseMs : 0
    if (window.databaseMs >= storedMs + UNSTORED_MS) {
      this.stored = window
      this.ctx.storage.kv.put('window', window)
    }
    return { resetAt: verdict.resetAt, databaseMs: verdict.databaseMs }
  }

  /** For the health check. */
  ping(): void {}
}

/**
 * What the object of one token knows of its company's database time. It reports its own to the company's object behind the
 * requests. A company's object that fails opens this limit and no other.
 */
export class CompanyShare {
  /** As the company's object last answered; absent before. */
  rest: DatabaseRest | undefined
  private readonly objects: Env['COMPANY_LIMITER']
  private unsentMs = 0
  private isScheduled = false
  private nextAt = 0

  constructor(objects: Env['COMPANY_LIMITER']) {
    this.objects = objects
  }

  isClosed(now: number): boolean {
    return isClosed(this.rest, now, COMPANY_LIMIT_MS)
  }

  /** @param companyId undefined while the token is not known: then the time waits */
  add(companyId: number | undefined, databaseMs: number, now: number): void {
    // After an outage of the company's object, older time than of one window is of no interest.
    this.unsentMs = Math.min(this.unsentMs + databaseMs, DATABASE_LIMIT_MS)
    if (companyId === undefined || this.unsentMs === 0 || this.isScheduled) return
    this.isScheduled = true
    setTimeout(() => this.exchange(companyId), Math.min(Math.max(0, this.nextAt - now), EXCHANGE_MS))
  }

  private async exchange(companyId: number): Promise<void> {
    const sentMs = this.unsentMs
    this.unsentMs = 0
    this.nextAt = Date.now() + EXCHANGE_MS
    const report = async () => this.objects.get(this.objects.idFromName(String(companyId))).report(sentMs)
    const rest = await withDeadline(report(), BUDGET_MS.afterwards).catch((error) => {
      log('company_limiter_failed', { company_id: companyId, reason: nameOf(error) })
    })
    this.isScheduled = false
    this.rest = rest ?? this.rest
    // After a failure the next request begins the next exchange.
    if (rest) this.add(companyId, 0, Date.now())
    else this.unsentMs += sentMs
  }
}

import { DurableObject } from 'cloudflare:workers'
import type { Env } from '../../env.ts'
import { isCurrent } from '../db/migrations.ts'
import { log, nameOf } from '../http/log.ts'
import { CompanyShare } from './company-limiter.ts'
import { Freshness, type StoredFreshness } from './freshness.ts'
import type { Closed, Entered, Entry, Report } from './protocol.ts'
import { type Found, findToken, LAST_USED_EVERY_MS, TOKEN_MS, usable } from './tokens.ts'
import { addUsage, count, type Demand, type HourOfUsage, type Rest, type Verdict, type Window } from './window.ts'

/** From this age on a token is looked up again beside the requests that still use it. */
const REFRESH_AFTER_MS = 15_000
/** How often a look-up that failed is repeated while the token may still be used. */
const RETRY_MS = 2_000

/** One stored row counts so many requests before they arrive: a crash may lose them, and never gives them twice. */
const BLOCK = 20
/** Database time that is stored at once. */
const LARGE_MS = 1_500
/** After so long without a call the exact state is stored: sooner than an idle object is evicted. */
const IDLE_MS = 5_000

/** The token as it was looked up. */
interface Identity extends Found {
  at: number
}

type Stored = Window & {
  hours?: HourOfUsage[]
  freshness?: StoredFreshness
  identity?: Identity
}

/**
 * Answers for one token, across all isolates and near its callers: who it is, whether its limits allow a request, and how
 * fresh a read must be. The object's name is the token's hash. It counts a request before the response leaves, and stores
 * one row for each {@link BLOCK} of them: no crash gives a second allowance. Of an unknown token it stores nothing.
 */
export class RateLimiter extends DurableObject<Env> {
  private stored = this.ctx.storage.kv.get<Stored>('window')
  private window: Window | undefined = this.stored && windowOf(this.stored)
  private hours = this.stored?.hours ?? []
  private identity: Identity | undefined = this.stored?.identity
  private freshness: Freshness | undefined
  private readonly company = new CompanyShare(this.env.COMPANY_LIMITER)
  private lookUp: Promise<void> | null = null
  /** Changes when a look-up under way is of no use any more. */
  private epoch = 0
  private nextLookUpAt = 0
  private hasChanged = false
  private lastCallAt = 0
  private timer: ReturnType<typeof setTimeout> | null = null

  /** Rejects when the token cannot be looked up. */
  async enter(entry: Entry): Promise<Entered | Closed> {
    const calledAt = Date.now()
    const identity = await this.identify(entry.hash)
    const now = Date.now()
    if (!identity) return { kind: 'outdated' }
    if (identity.token === undefined) return { kind: 'unknown' }
    const ageMs = now - identity.at
    const token = usable(identity.token, now)
    if (!token) return { kind: 'ended', ageMs }

    const freshness = this.openFreshness(token.database, now)
    if (entry.lost) freshness.report(entry.lost, now)
    const verdict = this.count(entry, now)
    const isRead = !entry.isWrite && verdict.allowed
    // A write that went to a replica first would only be passed on to the primary.
    const mark = entry.isWrite ? 'primary' : freshness.mark()
    const settles = isRead && freshness.hasLost(now)
    const isTouchDue = verdict.allowed && now - identity.lastUsedAt >= LAST_USED_EVERY_MS
    if (isTouchDue) identity.lastUsedAt = now
    const write = entry.isWrite && verdict.allowed ? freshness.beginWrite(now) : undefined
    this.keep(now, write !== undefined || entry.lost?.isUnknown === true)
    return {
      kind: 'entered',
      token,
      ageMs,
      lookUpMs: now - calledAt,
      applied: identity.applied,
      verdict,
      mark,
      isTouchDue,
      ...(write !== undefined && { write }),
      ...(settles && { settledAt: now }),
    }
  }

  report({ read, lost, ...use }: Report): Rest {
    const now = Date.now()
    for (const seen of [lost, read]) {
      if (!seen) continue
      this.openFreshness(this.freshnessDatabase(seen.database), now).report(seen, now)
      this.hasChanged = true
    }
    const { allowed: _, ...rest } = this.count({ ...use, requests: 0 }, now)
    this.keep(
      now,
      [lost, read].some((seen) => seen?.renewed !== undefined || seen?.isUnknown),
    )
    return rest
  }

  /** Counts the further requests of a request that has entered. */
  take(demand: Demand): Verdict {
    const now = Date.now()
    const verdict = this.count(demand, now)
    this.keep(now, false)
    return verdict
  }

  /** The token was changed: the next request looks it up again. */
  forget(): void {
    this.identity = undefined
    this.epoch++
    this.lookUp = null
    if (this.stored?.identity) this.store(Date.now(), 1, false)
  }

  /** The usage of the last day by hour. */
  usage(): HourOfUsage[] {
    return this.hours
  }

  /** For the health check. */
  ping(): void {}

  /** Null where the schema is older than the code. */
  private async identify(hash: string): Promise<Identity | null> {
    const now = Date.now()
    const { identity } = this
    // An unknown token may be created at any time.
    const isKnown = identity?.token !== undefined && isCurrent(identity.applied)
    const isUsable = isKnown && now < identity.at + TOKEN_MS
    if (isUsable && now < identity.at + REFRESH_AFTER_MS) return identity
    if (isUsable) {
      if (now >= this.nextLookUpAt) this.ctx.waitUntil(this.startLookUp(hash).catch(() => undefined))
      return identity
    }
    await this.startLookUp(hash)
    const found = this.identity
    // Another one was cached while this one waited, or an administrator has changed the token meanwhile.
    if (!found) return this.identify(hash)
    if (!isCurrent(found.applied)) return null
    return found
  }

  private startLookUp(hash: string): Promise<void> {
    if (this.lookUp) return this.lookUp
    const { epoch } = this
    const at = Date.now()
    this.nextLookUpAt = at + RETRY_MS
    const lookUp = findToken(this.env.DB, hash)
      .then((found) => {
        if (epoch !== this.epoch) return
        const lastUsedAt = Math.max(found.lastUsedAt, this.identity?.lastUsedAt ?? 0)
        this.identity = { ...found, lastUsedAt, at }
      })
      .catch((error: unknown) => {
        log('token_lookup_failed', { reason: nameOf(error) }, 'error')
        throw error
      })
      .finally(() => {
        if (this.lookUp === lookUp) this.lookUp = null
      })
    this.lookUp = lookUp
    return lookUp
  }

  private openFreshness(database: string, now: number): Freshness {
    if (this.freshness) {
      this.freshness.follow(database, now)
      return this.freshness
    }
    // A row of an earlier release does not say what the token wrote.
    const unknown = { database, bookmark: null, unsettledUntil: now }
    const stored = this.stored ? (this.stored.freshness ?? unknown) : null
    this.freshness = new Freshness(database, now, stored)
    return this.freshness
  }

  private freshnessDatabase(reported: string): string {
    return this.identity?.token?.database ?? this.stored?.freshness?.database ?? reported
  }

  private count(demand: Demand, now: number): Verdict {
    // No request is allowed or counted while its company has no database time.
    const isClosed = this.company.isClosed(now)
    const { window, verdict } = count(this.window, now, isClosed ? { ...demand, requests: 0 } : demand)
    if (isClosed) verdict.allowed = false
    if (this.company.rest) verdict.company = this.company.rest
    this.company.add(this.identity?.token?.companyId, demand.databaseMs, now)
    const used = {
      requests: (verdict.allowed ? demand.requests - (demand.counted?.requests ?? 0) : 0) + (demand.uncounted ?? 0),
      refused: (verdict.allowed ? 0 : demand.requests) + (demand.refused ?? 0),
      databaseMs: demand.databaseMs,
    }
    this.window = window
    if (used.requests + used.refused + used.databaseMs > 0) {
      this.hours = addUsage(this.hours, now, used)
      this.hasChanged = true
    }
    return verdict
  }

  /** Stores what a crash must not lose, and the rest when the object is idle. */
  private keep(now: number, isWrite: boolean): void {
    const { window, stored } = this
    const isFirst = this.lastCallAt === 0
    this.lastCallAt = now
    if (!window) return
    const isOther = window.startedAt !== stored?.startedAt
    const isMore = window.count > (isOther ? 0 : stored.count)
    const isLarge = window.databaseMs - (isOther ? 0 : stored.databaseMs) >= LARGE_MS
    const isUncovered = isWrite && (stored?.freshness?.unsettledUntil ?? 0) < now
    // The first row is exact: a token that is seldom used loses nothing by the eviction of its object.
    if (isMore || isLarge || isUncovered) this.store(now, isFirst ? 1 : BLOCK, false)
    if (this.hasChanged && this.timer === null) this.timer = setTimeout(() => this.storeWhenIdle(), IDLE_MS)
  }

  private storeWhenIdle(): void {
    this.timer = null
    const now = Date.now()
    const idleMs = now - this.lastCallAt
    if (idleMs < IDLE_MS) this.timer = setTimeout(() => this.storeWhenIdle(), IDLE_MS - idleMs)
    else if (this.hasChanged) this.store(now, 1, true)
  }

  /** @param block requests that the row counts from the present one on */
  private store(now: number, block: number, isIdle: boolean): void {
    const { window, identity } = this
    if (!window) return
    const freshness = this.freshness?.toStored(now, isIdle) ?? this.stored?.freshness
    this.stored = {
      ...window,
      count: window.count + (block - 1),
      hours: this.hours,
      ...(freshness && { freshness }),
      ...(identity && { identity }),
    }
    this.ctx.storage.kv.put('window', this.stored)
    // A row that counts ahead is to be replaced by an exact one.
    this.hasChanged = block > 1
  }
}

/** The window alone: the rest of the row is kept, or forgotten, by itself. */
function windowOf({ startedAt, count, databaseMs }: Stored): Window {
  return { startedAt, count, databaseMs }
}

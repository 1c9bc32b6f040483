import { DurableObject } from 'cloudflare:workers'
import type { Env } from '../../env.ts'
import { acceptsSchema } from '../db/refusals.ts'
import { BUDGET_MS, log, nameOf, withDeadline } from '../http/isolate.ts'
import {
  addUsage,
  advance,
  COMPANY_LIMIT_MS,
  count,
  DATABASE_LIMIT_MS,
  type Decision,
  type HourOfUsage,
  type Usage,
  type Window,
} from './limits.ts'
import { ReadAfterWrite, type ReadConstraint, type Seen, type StoredWrites } from './read-after-write.ts'
import { type Found, findToken, LAST_USED_EVERY_MS, TOKEN_MS, type Token, touchToken } from './tokens.ts'

/** From this age on a token is looked up again behind the requests that still use it. */
const REFRESH_AFTER_MS = 15_000
/** A replica may not have the rows of a younger token, nor of its company. */
const REPLICATION_MS = 60_000
/** One stored row counts this many requests ahead: a crash may lose them, and never gives them twice. */
const BLOCK = 20
/** A crash may lose less database time than this, of a token or of a company. */
const UNSTORED_MS = 1_500
/** The exact state is stored after this time without a call: sooner than an idle object is evicted. */
const IDLE_MS = 5_000

export interface Report extends Usage {
  seen?: Seen | undefined
  /** A write that is not known here, or was admitted long ago, may commit. */
  mayCommit?: boolean
}

export type AdmitRequest = Report & { isWrite: boolean }

export type Admission = Awaited<ReturnType<RateLimiter['admit']>>
/** An allowed or rate-limited request of a valid token. */
export type Admitted = Extract<Admission, { kind: 'admitted' }>

/** The token, or null when it has expired or was revoked. */
export function unlessExpired(token: Token | null, now: number): Token | null {
  return token?.expiresAt != null && token.expiresAt <= now ? null : token
}

type Identity = Found & { at: number }
type Stored = Window & { hours: HourOfUsage[]; freshness: StoredWrites; identity?: Identity | undefined }

/**
 * Decides for one token, whose hash is the object's name, across all isolates: who it is, whether its limits allow a
 * request, and where its reads may run. Requests are counted before their responses leave; a crash gives no second
 * allowance. An unknown token stores nothing.
 */
export class RateLimiter extends DurableObject<Env> {
  private stored = this.ctx.storage.kv.get<Stored>('window')
  private window: Window = this.stored ?? { startedAt: 0, count: 0, databaseMs: 0 }
  private hours = this.stored?.hours ?? []
  private identity: Identity | undefined = this.stored?.identity
  private readonly writes = new ReadAfterWrite(Date.now(), this.stored?.freshness)
  private readonly company = new CompanyShare(this.env.COMPANY_LIMITER)
  private lookUp: Promise<Identity> | null = null
  private isFirst = true
  private timer: ReturnType<typeof setTimeout> | undefined

  /**
   * Rejects when the token cannot be looked up. `outdated` means that the schema is older than this code. `ageMs` is the
   * time since the look-up began, `applied` the migrations of the directory. The `receipt` goes with the report of a write,
   * or of a read whose bookmark settles a lost write.
   */
  async admit(hash: string, { isWrite, ...report }: AdmitRequest) {
    const identity = await this.identify(hash)
    const now = Date.now()
    const { applied, lastUsedAt, at } = identity
    if (!acceptsSchema(applied)) return { kind: 'outdated' as const }
    if (identity.token === undefined) return { kind: 'unknown' as const }
    const ageMs = now - at
    const token = unlessExpired(identity.token, now)
    // Revoked or expired.
    if (!token) return { kind: 'ended' as const, ageMs }

    this.writes.follow(token.database, now)
    const decision = this.count({ ...report, requests: 1 }, now)
    const isNew = now < token.createdAt + REPLICATION_MS
    const constraint: ReadConstraint = isWrite || isNew ? 'primary' : this.writes.constraint()
    const receipt = decision.allowed ? this.writes.begin(now, isWrite) : undefined
    this.storeIfDue()
    if (decision.allowed && now - lastUsedAt >= LAST_USED_EVERY_MS) {
      identity.lastUsedAt = now
      this.ctx.waitUntil(touchToken(this.env.DB, token, now).catch(() => undefined))
    }
    return { kind: 'admitted' as const, token, ageMs, applied, decision, constraint, receipt }
  }

  /** Counts usage behind a response, or the further requests of an admitted one. */
  report(report: Report): Decision {
    const decision = this.count(report, Date.now())
    this.storeIfDue()
    return decision
  }

  /** The token was changed: the next request looks it up again. */
  forget(): void {
    this.identity = undefined
    this.lookUp = null
    if (this.stored?.identity) this.store(1, false)
  }

  usage(): HourOfUsage[] {
    return this.hours
  }

  /** For the health check. */
  ping(): void {}

  private async identify(hash: string): Promise<Identity> {
    const now = Date.now()
    const { identity } = this
    // An unknown token may be created at any time.
    const isKnown = identity?.token !== undefined && acceptsSchema(identity.applied)
    if (!isKnown || now >= identity.at + TOKEN_MS) return this.startLookUp(hash)
    const isDue = now >= identity.at + REFRESH_AFTER_MS
    if (isDue) this.ctx.waitUntil(this.startLookUp(hash).catch(() => undefined))
    return identity
  }

  /** Starts a look-up, or joins the one that is under way. */
  private startLookUp(hash: string): Promise<Identity> {
    const find = async () => {
      const at = Date.now()
      try {
        const found = await findToken(this.env.DB, hash)
        const identity = { ...found, lastUsedAt: Math.max(found.lastUsedAt, this.identity?.lastUsedAt ?? 0), at }
        // If the token was changed meanwhile, the next request looks it up again.
        if (this.lookUp === lookUp) this.identity = identity
        return identity
      } catch (error) {
        log('token_lookup_failed', { reason: nameOf(error) }, 'error')
        throw error
      } finally {
        if (this.lookUp === lookUp) this.lookUp = null
      }
    }
    const lookUp = this.lookUp ?? find()
    this.lookUp = lookUp
    return lookUp
  }

  private count({ seen, mayCommit, ...usage }: Report, now: number): Decision {
    if (seen) this.writes.report(seen)
    if (mayCommit) this.writes.beginUnknown(now)
    const decision = count(this.window, now, usage, this.company.window)
    this.window = decision.window
    this.hours = addUsage(this.hours, now, usage, decision.allowed)
    this.company.add(this.identity?.token?.companyId, usage.databaseMs, now)
    return decision
  }

  /** Stores the part that a crash must not lose, and the rest when the object is idle. */
  private storeIfDue(): void {
    const { window, stored, isFirst } = this
    this.isFirst = false
    const known = window.startedAt === stored?.startedAt ? stored : { count: 0, databaseMs: 0 }
    const isMore = window.count > known.count || window.databaseMs - known.databaseMs >= UNSTORED_MS
    const isUncovered = this.writes.toStored(false).unsettledAt > (stored?.freshness.unsettledAt ?? 0)
    // The first row is exact: a seldom used token needs no second one, and loses nothing by the eviction of its object.
    const isDue = isMore || isUncovered
    if (isDue) this.store(isFirst ? 1 : BLOCK, false)
    clearTimeout(this.timer)
    if (!isDue || !isFirst) this.timer = setTimeout(() => this.store(1, true), IDLE_MS)
  }

  /** @param block requests that the row counts from the present one on */
  private store(block: number, isIdle: boolean): void {
    const { window, hours, identity } = this
    const freshness = this.writes.toStored(isIdle)
    this.stored = { ...window, count: window.count + block - 1, hours, freshness, identity }
    this.ctx.storage.kv.put('window', this.stored)
  }
}

/** The object of a token calls that of its company at most this often. */
const EXCHANGE_MS = 2_000

/** Counts the database time of one company, whose id is its name: the objects of the company's tokens report it. */
export class CompanyLimiter extends DurableObject<Env> {
  private stored = this.ctx.storage.kv.get<Window>('window')
  private window = this.stored

  report(databaseMs: number): Window {
    const window = advance(this.window, Date.now(), COMPANY_LIMIT_MS)
    window.databaseMs += databaseMs
    this.window = window
    const storedMs = window.startedAt === this.stored?.startedAt ? this.stored.databaseMs : 0
    if (window.databaseMs >= storedMs + UNSTORED_MS) {
      this.stored = window
      this.ctx.storage.kv.put('window', window)
    }
    return window
  }

  /** For the health check. */
  ping(): void {}
}

/**
 * The company's database time as one token's object knows it. The object exchanges it with the company's object behind
 * the requests. A company's object that fails opens this limit and no other.
 */
export class CompanyShare {
  window: Window | undefined
  private readonly objects: Env['COMPANY_LIMITER']
  private unsentMs = 0
  private isScheduled = false
  private nextAt = 0

  constructor(objects: Env['COMPANY_LIMITER']) {
    this.objects = objects
  }

  /** @param companyId undefined while the token is unknown: the time then waits */
  add(companyId: number | undefined, databaseMs: number, now: number): void {
    // After an outage of the company's object, only the time of one window matters.
    this.unsentMs = Math.min(this.unsentMs + databaseMs, DATABASE_LIMIT_MS)
    if (companyId === undefined || this.isScheduled) return
    this.isScheduled = true
    setTimeout(() => this.exchange(companyId), Math.min(Math.max(0, this.nextAt - now), EXCHANGE_MS))
  }

  private async exchange(companyId: number): Promise<void> {
    const sentMs = this.unsentMs
    this.unsentMs = 0
    this.nextAt = Date.now() + EXCHANGE_MS
    const report = async () => this.objects.get(this.objects.idFromName(String(companyId))).report(sentMs)
    const window = await withDeadline(report(), BUDGET_MS.afterwards).catch((error) => {
      log('company_limiter_failed', { company_id: companyId, reason: nameOf(error) })
    })
    this.isScheduled = false
    this.window = window ?? this.window
    // After a failure the next request begins the next exchange.
    if (!window) this.unsentMs += sentMs
    else if (this.unsentMs > 0) this.add(companyId, 0, Date.now())
  }
}

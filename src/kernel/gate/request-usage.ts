import type { Env } from '../../env.ts'
import { type BatchSemaphore, type Permit, semaphoreOf } from '../db/batch-semaphore.ts'
import type { BatchResult, Database, DatabaseUse, Meter } from '../db/client.ts'
import { databaseFor, parseBookmark } from '../db/placement.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import type { Admitted } from './limiter.ts'
import { type ReadConstraint, type Receipt, tighten } from './read-after-write.ts'
import { describeLimits, POLICY, rateLimited, refusalOf } from './refusals.ts'
import type { TokenClient, TokenEnv } from './token-request.ts'
import type { Token } from './tokens.ts'
import { type Decision, isOutOfTime } from './window.ts'

/** Hono's types of what the gate reads and sets. */
export interface GateEnv {
  Bindings: Env
  Variables: TokenEnv['Variables'] & { receivedAt: number; token?: Token | undefined; usage: RequestUsage }
}

/** A write admitted longer ago is announced again before its batch: after a minute its object takes it for lost. */
const ANNOUNCED_MS = 20_000
/** The most that a failed batch is charged: D1 does not report its time, and an outage must not use up an allowance. */
const FAILED_BATCH_MS = 1_000
/** `Retry-After` of a batch that waited in vain for the company's earlier ones. */
const CROWDED_SECONDS = 5

/** An admitted request's use of its token's limits and of its company's database. */
export class RequestUsage implements Meter {
  readonly token: Token
  private readonly client: TokenClient
  private readonly isWrite: boolean
  /** Undefined for a write of which the object does not know. */
  private receipt: Receipt | undefined
  private announcedAt = Date.now()
  private decision: Decision
  private constraint: ReadConstraint
  private bookmark: () => string | null = () => null
  private hasEnded = false

  constructor(client: TokenClient, { token, decision, constraint, receipt }: Admitted, isWrite: boolean) {
    this.client = client
    this.token = token
    this.decision = decision
    this.constraint = constraint
    this.receipt = receipt
    this.isWrite = isWrite
  }

  /** Takes the requests as which this one counts. @throws ApiError 429 where not all are left */
  async take(requests: number): Promise<void> {
    if (requests <= 1) return
    this.decision = await this.client.take(requests, this.decision)
    if (!this.decision.allowed) throw refusalOf(this.decision, Date.now())
  }

  /** The company's database, whose reads contain the writes of the token and the version that the caller sent. */
  openDatabase(env: Env, sent: string | undefined, use: DatabaseUse): Database {
    const { companyId, database, companySlot: slot } = this.token
    this.constraint = tighten(this.constraint, database, parseBookmark(sent))
    const bookmark = this.constraint === 'primary' ? undefined : this.constraint
    const onMoved = () => this.client.forget()
    const db = databaseFor(env, { companyId, database, slot }, { bookmark, meter: this, use, onMoved })
    this.bookmark = db.bookmark
    return db
  }

  /** Runs a batch once the company's earlier ones leave room for it, and charges its time. @throws ApiError 429 */
  async run<T extends BatchResult>(batch: () => Promise<T>): Promise<T> {
    if (Date.now() >= this.announcedAt + ANNOUNCED_MS) await this.announceAgain()
    const batches = semaphoreOf(this.token.companyId)
    const permit = batches.tryAcquire() ?? (await this.queue(batches))
    const startedAt = Date.now()
    const work = batch()
    const end = (durationMs: number) => {
      batches.release(permit, durationMs)
      this.charge(durationMs)
    }
    const ended = work.then(
      ({ durationMs }) => end(durationMs),
      () => end(Math.min(Date.now() - startedAt, FAILED_BATCH_MS)),
    )
    // Past its deadline, the batch still counts when it ends.
    this.client.waitUntil(ended)
    await ended
    return work
  }

  charge(databaseMs: number): void {
    this.client.state.charge(databaseMs)
    if (this.hasEnded) this.client.reportLater()
  }

  /** Makes later reads of the token at least as fresh as this one: the response names what its caller reads next. */
  async remember(): Promise<void> {
    const version = parseBookmark(this.bookmark())
    if (!version || version.bookmark === this.constraint) return
    await withDeadline(this.client.report(version), BUDGET_MS.limiter).catch(() => this.client.keep(version))
  }

  /** The headers of the limits. */
  headers(): Record<string, string> {
    const { remaining, resetAt } = this.decision
    const limits = describeLimits({ ...this.client.state.remaining, remaining, resetAt }, Date.now())
    return { 'RateLimit-Policy': POLICY, RateLimit: limits }
  }

  /** Reports the write and the usage of a request with this status; later charges are reported at once. */
  end(status: number): void {
    this.hasEnded = true
    const { receipt, isWrite } = this
    const isFailed = status >= 500
    const version = parseBookmark(this.bookmark()) ?? { database: this.token.database, bookmark: null }
    const hasSeen = version.bookmark !== null
    if (isWrite && !receipt && (hasSeen || isFailed)) this.client.keep({ ...version, mayCommit: isFailed })
    // A write that failed may still commit: it stays unsettled.
    const isSettled = receipt && !isFailed && (isWrite || hasSeen)
    this.client.reportLater(isSettled ? { ...version, ...receipt } : undefined)
  }

  private async announceAgain(): Promise<void> {
    const [begun] = this.receipt?.writes ?? []
    this.announcedAt = Date.now()
    if (begun !== undefined && !(await this.client.send({ begun }))) this.receipt = undefined
  }

  private async queue(batches: BatchSemaphore): Promise<Permit> {
    const acquired = batches.acquire().catch(() => null)
    this.client.waitUntil(acquired)
    const permit = await acquired
    if (!permit) throw rateLimited(CROWDED_SECONDS, 'Too many concurrent requests of this company')
    // The earlier batches may have used up the time.
    const { remaining } = this.client.state
    if (!isOutOfTime(remaining, Date.now())) return permit
    batches.release(permit, 0)
    throw refusalOf({ ...remaining, allowed: false }, Date.now())
  }
}

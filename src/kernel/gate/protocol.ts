import type { Mark, Seen } from './freshness.ts'
import type { Token } from './tokens.ts'
import type { DatabaseRest, Demand, HourOfUsage, Rest, Use, Verdict } from './window.ts'

// What isolates and the object of a token send each other.

/** A request that enters, with what its isolate reports beside it. */
export interface Entry extends Demand {
  /** The object's name: SHA-256 of the token. */
  hash: string
  /** Whether it may change something. */
  isWrite: boolean
  /** What could not be reported before. */
  lost?: Seen
}

/** Why a request does not enter: `outdated` where the schema is older than the code. */
export type Closed = { kind: 'unknown' } | { kind: 'outdated' } | { kind: 'ended'; ageMs: number }

export interface Entered {
  kind: 'entered'
  token: Token
  /** How long ago the look-up of the token began. */
  ageMs: number
  /** How long this request waited for it. */
  lookUpMs: number
  /** The newest migration of the directory. */
  applied: string | null
  verdict: Verdict
  mark: Mark
  /** The number of a write, by which it is reported. */
  write?: number
  /** Set where the bookmark of this read replaces a lost report. */
  settledAt?: number
  /** Whether the token's last use is to be written. */
  isTouchDue: boolean
}

/** What an isolate reports behind a response. */
export interface Report extends Use {
  /** Of a request that used the database. */
  read?: Seen
  /** What could not be reported before. */
  lost?: Seen
}

/** One request's connection to its token's Durable Object, and to the directory database beside it. */
export interface Remote {
  requestId: string
  enter(entry: Omit<Entry, 'hash'>): Promise<Entered | Closed>
  take(demand: Demand): Promise<Verdict>
  report(report: Report): Promise<Rest>
  /** Lets the object look the token up again. */
  forget(): Promise<void>
  /** The token as the directory has it, where the object fails. @throws ApiError 503 where the schema is too old */
  lookUp(): Promise<{ token: Token | null | undefined; isTouchDue: boolean }>
  /** Extends the request's life until the work ends: other requests may wait for it. */
  keepAlive(work: Promise<unknown>): void
}

/** What a request may do. */
export interface Admission extends Pick<Entered, 'token' | 'verdict' | 'mark' | 'settledAt' | 'isTouchDue'> {
  /** The number of a write, and null of one that the object does not know of. */
  write?: number | null
}

/** Answers for one token: see `kernel/gate/limiter.ts`. */
interface RateLimiter extends Rpc.DurableObjectBranded {
  enter(entry: Entry): Promise<Entered | Closed>
  take(demand: Demand): Verdict
  report(report: Report): Rest
  forget(): void
  usage(): HourOfUsage[]
  ping(): void
}

/** Counts the database time of one company: see `kernel/gate/company-limiter.ts`. */
interface CompanyLimiter extends Rpc.DurableObjectBranded {
  report(databaseMs: number): DatabaseRest
  ping(): void
}

declare global {
  namespace Cloudflare {
    interface Env {
      RATE_LIMITER: DurableObjectNamespace<RateLimiter>
      COMPANY_LIMITER: DurableObjectNamespace<CompanyLimiter>
    }
  }
}

import type { Closed, Entered, Entry, Report } from './kernel/gate/protocol.ts'
import type { DatabaseRest, Demand, HourOfUsage, Rest, Verdict } from './kernel/gate/window.ts'

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

/** Delivers one company's accounting events: see `delivery/accounting/delivery.ts`. */
interface AccountingDelivery extends Rpc.DurableObjectBranded {
  start(companyId: number): Promise<void>
  check(companyId: number): Promise<{ ok: boolean; message: string }>
  ping(): void
  findLastNumber(companyId: number, ceiling: number): Promise<number | 'none' | 'failed'>
}

/** Delivers one company's changes to its webhook endpoints: see `delivery/webhooks/delivery.ts`. */
interface WebhookDelivery extends Rpc.DurableObjectBranded {
  start(companyId: number): Promise<void>
  ping(): void
}

/** Whether a company's accounting system was asked for its last invoice number: `none` where it is not connected. */
export type AccountingCheck = 'none' | 'read' | 'failed'

/** How far a restore has come. */
export interface RestoreProgress {
  done: boolean
  /** Whether this call began it. */
  begun: boolean
  /** When the backup began whose state is restored. */
  backup: string
  /** What is being restored. */
  step: string
  /** Rows read of the backups so far. */
  rows: number
  /** At the end: tables that have not as many rows as when the backup ended. */
  differences: { table: string; expected: number; found: number }[]
  accounting: AccountingCheck
}

/** Why a company cannot be restored. */
export type RestoreProblem = 'no_backup' | 'not_empty' | 'restored_otherwise' | 'backup_unreadable'

export type RestoreResult = RestoreProgress | { problem: RestoreProblem; message?: string }

/** How far the recovery of one company has come. */
export interface RecoveryProgress {
  done: boolean
  /** What it has given out by now, by the column of `companies`. */
  marks: Record<
    'last_client_id' | 'last_order_id' | 'last_invoice_id' | 'last_invoice_number' | 'last_payment_id' | 'last_change',
    number
  >
  accounting: AccountingCheck
}

/** How far the move of a company to another database has come. */
export interface MoveProgress {
  done: boolean
  source: string
  destination: string
  step: string
  /** Rows copied, without those that were written meanwhile. */
  rows: number
  /** How long writes were refused. */
  frozen_ms: number
}

/** Why a company cannot be moved now. */
export type MoveProblem =
  | 'unknown_database'
  | 'outdated'
  | 'full'
  | 'restoring'
  | 'moving_elsewhere'
  | 'has_moved'
  | 'stuck'

export type MoveResult = MoveProgress | { problem: MoveProblem; message?: string }

/** Who changes something through the administration API. */
export interface Administrator {
  /** 0 of the whole deployment. */
  companyId: number
  caller: { actor: string }
  address: string
  requestId: string
  now: number
}

/** Backs up, restores and moves one company: see `operation/copies/company-backup.ts`. */
interface CompanyBackup extends Rpc.DurableObjectBranded {
  start(companyId: number): Promise<void>
  ping(): void
  restore(companyId: number, untilMs: number): Promise<RestoreResult>
  recover(companyId: number, run: string): Promise<RecoveryProgress>
  move(by: Administrator, destination: string): Promise<MoveResult>
}

declare global {
  namespace Cloudflare {
    /** The bindings of `wrangler.toml`. `context.ts` hands them on to the slices, which do not read `env`. */
    interface Env {
      DB: D1Database
      CACHE: KVNamespace
      FILES: R2Bucket
      /** The backups of the companies: see `operation/copies/format.ts`. */
      BACKUPS: R2Bucket
      ASSETS: Fetcher
      RATE_LIMITER: DurableObjectNamespace<RateLimiter>
      COMPANY_LIMITER: DurableObjectNamespace<CompanyLimiter>
      ACCOUNTING_DELIVERY: DurableObjectNamespace<AccountingDelivery>
      WEBHOOK_DELIVERY: DurableObjectNamespace<WebhookDelivery>
      COMPANY_BACKUP: DurableObjectNamespace<CompanyBackup>
      AUTH_FAILURES: RateLimit
      /** Of an IPv6 /48. */
      AUTH_FAILURES_WIDE: RateLimit
      ADMIN_REQUESTS: RateLimit
      /** Secret: 32 bytes, base64. Encrypts the companies' integration credentials and webhook secrets. */
      CREDENTIALS_KEY: string
      /** The deployment's own storage: account-level S3 keys to the bucket of `FILES`. Without them it has none. */
      STORAGE_ENDPOINT?: string
      STORAGE_BUCKET?: string
      /** The region that uploads are signed for. Default `auto`, the only one that R2 has. */
      STORAGE_REGION?: string
      STORAGE_ACCESS_KEY_ID?: string
      STORAGE_SECRET_ACCESS_KEY?: string
      /** `development` sends uploads through `resources/files/relay.ts`. Set in `.dev.vars` only. */
      STORAGE_RELAY?: string
      /** Secret: 64 hexadecimal characters. Lets the operator's commands administer; without it they may not. */
      ADMIN_TOKEN?: string
      /** The issuer (`https://TEAM.cloudflareaccess.com`) and the audience tag of the Access application. */
      ACCESS_ISSUER?: string
      ACCESS_AUDIENCE?: string
      /** Emails of operators, separated by commas. */
      OPERATORS?: string
      /**
       * `development` signs everyone on this machine in as an owner of the sample company; requests to another host than
       * this machine are then refused. Set in `.dev.vars` only.
       */
      ADMIN_DEVELOPMENT?: string
      /** The JSON API of the DNS resolver that checks addresses of companies. Default: that of `kernel/http/address.ts`. */
      WEBHOOK_RESOLVER?: string
      /** `development` also calls webhooks and integrations on loopback addresses. Set in `.dev.vars` only. */
      WEBHOOK_LOOPBACK?: string
    }
  }
}

export type Env = Cloudflare.Env

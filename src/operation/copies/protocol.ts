import type { Administrator } from '../../kernel/db/audit.ts'

/** Whether the company's accounting system gave its last invoice number: `none` if it is not connected. */
export type AccountingCheck = 'none' | 'read' | 'failed'

/** The progress of a restore. */
export interface RestoreProgress {
  done: boolean
  begun: boolean
  /** The start of the restored backup, which names it. */
  backup: string
  step: string
  /** Rows read of the backups so far. */
  rows: number
  /** At the end: tables whose row count differs from the backup's end. */
  differences: { table: string; expected: number; found: number }[]
  accounting: AccountingCheck
}

/** The reasons that prevent a restore. */
export type RestoreProblem = 'no_backup' | 'not_empty' | 'restored_otherwise' | 'backup_unreadable'

export type RestoreResult = RestoreProgress | { problem: RestoreProblem; message?: string }

/** The progress of one company's recovery. */
export interface RecoveryProgress {
  done: boolean
  /** Highest assigned ids, by column of `companies`. */
  sequences: Record<
    'last_client_id' | 'last_order_id' | 'last_invoice_id' | 'last_invoice_number' | 'last_payment_id' | 'last_change',
    number
  >
  accounting: AccountingCheck
}

/** The progress of a company's move. */
export interface MoveProgress {
  done: boolean
  source: string
  destination: string
  step: string
  /** Rows copied, without concurrent writes. */
  rows: number
  /** Milliseconds in which writes were refused. */
  frozen_ms: number
}

/** The reasons that prevent a move. */
export type MoveProblem =
  | 'unknown_database'
  | 'outdated'
  | 'full'
  | 'restoring'
  | 'moving_elsewhere'
  | 'has_moved'
  | 'stuck'

export type MoveResult = MoveProgress | { problem: MoveProblem; message?: string }

/** Backs up, restores and moves one company: see `operation/copies/company-backup.ts`. */
interface BackupObject extends Rpc.DurableObjectBranded {
  start(companyId: number): Promise<void>
  ping(): void
  restore(companyId: number, untilMs: number): Promise<RestoreResult>
  recover(companyId: number, run: string): Promise<RecoveryProgress>
  move(by: Administrator, destination: string): Promise<MoveResult>
}

declare global {
  namespace Cloudflare {
    interface Env {
      COMPANY_BACKUP: DurableObjectNamespace<BackupObject>
    }
  }
}

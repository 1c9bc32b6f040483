import type { Administrator } from '../../kernel/db/audit.ts'

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
  sequences: Record<
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

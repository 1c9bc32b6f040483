import type { ResponseBody } from '../../kernel/api/contract.ts'
import type { Administrator } from '../../kernel/db/audit.ts'
import type { moveCompany } from '../admin/databases/contract.ts'
import type { restoreCompany } from '../admin/recovery/contract.ts'
import type { Sequences } from './tables.ts'

/** The progress of a restore, and whether this call began it. */
export type RestoreProgress = ResponseBody<typeof restoreCompany> & { begun: boolean }

/** Whether the company's accounting system gave its last invoice number: `none` if it is not connected. */
export type AccountingCheck = RestoreProgress['accounting']

/** The reasons that prevent a restore. */
export type RestoreProblem = 'no_backup' | 'not_empty' | 'restored_otherwise' | 'backup_unreadable'

export type RestoreResult = RestoreProgress | { problem: RestoreProblem; message?: string }

/** The progress of one company's recovery, and its highest assigned ids. */
export interface RecoveryProgress {
  done: boolean
  sequences: Sequences
  accounting: AccountingCheck
}

/** The progress of a company's move. */
export type MoveProgress = ResponseBody<typeof moveCompany>

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

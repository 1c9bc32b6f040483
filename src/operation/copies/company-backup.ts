import type { Env } from '../../env.ts'
import type { Administrator } from '../../kernel/db/audit.ts'
import { openDatabase } from '../../kernel/db/client.ts'
import { CompanyObject, startObject } from '../../kernel/db/company-object.ts'
import { forEachDatabase, openCompany, type PlacedContext, syncDirectory, thaw } from '../../kernel/db/placement.ts'
import { log } from '../../kernel/http/log.ts'
import { type BackupState, beginBackup, removeOldBackups, stepBackup } from './back-up.ts'
import { BackupError } from './format.ts'
import { moveFor } from './move-company.ts'
import type { MoveResult, RecoveryProgress, RestoreResult } from './protocol.ts'
import { recordBackup } from './queries.ts'
import { beginReconciliation, type Reconciliation, stepReconciliation } from './reconcile.ts'
import { beginRestore, type RestoreContext, type RestoreState, stepRestore } from './restore.ts'
import { listOverdue } from './restore-queries.ts'
import { saveSequences } from './sequences.ts'

/** One run starts no step after so long; a run of its own continues. */
const RUN_MS = 20_000
/** One call of a restore or a recovery, which its caller repeats. */
const CALL_MS = 5_000
/** A backup that takes longer is begun anew: its rows are of too many times. */
const MAX_BACKUP_MS = 12 * 3_600_000
const EVERY_MS = 24 * 3_600_000
/** Companies that one sweep starts: 1,440 a day, of at most 1,024 in each database. */
const STARTED_AT_ONCE = 5

/** Backs up one company, restores and moves it. Being the only one, it never does two of them at once. */
export class CompanyBackup extends CompanyObject {
  protected override readonly name = 'backup'
  private moving: Promise<void> = Promise.resolve()

  protected override async run(context: PlacedContext): Promise<number | null> {
    const { kv } = this.ctx.storage
    if (kv.get('restore') !== undefined) return null
    const store = { ...context, bucket: this.env.BACKUPS }
    const endMs = Date.now() + RUN_MS
    const stored = kv.get<BackupState>('backup')
    const isFresh = stored && Date.now() - Date.parse(stored.at) < MAX_BACKUP_MS
    let state = isFresh ? stored : await beginBackup(store, Date.now())
    while (state) {
      kv.put('backup', state)
      if (Date.now() >= endMs) return Date.now()
      const { at, kind, parts } = state
      state = await stepBackup(store, state, Date.now())
      if (state) continue
      kv.delete('backup')
      await recordBackup(context, Date.parse(at))
      const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
      log('backup', { company_id: context.companyId, kind, parts: parts.length, bytes, began_at: at })
      await removeOldBackups(store, Date.now())
    }
    return null
  }

  /**
   * Restores an empty company to the newest backup that began until a time. Each call does some steps of it, and is
   * repeated until it is done; one that is interrupted goes on where it was.
   */
  async restore(companyId: number, untilMs: number): Promise<RestoreResult> {
    const { kv } = this.ctx.storage
    const context = await this.open(companyId)
    const endMs = Date.now() + CALL_MS
    try {
      const stored = kv.get<RestoreState>('restore')
      let state = stored
      if (!state) {
        const begun = await beginRestore(context, untilMs)
        if (typeof begun === 'string') return { problem: begun }
        kv.delete('backup')
        state = begun
      }
      if (state.untilMs !== untilMs) return { problem: 'restored_otherwise' }
      for (;;) {
        kv.put('restore', state)
        const wasChecking = state.check !== null
        const step = await stepRestore(context, state, Date.now())
        state = step.state
        // Suspended at the beginning, and as the backup says at the end.
        const isOpened = wasChecking && state.check === null
        if (isOpened || step.progress.done) await syncDirectory(context)
        if (step.progress.done) kv.delete('restore')
        if (step.progress.done || Date.now() >= endMs) {
          if (!step.progress.done) kv.put('restore', state)
          return { ...step.progress, begun: stored === undefined }
        }
      }
    } catch (error) {
      // As long as nothing is changed, another backup can be restored.
      if (kv.get<RestoreState>('restore')?.check) kv.delete('restore')
      if (error instanceof BackupError) return { problem: 'backup_unreadable', message: error.message }
      throw error
    }
  }

  /**
   * Raises what the company gives out past what is known elsewhere, and begins its feed anew. As {@link restore}, each call
   * does some steps.
   *
   * @param run names the recovery: another one begins anew
   */
  async recover(companyId: number, run: string): Promise<RecoveryProgress> {
    const { kv } = this.ctx.storage
    const context = await this.open(companyId)
    const endMs = Date.now() + CALL_MS
    const stored = kv.get<{ run: string; reconciliation: Reconciliation }>('recovery')
    let reconciliation = stored?.run === run ? stored.reconciliation : beginReconciliation(null)
    while (reconciliation.left.length > 0 && Date.now() < endMs) {
      reconciliation = await stepReconciliation(context, reconciliation, Date.now())
      kv.put('recovery', { run, reconciliation })
    }
    const { left, sequences, accounting } = reconciliation
    return { done: left.length === 0, sequences, accounting }
  }

  /** Moves the company to another database, step by step as {@link restore}; one call after the other. */
  async move(by: Administrator, destination: string): Promise<MoveResult> {
    const { kv } = this.ctx.storage
    if (kv.get('restore') !== undefined) return { problem: 'restoring' }
    const before = this.moving
    const run = async () => {
      await before
      const result = await moveFor(this.env, by, destination, CALL_MS)
      // A backup has the rows of one database.
      kv.delete('backup')
      return result
    }
    const result = run()
    this.moving = result.then(
      () => undefined,
      () => undefined,
    )
    return result
  }

  private async open(companyId: number): Promise<RestoreContext & PlacedContext> {
    const { BACKUPS: bucket, CACHE: cache, FILES: files, ACCOUNTING_DELIVERY: objects } = this.env
    const object = objects.get(objects.idFromName(String(companyId)))
    const findLastNumber = (ceiling: number) => object.findLastNumber(companyId, ceiling)
    return { ...(await openCompany(this.env, companyId)), bucket, cache, files, findLastNumber, manifests: new Map() }
  }
}

/** What the cron trigger runs: keeps the sequences of all companies, and starts the backups of those that wait for one. */
export async function sweepBackups(env: Env, nowMs: number): Promise<void> {
  await forEachDatabase(env, async (binding) => {
    const context = { companyId: 0, db: openDatabase(binding) }
    const [[thawed]] = await context.db.writeIdempotent([thaw(nowMs)])
    if (thawed) log('move_interrupted', { company_id: thawed.company_id }, 'error')
    await saveSequences(context, env.BACKUPS)
    const companyIds = await listOverdue(context, nowMs - EVERY_MS, STARTED_AT_ONCE)
    await Promise.all(
      companyIds.map((companyId) => startObject(env.COMPANY_BACKUP, companyId, 'backup', context.db.primaryRegion())),
    )
  })
}

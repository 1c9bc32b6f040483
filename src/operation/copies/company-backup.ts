import type { Env } from '../../env.ts'
import type { Administrator } from '../../kernel/db/audit.ts'
import { openDatabase } from '../../kernel/db/client.ts'
import { CompanyObject, startObject } from '../../kernel/db/company-object.ts'
import {
  endStaleReadOnly,
  forEachDatabase,
  openCompany,
  type PlacedContext,
  syncDirectory,
} from '../../kernel/db/placement.ts'
import { log } from '../../kernel/http/errors.ts'
import { type BackupContext, type BackupState, beginBackup, endBackup, stepBackup } from './backup.ts'
import { type MoveResult, moveFor } from './move.ts'
import {
  beginReconciliation,
  type Reconciliation,
  type RecoveryProgress,
  saveSequences,
  stepReconciliation,
} from './reconcile.ts'
import { beginRestore, type RestoreContext, type RestoreResult, type RestoreState, stepRestore } from './restore.ts'
import { listOverdue, recordBackup } from './restore-queries.ts'
import { BackupError, type Part, PartWriter, removeOldBackups } from './store.ts'

/** A run starts no step after this time; the next run continues. */
const RUN_MS = 20_000
/** A call of a restore or a recovery lasts this long; its caller repeats it. */
const CALL_MS = 5_000
/** A longer backup starts again, since its rows are from too many different times. */
const MAX_BACKUP_MS = 12 * 3_600_000
const EVERY_MS = 24 * 3_600_000
/** A value of the object's storage for each part of the backup under way: one list would outgrow a value. */
const PART = 'part/'
const partName = (index: number) => `${PART}${String(index).padStart(8, '0')}`
const noop = () => undefined
/** Companies started by one sweep: 1,440 a day, with at most 1,024 in each database. */
const STARTED_AT_ONCE = 5

declare global {
  namespace Cloudflare {
    interface Env {
      COMPANY_BACKUP: DurableObjectNamespace<CompanyBackup>
    }
  }
}

/** Backs up, restores and moves one company. A single object never runs two of these at once. */
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
    if (!isFresh) this.forgetBackup()
    const begun = isFresh ? stored : await beginBackup(store, Date.now())
    if (!begun) return null
    const writer = new PartWriter(store, begun)
    for (let state = begun; ; ) {
      const after = await stepBackup(store, state, writer)
      const isOver = Date.now() >= endMs
      if (!after || isOver || writer.isFull) {
        const parts = await writer.take()
        state = { ...(after ?? state), parts: state.parts + parts.length }
        for (const [index, part] of parts.entries()) kv.put(partName(state.parts - parts.length + index), part)
        kv.put('backup', state)
      } else state = after
      if (!after) {
        await this.endBackup(store, state)
        return null
      }
      if (isOver) return Date.now()
    }
  }

  private async endBackup(context: BackupContext, state: BackupState): Promise<void> {
    const parts = [...this.ctx.storage.kv.list<Part>({ prefix: PART })].map(([, part]) => part)
    await endBackup(context, state, parts, Date.now())
    await recordBackup(context, Date.parse(state.at))
    this.forgetBackup()
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
    const { at, kind } = state
    log('backup', { company_id: context.companyId, kind, parts: parts.length, bytes, began_at: at })
    await removeOldBackups(context, Date.now())
  }

  private forgetBackup(): void {
    const { kv } = this.ctx.storage
    kv.delete('backup')
    for (const [name] of [...kv.list({ prefix: PART })]) kv.delete(name)
  }

  /**
   * Restores an empty company to the newest backup begun before a time. Each call does some steps and is repeated until
   * it is done; an interrupted restore continues.
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
        this.forgetBackup()
        state = begun
      }
      if (state.untilMs !== untilMs) return { problem: 'restored_otherwise' }
      kv.put('restore', state)
      for (;;) {
        const { state: next, progress } = await stepRestore(context, state, Date.now())
        // The company is suspended from the beginning, and gets the backup's own state at the end.
        if (progress.done || (state.check && !next.check)) await syncDirectory(context)
        state = next
        if (progress.done) kv.delete('restore')
        else kv.put('restore', state)
        if (progress.done || Date.now() >= endMs) return { ...progress, begun: stored === undefined }
      }
    } catch (error) {
      // Until the first change, another backup can be chosen.
      if (kv.get<RestoreState>('restore')?.check) kv.delete('restore')
      if (error instanceof BackupError) return { problem: 'backup_unreadable', message: error.message }
      throw error
    }
  }

  /**
   * Raises the company's sequences past all known values and restarts its feed. Like {@link restore}, each call does
   * some steps.
   *
   * @param run names the recovery; another name starts again
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

  /** Moves the company to another database, step by step like {@link restore}; calls run one after the other. */
  async move(by: Administrator, destination: string): Promise<MoveResult> {
    const { kv } = this.ctx.storage
    if (kv.get('restore') !== undefined) return { problem: 'restoring' }
    const before = this.moving
    const run = async () => {
      await before
      const result = await moveFor(this.env, by, destination, CALL_MS)
      // The backup's state belongs to the old database.
      this.forgetBackup()
      return result
    }
    const result = run()
    this.moving = result.then(noop, noop)
    return result
  }

  private async open(companyId: number): Promise<RestoreContext & PlacedContext> {
    const { BACKUPS: bucket, CACHE: cache, FILES: files, ACCOUNTING_DELIVERY: objects } = this.env
    const object = objects.get(objects.idFromName(String(companyId)))
    const findLastNumber = (ceiling: number) => object.findLastNumber(companyId, ceiling)
    return { ...(await openCompany(this.env, companyId)), bucket, cache, files, findLastNumber, manifests: new Map() }
  }
}

/** Runs with the cron trigger: saves the sequences of all companies, and starts overdue backups. */
export async function sweepBackups(env: Env, nowMs: number): Promise<void> {
  await forEachDatabase(env, async (binding) => {
    const db = openDatabase(binding)
    const context = { companyId: 0, db }
    const [[ended]] = await db.writeIdempotent([endStaleReadOnly(nowMs)])
    if (ended) log('move_interrupted', { company_id: ended.company_id }, 'error')
    await saveSequences(context, env.BACKUPS)
    const companyIds = await listOverdue(context, nowMs - EVERY_MS, STARTED_AT_ONCE)
    await Promise.all(companyIds.map((companyId) => startObject(env.COMPANY_BACKUP, 'backup', { companyId, db })))
  })
}

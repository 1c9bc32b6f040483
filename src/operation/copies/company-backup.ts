import type { Env } from '../../env.ts'
import type { Administrator } from '../../kernel/db/audit.ts'
import { CompanyObject, startObject } from '../../kernel/db/company-object.ts'
import {
  directoryFor,
  endStaleReadOnly,
  forEachDatabase,
  openCompany,
  openEach,
  type PlacedContext,
  syncDirectory,
} from '../../kernel/db/placement.ts'
import { ApiError, conflict } from '../../kernel/http/errors.ts'
import { log } from '../../kernel/http/isolate.ts'
import { continueBackup, forgetBackup } from './backup.ts'
import { closeCopies, findMove } from './guard-queries.ts'
import { continueMove } from './move.ts'
import { continueRecovery, type ReconcileContext, saveSequences } from './reconcile.ts'
import { ABANDONED_MS, BEING_RESTORED, continueRestore, isRestoring, repeatRestore } from './restore.ts'
import { listCompanies } from './restore-queries.ts'

/** A call or a run of a backup starts no step after this time: another waits for it. The next one continues. */
const CALL_MS = 5_000
const EVERY_MS = 24 * 3_600_000
/** Companies started by one sweep: 1,440 a day, with at most 1,024 in each database. */
const STARTED_AT_ONCE = 5

/** Backs up, restores and moves one company. A single object does one of these at a time. */
export class CompanyBackup extends CompanyObject {
  protected override readonly name = 'backup'
  private readonly kv = this.ctx.storage.kv
  private last: Promise<unknown> = Promise.resolve()

  override async alarm(): Promise<void> {
    await this.inTurn(() => super.alarm())
  }

  protected override async run(context: PlacedContext): Promise<number | null> {
    const move = await findMove({ ...context, db: context.directory })
    const isMoving = move && Date.now() - move.updated_at < ABANDONED_MS
    if (isMoving || isRestoring(this.kv)) {
      log('backup_skipped', { company_id: context.companyId, reason: isMoving ? 'move' : 'restore' })
      return null
    }
    const isDone = await continueBackup({ ...context, bucket: this.env.BACKUPS }, this.kv, CALL_MS)
    return isDone ? null : Date.now()
  }

  restore(by: Administrator, untilMs: number) {
    return this.inTurn(async () => continueRestore(await this.open(by.companyId), this.kv, by, untilMs, CALL_MS))
  }

  isRestoring(): boolean {
    return isRestoring(this.kv)
  }

  recover(companyId: number, run: string) {
    return this.inTurn(async () => {
      // Its rows are of before the reset, and its feed ends.
      forgetBackup(this.kv)
      const context = await this.open(companyId)
      const company = await closeCopies(context, context.database, openEach(this.env))
      // Until another database is set back too, what is written now would be lost or taken for its data.
      if (!company) return { done: true, missing: { id: companyId, database: context.database } }
      repeatRestore(this.kv, company.suspended)
      // It may be the only database that was set back.
      await syncDirectory(context)
      return continueRecovery(context, this.kv, run, CALL_MS)
    })
  }

  /** Moves the company to another database, step by step like {@link restore}. */
  move(by: Administrator, destination: string) {
    return this.inTurn(async () => {
      if (isRestoring(this.kv)) throw conflict(BEING_RESTORED)
      // The backup's state belongs to the old database.
      forgetBackup(this.kv)
      return continueMove(this.env, by, destination, CALL_MS)
    })
  }

  /**
   * Runs work after all earlier work: other calls arrive while it waits for D1 or R2. RPC drops the class of an error, so
   * a refusal is returned as a result: see `accepted`.
   */
  private inTurn<T>(work: () => Promise<T>) {
    const result = this.last.then(work).catch((error: unknown) => {
      if (!(error instanceof ApiError)) throw error
      const { kind, message, headers, cause } = error
      return { refusal: { kind, message, headers, ...(cause !== undefined && { cause: String(cause) }) } }
    })
    this.last = result.catch(() => undefined)
    return result
  }

  private async open(companyId: number): Promise<ReconcileContext> {
    const { BACKUPS: bucket, CACHE: cache, FILES: files, ACCOUNTING_DELIVERY: objects } = this.env
    const object = objects.get(objects.idFromName(String(companyId)))
    const findLastNumber = (ceiling: number) => object.findLastNumber(companyId, ceiling)
    return { ...(await openCompany(this.env, companyId)), bucket, cache, files, findLastNumber }
  }
}

/** Runs with the cron trigger: saves the sequences of all companies, and starts overdue backups. */
export async function sweepBackups(env: Env, nowMs: number): Promise<void> {
  const found: Awaited<ReturnType<typeof listCompanies>> = []
  const swept = forEachDatabase(env, async (db, name) => {
    const [[ended]] = await db.writeIdempotent([endStaleReadOnly(nowMs)])
    if (ended) log('move_interrupted', { company_id: ended.company_id }, 'error')
    const companies = await listCompanies({ companyId: 0, db, directory: directoryFor(env) }, name)
    found.push(...companies)
    const overdue = companies.filter(({ backed_up_at }) => Number(backed_up_at) < nowMs - EVERY_MS)
    // In any order: those that always fail must not be picked each time.
    const started = overdue.slice(0, STARTED_AT_ONCE)
    await Promise.all(started.map(({ id }) => startObject(env.COMPANY_BACKUP, 'backup', id)))
  })
  // Once for all databases: R2 takes one write of an object a second.
  await swept.finally(() => saveSequences(found, env.BACKUPS))
}

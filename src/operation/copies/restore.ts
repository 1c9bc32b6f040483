import type { Administrator } from '../../kernel/db/audit.ts'
import { slotProblem, syncDirectory } from '../../kernel/db/placement.ts'
import { ApiError, conflict } from '../../kernel/http/errors.ts'
import { forgetBackup } from './backup.ts'
import { countRows, hasContent, isEmpty, readCompany } from './read-queries.ts'
import { beginReconciliation, type ReconcileContext, type Reconciliation, stepReconciliation } from './reconcile.ts'
import { hasOthersThreads, openForRestore, removeSome, suspendAgain } from './restore-queries.ts'
import { BackupError, findWithData, listBackups, readManifest, readPart } from './store.ts'
import { TABLE_NAMES, type TablePlan, UNITS } from './tables.ts'
import { restoreRows } from './write-queries.ts'

export { hasContent, isEmpty, removeSome }

interface RestoreState {
  untilMs: number
  /** The start of the backup, which names it. */
  backup: string
  /** The name of the step done last, and its time. */
  step: string
  at: number
  /** Whether all parts were checked. Nothing changes before that. */
  isChecked: boolean
  tables: string
  /** How many parts are checked, then how many insertions are done. */
  position: number
  reconciliation: Reconciliation | null
  rows: number
  /** Differences found when all parts are restored, before later steps add rows. */
  differences: Awaited<ReturnType<typeof findDifferences>>
}

type RestorePlan = Awaited<ReturnType<typeof readPlan>>

/** The key of the state in the storage of the company's object. */
export const RESTORE = 'restore'
/** A call that completed a restore may be repeated for some time, as its response may be lost. */
const REPEATED_MS = 3_600_000
/** No backup runs between steps of a move or restore, which would wait for it. After this time without one it is left. */
export const ABANDONED_MS = 600_000

/**
 * Restores an empty company to the newest backup begun before a time. Each call does some steps and is repeated until
 * it is done; an interrupted restore continues. None ends between the checks, which can be left, and the suspension.
 *
 * @throws ApiError 404 without such a backup; 409 for a company with data, a backup that cannot be read, and while a
 *   restore from another time is not done
 */
export async function continueRestore(
  context: ReconcileContext,
  kv: SyncKvStorage,
  by: Administrator,
  untilMs: number,
  ms: number,
) {
  const endMs = Date.now() + ms
  let state: RestoreState | undefined
  try {
    state = await openRestore(context, kv, untilMs)
    if (state.step === 'done') return progressOf(state)
    const plan = await readPlan(context, state.backup)
    for (;;) {
      const hasTaken: boolean = state.step === 'take'
      const after = await stepRestore(context, plan, state, by)
      if (!after) throw conflict(NOT_EMPTY)
      state = { ...after, at: Date.now() }
      kv.put(RESTORE, state)
      // Behind the suspension a call ends: the tokens must know of it before there are rows to change.
      const isOver = Date.now() >= endMs && state.step !== 'take'
      if (hasTaken || isOver || state.step === 'done') return progressOf(state)
    }
  } catch (error) {
    const problem = error instanceof BackupError ? error.message : slotProblem(error)
    const refusal = problem ? conflict(problem) : error
    const isRefused = refusal instanceof ApiError && refusal.kind === 'conflict'
    // Until the first rows, another backup can be chosen.
    if (isRefused && (state?.isChecked === false || state?.step === 'take')) kv.delete(RESTORE)
    throw refusal
  }
}

const NOT_EMPTY = 'The company has data: only an empty one can be restored'
const OTHERS_THREADS =
  'Another company of the database has email threads of this backup: create the company in another one, or move it there'

/** Repeats all insertions. */
const AGAIN = { step: 'take', tables: TABLE_NAMES, position: 0, rows: 0, reconciliation: null }

/** The stored state of a restore, or that of a new one. */
async function openRestore(context: ReconcileContext, kv: SyncKvStorage, untilMs: number): Promise<RestoreState> {
  const last = kv.get<RestoreState>(RESTORE)
  let state = last?.step === 'done' ? undefined : last
  if (state?.isChecked === false && state.untilMs !== untilMs) state = undefined
  if (state?.isChecked && state.step !== 'take') {
    if (!(await suspendAgain(context))) state = undefined
    await syncDirectory(context)
  }
  if (state?.isChecked && state.tables !== TABLE_NAMES) state = { ...state, ...AGAIN }
  if (!state) {
    const backups = (await listBackups(context)).filter((at) => Date.parse(at) <= untilMs)
    const newest = backups.at(-1)
    if (newest === undefined) {
      throw new ApiError('not_found', { message: 'No backup of this company began by then: choose a later time' })
    }
    if ((await readCompany(context)).company && !(await isEmpty(context))) {
      if (last?.step === 'done' && last.untilMs === untilMs && Date.now() - last.at < REPEATED_MS) return last
      throw conflict(NOT_EMPTY)
    }
    const backup = (await findWithData(context, backups.toReversed())) ?? newest
    forgetBackup(kv)
    const start = { step: 'check', at: Date.now(), isChecked: false, position: 0, rows: 0, reconciliation: null }
    state = { ...start, tables: TABLE_NAMES, differences: [], untilMs, backup }
  }
  if (state.untilMs !== untilMs) throw conflict('A restore from another time has begun: repeat it until it is done')
  kv.put(RESTORE, state)
  return state
}

export const BEING_RESTORED = 'The company is being restored: repeat that until it is done'

/** Whether a restore goes on. One that is only checked, and was left, has changed nothing: it is forgotten. */
export function isRestoring(kv: SyncKvStorage): boolean {
  const state = kv.get<RestoreState>(RESTORE)
  if (!state || state.step === 'done') return false
  const isAbandoned = !state.isChecked && Date.now() - state.at >= ABANDONED_MS
  if (isAbandoned) kv.delete(RESTORE)
  return !isAbandoned
}

/**
 * Repeats all insertions, which Time Travel may have undone, as it may those of a complete restore; none if it has
 * removed the suspension that came first.
 */
export function repeatRestore(kv: SyncKvStorage, isSuspended: boolean): void {
  const state = kv.get<RestoreState>(RESTORE)
  if (state && state.step !== 'done' && isSuspended) kv.put(RESTORE, { ...state, ...AGAIN })
  else kv.delete(RESTORE)
}

/**
 * @returns the parts in the order in which they are checked, then inserted, and the row of `companies` and counts
 * @throws BackupError when the manifest is damaged
 */
async function readPlan(context: ReconcileContext, backup: string) {
  const { parts, company, counts } = await readManifest(context, backup)
  const insertions = UNITS.flatMap((unit) => {
    const ordered = isForward(unit) ? parts : parts.toReversed()
    return ordered.flatMap((part) => (part.rows[unit.name] ? [{ unit, part }] : []))
  })
  return { parts, insertions, company, counts }
}

/** Inserted rows keep their unique values, so the row read last comes first. Logs and rows with new ids come oldest first. */
const isForward = (unit: TablePlan) => unit.isAppended || unit.sourceId !== undefined

/** Checks or inserts one part, or does a later step. @returns the state after it; null if the company has data */
async function stepRestore(context: ReconcileContext, plan: RestorePlan, state: RestoreState, by: Administrator) {
  const { position } = state
  if (!state.isChecked) {
    const part = plan.parts[position]
    if (!part) return (await isEmpty(context)) ? { ...state, step: 'take', isChecked: true, position: 0 } : null
    const ids = (await readPart(context, part)).flatMap(({ name, row }) => (name === 'email_threads' ? [row.id] : []))
    // Their ids are unique in a database: those of an imported copy of the company would be left out.
    if (ids.length > 0 && (await hasOthersThreads(context, JSON.stringify(ids)))) throw conflict(OTHERS_THREADS)
    return { ...state, position: position + 1 }
  }
  if (state.step === 'take') {
    const log = plan.insertions.findLast(({ unit }) => unit.name === 'audit_log')
    const last = log && (await readPart(context, log.part)).findLast(({ name }) => name === 'audit_log')
    const company = { ...plan.company, ...(last && { audit_expired: last.row.id ?? 0 }) }
    // The company is suspended from the beginning, and gets the backup's own state at the end.
    if (!(await openForRestore(context, company, by, state.backup))) return null
    await syncDirectory(context)
    return { ...state, step: 'check' }
  }
  const insertion = plan.insertions[position]
  if (insertion) {
    const { unit, part } = insertion
    const rows = (await readPart(context, part)).flatMap(({ name, row }) => (name === unit.name ? [row] : []))
    await restoreRows(context, unit, isForward(unit) ? rows : rows.reverse())
    return { ...state, step: unit.name, position: position + 1, rows: state.rows + rows.length }
  }
  const differences = state.reconciliation ? state.differences : await findDifferences(context, plan.counts)
  const begun = state.reconciliation ?? beginReconciliation(plan.company)
  const reconciliation = await stepReconciliation(context, begun)
  const [step = 'done'] = reconciliation.left
  if (step === 'done') await syncDirectory(context)
  return { ...state, step, differences, reconciliation }
}

async function findDifferences(context: ReconcileContext, counts: RestorePlan['counts']) {
  const found = await countRows(context)
  return UNITS.flatMap(({ name: table, isAppended }) => {
    const [expected = 0, rows = 0] = [counts[table], found[table]]
    // A log also has entries of the restore itself.
    return rows === expected || (isAppended && rows > expected) ? [] : [{ table, expected, found: rows }]
  })
}

function progressOf({ backup, step, rows, differences, reconciliation }: RestoreState) {
  const done = step === 'done'
  const accounting = reconciliation?.accounting ?? 'none'
  return { done, backup, step, rows, differences: done ? differences : [], accounting }
}

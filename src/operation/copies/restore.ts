import type { ResponseBody } from '../../kernel/api/contract.ts'
import type { restoreCompany } from '../admin/recovery/contract.ts'
import { countRows, isEmpty, readCompany } from './read-queries.ts'
import {
  beginReconciliation,
  findKnownSequences,
  type ReconcileContext,
  type Reconciliation,
  stepReconciliation,
} from './reconcile.ts'
import { openForRestore } from './restore-queries.ts'
import {
  BackupError,
  type BackupName,
  listBackups,
  type Manifest,
  planRestore,
  readManifest,
  readPart,
} from './store.ts'
import { type Row, type TablePlan, UNITS } from './tables.ts'
import { insertLines } from './write-queries.ts'

/** The progress of a restore, and whether this call began it. */
type RestoreProgress = ResponseBody<typeof restoreCompany> & { begun: boolean }

/** The reasons that prevent a restore. */
export type RestoreProblem = 'no_backup' | 'not_empty' | 'restored_otherwise' | 'backup_unreadable'

export type RestoreResult = RestoreProgress | { problem: RestoreProblem; message?: string }

export interface RestoreContext extends ReconcileContext {
  manifests: Map<string, Manifest>
  /** The slot in the full-text tables by the directory; null without such a company there. */
  slot: number | null
}

/** The durable state of a restore under way. */
export interface RestoreState {
  untilMs: number
  /** The backups to restore, the oldest first, and the newest one's row of `companies` and counts. */
  chain: BackupName[]
  company: Row
  counts: Record<string, number>
  /** The next part to check; null when all are checked. Nothing changes before that. */
  check: { backup: number; part: number } | null
  /** The unit, the backup within the unit's order, and the last restored part. */
  unit: number
  backup: number
  part: number | null
  reconciliation: Reconciliation | null
  rows: number
  /** Differences found when all parts are restored, before later steps add rows. */
  differences: RestoreProgress['differences']
}

/** Finds the backups with a company's state of a time, or the problem that prevents a restore. */
export async function beginRestore(context: RestoreContext, untilMs: number): Promise<RestoreState | RestoreProblem> {
  const chain = planRestore(await listBackups(context), untilMs)
  const newest = chain.at(-1)
  if (!newest) return 'no_backup'
  if ((await readCompany(context)) && !(await isEmpty(context))) return 'not_empty'
  // A chain with a gap would restore too little.
  for (const [index, backup] of chain.entries()) {
    const { previous } = await manifestOf(context, backup)
    if (index > 0 && previous !== chain[index - 1]?.at) throw new BackupError('A backup between two others is missing.')
  }
  const { company, counts } = await manifestOf(context, newest)
  // The end of the restore reads them again: find a damaged manifest before anything changes.
  await findKnownSequences(context)
  const start = { check: { backup: 0, part: 0 }, unit: 0, backup: 0, part: null, rows: 0 }
  return { ...start, untilMs, chain, company, counts, reconciliation: null, differences: [] }
}

/** Restores one part, or does one of the later steps. @returns the state after it, and the progress */
export async function stepRestore(context: RestoreContext, state: RestoreState, nowMs: number) {
  if (state.check) {
    const next = { ...state, check: await checkPart(context, state.chain, state.check) }
    if (!next.check) await openForRestore(context, state.company)
    return { state: next, progress: progressOf(next, 'check') }
  }
  const unit = UNITS[state.unit]
  if (unit) {
    const next = await restorePart(context, state, unit)
    return { state: next, progress: progressOf(next, unit.name) }
  }
  const differences = state.reconciliation ? state.differences : await findDifferences(context, state.counts)
  const begun = state.reconciliation ?? beginReconciliation(state.company)
  const next = { ...state, differences, reconciliation: await stepReconciliation(context, begun, nowMs) }
  const [phase] = next.reconciliation.left
  if (phase) return { state: next, progress: progressOf(next, phase) }
  return { state: next, progress: { ...progressOf(next, 'done'), done: true, differences } }
}

/** Finds tables whose row count differs from the backup's. */
async function findDifferences(context: RestoreContext, counts: RestoreState['counts']) {
  const found = await countRows(context)
  return Object.entries(counts).flatMap(([table, expected]) => {
    const isLog = UNITS.some(({ name, rows }) => name === table && rows === 'appended')
    const { [table]: rows = 0 } = found
    // A log also has entries of the restore itself.
    return rows === expected || (isLog && rows > expected) ? [] : [{ table, expected, found: rows }]
  })
}

/** Reads a part. @returns the position of the next; null behind the last. @throws BackupError when it is missing or damaged */
async function checkPart(
  context: RestoreContext,
  chain: readonly BackupName[],
  place: { backup: number; part: number },
) {
  const backup = chain[place.backup]
  if (!backup) return null
  const part = (await manifestOf(context, backup)).parts[place.part]
  if (!part) return { backup: place.backup + 1, part: 0 }
  await readPart(context, part)
  return { ...place, part: place.part + 1 }
}

function progressOf({ chain, rows, reconciliation }: RestoreState, step: string): RestoreProgress {
  const accounting = reconciliation?.accounting ?? 'none'
  return { done: false, begun: false, backup: chain.at(-1)?.at ?? '', step, rows, differences: [], accounting }
}

/**
 * Restores one part of a unit, or turns to the next backup or unit. Inserted rows stay, so the newest version comes
 * first. Logs are written again, oldest first.
 */
async function restorePart(context: RestoreContext, state: RestoreState, unit: TablePlan): Promise<RestoreState> {
  const isForward = unit.rows === 'appended'
  const chain = unit.rows === 'all' ? state.chain.slice(-1) : state.chain
  const backup = (isForward ? chain : chain.toReversed())[state.backup]
  if (!backup) return { ...state, unit: state.unit + 1, backup: 0, part: null }
  const { parts } = await manifestOf(context, backup)
  const { part: last } = state
  const isNext = (index: number) => last === null || (isForward ? index > last : index < last)
  const indexes = parts.flatMap(({ rows }, index) => (rows[unit.name] && isNext(index) ? [index] : []))
  const next = indexes.at(isForward ? 0 : -1)
  const part = next === undefined ? undefined : parts[next]
  if (next === undefined || !part) return { ...state, backup: state.backup + 1, part: null }
  const lines = (await readPart(context, part)).filter(({ name }) => name === unit.name)
  await insertLines(context, unit, isForward ? lines : lines.reverse())
  return { ...state, part: next, rows: state.rows + lines.length }
}

/** Reads a manifest once in a call. */
async function manifestOf(context: RestoreContext, backup: BackupName): Promise<Manifest> {
  const manifest = context.manifests.get(backup.at) ?? (await readManifest(context, backup))
  context.manifests.set(backup.at, manifest)
  return manifest
}

import type { Administrator } from '../../kernel/db/audit.ts'
import type { Database } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { log } from '../../kernel/http/log.ts'
import type { Row, Value } from './format.ts'
import {
  appendAudit,
  deleteMove,
  endGuard,
  measureLog,
  prepareDestination,
  putEvents,
  putRows,
  readCompanyRow,
  readGuard,
  removeEvents,
  saveMove,
  setFrozen,
  setGuard,
} from './move-queries.ts'
import { COMPARED, catchUp, compareEnds, comparePage, DifferenceError, withParents } from './move-sync.ts'
import { AUDIT, CHANGES, EVENTS, MOVED, type MovedTable } from './move-tables.ts'
import {
  closeDestination,
  closeSource,
  isAway,
  openDestination,
  removeOldChanges,
  removeRows,
  setPlacement,
} from './ownership-queries.ts'
import { ofCompany, readCompany, readPage, readPages } from './queries.ts'

/**
 * A move copies a company while it is written: triggers log changed keys, which are copied again, and both databases
 * are compared. Then writes stop briefly for the rest, and the old database redirects. Each step can be repeated; until
 * the last one the move can be undone.
 */
export interface MoveState {
  step: 'clear' | 'begin' | 'copy' | 'compare' | 'catch_up' | 'switch' | 'place' | 'remove' | 'undo' | 'undo_remove'
  /** The position in the list of tables, and the key in that table. */
  table: number
  after: Value[] | null
  /** Rows copied so far, and how long writes were refused, in milliseconds. */
  rows: number
  frozenMs: number
  /** Attempts that ended because writes were refused for too long or the databases differed. */
  failures: number
}

export interface Move {
  companyId: number
  source: string
  destination: string
  /** The administrator whose call runs this step. */
  by: Administrator
  directory: Database
  /** The company in each of the two databases. */
  from: CompanyContext
  to: CompanyContext
}

/** With this few logged writes left, further ones are refused. */
const FEW_WRITES = 200
/** Log entries copied by one step, after which the state is saved. */
const STEP_ENTRIES = 2_000
/** Longest time that writes are refused, so that their clients' retries succeed. */
const FROZEN_MAX_MS = 4_000
/** Limit of the last attempts, for large companies or distant databases. After 10 s others end a freeze. */
const LAST_FROZEN_MAX_MS = 9_000
const FAILURES_MAX = 5
const LAST_FAILURES = 3

/** The move failed after several attempts: the databases differ, or writes would stop for too long. */
export class MoveError extends Error {
  override readonly name = 'MoveError'
}

export const BEGINNING: MoveState = { step: 'clear', table: 0, after: null, rows: 0, frozenMs: 0, failures: 0 }

const next = (state: MoveState, step: MoveState['step']): MoveState => ({ ...state, step, table: 0, after: null })

/** Does one step and saves the state. @returns that state; null when the move is complete or undone */
export async function stepMove(move: Move, state: MoveState, startedAt: number): Promise<MoveState | null> {
  const after = await doStep(move, state).catch((error: unknown) => beginAnew(state, error))
  const { companyId, directory: db, source, destination } = move
  const context = { companyId, db }
  if (after) await saveMove(context, { source, destination, state: after, started_at: startedAt }, Date.now())
  else await deleteMove(context)
  return after
}

/** Starts the copy again after a difference between the databases. */
function beginAnew(state: MoveState, error: unknown): MoveState {
  if (!(error instanceof DifferenceError)) throw error
  log('move_differs', { reason: error.message }, 'error')
  return next(fail(state, error.message), 'clear')
}

function fail(state: MoveState, reason: string): MoveState {
  const failures = state.failures + 1
  if (failures >= FAILURES_MAX) throw new MoveError(`The move does not come to its end: ${reason}.`)
  return { ...state, failures }
}

async function doStep(move: Move, state: MoveState): Promise<MoveState | null> {
  const { companyId, directory: db, source, destination, by, from, to } = move
  switch (state.step) {
    case 'clear':
      return clear(move, state, 'begin')
    case 'begin':
      await begin(move)
      return next(state, 'copy')
    case 'copy':
      return copyPage(move, state)
    case 'compare': {
      const moved = COMPARED[state.table]
      if (!moved) return next(state, 'catch_up')
      const after = await comparePage(move, moved, state.after)
      return { ...state, after, table: after ? state.table : state.table + 1 }
    }
    case 'catch_up':
      await withParents(move, MOVED.length, () => catchUp(move, MOVED, STEP_ENTRIES))
      return (await measureLog(from)).count <= FEW_WRITES ? next(state, 'switch') : state
    case 'switch':
      return switchOver(move, state)
    case 'place': {
      const guard = await readGuard(from)
      await setPlacement({ companyId, db }, { destination, slot: guard?.slot ?? 0, by })
      await endGuard(to)
      return next(state, 'remove')
    }
    case 'remove': {
      const step = await removeRows(from, { database: source, step: state.table, isCopy: false })
      return step === null ? null : { ...state, table: step }
    }
    case 'undo':
      await endGuard(from)
      return next(state, 'undo_remove')
    case 'undo_remove':
      return clear(move, state, null)
  }
}

/** Removes rows that an earlier attempt left in the destination. The guard stays: nobody reads the company there. */
async function clear({ source, destination, from, to }: Move, state: MoveState, then: 'begin' | null) {
  if (state.table === 0) {
    await closeDestination(to)
    const company = await readCompanyRow(from)
    await setGuard(to, { state: 'away', destination: source, slot: Number(company?.slot ?? 0) })
  }
  const step = await removeRows(to, { database: destination, step: state.table, isCopy: true })
  if (step !== null) return { ...state, table: step }
  return then === null ? null : next(state, then)
}

async function begin({ destination, from, to }: Move): Promise<void> {
  const company = await readCompanyRow(from)
  if (!company) throw new MoveError('The company has no row in its database.')
  const slot = await prepareDestination(to, company, Number(company.slot))
  await endGuard(from)
  await setGuard(from, { state: 'copying', destination, slot })
}

/** Tables copied page by page, in their order. */
const COPIED = [...MOVED, CHANGES, AUDIT]

async function copyPage(move: Move, state: MoveState): Promise<MoveState> {
  const moved = COPIED[state.table]
  if (!moved) return next(state, 'compare')
  const { from, to } = move
  const { rows, after } = await withParents(move, state.table, () => copyRows(from, to, moved, state.after))
  return { ...state, rows: state.rows + rows, after, table: after ? state.table : state.table + 1 }
}

async function copyRows(from: CompanyContext, to: CompanyContext, moved: MovedTable, after: Value[] | null) {
  const { table, key, order = key } = moved
  const { rows, next } = await readPage(from, { plan: { table, key: order }, where: ofCompany(from, moved) }, after)
  await put(to, moved, rows)
  // Rows appended from here on are copied at the end.
  return { rows: rows.length, after: next }
}

async function put(to: CompanyContext, moved: MovedTable, rows: readonly Row[]): Promise<void> {
  if (moved === AUDIT) await appendAudit(to, rows)
  else await putRows(to, moved, rows)
}

/** Copies rows after the last one of an append-only table. */
async function copyTail(from: CompanyContext, to: CompanyContext, moved: MovedTable, last: number): Promise<void> {
  for (let after: Value[] | null = [last]; after; ) {
    after = (await copyRows(from, to, moved, after)).after
  }
}

/** Refuses writes, copies and compares the rest, and switches to the new database. */
async function switchOver(move: Move, state: MoveState): Promise<MoveState> {
  const { source, destination, by, from, to } = move
  // An interrupted step continues after the switch.
  if (await isAway(from)) return next(state, 'place')
  await closeDestination(to)
  const start = Date.now()
  await setFrozen(from, start)
  try {
    await catchUp(move)
    await copyEnds(from, to)
    await compareEnds(move, start)
    const maxMs = state.failures < LAST_FAILURES ? FROZEN_MAX_MS : LAST_FROZEN_MAX_MS
    if (Date.now() - start < maxMs) {
      const company = await readCompanyRow(from)
      const guard = await readGuard(from)
      if (company && guard?.state === 'frozen') {
        await openDestination(to, company)
        if (await closeSource(from, { source, destination, slot: guard.slot, by })) {
          return { ...next(state, 'place'), frozenMs: state.frozenMs + Date.now() - start }
        }
        // Something else allowed writes again: the destination must not act as the company's database.
        await closeDestination(to)
      }
    }
    const failed = fail(state, 'writes would be refused for too long')
    return { ...next(failed, 'catch_up'), frozenMs: state.frozenMs + Date.now() - start }
  } finally {
    // This changes nothing once the old database is closed.
    await setFrozen(from, null)
  }
}

/** Copies unlogged rows: append-only ones, and events that wait for delivery. */
async function copyEnds(from: CompanyContext, to: CompanyContext): Promise<void> {
  const [copied, feed, guard] = await Promise.all([readCompany(to), readCompany(from), readGuard(to)])
  await removeOldChanges(to, feed?.oldestChange ?? Number(feed?.company.last_change ?? 0) + 1)
  await copyTail(from, to, CHANGES, Math.max(0, copied?.newestChange ?? 0))
  await copyTail(from, to, AUDIT, guard?.audit_id ?? 0)
  await removeEvents(to)
  for await (const rows of readPages(from, { plan: EVENTS, where: ofCompany(from, EVENTS) })) await putEvents(to, rows)
}

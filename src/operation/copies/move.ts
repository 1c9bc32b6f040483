import type { Administrator } from '../../kernel/db/audit.ts'
import type { Database } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { log } from '../../kernel/http/errors.ts'
import {
  closeDestination,
  closeSource,
  deleteMove,
  endGuard,
  hasMoved,
  openDestination,
  prepareDestination,
  readGuard,
  removeOldChanges,
  saveMove,
  setGuard,
  setPlacement,
  setReadOnly,
} from './guard-queries.ts'
import {
  catchUp,
  compareEnds,
  comparePage,
  copyKeys,
  copyTable,
  copyTail,
  DifferenceError,
  findPage,
  isOfReference,
  removeFrom,
  type Since,
  startFeeds,
  withParents,
} from './move-sync.ts'
import { type Key, readCompany } from './read-queries.ts'
import { MOVED, type TablePlan } from './tables.ts'
import { removeRows } from './write-queries.ts'

/**
 * A move copies a company while it is written, compares both databases, and copies what has changed since in rounds.
 * Then writes are refused briefly for the last round, and the old database redirects. Each step can be repeated; until
 * the last one the move can be undone.
 */
export interface MoveState {
  step: 'clear' | 'begin' | 'copy' | 'compare' | 'follow' | 'switch' | 'place' | 'remove' | 'undo' | 'undo_remove'
  /** The position in the list of tables, and the key in that table. */
  table: number
  after: Key | null
  /** Rows copied so far, and how long writes were refused, in milliseconds. */
  rows: number
  refusedMs: number
  /** Attempts that ended because writes were refused for too long or the databases differed. */
  failures: number
  since: Since
  /** The round of following the source's changes, and the rows copied in it. The first compares all stamps. */
  round: number
  changed: number
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

/** After a round with this few changed rows, or after the last round, writes are refused for the rest. */
const FEW_CHANGES = 200
const MAX_ROUNDS = 6
/** Longest time that writes are refused, so that their clients' retries succeed. */
const READ_ONLY_MAX_MS = 4_000
/** Limit of the last attempts, for large companies or distant databases. After 10 s others end the state. */
const LAST_READ_ONLY_MAX_MS = 9_000
const FAILURES_MAX = 5
const LAST_FAILURES = 3

/** The move failed after several attempts: the databases differ, or writes would stop for too long. */
export class MoveError extends Error {
  override readonly name = 'MoveError'
}

const START = { table: 0, after: null, changed: 0 } as const

export const BEGINNING: MoveState = {
  ...START,
  step: 'clear',
  rows: 0,
  refusedMs: 0,
  failures: 0,
  since: {},
  round: 0,
}

const next = (state: MoveState, step: MoveState['step']): MoveState => ({ ...state, ...START, step })

/** Does one step and saves the state. @returns that state; null when the move is complete or undone */
export async function stepMove(move: Move, state: MoveState, startedAt: number): Promise<MoveState | null> {
  const after = await doStep(move, state).catch((error: unknown) => restart(state, error))
  const { companyId, directory: db, source, destination } = move
  const context = { companyId, db }
  if (after) await saveMove(context, { source, destination, state: after, started_at: startedAt }, Date.now())
  else await deleteMove(context)
  return after
}

/** Starts the copy again after a difference between the databases. */
function restart(state: MoveState, error: unknown): MoveState {
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
      return { ...next(state, 'copy'), since: await begin(move) }
    case 'copy':
      return copy(move, state)
    case 'compare': {
      const plan = MOVED[state.table]
      // The feed before this is in the stamps that the first round compares.
      if (!plan) return { ...next(state, 'follow'), round: 0, since: await readFeeds(from) }
      return turn(state, await comparePage(move, plan, state.after))
    }
    case 'follow':
      return follow(move, state)
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

/** Goes on after a page: with the next one, or with the next table. */
const turn = (state: MoveState, after: Key | null): MoveState => ({
  ...state,
  after,
  table: after ? state.table : state.table + 1,
})

/** Removes rows that an earlier attempt left in the destination. The guard stays: nobody reads the company there. */
async function clear({ source, destination, from, to }: Move, state: MoveState, then: 'begin' | null) {
  if (state.table === 0) {
    await closeDestination(to)
    const found = await readCompany(from)
    await setGuard(to, { state: 'moved', destination: source, slot: Number(found?.company.slot ?? 0) })
  }
  const step = await removeRows(to, { database: destination, step: state.table, isCopy: true })
  if (step !== null) return { ...state, table: step }
  return then === null ? null : next(state, then)
}

async function begin({ destination, from, to }: Move): Promise<Since> {
  const { company } = (await readCompany(from)) ?? {}
  if (!company) throw new MoveError('The company has no row in its database.')
  const slot = await prepareDestination(to, company, Number(company.slot))
  await setGuard(from, { state: 'copying', destination, slot })
  return startFeeds(Number(company.last_change))
}

async function readFeeds(from: CompanyContext): Promise<Since> {
  return startFeeds(Number((await readCompany(from))?.company.last_change ?? 0))
}

async function copy(move: Move, state: MoveState): Promise<MoveState> {
  const plan = MOVED[state.table]
  if (!plan) return next(state, 'compare')
  const work = () => copyTable(move, plan, state.after)
  const { count, next: after } = await withParents(move, state.since, state.table, work)
  return { ...turn(state, after), rows: state.rows + count }
}

/** Copies the changed rows of one page. */
async function follow(move: Move, state: MoveState): Promise<MoveState> {
  const plan = MOVED[state.table]
  if (!plan) {
    const isClose = state.changed <= FEW_CHANGES || state.round >= MAX_ROUNDS
    return isClose ? next(state, 'switch') : { ...next(state, 'follow'), round: state.round + 1 }
  }
  if (plan.rows === 'appended') {
    return turn({ ...state, changed: state.changed + (await copyTail(move, plan)) }, null)
  }
  const since = state.round === 0 ? undefined : state.since[plan.name]
  const { copied, removed, next: after, sequence } = await findPage(move, plan, state.after, since)
  await withParents(move, state.since, state.table, () => copyKeys(move, plan, copied))
  await removeUnlessReferenced(move, plan, removed)
  return {
    ...turn(state, after),
    changed: state.changed + copied.length + removed.length,
    since: sequence === undefined ? state.since : { ...state.since, [plan.name]: sequence },
  }
}

/** Rows that others still refer to are removed in the next round. */
async function removeUnlessReferenced(move: Move, plan: TablePlan, keys: readonly Key[]): Promise<void> {
  await removeFrom(move, plan, keys).catch((error: unknown) => {
    if (!isOfReference(error)) throw error
  })
}

/** Refuses writes, copies and compares the rest, and switches to the new database. */
async function switchOver(move: Move, state: MoveState): Promise<MoveState> {
  const { source, destination, by, from, to } = move
  // An interrupted step continues after the switch.
  if (await hasMoved(from)) return next(state, 'place')
  await closeDestination(to)
  const start = Date.now()
  await setReadOnly(from, start)
  try {
    const { company, oldestChange } = (await readCompany(from)) ?? {}
    await removeOldChanges(to, oldestChange ?? Number(company?.last_change ?? 0) + 1)
    await catchUp(move, state.since)
    await compareEnds(move, start)
    const maxMs = state.failures < LAST_FAILURES ? READ_ONLY_MAX_MS : LAST_READ_ONLY_MAX_MS
    if (Date.now() - start < maxMs) {
      const guard = await readGuard(from)
      if (company && guard?.state === 'read_only') {
        await openDestination(to, company)
        if (await closeSource(from, { source, destination, slot: guard.slot, by })) {
          return { ...next(state, 'place'), refusedMs: state.refusedMs + Date.now() - start }
        }
        // Something else allowed writes again: the destination must not act as the company's database.
        await closeDestination(to)
      }
    }
    const failed = fail(state, 'writes would be refused for too long')
    return { ...next(failed, 'follow'), round: 1, refusedMs: state.refusedMs + Date.now() - start }
  } finally {
    // This changes nothing once the old database is closed.
    await setReadOnly(from, null)
  }
}

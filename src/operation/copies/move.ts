import type { Env } from '../../env.ts'
import { type Administrator, collectAdminEntries } from '../../kernel/db/audit.ts'
import { databaseMessage, openDatabase } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { bindingOf, openCompany, slotProblem } from '../../kernel/db/placement.ts'
import { requireCurrent } from '../../kernel/db/refusals.ts'
import { conflict } from '../../kernel/http/errors.ts'
import { log } from '../../kernel/http/isolate.ts'
import * as guard from './guard-queries.ts'
import * as sync from './move-sync.ts'
import { readCompany } from './read-queries.ts'
import { type Key, MOVED, TABLE_NAMES } from './tables.ts'
import { removeKeys, removeRows } from './write-queries.ts'

/**
 * A move copies a company while it is written, compares both databases, and copies what has changed since in rounds.
 * Then writes are refused briefly for the last round, and the old database redirects. Each step can be repeated; until
 * the last one the move can be undone.
 */
interface MoveState {
  step: 'clear' | 'begin' | 'copy' | 'compare' | 'follow' | 'switch' | 'place' | 'remove' | 'undo'
  tables: string
  /** The position in the list of tables, and the key in that table. */
  table: number
  after: Key | null
  /** Rows copied so far, and how long writes were refused, in milliseconds. */
  rows: number
  refusedMs: number
  /** Attempts that ended because writes were refused for too long or the databases differed. */
  failures: number
  /** The last change of the feed that is copied, and that when the present round began, which copies it. */
  since: number
  until: number
  /** The round of following the source's changes, and the rows copied in it. The first compares all stamps. */
  round: number
  changed: number
}

type Move = Awaited<ReturnType<typeof open>>['move']

/** After a round with this few changed rows, or after the last round, writes are refused for the rest. */
const FEW_CHANGES = 200
const MAX_ROUNDS = 6
/** Longest time that writes are refused, so that their clients' retries succeed. */
const READ_ONLY_MAX_MS = 4_000
/** Limit of the last attempts, for large companies or distant databases. After 10 s others end the state. */
const LAST_READ_ONLY_MAX_MS = 9_000
const FAILURES_MAX = 5
const LAST_FAILURES = 3

const START = { table: 0, after: null, changed: 0 } as const
const COUNTS = { rows: 0, refusedMs: 0, failures: 0, since: 0, until: 0, round: 0 } as const
const BEGINNING: MoveState = { ...START, ...COUNTS, tables: TABLE_NAMES, step: 'clear' }

/**
 * Moves a company to another database, or back to its source, for some time. The state is in the directory, so the next
 * call continues after an interruption at any point.
 *
 * @throws ApiError 409 for a move that cannot begin, or that fails after several attempts
 */
export async function continueMove(env: Env, by: Administrator, destination: string, ms: number) {
  const endMs = Date.now() + ms
  const { move, state: begun } = await open(env, by, destination)
  const { source } = move
  const progress = (done: boolean, { step, rows, refusedMs }: MoveState) =>
    ({ done, source, destination: move.destination, step, rows, frozen_ms: refusedMs }) as const
  if (!begun) return progress(true, { ...BEGINNING, step: 'remove' })
  let state = begun
  try {
    for (;;) {
      const saved = await runStep(move, state)
      if (!saved) {
        const { rows, refusedMs: frozen_ms } = state
        log('company_moved', { company_id: by.companyId, source, destination, rows, frozen_ms })
        return progress(true, state)
      }
      // Once the company is placed, the caller invalidates the tokens' objects. Before, it is in neither database's sweeps.
      const isPlaced = state.step === 'place'
      state = saved
      if (isPlaced || (Date.now() >= endMs && state.step !== 'place')) return progress(false, state)
    }
  } catch (error) {
    if (databaseMessage(error).includes('email_threads.id')) {
      throw conflict('Another company of the database has email threads of this one. Take the move back')
    }
    const problem = slotProblem(error)
    throw problem ? conflict(state.step === 'place' ? problem : `${problem}. Take the move back`) : error
  }
}

/** Opens a stored move or a new one, whose next steps `by` runs. Without a state the company is there already. */
async function open(env: Env, by: Administrator, destination: string) {
  const { companyId } = by
  const { directory: db, database } = await openCompany(env, companyId)
  const directory = { companyId, db }
  const row = await guard.findMove(directory)
  const ends = row ?? { source: database, destination, started_at: Date.now() }
  const inDatabase = (name: string): CompanyContext => ({ companyId, db: openDatabase(bindingOf(env, name)) })
  const move = { ...ends, env, by, directory, from: inDatabase(ends.source), to: inDatabase(ends.destination) }
  if (!row) {
    if (database === destination) return { move, state: null }
    await requireCurrent(bindingOf(env, destination))
    return { move, state: BEGINNING }
  }
  const stored = row.state as MoveState
  const safeStep = ['copy', 'compare', 'follow'].includes(stored.step) ? 'clear' : stored.step
  const state = stored.tables === TABLE_NAMES ? stored : { ...toStep(stored, safeStep), tables: TABLE_NAMES }
  const isUndone = state.step === 'undo'
  if (destination === move.destination && !isUndone) return { move, state }
  if (destination !== move.source) {
    throw conflict('The company is being moved to another database: complete that move, or take it back')
  }
  if ((await guard.readGuard(move.from))?.state === 'moved') {
    throw conflict('The company has moved: complete the move, then move it back')
  }
  return { move, state: isUndone ? state : ({ ...state, step: 'undo', table: 0 } as const) }
}

/** Does one step and saves the state. @returns that state; null when the move is complete or undone */
async function runStep(move: Move, state: MoveState): Promise<MoveState | null> {
  const saved = await doStep(move, state).catch((error: unknown) => {
    if (!(error instanceof sync.DifferenceError)) throw error
    log('move_differs', { company_id: move.by.companyId, reason: error.message }, 'error')
    return toStep(fail(state, error.message), 'clear')
  })
  await guard.saveMove(move.directory, move, saved)
  return saved
}

const toStep = (state: MoveState, step: MoveState['step']): MoveState => ({ ...state, ...START, step })

/** Goes on after a page: with the next one, or with the next table. */
const toPage = (state: MoveState, after: Key | null) => ({ ...state, after, table: state.table + (after ? 0 : 1) })

function fail(state: MoveState, reason: string): MoveState {
  const failures = state.failures + 1
  if (failures >= FAILURES_MAX) throw conflict(`The move does not come to its end: ${reason}.`)
  return { ...state, failures }
}

async function doStep(move: Move, state: MoveState): Promise<MoveState | null> {
  const { env, source, destination, by, directory, from, to } = move
  const plan = MOVED[state.table]
  switch (state.step) {
    case 'clear':
      return clear(move, state, toStep(state, 'begin'))
    case 'begin': {
      const { company, lastChange: since } = await readCompany(from)
      if (!company) throw conflict('The company has no row in its database.')
      const slot = await guard.prepareDestination(to, company)
      await guard.setGuard(from, { state: 'copying', destination, slot })
      return { ...toStep(state, 'copy'), since }
    }
    case 'copy': {
      if (!plan) return toStep(state, 'compare')
      const work = () => sync.copyPage(move, plan, state.after)
      const { count, next: after } = await sync.withParents(move, state.since, state.table, work)
      return { ...toPage(state, after), rows: state.rows + count }
    }
    case 'compare': {
      if (plan) return toPage(state, await sync.comparePage(move, plan, state.after))
      // The feed before this is in the stamps that the first round compares.
      const { lastChange: since } = await readCompany(from)
      return { ...toStep(state, 'follow'), round: 0, since, until: since }
    }
    case 'follow':
    case 'switch': {
      const { lastChange, oldestChange } = await readCompany(from)
      // A recovery has emptied the feed: only a comparison finds what had changed.
      if (state.since + 1 < oldestChange) return toStep(state, 'compare')
      return state.step === 'follow' ? follow(move, state, lastChange) : switchOver(move, state)
    }
    case 'place': {
      const { slot = 0 } = (await guard.readGuard(from)) ?? {}
      await guard.setPlacement(directory, { destination, slot, by })
      await guard.endGuard(to)
      return toStep(state, 'remove')
    }
    case 'remove': {
      // Administrators' entries refer to the company's row, which goes last.
      if (state.table === 0) await collectAdminEntries(env, source)
      const step = await removeRows(from, { database: source, step: state.table, isCopy: false })
      return step === null ? null : { ...state, table: step }
    }
    case 'undo':
      await guard.endGuard(from)
      return clear(move, state, null)
  }
}

/** Removes rows that an earlier attempt left in the destination. The guard stays: nobody reads the company there. */
async function clear({ source, destination, from, to }: Move, state: MoveState, cleared: MoveState | null) {
  if (state.table === 0) {
    await guard.closeDestination(to)
    const { company } = await readCompany(from)
    await guard.setGuard(to, { state: 'moved', destination: source, slot: Number(company?.slot ?? 0) })
  }
  const step = await removeRows(to, { database: destination, step: state.table, isCopy: true })
  return step === null ? cleared : { ...state, table: step }
}

async function follow(move: Move, state: MoveState, lastChange: number): Promise<MoveState> {
  const plan = MOVED[state.table]
  if (!plan) {
    const isClose = state.changed <= FEW_CHANGES || state.round >= MAX_ROUNDS
    const after = toStep(state, isClose ? 'switch' : 'follow')
    return { ...after, round: state.round + 1, since: state.until, until: lastChange }
  }
  const since = state.round === 0 ? null : state.since
  const { copied, removed, next: after } = await sync.findPage(move, plan, state.after, since)
  await sync.withParents(move, state.since, state.table, () => sync.copyKeys(move, plan, copied))
  // Rows that others still refer to are removed in the next round.
  await removeKeys(move.to, plan, removed).catch(sync.ignoreReference)
  return { ...toPage(state, after), changed: state.changed + copied.length + removed.length }
}

/** Refuses writes, copies and compares the rest, and switches to the new database. */
async function switchOver(move: Move, state: MoveState): Promise<MoveState> {
  const { source, destination, by, from, to } = move
  // An interrupted step continues after the switch.
  if ((await guard.readGuard(from))?.state === 'moved') return toStep(state, 'place')
  await guard.closeDestination(to)
  const start = Date.now()
  await guard.setReadOnly(from, start)
  try {
    const { company, oldestChange } = await readCompany(from)
    await guard.removeOldChanges(to, oldestChange)
    await sync.catchUp(move, state.since)
    await sync.compareEnds(move, start)
    const maxMs = state.failures < LAST_FAILURES ? READ_ONLY_MAX_MS : LAST_READ_ONLY_MAX_MS
    const present = Date.now() - start < maxMs ? await guard.readGuard(from) : null
    if (company && present?.state === 'read_only') {
      await guard.openDestination(to, company)
      if (await guard.closeSource(from, { source, destination, slot: present.slot, by })) {
        return { ...toStep(state, 'place'), refusedMs: state.refusedMs + Date.now() - start }
      }
      // Something else allowed writes again: the destination must not act as the company's database.
      await guard.closeDestination(to)
    }
    const failed = fail(state, 'writes would be refused for too long')
    return { ...toStep(failed, 'follow'), round: 1, refusedMs: state.refusedMs + Date.now() - start }
  } finally {
    // This changes nothing once the old database is closed.
    await guard.setReadOnly(from, null)
  }
}

import type { Env } from '../../env.ts'
import type { Administrator } from '../../kernel/db/audit.ts'
import { databaseMessage, openDatabase } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { isCurrent, readApplied } from '../../kernel/db/migrations.ts'
import { bindingOf, databaseNames, openCompany } from '../../kernel/db/placement.ts'
import { log } from '../../kernel/http/errors.ts'
import { deleteMove, endGuard, findMove, hasMoved } from './guard-queries.ts'
import { BEGINNING, type Move, MoveError, type MoveState, stepMove } from './move.ts'
import type { MoveProblem, MoveResult } from './protocol.ts'

/**
 * Moves a company to another database, or back to its source, for some time. The state is in the directory, so the next
 * call continues after an interruption at any point.
 */
export async function moveFor(env: Env, by: Administrator, destination: string, ms: number): Promise<MoveResult> {
  const endMs = Date.now() + ms
  const { companyId } = by
  const found = await open(env, by, destination)
  if ('problem' in found) return found
  const { move, startedAt } = found
  let state: MoveState | null = found.state
  const { source, destination: end } = move
  const progress = (done: boolean, { step, rows, refusedMs }: MoveState) =>
    ({ done, source, destination: end, step, rows, frozen_ms: refusedMs }) as const
  if (!state) return progress(true, { ...BEGINNING, step: 'remove' })
  try {
    for (;;) {
      const after: MoveState | null = await stepMove(move, state, startedAt)
      if (!after) {
        log('company_moved', {
          company_id: companyId,
          source,
          destination,
          rows: state.rows,
          frozen_ms: state.refusedMs,
        })
        return progress(true, state)
      }
      const isPlaced = state.step === 'place'
      state = after
      // The caller invalidates the tokens' objects.
      if (isPlaced || Date.now() >= endMs) return progress(false, state)
    }
  } catch (error) {
    if (error instanceof MoveError) return { problem: 'stuck', message: error.message }
    if (databaseMessage(error).includes('companies_slot')) return { problem: 'full' }
    throw error
  }
}

type Found = { move: Move; state: MoveState | null; startedAt: number } | { problem: MoveProblem }

async function open(env: Env, by: Administrator, destination: string): Promise<Found> {
  const { companyId } = by
  if (!databaseNames(env).includes(destination)) return { problem: 'unknown_database' }
  const { directory, database } = await openCompany(env, companyId)
  const row = await findMove({ companyId, db: directory })
  const ends = (source: string, to: string): Move => {
    const of = (name: string): CompanyContext => ({ companyId, db: openDatabase(bindingOf(env, name)) })
    return { companyId, source, destination: to, by, directory, from: of(source), to: of(to) }
  }
  if (!row) {
    if (database === destination) return { move: ends(database, destination), state: null, startedAt: 0 }
    if (!isCurrent(await readApplied(bindingOf(env, destination)))) return { problem: 'outdated' }
    return { move: ends(database, destination), state: BEGINNING, startedAt: Date.now() }
  }
  if (destination === row.source && !databaseNames(env).includes(row.destination)) {
    return takeBack(ends(row.source, row.source))
  }
  const move = ends(row.source, row.destination)
  const state = row.state as MoveState
  const isUndone = state.step.startsWith('undo')
  if (destination === row.destination && !isUndone) return { move, state, startedAt: row.started_at }
  if (destination !== row.source) return { problem: 'moving_elsewhere' }
  if (await hasMoved(move.from)) return { problem: 'has_moved' }
  return { move, state: isUndone ? state : { ...state, step: 'undo', table: 0 }, startedAt: row.started_at }
}

/** Ends a move whose destination is no longer bound; the copied rows stay there. */
async function takeBack(move: Move): Promise<Found> {
  if (await hasMoved(move.from)) return { problem: 'has_moved' }
  await endGuard(move.from)
  await deleteMove({ companyId: move.companyId, db: move.directory })
  return { move, state: null, startedAt: 0 }
}

import { databaseMessage } from '../../../kernel/db/client.ts'
import { databaseNames } from '../../../kernel/db/placement.ts'
import { type ApiError, invalid } from '../../../kernel/http/errors.ts'
import { joinOr } from '../../../kernel/http/messages.ts'
import type { MoveProblem } from '../../copies/move.ts'
import type { AdminContext } from '../context.ts'
import { adminRoute, conflict, withTimes } from '../endpoint.ts'
import { invalidateCompany } from '../invalidate-tokens.ts'
import * as contract from './contract.ts'
import { createCompany, listDatabases, listMoves } from './queries.ts'

/** D1's limit for one database. */
const SIZE_MAX_BYTES = 10_000_000_000

const FULL = 'The database is full: it takes 1,024 companies'

const PROBLEMS: Record<Exclude<MoveProblem, 'unknown_database'>, string> = {
  outdated: 'The database has an older schema: run npm run migrate first',
  full: `${FULL}. Take the move back`,
  restoring: 'The company is being restored: repeat that until it is done',
  moving_elsewhere: 'The company is being moved to another database: complete that move, or take it back',
  has_moved: 'The company has moved: complete the move, then move it back',
  stuck: 'The move does not come to its end: take it back',
}

export const routes = [
  adminRoute(contract.listDatabases, async (_input, context) => {
    const [databases, moves] = await Promise.all([listDatabases(context), listMoves(context)])
    return {
      data: databases.map((each) => ({ ...each, size_max_bytes: SIZE_MAX_BYTES })),
      moves: moves.map(({ state, ...move }) => {
        const { step, rows } = state as { step: string; rows: number }
        return { ...withTimes(move), step, rows }
      }),
    }
  }),

  adminRoute(contract.createCompany, async ({ body }, context) => {
    const { id, name = `Company ${id}`, database } = body
    checkDatabase(context, database)
    const created = await createCompany(context, id, name, database).catch((error: unknown) => {
      if (!databaseMessage(error).includes('companies_slot')) throw error
      throw conflict(FULL)
    })
    if (!created) throw conflict(`There is a company ${id} already`)
    return { id, name, database }
  }),

  adminRoute(contract.moveCompany, async ({ body: { database } }, context) => {
    checkDatabase(context, database)
    const { companyId, caller, database: before, address, requestId, now } = context
    const objects = context.env.COMPANY_BACKUP
    const by = { companyId, caller: { actor: caller.actor }, address, requestId, now }
    const result = await objects.get(objects.idFromName(String(companyId))).move(by, database)
    if ('problem' in result) {
      if (result.problem === 'unknown_database') throw unknown(context)
      throw conflict(result.message ?? PROBLEMS[result.problem])
    }
    if (before !== database && result.step === 'remove') await invalidateCompany(context)
    return result
  }),
]

/** @throws ApiError 400 for a database that the deployment does not have */
function checkDatabase(context: AdminContext, database: string): void {
  if (!databaseNames(context.env).includes(database)) throw unknown(context)
}

function unknown({ env }: AdminContext): ApiError {
  return invalid([
    { path: 'database', message: `must be ${joinOr(databaseNames(env))}: the databases of this deployment` },
  ])
}

import { readCursor, writeCursor } from '../../../kernel/api/paging.ts'
import type { CursorPosition } from '../../../kernel/db/lists.ts'
import { ApiError, available, type ErrorKind } from '../../../kernel/http/errors.ts'
import { revokeAgain } from '../../copies/reconcile.ts'
import type { RestoreProblem } from '../../copies/restore.ts'
import { listBackups } from '../../copies/store.ts'
import { type AdminContext, toAdministrator } from '../context.ts'
import { adminRoute, cursorScope } from '../endpoint.ts'
import { invalidateCompany } from '../invalidate-tokens.ts'
import * as contract from './contract.ts'
import { beginRecovery, findNextCompany, recordRestore } from './queries.ts'

const DAY_MS = 86_400_000

const PROBLEMS: Record<RestoreProblem, { kind: ErrorKind; message: string }> = {
  no_backup: { kind: 'not_found', message: 'No backup of this company began by then: choose a later time' },
  not_empty: { kind: 'conflict', message: 'The company has data: only an empty one can be restored' },
  restored_otherwise: {
    kind: 'conflict',
    message: 'A restore from another time has begun: repeat it until it is done',
  },
  backup_unreadable: { kind: 'conflict', message: 'The backup cannot be read: choose an earlier time' },
}

export const routes = [
  adminRoute(contract.listBackups, async (_input, { companyId, env }) => {
    const backups = await listBackups({ companyId, bucket: env.BACKUPS })
    return { data: backups.map((at) => ({ at })) }
  }),

  adminRoute(contract.restoreCompany, async ({ body: { from } }, context) => {
    const { companyId, env } = context
    const untilMs = from.includes('T') ? Date.parse(from) : Date.parse(from) + DAY_MS - 1
    const objects = env.COMPANY_BACKUP
    const object = objects.get(objects.idFromName(String(companyId)))
    const result = available(await object.restore(toAdministrator(context), untilMs))
    if ('problem' in result) {
      const { kind, message } = PROBLEMS[result.problem]
      throw new ApiError(kind, { message: result.message ?? message })
    }
    if (result.done) {
      await invalidateCompany(context, 0)
      await recordRestore(context, result.backup)
    }
    return result
  }),

  adminRoute(contract.recoverDeployment, async ({ body: { cursor } }, context) => {
    const scope = cursorScope(contract.recoverDeployment, context)
    const { next, ...done } = await recover(context, cursor === undefined ? [] : readCursor(scope, cursor))
    return {
      companies_paused: 0,
      tokens_revoked: 0,
      company: null,
      missing: null,
      ...done,
      next_cursor: next && writeCursor(scope, next),
    }
  }),
]

/**
 * Does one step. A place is the run's name, the step, and a cursor of the revoked tokens in the cache or a company's id.
 *
 * @returns what it did, and the place of the next step; null when that was all
 */
async function recover(context: AdminContext, [run = crypto.randomUUID(), step, at = null]: CursorPosition) {
  const { env, now } = context
  const name = String(run)
  if (step === undefined) return { companies_paused: await beginRecovery(context, name), next: [run, 'tokens', null] }
  if (step === 'tokens') {
    const recovery = { ...context, db: context.directory, cache: env.CACHE }
    const { revoked, cursor } = await revokeAgain(recovery, at === null ? null : String(at), now)
    const next = cursor === null ? await companyBehind(context, name, 0) : [run, step, cursor]
    return { tokens_revoked: revoked, next }
  }
  const id = Number(at)
  const objects = env.COMPANY_BACKUP
  const { done, ...result } = available(await objects.get(objects.idFromName(String(id))).recover(id, name))
  return done ? { ...result, next: await companyBehind(context, name, id) } : { next: [run, step, id] }
}

async function companyBehind(context: AdminContext, run: string, id: number) {
  const next = await findNextCompany(context, id)
  return next === null ? null : [run, 'company', next]
}

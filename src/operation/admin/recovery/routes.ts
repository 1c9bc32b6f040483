import { readCursor, writeCursor } from '../../../kernel/api/paging.ts'
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
    return { data: await listBackups({ companyId, bucket: env.BACKUPS }) }
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
    const step = await recover(context, cursor === undefined ? null : placeOf(context, cursor))
    const { next, ...done } = step
    return {
      companies_paused: 0,
      tokens_revoked: 0,
      company: null,
      missing: null,
      ...done,
      next_cursor: next && writeCursor(cursorScope(contract.recoverDeployment, context), next),
    }
  }),
]

/** The next step of a recovery: the run's name, then a cursor of the revoked tokens in the cache, or a company. */
type Place =
  | readonly [run: string, step: 'tokens', cursor: string | null]
  | readonly [run: string, step: 'company', id: number]

function placeOf(context: AdminContext, cursor: string): Place {
  const [run, step, place] = readCursor(cursorScope(contract.recoverDeployment, context), cursor)
  if (step === 'company') return [String(run), step, Number(place)]
  return [String(run), 'tokens', place === null || place === undefined ? null : String(place)]
}

async function recover(context: AdminContext, place: Place | null) {
  const { env, now } = context
  if (!place) {
    const run = crypto.randomUUID()
    const next: Place = [run, 'tokens', null]
    return { companies_paused: await beginRecovery(context, run), next }
  }
  const [run, step, at] = place
  if (step === 'tokens') {
    const { revoked, cursor } = await revokeAgain({ ...context, db: context.directory, cache: env.CACHE }, at, now)
    if (cursor !== null) return { tokens_revoked: revoked, next: [run, step, cursor] as const }
    return { tokens_revoked: revoked, next: await companyBehind(context, run, 0) }
  }
  const objects = env.COMPANY_BACKUP
  const { done, ...result } = available(await objects.get(objects.idFromName(String(at))).recover(at, run))
  return done ? { ...result, next: await companyBehind(context, run, at) } : { next: place }
}

async function companyBehind(context: AdminContext, run: string, id: number): Promise<Place | null> {
  const next = await findNextCompany(context, id)
  return next === null ? null : [run, 'company', next]
}

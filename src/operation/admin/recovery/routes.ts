import { cursorScope, readCursor, writeCursor } from '../../../kernel/api/paging.ts'
import { adminEntry } from '../../../kernel/db/audit.ts'
import type { CursorPosition } from '../../../kernel/db/lists.ts'
import { accepted } from '../../../kernel/http/errors.ts'
import { revokeAgain } from '../../copies/reconcile.ts'
import { listBackups } from '../../copies/store.ts'
import { findNextCompany } from '../companies/queries.ts'
import { type AdminContext, toAdministrator } from '../context.ts'
import { adminRoute } from '../endpoint.ts'
import { beginRecovery } from '../queries.ts'
import { invalidateCompany } from '../tokens/queries.ts'
import * as contract from './contract.ts'

const DAY_MS = 86_400_000

export const routes = [
  adminRoute(contract.listBackups, async (_input, { companyId, env }) => {
    const backups = await listBackups({ companyId, bucket: env.BACKUPS })
    return { data: backups.map((at) => ({ at })) }
  }),

  adminRoute(contract.restoreCompany, async ({ body: { from } }, context) => {
    const { companyId, env } = context
    const untilMs = from.includes('T') ? Date.parse(from) : Date.parse(from) + DAY_MS - 1
    const object = env.COMPANY_BACKUP.getByName(String(companyId))
    const result = accepted(await object.restore(toAdministrator(context), untilMs))
    // At its end and, behind the suspension, before the first rows.
    if (result.done || result.step === 'check') await invalidateCompany(context, 0)
    if (result.done) await context.db.writeIdempotent([adminEntry(context, 'company.restored', result.backup)])
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
  const { env } = context
  const name = String(run)
  if (step === undefined) return { companies_paused: await beginRecovery(context, name), next: [run, 'tokens', null] }
  if (step === 'tokens') {
    const recovery = { ...context, db: context.directory, cache: env.CACHE }
    const { revoked, cursor } = await revokeAgain(recovery, at === null ? null : String(at))
    const next = cursor === null ? await companyBehind(context, name, 0) : [run, step, cursor]
    return { tokens_revoked: revoked, next }
  }
  const id = Number(at)
  const { done, ...result } = accepted(await env.COMPANY_BACKUP.getByName(String(id)).recover(id, name))
  return done ? { ...result, next: await companyBehind(context, name, id) } : { next: [run, step, id] }
}

async function companyBehind(context: AdminContext, run: string, id: number) {
  const next = await findNextCompany(context, id)
  return next === null ? null : [run, 'company', next]
}

import { cursorScope, readCursor, writeCursor } from '../../../kernel/api/paging.ts'
import { adminEntry } from '../../../kernel/db/audit.ts'
import {
  CredentialsError,
  decryptCredentials,
  encryptCredentials,
  firstKeyPrefix,
} from '../../../kernel/db/credentials.ts'
import type { CursorPosition } from '../../../kernel/db/lists.ts'
import { bindingOf, databaseNames, listUnbound, openEach, slotProblem } from '../../../kernel/db/placement.ts'
import { requireCurrent } from '../../../kernel/db/refusals.ts'
import { accepted, conflict, invalid } from '../../../kernel/http/errors.ts'
import { joinOr } from '../../../kernel/http/messages.ts'
import { revokeAgain } from '../../copies/reconcile.ts'
import { listBackups } from '../../copies/store.ts'
import { findNextCompany } from '../companies/queries.ts'
import { type AdminContext, toAdministrator } from '../context.ts'
import { adminRoute, withTimes } from '../endpoint.ts'
import { beginRecovery, checkKnown } from '../queries.ts'
import { invalidateCompany } from '../tokens/queries.ts'
import * as contract from './contract.ts'
import * as queries from './queries.ts'

/** D1's limit for one database. */
const SIZE_MAX_BYTES = 10_000_000_000

/** Limits the values that one request encrypts again: D1 allows 1,000 statements, and each costs 1 ms of CPU. */
const VALUES_MAX = 100
/** Limits the pages read past values that cannot be decrypted, to reach those after them. */
const PAGES_MAX = 20

const DAY_MS = 86_400_000

const NOTHING_DONE = { companies_paused: 0, tokens_revoked: 0, company: null, missing: null }

export const routes = [
  adminRoute(contract.listDatabases, async (_input, context) => {
    const [databases, moves] = await Promise.all([queries.listDatabases(context), queries.listMoves(context)])
    return {
      data: databases.map((each) => ({ ...each, size_max_bytes: SIZE_MAX_BYTES })),
      moves: moves.map(({ state, ...move }) => {
        const { step, rows } = state as { step: string; rows: number }
        return { ...withTimes(move), step, rows }
      }),
    }
  }),

  adminRoute(contract.createCompany, async ({ body }, context) => {
    const { id, name = `Company ${id}`, database, adopt } = body
    checkDatabase(context, database)
    await requireCurrent(bindingOf(context.env, database))
    const created = await queries.createCompany(context, { id, name, database, adopt }).catch((error: unknown) => {
      const problem = slotProblem(error)
      throw problem ? conflict(problem) : error
    })
    if (!created) throw conflict(`There is a company ${id} already, or data of one that the directory has lost`)
    return { ...created, database }
  }),

  adminRoute(contract.moveCompany, async ({ body: { database } }, context) => {
    checkDatabase(context, database)
    const { companyId, database: before } = context
    const object = context.env.COMPANY_BACKUP.getByName(String(companyId))
    const result = accepted(await object.move(toAdministrator(context), database))
    if (before !== database && result.step === 'remove') await invalidateCompany(context)
    return result
  }),

  adminRoute(contract.rotateKey, async (_input, context) => {
    const keys = context.credentialsKey
    const prefix = await firstKeyPrefix(keys).catch((error: unknown) => {
      throw error instanceof CredentialsError ? conflict(error.message) : error
    })
    const [move] = await queries.listMoves(context)
    // It is undecided which of the company's two copies stays.
    if (move) {
      const remedy = 'finish it or take it back, and repeat this. Keep the old key'
      throw conflict(`The move of company ${move.company_id} is not finished: ${remedy}`)
    }
    const [unbound] = await listUnbound(context.env)
    if (unbound) throw conflict(`There is no binding of ${unbound}, which has companies: add it, and repeat this`)
    const encrypt = async (value: queries.EncryptedValue) => {
      const { companyId, kind, stored } = value
      const credentials = await decryptCredentials(keys, companyId, kind, stored).catch(() => null)
      if (credentials === null || typeof credentials !== 'object') return []
      return [{ ...value, encrypted: await encryptCredentials(keys, companyId, kind, credentials) }]
    }
    const contexts = openEach(context.env).map(({ name, db }) => ({ ...context, db, database: name }))
    let [reencrypted, unreadable] = [0, 0]
    for (const each of contexts) {
      for (let page = 0; page < PAGES_MAX && reencrypted === 0; page++) {
        const { rows } = await queries.listOldValues(each, prefix, VALUES_MAX, page * VALUES_MAX)
        const encrypted = (await Promise.all(rows.map(encrypt))).flat()
        if (encrypted.length > 0) await queries.saveValues(each, encrypted)
        reencrypted = encrypted.length
        unreadable += rows.length - reencrypted
        if (rows.length < VALUES_MAX) break
      }
    }
    const counts = await Promise.all(contexts.map((each) => queries.listOldValues(each, prefix, 0)))
    return { reencrypted, unreadable, remaining: counts.reduce((sum, { total }) => sum + total, 0) }
  }),

  adminRoute(contract.listBackups, async (_input, { companyId, env }) => {
    const backups = await listBackups({ companyId, bucket: env.BACKUPS })
    return { data: backups.map((at) => ({ at })) }
  }),

  adminRoute(contract.restoreCompany, async ({ body: { from } }, context) => {
    const { companyId, env } = context
    await checkKnown(context)
    const untilMs = from.includes('T') ? Date.parse(from) : Date.parse(from) + DAY_MS - 1
    const object = env.COMPANY_BACKUP.getByName(String(companyId))
    const result = accepted(await object.restore(toAdministrator(context), untilMs))
    // At its end and, behind the suspension, before the first rows.
    if (result.done || result.step === 'check') await invalidateCompany(context)
    if (result.done) await context.db.writeIdempotent([adminEntry(context, 'company.restored', result.backup)])
    return result
  }),

  adminRoute(contract.recoverDeployment, async ({ body: { cursor } }, context) => {
    const scope = cursorScope(contract.recoverDeployment, context)
    const { next, ...done } = await recover(context, cursor === undefined ? [] : readCursor(scope, cursor))
    return { ...NOTHING_DONE, ...done, next_cursor: next && writeCursor(scope, next) }
  }),
]

/** @throws ApiError 400 for a database that the deployment does not have */
function checkDatabase({ env }: AdminContext, database: string): void {
  const names = databaseNames(env)
  if (names.includes(database)) return
  throw invalid([{ path: 'database', message: `must be ${joinOr(names)}: the databases of this deployment` }])
}

/**
 * Does one step. A place is the run's name, the step, and a cursor of the cache's revoked tokens or a company's lowest id.
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
    return { tokens_revoked: revoked, next: cursor === null ? [run, 'company', 1] : [run, step, cursor] }
  }
  const company = await findNextCompany(context, Number(at))
  if (!company) return { next: null }
  const { id, database } = company
  if (!databaseNames(env).includes(database)) return { missing: company, next: [run, step, id + 1] }
  const { done, ...result } = accepted(await env.COMPANY_BACKUP.getByName(String(id)).recover(id, name))
  return done ? { ...result, next: [run, step, id + 1] } : { next: [run, step, id] }
}

import { credentialsKind } from '../../../delivery/webhooks/message.ts'
import {
  CredentialsError,
  decryptCredentials,
  encryptCredentials,
  firstKeyPrefix,
} from '../../../kernel/db/credentials.ts'
import { databaseNames, FULL, isFull, listUnbound, openEach } from '../../../kernel/db/placement.ts'
import { accepted, conflict, invalid } from '../../../kernel/http/errors.ts'
import { joinOr } from '../../../kernel/http/messages.ts'
import { type AdminContext, toAdministrator } from '../context.ts'
import { adminRoute, withTimes } from '../endpoint.ts'
import { invalidateCompany } from '../tokens/queries.ts'
import * as contract from './contract.ts'
import { createCompany, type EncryptedValue, listDatabases, listMoves, listOldValues, saveValues } from './queries.ts'

/** D1's limit for one database. */
const SIZE_MAX_BYTES = 10_000_000_000

/** Limits the values that one request encrypts again: D1 allows 1,000 statements, and each costs 1 ms of CPU. */
const VALUES_MAX = 100
/** Limits the pages read past values that cannot be decrypted, to reach those after them. */
const PAGES_MAX = 20

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
    const company = { id, name, database }
    const created = await createCompany(context, company).catch((error: unknown) => {
      throw isFull(error) ? conflict(FULL) : error
    })
    if (!created) throw conflict(`There is a company ${id} already`)
    return company
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
    const [move] = await listMoves(context)
    // It is undecided which of the company's two copies stays.
    if (move) {
      const remedy = 'finish it or take it back, and repeat this. Keep the old key'
      throw conflict(`The move of company ${move.company_id} is not finished: ${remedy}`)
    }
    const [unbound] = await listUnbound(context.env)
    if (unbound) throw conflict(`There is no binding of ${unbound}, which has companies: add it, and repeat this`)
    const encrypt = async (value: EncryptedValue) => {
      const kind = value.table === 'webhook_endpoints' ? credentialsKind(value.id) : value.id
      const credentials = await decryptCredentials(keys, value.companyId, kind, value.stored).catch(() => null)
      if (credentials === null || typeof credentials !== 'object') return []
      return [{ ...value, encrypted: await encryptCredentials(keys, value.companyId, kind, credentials) }]
    }
    const contexts = openEach(context.env).map(({ name, db }) => ({ ...context, db, database: name }))
    let [reencrypted, unreadable] = [0, 0]
    for (const each of contexts) {
      for (let page = 0; page < PAGES_MAX && reencrypted === 0; page++) {
        const { rows } = await listOldValues(each, prefix, VALUES_MAX, page * VALUES_MAX)
        const encrypted = (await Promise.all(rows.map(encrypt))).flat()
        if (encrypted.length > 0) await saveValues(each, encrypted)
        reencrypted = encrypted.length
        unreadable += rows.length - reencrypted
        if (rows.length < VALUES_MAX) break
      }
    }
    const counts = await Promise.all(contexts.map((each) => listOldValues(each, prefix, 0)))
    return { reencrypted, unreadable, remaining: counts.reduce((sum, { total }) => sum + total, 0) }
  }),
]

/** @throws ApiError 400 for a database that the deployment does not have */
function checkDatabase({ env }: AdminContext, database: string): void {
  const names = databaseNames(env)
  if (names.includes(database)) return
  throw invalid([{ path: 'database', message: `must be ${joinOr(names)}: the databases of this deployment` }])
}

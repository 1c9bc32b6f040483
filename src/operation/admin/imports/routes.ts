import { isoTime } from '../../../kernel/api/contract.ts'
import { databaseMessage } from '../../../kernel/db/client.ts'
import { syncDirectory } from '../../../kernel/db/placement.ts'
import { ApiError, invalid, notFound } from '../../../kernel/http/errors.ts'
import { addressPolicy } from '../../../kernel/http/outbound.ts'
import { importThread } from '../../../resources/mail/threads.ts'
import { findAddressIssues } from '../../copies/seed/integrations-file.ts'
import { countRows, describeConflict, planLoad } from '../../copies/seed/load.ts'
import type { AdminContext } from '../context.ts'
import { adminRoute } from '../endpoint.ts'
import * as contract from './contract.ts'
import { findImport, recordPart } from './queries.ts'

/** Limits the rows of one part: a larger transaction would block other writes. */
const MAX_ROWS = 1_000

export const routes = [
  adminRoute(contract.createImport, async ({ body }, context) => {
    const { hash, part, parts, check, known, file } = body
    if (file.company.id !== context.companyId) {
      throw invalid([{ path: 'file.company.id', message: 'must be the company of the path' }])
    }
    const rows = countRows(file)
    if (rows > MAX_ROWS) throw invalid([{ path: 'file', message: `must have at most ${MAX_ROWS} rows, not ${rows}` }])
    const issues = findAddressIssues(file.integrations, addressPolicy(context.env))
    if (issues.length > 0) throw invalid(issues.map((issue) => ({ ...issue, path: `file.integrations.${issue.path}` })))
    if (!check) await refuseGap(context, hash, part, parts)

    const { db, now, companyId, env } = context
    const load = { db, now, companyId, credentialsKey: env.CREDENTIALS_KEY }
    const plan = await planLoad(load, file, check ? known : {})
    if (plan.issues.length > 0) throw invalid(plan.issues.map((message) => ({ path: 'file', message })))
    if (plan.conflict !== undefined) throw new ApiError('conflict', { message: plan.conflict })
    if (!check) {
      await db.writeIdempotent([...plan.statements, ...recordPart(context, hash, part, parts)]).catch(throwConflict)
      await syncDirectory(context)
    }
    const next_part = part === parts ? null : part + 1
    return { hash, part, parts, next_part, counts: plan.counts, differences: plan.differences }
  }),

  adminRoute(contract.importEmailThread, ({ body }, context) => {
    return importThread(context, context.env.FILES, body).catch(throwConflict)
  }),

  adminRoute(contract.readImport, async ({ params: { hash } }, context) => {
    const found = await findImport(context, hash)
    if (!found) throw notFound('Import')
    const { parts, next_part, updated_at } = found
    return { hash, parts, next_part: next_part > parts ? null : next_part, updated_at: isoTime(updated_at) }
  }),
]

/** For `catch`. @throws ApiError 409 where a row has the id of another company's */
function throwConflict(error: unknown): never {
  const message = describeConflict(databaseMessage(error))
  throw message === undefined ? error : new ApiError('conflict', { message })
}

/** @throws ApiError 409 if an earlier part is missing or the number of parts differs */
async function refuseGap(context: AdminContext, hash: string, part: number, parts: number): Promise<void> {
  const found = part > 1 ? await findImport(context, hash) : undefined
  if (found && found.parts !== parts) {
    throw new ApiError('conflict', { message: `This import has ${found.parts} parts: send it again from part 1` })
  }
  const next = part > 1 ? (found?.next_part ?? 1) : part
  if (part > next) throw new ApiError('conflict', { message: `Part ${next} is not loaded yet: send it first` })
}

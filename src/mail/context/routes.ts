import { route } from '../../http/endpoint.ts'
import { notFound } from '../../http/errors.ts'
import * as contract from './contract.ts'
import { presentThreadContext } from './present.ts'
import { findThreadContext } from './queries.ts'

export const routes = [
  route(contract.readThreadContext, async ({ params }, { db, companyId }) => {
    const row = await findThreadContext(db, companyId, params.legacyThreadId)
    if (!row) throw notFound('Thread context')
    return presentThreadContext(row)
  }),
]

import { operation, route } from '../../kernel/api/endpoint.ts'
import { openList } from '../../kernel/api/paging.ts'
import { runWrite } from '../../kernel/db/idempotency.ts'
import { found } from '../../kernel/http/errors.ts'
import { contextDeletionOf, findThreadContext, listThreadContexts, replacementOf } from './context-queries.ts'
import * as contract from './contract.ts'
import { listThreads, threadDeletionOf } from './queries.ts'
import { contextText, jsonResponse, listResponse, summaryText } from './responses.ts'
import { putThread, readThread } from './threads.ts'

/** The changes of mail, for routes of their own and for batches. A context has no version. */
export const operations = [
  operation(
    contract.putThreadContext,
    ({ params, body }, context) => replacementOf(context, params.legacyThreadId, body),
    (row) => ({ body: JSON.parse(contextText(row)), version: 0 }),
  ),
]

export const routes = [
  route(contract.readThreadContext, async ({ params }, context) => {
    const row = await findThreadContext(context, params.legacyThreadId)
    return jsonResponse(contextText(found(row, 'Thread context')))
  }),
  route(contract.deleteThreadContext, async ({ params }, context) => {
    const row = await runWrite(context, contextDeletionOf(context, params.legacyThreadId))
    return jsonResponse(contextText(found(row, 'Thread context')))
  }),
  route(contract.listThreadContexts, async ({ query }, context) => {
    const { after, following } = openList(contract.listThreadContexts, query, context)
    const { rows, next } = await listThreadContexts(context, query, after)
    return listResponse(rows.map(contextText), { per_page: query.per_page, ...(await following(next)) })
  }),
  route(contract.listEmailThreads, async ({ query }, context) => {
    const { after, following } = openList(contract.listEmailThreads, query, context)
    const { rows, next } = await listThreads(context, query, after)
    return listResponse(rows.map(summaryText), { per_page: query.per_page, ...(await following(next)) })
  }),
  route(contract.deleteEmailThread, async ({ params, query }, context) => {
    const row = await runWrite(context, threadDeletionOf(context, { ...params, accountEmail: query.account_email }))
    return jsonResponse(`{"email_thread":${summaryText(found(row, 'Email thread'))}}`)
  }),
  route(contract.readEmailThread, readThread),
  route(contract.putEmailThread, putThread),
  ...operations,
]

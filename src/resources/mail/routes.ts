import type { RequestContext } from '../../kernel/api/context.ts'
import type { Input } from '../../kernel/api/contract.ts'
import { type Extras, route } from '../../kernel/api/endpoint.ts'
import { openList } from '../../kernel/api/paging.ts'
import { runWrite } from '../../kernel/db/idempotency.ts'
import { invalid, notFound } from '../../kernel/http/errors.ts'
import { etagsOf } from '../../kernel/http/etag.ts'
import { releaseBytes, SMALL_BODY_BYTES } from '../../kernel/http/memory.ts'
import type { NewThreadContext } from './context-input.ts'
import { contextDeletionOf, findThreadContext, listThreadContexts, replaceThreadContext } from './context-queries.ts'
import * as contract from './contract.ts'
import { markUsed } from './object-queries.ts'
import { findThread } from './queries.ts'
import { contextText, jsonResponse, listResponse, summaryText, threadResponse } from './responses.ts'
import { listThreads, threadDeletionOf } from './summary-queries.ts'
import { contentCache, parseThread } from './thread-input.ts'
import {
  compressThread,
  prefetchHashes,
  rememberHash,
  storeContent,
  touchThread,
  writeThread,
} from './write-queries.ts'

export const routes = [
  route(contract.readThreadContext, async ({ params }, context) => {
    const row = await findThreadContext(context, params.legacyThreadId)
    if (!row) throw notFound('Thread context')
    return jsonResponse(contextText(row))
  }),

  route(contract.putThreadContext, async ({ params, body }, context) => {
    refuseOtherCompanies(context.companyId, body)
    return jsonResponse(contextText(await replaceThreadContext(context, params.legacyThreadId, body)))
  }),

  route(contract.deleteThreadContext, async ({ params }, context) => {
    const row = await runWrite(context, contextDeletionOf(context, params.legacyThreadId))
    if (!row) throw notFound('Thread context')
    return jsonResponse(contextText(row))
  }),

  route(contract.listThreadContexts, async ({ query }, context, extras) => {
    const { client_id, order_id, per_page: limit, cursor: _cursor, ...unused } = query
    unused satisfies Record<string, never>
    const { after, following } = openList(contract.listThreadContexts, query, context, extras)
    const entity = order_id === undefined ? 'client' : 'order'
    const entityId = order_id ?? client_id ?? 0
    const { rows, next } = await listThreadContexts(context, { entity, entityId, after, limit })
    return listResponse(rows.map(contextText), { per_page: limit, ...following(next) })
  }),

  route(contract.listEmailThreads, async ({ query }, context, extras) => {
    const { account_email: accountEmail, deleted, updated_since: updatedSince = 0, ...paged } = query
    const { per_page: limit, cursor: _cursor, ...unused } = paged
    unused satisfies Record<string, never>
    const { after, following } = openList(contract.listEmailThreads, query, context, extras)
    const { rows, next } = await listThreads(context, { accountEmail, deleted, updatedSince, after, limit })
    return listResponse(rows.map(summaryText), { per_page: limit, ...following(next) })
  }),

  route(contract.deleteEmailThread, async ({ params, query }, context) => {
    const row = await runWrite(context, threadDeletionOf(context, { ...params, accountEmail: query.account_email }))
    if (!row) throw notFound('Email thread')
    return jsonResponse(`{"email_thread":${summaryText(row)}}`)
  }),

  route(contract.readEmailThread, async ({ params, query }, context, { lease }) => {
    const key = { ...params, accountEmail: query.account_email }
    const found = await findThread(context, key, [etagsOf(context.ifNoneMatch)].flat())
    if (!found) throw notFound('Email thread')
    const { row, segments, object, isKnown } = found
    rememberHash(row)
    const headers = { ETag: row.etag, 'Cache-Control': 'private, no-store' }
    if (isKnown) return new Response(null, { status: 304, headers })
    context.waitUntil(markUsed(context, row).catch(() => undefined))
    return threadResponse(context, { row, segments, headers, object }, lease)
  }),

  // Compressing and sending a large body again costs more than reading the stored hashes beside the rate check.
  route(contract.putEmailThread, putThread, ({ legacyThreadId }, context, announcedBytes = SMALL_BODY_BYTES) =>
    announcedBytes < SMALL_BODY_BYTES ? undefined : prefetchHashes(context, legacyThreadId),
  ),
]

/** @throws ApiError 400 naming each element of another company: a read would omit it */
function refuseOtherCompanies(companyId: number, body: NewThreadContext): void {
  const elements = [
    { path: 'client_data', element: body.client_data },
    ...(body.clients_data ?? []).map((element, index) => ({ path: `clients_data.${index}`, element })),
    ...(body.orders_data ?? []).map((element, index) => ({ path: `orders_data.${index}`, element })),
  ]
  const accepted = ['null', `${companyId}`, `"${companyId}"`]
  const issues = elements.flatMap(({ path, element }) =>
    ['company_id', 'companyId']
      .filter((name) => !accepted.includes(JSON.stringify(element?.[name] ?? null)))
      .map((name) => ({ path: `${path}.${name}`, message: 'must be the token’s company, or left out' })),
  )
  if (issues.length > 0) throw invalid(issues)
}

/** Stores a whole thread in one batch, which writes only the row if the content is already stored. */
async function putThread(
  { params, body }: Input<typeof contract.putEmailThread>,
  context: RequestContext,
  { lease, prefetched }: Extras,
): Promise<Response> {
  const isLarge = body.length >= SMALL_BODY_BYTES
  const cacheKey = `${context.companyId}/${params.legacyThreadId}`
  const input = parseThread(body, contentCache.get(cacheKey))
  const key = { ...params, accountEmail: input.accountEmail }
  await prefetched

  const touched = await touchThread(context, key, input)
  if (touched) {
    context.waitUntil(markUsed(context, touched).catch(() => undefined))
    if (isLarge) await lease.resize(body.length)
    else contentCache.set(cacheKey, input.content)
    return threadResponse(context, { row: touched, segments: [], input }, lease)
  }

  const thread = await compressThread(context, key, input)
  if (isLarge) {
    // The compressed segments replace the body, so that its memory is free for other requests while this one waits.
    releaseBytes(body)
    for (const segment of thread.content) lease.own(segment)
    await lease.resize(Math.min(lease.bytes, thread.heldBytes))
  }
  await storeContent(context, thread)
  const { row, otherSegments } = await writeThread(context, thread)
  if (!isLarge) return threadResponse(context, { row, segments: otherSegments, input }, lease)
  return threadResponse(context, { row, segments: [...thread.segments, ...otherSegments] }, lease)
}

import { route } from '../../http/endpoint.ts'
import { notFound } from '../../http/errors.ts'
import { etagsOf } from '../../http/etag.ts'
import * as contract from './contract.ts'
import { remember } from './known-content.ts'
import { presentStored } from './present.ts'
import { putThread, readVersionsAhead } from './put.ts'
import { findThread } from './queries.ts'

export const routes = [
  route(
    contract.putEmailThread,
    ({ params, body }, context, extras) => putThread(context, params.legacyThreadId, body, extras),
    (params, context, announcedBytes) => readVersionsAhead(context, params.legacyThreadId, announcedBytes),
  ),

  route(contract.readEmailThread, async ({ params, query }, context, { lease }) => {
    const { db, companyId, ifNoneMatch } = context
    const key = { legacyThreadId: params.legacyThreadId, accountEmail: query.account_email }
    const found = await findThread(db, companyId, key, etagsOf(ifNoneMatch))
    if (!found) throw notFound('Email thread')
    const { row, segments, isKnown } = found
    remember(companyId, params.legacyThreadId, [row])
    const headers = { ETag: row.etag, 'Cache-Control': 'private, no-store' }
    return isKnown
      ? new Response(null, { status: 304, headers })
      : presentStored(context, row, segments, lease, headers)
  }),
]

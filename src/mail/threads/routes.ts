import type { Hono } from 'hono'
import type { AppEnv } from '../../http/context.ts'
import { honoPath, mount } from '../../http/endpoint.ts'
import { notFound } from '../../http/errors.ts'
import { etagsOf } from '../../http/etag.ts'
import { isRefused } from '../../rate-limit/middleware.ts'
import { threadParams } from '../thread-key.ts'
import * as contract from './contract.ts'
import { remember } from './known-content.ts'
import { presentStored } from './present.ts'
import { putThread, readVersionsAhead } from './put.ts'
import { findThread } from './queries.ts'

/** Goes before the rate check: a read that a write begins beside it. */
export function mountThreadReadAhead(app: Hono<AppEnv>): void {
  app.on('PUT', [honoPath(contract.putEmailThread)], async (c, next) => {
    const context = c.get('context')
    const { token, now } = context
    const { success, data } = threadParams.safeParse(c.req.param())
    if (success && token.permissions.has('mail:write') && !token.suspended && !isRefused(token.hash, now)) {
      const announced = c.req.header('content-length')
      readVersionsAhead(context, data.legacyThreadId, announced === undefined ? undefined : Number(announced))
    }
    await next()
  })
}

export function mountThreads(app: Hono<AppEnv>): void {
  mount(app, contract.putEmailThread, async ({ params, body }, context) =>
    putThread(context, params.legacyThreadId, body),
  )

  mount(app, contract.readEmailThread, async ({ params, query }, { db, companyId, ifNoneMatch }) => {
    const key = { legacyThreadId: params.legacyThreadId, accountEmail: query.account_email }
    const found = await findThread(db, companyId, key, etagsOf(ifNoneMatch))
    if (!found) throw notFound('There is no such email thread.')
    const { row, segments, isKnown } = found
    remember(companyId, params.legacyThreadId, [row])
    const headers = { ETag: row.etag, 'Cache-Control': 'private, no-store' }
    return isKnown ? new Response(null, { status: 304, headers }) : presentStored(row, segments, headers)
  })
}

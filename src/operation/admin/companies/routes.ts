import { startDelivery } from '../../../delivery/accounting/delivery.ts'
import { startWebhooks } from '../../../delivery/webhooks/delivery.ts'
import { isoTime, withIsoTimes } from '../../../kernel/api/contract.ts'
import { BUDGET_MS, withDeadline } from '../../../kernel/http/deadline.ts'
import { notFound } from '../../../kernel/http/errors.ts'
import { adminRoute } from '../endpoint.ts'
import { invalidateCompany } from '../invalidate-tokens.ts'
import { openAdminPage } from '../paging.ts'
import * as contract from './contract.ts'
import { type CompanyChange, listCompanies, listUsedTokens, readCompany, updateCompany } from './queries.ts'

const HOUR_MS = 3_600_000
/** Limits the counters of one request, since D1 and objects together allow 1,000 calls. */
const COUNTERS_MAX = 100

export const routes = [
  adminRoute(contract.listCompanies, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listCompanies, query, context)
    const rows = await listCompanies(context, Number(after?.[0] ?? 0), limit)
    return page(rows, withIsoTimes, ({ id }) => [id])
  }),

  adminRoute(contract.readCompany, async (_input, context) => {
    const row = await readCompany(context)
    if (!row) throw notFound('Company')
    return withIsoTimes(row)
  }),

  adminRoute(contract.updateCompany, async ({ body }, context) => {
    const row = await updateCompany(context, body as CompanyChange)
    if (!row) throw notFound('Company')
    if (body.suspended !== undefined) await invalidateCompany(context)
    const mayDeliver = !row.suspended && !row.deliveries_paused
    if (mayDeliver && (body.suspended === false || body.deliveries_paused === false)) {
      context.waitUntil(startDelivery(context.env, row.id, context.db.primaryRegion()))
      context.waitUntil(startWebhooks(context.env, row.id, context.db.primaryRegion()))
    }
    return withIsoTimes(row)
  }),

  adminRoute(contract.putCurrency, async ({ body }, context) => {
    const row = await updateCompany(context, body)
    if (!row) throw notFound('Company')
    return withIsoTimes(row)
  }),

  adminRoute(contract.readUsage, async ({ query }, context) => {
    const { env, now } = context
    const first = now - (now % HOUR_MS) - (query.hours - 1) * HOUR_MS
    const hashes = await listUsedTokens(context, first - HOUR_MS, COUNTERS_MAX + 1)
    const { RATE_LIMITER } = env
    const calls = hashes.slice(0, COUNTERS_MAX).map(async (hash) => {
      const usage = RATE_LIMITER.get(RATE_LIMITER.idFromName(hash)).usage()
      // `Promise.race` does not treat the result of RPC as a promise: wrap it in one.
      return withDeadline((async () => usage)(), BUDGET_MS.limiter)
    })
    const counted = await Promise.allSettled(calls)
    const sums = Array.from({ length: query.hours }, () => ({ requests: 0, refused: 0, database_ms: 0 }))
    const totals = { requests: 0, refused: 0, database_ms: 0 }
    for (const { at, requests, refused, databaseMs } of counted.flatMap((each) =>
      each.status === 'fulfilled' ? each.value : [],
    )) {
      const hour = sums[(at - first) / HOUR_MS]
      for (const sum of hour ? [hour, totals] : []) {
        sum.requests += requests
        sum.refused += refused
        sum.database_ms += databaseMs
      }
    }
    const rounded = <T extends { database_ms: number }>(sum: T) => ({
      ...sum,
      database_ms: Math.round(sum.database_ms),
    })
    return {
      data: sums.map((sum, index) => ({ hour: isoTime(first + index * HOUR_MS), ...rounded(sum) })),
      totals: rounded(totals),
      incomplete: hashes.length > COUNTERS_MAX || counted.some(({ status }) => status === 'rejected'),
    }
  }),
]

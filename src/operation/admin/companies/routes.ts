import { isoTime } from '../../../kernel/api/contract.ts'
import { BUDGET_MS, withDeadline } from '../../../kernel/http/isolate.ts'
import { adminList, adminRoute, withTimes } from '../endpoint.ts'
import { findUsed, invalidateCompany } from '../tokens/queries.ts'
import * as contract from './contract.ts'
import * as queries from './queries.ts'

const HOUR_MS = 3_600_000
/** Limits the counters of one request, since D1 and objects together allow 1,000 calls. */
const COUNTERS_MAX = 100

export const routes = [
  adminList(contract.listCompanies, queries.listCompanies, withTimes, ({ id }) => [id]),

  adminRoute(contract.readCompany, async (_input, context) => withTimes(await queries.readCompany(context))),

  adminRoute(contract.updateCompany, async ({ body }, context) => {
    const row = await queries.updateCompany(context, body)
    if (body.suspended !== undefined) await invalidateCompany(context)
    const mayDeliver = !row.suspended && !row.deliveries_paused
    if (mayDeliver && (body.suspended === false || body.deliveries_paused === false)) {
      context.deliverAccounting()
      context.deliverWebhooks()
    }
    return withTimes(row)
  }),

  adminRoute(contract.putCurrency, async ({ body }, context) => withTimes(await queries.updateCompany(context, body))),

  adminRoute(contract.readUsage, async ({ query }, context) => {
    const { now } = context
    const first = now - (now % HOUR_MS) - (query.hours - 1) * HOUR_MS
    const hashes = await findUsed(context, first - HOUR_MS, COUNTERS_MAX + 1)
    // `Promise.race` does not treat the result of RPC as a promise: wrap it in one.
    const usageOf = async (hash: string) => context.env.RATE_LIMITER.getByName(hash).usage()
    const calls = hashes.slice(0, COUNTERS_MAX).map((hash) => withDeadline(usageOf(hash), BUDGET_MS.limiter))
    const counted = await Promise.allSettled(calls)
    const used = counted.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
    const total = (list: typeof used) => ({
      requests: list.reduce((sum, { requests }) => sum + requests, 0),
      refused: list.reduce((sum, { refused }) => sum + refused, 0),
      database_ms: Math.round(list.reduce((sum, { databaseMs }) => sum + databaseMs, 0)),
    })
    const hours = Array.from({ length: query.hours }, (_, index) => first + index * HOUR_MS)
    return {
      data: hours.map((hour) => ({ hour: isoTime(hour), ...total(used.filter(({ at }) => at === hour)) })),
      totals: total(used.filter(({ at }) => hours.includes(at))),
      incomplete: hashes.length > COUNTERS_MAX || counted.some(({ status }) => status === 'rejected'),
    }
  }),

  adminRoute(contract.readSession, async (_input, context) => {
    const { actor, isOperator } = context.caller
    return { actor, operator: isOperator, companies: await queries.listOwnCompanies(context) }
  }),

  adminList(contract.listMembers, queries.listMembers, withTimes, ({ email }) => [email]),

  adminRoute(contract.putMember, async (input, context) => withTimes(await queries.putMember(context, input))),

  adminRoute(contract.deleteMember, (input, context) => queries.deleteMember(context, input)),

  adminList(
    contract.listAudit,
    queries.listEntries,
    ({ at, actor, token_id, action, entity_id, address, request_id }) => {
      return { time: isoTime(at), actor, token_id, action, entity_id, address, request_id }
    },
    ({ id }) => [id],
  ),
]

import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import { log, nameOf } from '../../kernel/http/log.ts'
import { listUsedTokens } from './companies/queries.ts'
import type { AdminContext } from './context.ts'

/** Calls of objects at once: a Worker may have so many connections waiting. */
const CALLS = 6

/** An object knows a token for 30 seconds; its last use is written once a minute. */
const USED_MS = 120_000
/** As many valid tokens as a company of an earlier release may have. */
const FORGOTTEN_MAX = 500

/**
 * Lets the objects of all tokens of the company look them up again, before the response.
 *
 * @param sinceMs tokens last used before are left out; 0 after a restore, whose rows say when they were used until then
 */
export async function invalidateCompany(context: AdminContext, sinceMs = context.now - USED_MS): Promise<void> {
  await invalidateTokens(context, await listUsedTokens(context, sinceMs, FORGOTTEN_MAX))
}

/**
 * Lets the objects of changed tokens look them up again. The response waits for it up to 2 seconds; the rest goes on behind
 * it. One that fails does so by itself within 30 seconds.
 *
 * @param hashes of tokens that were used: the call must not be the first one, which would make the object near the operator
 */
export async function invalidateTokens(context: AdminContext, hashes: readonly string[]): Promise<void> {
  const { env, requestId, waitUntil } = context
  const { RATE_LIMITER } = env
  const left = [...hashes]
  let failed = 0
  let reason = ''
  const forget = async () => {
    for (let hash = left.pop(); hash !== undefined; hash = left.pop()) {
      const object = RATE_LIMITER.get(RATE_LIMITER.idFromName(hash))
      await withDeadline((async () => object.forget())(), BUDGET_MS.limiter).catch((error: unknown) => {
        failed++
        reason = nameOf(error)
      })
    }
  }
  const all = Promise.all(Array.from({ length: CALLS }, forget)).then(() => {
    if (failed > 0) log('tokens_not_forgotten', { request_id: requestId, tokens: failed, reason })
  })
  waitUntil(all)
  await withDeadline(all, BUDGET_MS.limiter).catch(() => undefined)
}

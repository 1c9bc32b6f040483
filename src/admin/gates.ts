import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { log, nameOf } from '../http/log.ts'
import { listUsedTokens } from './companies/queries.ts'
import type { AdminContext } from './context.ts'

/** Calls of objects at once: a Worker may have so many connections waiting. */
const CALLS = 6

/** An object knows a token for 30 seconds; its last use is written once a minute. */
const USED_MS = 120_000
/** As many valid tokens as a company may have. */
const FORGOTTEN_MAX = 500

/** Lets the objects of all tokens of the company look them up again, before the response. */
export async function forgetCompany(context: AdminContext): Promise<void> {
  await forgetTokens(context, await listUsedTokens(context, context.now - USED_MS, FORGOTTEN_MAX))
}

/**
 * Lets the objects of changed tokens look them up again, before the response. One that fails does so by itself within 30
 * seconds.
 *
 * @param hashes of tokens that were used: the call must not be the first one, which would make the object near the operator
 */
export async function forgetTokens({ env, requestId }: AdminContext, hashes: readonly string[]): Promise<void> {
  const { RATE_LIMITER } = env
  const forget = async (hash: string) => RATE_LIMITER.get(RATE_LIMITER.idFromName(hash)).forget()
  let failed = 0
  let reason = ''
  const all = async () => {
    for (let from = 0; from < hashes.length; from += CALLS) {
      const results = await Promise.allSettled(hashes.slice(from, from + CALLS).map(forget))
      for (const each of results) {
        if (each.status === 'fulfilled') continue
        failed++
        reason = nameOf(each.reason)
      }
    }
  }
  await withDeadline(all(), BUDGET_MS.limiter).catch((error: unknown) => {
    failed = hashes.length
    reason = nameOf(error)
  })
  if (failed > 0) log('tokens_not_forgotten', { request_id: requestId, tokens: failed, reason })
}

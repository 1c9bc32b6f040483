import { BUDGET_MS, withDeadline } from '../../kernel/http/bounds.ts'
import { log, nameOf } from '../../kernel/http/errors.ts'
import { listUsedTokens } from './companies/queries.ts'
import type { AdminContext } from './context.ts'
import { ACTIVE_TOKENS_MAX } from './tokens/contract.ts'

/** An object caches a token for 30 seconds, and its last use is written once a minute. */
const USED_MS = 120_000

/**
 * Makes the objects of all the company's tokens reload them before the response.
 *
 * @param sinceMs skips tokens last used earlier; 0 after a restore, whose rows have the last uses of that time
 */
export async function invalidateCompany(context: AdminContext, sinceMs?: number): Promise<void> {
  await invalidateTokens(context, await findUsed(context, sinceMs))
}

/** The hashes of the company's tokens whose objects may have cached them. */
export const findUsed = (context: AdminContext, sinceMs = context.now - USED_MS) =>
  listUsedTokens(context, sinceMs, ACTIVE_TOKENS_MAX)

/**
 * Makes the objects of changed tokens reload them. One that fails for 2 seconds reloads by itself within 30 seconds.
 *
 * @param hashes of tokens that were used: a first call would create the object near the operator
 */
export async function invalidateTokens({ env, requestId }: AdminContext, hashes: readonly string[]): Promise<void> {
  const { RATE_LIMITER } = env
  const forget = async (hash: string) => RATE_LIMITER.get(RATE_LIMITER.idFromName(hash)).forget()
  const calls = hashes.map((hash) => withDeadline(forget(hash), BUDGET_MS.limiter))
  const failed = (await Promise.allSettled(calls)).filter((each) => each.status === 'rejected')
  const reason = failed.map((each) => nameOf(each.reason)).at(-1)
  if (reason) log('tokens_not_forgotten', { request_id: requestId, tokens: failed.length, reason })
}

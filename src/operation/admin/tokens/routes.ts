import { randomBytes } from 'node:crypto'
import { isPermission, PERMISSIONS } from '../../../kernel/gate/permissions.ts'
import { hashToken } from '../../../kernel/gate/tokens.ts'
import { type ApiError, conflict, invalid } from '../../../kernel/http/errors.ts'
import { BUDGET_MS, log, nameOf, withDeadline } from '../../../kernel/http/isolate.ts'
import type { AdminContext } from '../context.ts'
import { adminList, adminRoute, withTimes } from '../endpoint.ts'
import * as contract from './contract.ts'
import * as queries from './queries.ts'

const TOKEN_BYTES = 32

export const routes = [
  ...[contract.listAllTokens, contract.listTokens].map((list) =>
    adminList(list, queries.listTokens, present, ({ id }) => [id]),
  ),

  adminRoute(contract.createToken, async ({ body }, context) => {
    const { name, permissions = PERMISSIONS } = body
    const token = randomBytes(TOKEN_BYTES).toString('hex')
    const inOrder = PERMISSIONS.filter((each) => permissions.includes(each))
    const expires_at = checkExpiry(body.expires_at ?? null, context)
    const created = { token_hash: hashToken(token), name, permissions: inOrder, expires_at }
    const row = await queries.createToken(context, created)
    if (!row) throw tooManyTokens('revoke one first')
    return { ...present(row), token }
  }),

  adminRoute(contract.rotateToken, async ({ params: { token_id }, body }, context) => {
    const expires_at = checkExpiry(body.expires_at, context)
    const token = randomBytes(TOKEN_BYTES).toString('hex')
    const endsAt = context.now + body.overlap_seconds * 1_000
    const replaced = await queries.replaceToken(context, token_id, hashToken(token), endsAt, expires_at)
    if (!replaced) throw await explainRefusal(context, token_id, expires_at === undefined)
    await end(context, replaced.old)
    return { ...present(replaced.token), token }
  }),

  adminRoute(contract.revokeToken, async ({ params: { token_id } }, context) => {
    const row = await queries.revokeToken(context, token_id)
    await end(context, row)
    return present(row)
  }),
]

async function explainRefusal(context: AdminContext, id: number, isOnce: boolean): Promise<ApiError> {
  const token = await queries.findToken(context, id)
  const isActive = token.state === 'active'
  const isRefused = token.isRotated && (isOnce || !isActive)
  // The request that rotated it may have been interrupted before this.
  if (isRefused) await end(context, token)
  if (!isActive) return conflict('The token is revoked or expired: create another one instead')
  if (isRefused) return conflict('The token was already rotated: rotate its successor, or create another token')
  return tooManyTokens('revoke one first, or rotate with `overlap_seconds` 0, which ends the old one at once')
}

function tooManyTokens(remedy: string): ApiError {
  return conflict(`The company has ${contract.ACTIVE_TOKENS_MAX} active tokens: ${remedy}`)
}

/** @throws ApiError 400 for a time in the past */
function checkExpiry<T extends number | null | undefined>(expiresAt: T, { now }: AdminContext): T {
  if (expiresAt == null || expiresAt > now) return expiresAt
  throw invalid([{ path: 'expires_at', message: 'must be in the future' }])
}

/** Longer than Time Travel reaches back. */
const ENDED_SECONDS = 90 * 86_400

/** Also keeps the time in milliseconds in KV: Time Travel of the database must not make the token valid again. */
async function end(context: AdminContext, { token_hash, last_used_at, revoked_at, expires_at }: queries.TokenRow) {
  const endedAt = String(revoked_at ?? expires_at)
  const put = async () => context.env.CACHE.put(`revoked/${token_hash}`, endedAt, { expirationTtl: ENDED_SECONDS })
  const kept = withDeadline(put().catch(put), BUDGET_MS.afterwards).catch((error: unknown) => {
    log('revocation_not_kept', { request_id: context.requestId, error: nameOf(error) }, 'error')
  })
  context.waitUntil(kept)
  // Only a token that was used has an object.
  if (last_used_at !== null) await queries.invalidateTokens(context, [token_hash])
}

function present({ token_hash: _, permissions, ...shown }: queries.TokenRow) {
  return { ...withTimes(shown), permissions: permissions.filter(isPermission) }
}

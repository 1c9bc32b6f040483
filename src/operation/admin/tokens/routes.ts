import { randomBytes } from 'node:crypto'
import { isoTime, isoTimeOrNull } from '../../../kernel/api/contract.ts'
import { isPermission, PERMISSIONS } from '../../../kernel/gate/permissions.ts'
import { hashToken } from '../../../kernel/gate/tokens.ts'
import { BUDGET_MS, withDeadline } from '../../../kernel/http/deadline.ts'
import { ApiError, invalid, notFound } from '../../../kernel/http/errors.ts'
import { log, nameOf } from '../../../kernel/http/log.ts'
import type { AdminContext } from '../context.ts'
import { adminRoute } from '../endpoint.ts'
import { invalidateTokens } from '../invalidate-tokens.ts'
import { openAdminPage } from '../paging.ts'
import * as contract from './contract.ts'
import { createToken, findToken, listTokens, replaceToken, revokeToken, type TokenRow } from './queries.ts'

const TOKEN_BYTES = 32

export const routes = [
  adminRoute(contract.listAllTokens, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listAllTokens, query, context)
    const { company_id, id } = query
    const rows = await listTokens(context, {
      ...(company_id !== undefined && { company_id }),
      ...(id !== undefined && { id }),
      after: Number(after?.[0] ?? 0),
      limit,
    })
    return page(rows, presenter(context), (row) => [row.id])
  }),

  adminRoute(contract.listTokens, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listTokens, query, context)
    const rows = await listTokens(context, { after: Number(after?.[0] ?? 0), limit })
    return page(rows, presenter(context), ({ id }) => [id])
  }),

  adminRoute(contract.createToken, async ({ body }, context) => {
    const { name, permissions = PERMISSIONS, expires_at = null } = body
    const token = randomBytes(TOKEN_BYTES).toString('hex')
    const row = await createToken(context, {
      hash: hashToken(token),
      name,
      permissions: PERMISSIONS.filter((each) => permissions.includes(each)),
      expiresAt: readExpiry(expires_at, context),
    })
    if (!row) throw tooManyTokens('revoke one first')
    return { ...presenter(context)(row), token }
  }),

  adminRoute(contract.rotateToken, async ({ params: { token_id }, body }, context) => {
    const present = await findToken(context, token_id)
    if (!present) throw notFound('Token')
    const { now } = context
    const lifetimeMs = present.expires_at === null ? null : present.expires_at - present.created_at
    const sameLifetime = lifetimeMs === null ? null : now + lifetimeMs
    const token = randomBytes(TOKEN_BYTES).toString('hex')
    const replaced = await replaceToken(
      context,
      token_id,
      {
        hash: hashToken(token),
        name: present.name,
        permissions: present.permissions,
        expiresAt: body.expires_at === undefined ? sameLifetime : readExpiry(body.expires_at, context),
      },
      now + body.overlap_seconds * 1_000,
    )
    if (!replaced && presenter(context)(present).state === 'active') {
      throw tooManyTokens('revoke one first, or rotate with `overlap_seconds` 0, which ends the old one at once')
    }
    if (!replaced) {
      throw new ApiError('conflict', { message: 'The token is revoked or expired: create another one instead' })
    }
    await Promise.all([rememberEnd(context, replaced.old), forget(context, replaced.old)])
    return { ...presenter(context)(replaced.token), token }
  }),

  adminRoute(contract.revokeToken, async ({ params: { token_id } }, context) => {
    const row = await revokeToken(context, token_id)
    if (!row) throw notFound('Token')
    await Promise.all([rememberEnd(context, row), forget(context, row)])
    return presenter(context)(row)
  }),
]

function tooManyTokens(remedy: string): ApiError {
  return new ApiError('conflict', { message: `The company has ${contract.ACTIVE_TOKENS_MAX} active tokens: ${remedy}` })
}

/**
 * @returns milliseconds
 * @throws ApiError 400 for a time in the past
 */
function readExpiry(text: string | null, { now }: AdminContext): number | null {
  const expiresAt = text === null ? null : Date.parse(text)
  if (expiresAt === null || expiresAt > now) return expiresAt
  throw invalid([{ path: 'expires_at', message: 'must be in the future' }])
}

/** Only a token that was used has an object. */
async function forget(context: AdminContext, { token_hash, last_used_at }: TokenRow) {
  if (last_used_at !== null) await invalidateTokens(context, [token_hash])
}

/** The end of a token is kept outside of the database for longer than Time Travel reaches back. */
const ENDED_SECONDS = 90 * 86_400

/**
 * Keeps the end of a token outside of the database, so that Time Travel cannot make it valid again: KV `revoked/HASH`
 * is the time in milliseconds.
 */
async function rememberEnd({ env, requestId }: AdminContext, { token_hash, revoked_at, expires_at }: TokenRow) {
  const endedAt = String(revoked_at ?? expires_at)
  const put = env.CACHE.put(`revoked/${token_hash}`, endedAt, { expirationTtl: ENDED_SECONDS })
  await withDeadline(put, BUDGET_MS.cache).catch((error: unknown) => {
    log('revocation_not_kept', { request_id: requestId, status: 200, error: nameOf(error) }, 'error')
  })
}

function presenter({ now }: AdminContext) {
  return ({ token_hash: _, permissions, created_at, last_used_at, expires_at, revoked_at, ...row }: TokenRow) => {
    const isExpired = expires_at !== null && expires_at <= now
    const state = revoked_at !== null ? ('revoked' as const) : isExpired ? ('expired' as const) : ('active' as const)
    return {
      ...row,
      permissions: permissions.filter(isPermission),
      state,
      created_at: isoTime(created_at),
      last_used_at: isoTimeOrNull(last_used_at),
      expires_at: isoTimeOrNull(expires_at),
      revoked_at: isoTimeOrNull(revoked_at),
    }
  }
}

import type { MiddlewareHandler } from 'hono'
import type { Env } from '../../env.ts'
import type { DatabaseUse } from '../db/client.ts'
import { LruCache } from '../http/cache.ts'
import { pause } from '../http/deadline.ts'
import { ApiError, errorResponse } from '../http/errors.ts'
import { networksOf } from '../http/outbound.ts'
import { fairShare } from './fair-share.ts'
import { crowded, refusalOf, refuseToken } from './refusals.ts'
import { RequestUsage } from './request-usage.ts'
import { TokenState } from './token-state.ts'
import { hashToken, type Token } from './tokens.ts'
import { delayLookup, refuseUnknown, tooManyUnknown } from './unknown-tokens.ts'

/** Hono's types of what the gate reads and sets. */
export interface GateEnv {
  Bindings: Env
  Variables: {
    requestId: string
    /** Milliseconds since the epoch. */
    receivedAt: number
    databaseUse: DatabaseUse
    usage: RequestUsage
  }
}

const BEARER = /^Bearer +([0-9a-f]{64})$/i

/** By the challenge of RFC 6750, section 3, which names an error where there was a token. */
const REFUSALS = {
  no_header: 'Send a token in the header Authorization: Bearer <API_TOKEN>',
  wrong_form: 'The header Authorization must be Bearer, a space and the token of 64 hexadecimal characters',
  invalid_token: 'The token is unknown, revoked or expired: create another one in the developer settings',
} as const

/** By the token itself, so that a known one is not hashed again. */
const states = new LruCache<string, TokenState>({ maxWeight: 10_000 })

/**
 * Refuses a request with 401, 429 or 403, or runs it: by one call to its token's Durable Object. The request's own use is
 * reported after the response.
 */
export const admit: MiddlewareHandler<GateEnv> = async (c, next) => {
  const now = c.get('receivedAt')
  const header = c.req.header('authorization')
  const secret = BEARER.exec(header ?? '')?.[1]
  if (!secret) throw unauthenticated(header ? 'wrong_form' : 'no_header')
  const state = states.get(secret) ?? new TokenState(hashToken(secret))
  const networks = () => networksOf(c.req.header('cf-connecting-ip') ?? 'unknown')
  const delayMs = state.lastToken(now) ? 0 : delayLookup(networks(), state.hash, now)
  if (delayMs > 0) throw tooManyUnknown(delayMs)

  states.set(secret, state)
  const isWrite = !['GET', 'HEAD'].includes(c.req.method)
  const admission = await state.admit(c, isWrite)
  if (admission.kind === 'unknown') {
    // Random tokens must not displace the others.
    states.delete(secret)
    throw (await refuseUnknown(c.env, networks(), c.get('requestId'), now)) ?? unauthenticated('invalid_token')
  }
  if (admission.kind === 'ended') throw unauthenticated('invalid_token')
  const { token, decision } = admission
  const usage = new RequestUsage(c, state, admission, isWrite)
  c.set('usage', usage)
  const refusal = decision.allowed
    ? (refuseToken(token) ?? (await waitForTurn(token, c.req.raw)))
    : refusalOf(decision, Date.now())
  if (refusal) c.res = errorResponse(refusal, c.req.url)
  else await next()
  usage.end(c.res.status)
}

/** @returns the 429 of a request that would wait too long */
async function waitForTurn({ companyId }: Token, request: Request): Promise<ApiError | null> {
  // A body of unknown length counts once it is read.
  const length = Number(request.headers.get('content-length')) || 0
  const waitMs = fairShare.enter(companyId, length, performance.now())
  if (waitMs === null) return crowded()
  if (waitMs > 0) await pause(waitMs)
  return null
}

function unauthenticated(refusal: keyof typeof REFUSALS): ApiError {
  const message = REFUSALS[refusal]
  const challenge =
    refusal === 'invalid_token' ? `Bearer error="invalid_token", error_description="${message}"` : 'Bearer'
  return new ApiError('unauthenticated', { message, headers: { 'WWW-Authenticate': challenge } })
}

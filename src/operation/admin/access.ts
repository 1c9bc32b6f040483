import { createHash, timingSafeEqual } from 'node:crypto'
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'
import * as z from 'zod/mini'
import type { Env } from '../../env.ts'
import { type Contract, emailAddress, ROLES, type Role } from '../../kernel/api/contract.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { DIRECTORY } from '../../kernel/db/placement.ts'
import { rateLimited } from '../../kernel/gate/limits.ts'
import { isWithinLimit } from '../../kernel/gate/tokens.ts'
import { ApiError, notFound, unauthenticated, unavailable } from '../../kernel/http/errors.ts'
import { LruCache, log, nameOf, withDeadline } from '../../kernel/http/isolate.ts'
import { isLoopback, networkOf } from '../../kernel/http/outbound.ts'
import type { Caller } from './context.ts'
import { findAccess } from './queries.ts'

/** Development needs no sign-in: the settings open as an owner of the sample company. */
const DEVELOPER = 'owner@ridgeline.example'

const SECRET = /^Bearer +([0-9a-f]{64})$/i

const OPERATOR: Caller = { actor: 'operator', isOperator: true }

/**
 * Authenticates a request by the deployment's secret or by a sign-in of Cloudflare Access.
 *
 * @throws ApiError 401 for neither, 403 for a person's request from a page of another origin, 429 for too many
 *   requests
 */
export async function identify(request: Request, env: Env, requestId: string): Promise<Caller> {
  const identity = await readIdentity(request, env)
  if ('problem' in identity) throw await refuse(request, env, requestId, identity.problem)
  // A browser sends the session with requests from every page. A read has no Origin, and an export costs much.
  const isChange = request.method !== 'GET' && request.method !== 'HEAD'
  const isForeign = !['same-origin', 'none', null].includes(request.headers.get('sec-fetch-site'))
  const hasOrigin = request.headers.get('origin') === new URL(request.url).origin
  if (identity !== OPERATOR && (isForeign || (isChange && !hasOrigin))) {
    log('admin_refused', { request_id: requestId, problem: 'origin' })
    throw new ApiError('forbidden', { message: 'The request must be sent from the settings page of this service' })
  }
  // Another page must not use up a person's requests.
  const isWithin = await isWithinLimit(env.ADMIN_REQUESTS, identity.actor, requestId, 'admin_limiter_failed')
  if (!isWithin) throw rateLimited(LIMIT_SECONDS, 'Too many requests of this caller')
  return identity
}

const LIMIT_SECONDS = 60

async function readIdentity(request: Request, env: Env): Promise<Caller | { problem: string }> {
  const authorization = request.headers.get('authorization')
  if (authorization !== null) return isSecret(authorization, env) ? OPERATOR : { problem: 'secret' }
  const assertion = request.headers.get('cf-access-jwt-assertion')
  if (assertion !== null) return verifyAssertion(assertion, env)
  const isDevelopment = env.ADMIN_DEVELOPMENT === 'development' && isLoopback(new URL(request.url).hostname)
  return isDevelopment ? { actor: DEVELOPER, isOperator: false } : { problem: 'none' }
}

/**
 * Finds the database of the path's company.
 *
 * @throws ApiError 403 for a role that is too low, 404 for a company that the caller may not see
 */
export async function authorise({ actor, isOperator }: Caller, context: CompanyContext, contract: Contract) {
  const { companyId } = context
  const { role = 'operator', createsCompany } = contract
  const { isMember, ownRole, database } = await findAccess(context, actor)
  if (!isOperator && !isMember) {
    throw new ApiError('forbidden', { message: `${actor} is a member of no company: ask an owner to add you` })
  }
  const held: Role = isOperator ? 'operator' : ownRole
  if (companyId !== 0 && (held === 'member' || (database === null && !createsCompany))) throw notFound('Company')
  if (ROLES.indexOf(held) < ROLES.indexOf(role)) {
    const how = role === 'operator' ? ': send `Authorization: Bearer ADMIN_TOKEN`, or sign in as one of OPERATORS' : ''
    throw new ApiError('forbidden', { message: `This needs the role \`${role}\`${how}` })
  }
  return database ?? DIRECTORY
}

const NOT_SIGNED_IN = 'Sign in through Cloudflare Access, or send the header Authorization: Bearer <ADMIN_TOKEN>'

async function refuse(request: Request, env: Env, requestId: string, problem: string): Promise<ApiError> {
  const address = request.headers.get('cf-connecting-ip') ?? 'unknown'
  log('admin_refused', { request_id: requestId, problem, address })
  if (!(await isWithinLimit(env.AUTH_FAILURES, networkOf(address), requestId, 'auth_limiter_failed'))) {
    return rateLimited(LIMIT_SECONDS, 'Too many refused requests from this network')
  }
  if (problem === 'none') return unauthenticated(NOT_SIGNED_IN)
  if (problem === 'secret') return unauthenticated('The Authorization header must be Bearer <ADMIN_TOKEN>', true)
  return unauthenticated('The sign-in is not valid for this service: sign in again', true)
}

function isSecret(authorization: string, { ADMIN_TOKEN }: Env): boolean {
  const sent = SECRET.exec(authorization)?.[1]
  if (sent === undefined || !ADMIN_TOKEN || !/^[0-9a-f]{64}$/i.test(ADMIN_TOKEN)) return false
  const digest = (text: string) => createHash('sha256').update(text.toLowerCase()).digest()
  return timingSafeEqual(digest(sent), digest(ADMIN_TOKEN))
}

const KEYS_MS = 5_000
const KEYS_CACHE = { cacheMaxAge: 3_600_000, timeoutDuration: KEYS_MS }
/** The keys of the deployment's one issuer, cached for an hour or until an unknown key appears. */
const keySets = new LruCache<string, ReturnType<typeof createRemoteJWKSet>>({ maxWeight: 1 })
/** Errors of reading the keys; all others are problems of the token. */
const KEYS_FAILED = /^ERR_(JOSE_GENERIC|JWKS_TIMEOUT|JWKS_INVALID)$/
const ASSERTION_MAX_CHARACTERS = 16_384

const claims = z.object({ email: emailAddress() })

/**
 * Verifies an application token of Cloudflare Access.
 *
 * Source: https://developers.cloudflare.com/cloudflare-one/access-controls/applications/http-apps/authorization-cookie/validating-json/
 *
 * @returns the person, or what is wrong with the token
 * @throws ApiError 503 when the keys cannot be read
 */
async function verifyAssertion(token: string, env: Env): Promise<Caller | { problem: string }> {
  const { ACCESS_ISSUER, ACCESS_AUDIENCE, OPERATORS = '' } = env
  if (!ACCESS_ISSUER || !ACCESS_AUDIENCE) return { problem: 'access_not_configured' }
  if (token.length > ASSERTION_MAX_CHARACTERS) return { problem: 'too_long' }
  const keys = keySets.getOrMake(ACCESS_ISSUER, () =>
    createRemoteJWKSet(new URL(`${ACCESS_ISSUER}/cdn-cgi/access/certs`), KEYS_CACHE),
  )
  try {
    const verified = jwtVerify(token, keys, {
      issuer: ACCESS_ISSUER,
      audience: ACCESS_AUDIENCE,
      algorithms: ['RS256', 'ES256'],
      requiredClaims: ['exp', 'iat', 'email'],
      clockTolerance: 5,
    })
    // The timeout of jose may not end a stalled body.
    const { payload } = await withDeadline(verified, KEYS_MS)
    const { success, data } = claims.safeParse(payload)
    if (!success) return { problem: 'no_email' }
    const actor = data.email.toLowerCase()
    const operators = OPERATORS.toLowerCase().split(/[\s,]+/)
    return { actor, isOperator: operators.includes(actor) }
  } catch (error) {
    if (error instanceof errors.JOSEError && !KEYS_FAILED.test(error.code)) return { problem: error.code }
    throw unavailable(5, { message: 'The keys of the sign-in service cannot be read: retry', cause: nameOf(error) })
  }
}

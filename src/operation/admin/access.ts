import { createHash, timingSafeEqual } from 'node:crypto'
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'
import * as z from 'zod/mini'
import type { Env } from '../../env.ts'
import { type Contract, emailAddress, ROLES, type Role } from '../../kernel/api/contract.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { DIRECTORY } from '../../kernel/db/placement.ts'
import { rateLimited } from '../../kernel/gate/limits.ts'
import { countFailure } from '../../kernel/gate/tokens.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/bounds.ts'
import { ApiError, log, nameOf, notFound, unauthenticated, unavailable } from '../../kernel/http/errors.ts'
import { isLoopback, networkOf } from '../../kernel/http/outbound.ts'
import type { Caller } from './context.ts'
import { findAccess } from './queries.ts'

/** Development needs no sign-in: the settings open as an owner of the sample company. */
const DEVELOPER = 'owner@ridgeline.example'

const SECRET = /^Bearer +([0-9a-f]{64})$/i

/** The sender of a request, before the database is read. */
type Identity = { actor: string; isPerson: boolean; isOperator: boolean }

/**
 * Authenticates a request by the deployment's secret or by a sign-in of Cloudflare Access.
 *
 * @throws ApiError 401 for neither, 403 for a person's request from a page of another origin, 429 for too many
 *   requests
 */
export async function identify(request: Request, env: Env, requestId: string): Promise<Identity> {
  const { hostname, origin } = new URL(request.url)
  const authorization = request.headers.get('authorization')
  const assertion = request.headers.get('cf-access-jwt-assertion')
  const isDevelopment = env.ADMIN_DEVELOPMENT === 'development' && isLoopback(hostname)
  let identity: Identity
  if (authorization !== null) {
    if (!isSecret(authorization, env)) throw await refuse(request, env, requestId, 'secret')
    identity = { actor: 'operator', isPerson: false, isOperator: true }
  } else if (assertion !== null) {
    const email = await verifyAssertion(assertion, env)
    const operators = (env.OPERATORS ?? '').toLowerCase().split(/[\s,]+/)
    if (typeof email !== 'string') throw await refuse(request, env, requestId, email.problem)
    identity = { actor: email, isPerson: true, isOperator: operators.includes(email) }
  } else if (isDevelopment) {
    identity = { actor: DEVELOPER, isPerson: true, isOperator: false }
  } else throw await refuse(request, env, requestId, 'none')

  const { success } = await withDeadline(env.ADMIN_REQUESTS.limit({ key: identity.actor }), BUDGET_MS.limiter).catch(
    (error: unknown) => {
      log('admin_limiter_failed', { request_id: requestId, reason: nameOf(error) })
      return { success: true }
    },
  )
  if (!success) throw rateLimited(LIMIT_SECONDS, 'Too many requests of this caller')
  // A browser sends the session with requests from every page. A read has no Origin, and an export costs much.
  const isChange = request.method !== 'GET' && request.method !== 'HEAD'
  const isForeign = !['same-origin', 'none', null].includes(request.headers.get('sec-fetch-site'))
  if (identity.isPerson && (isForeign || (isChange && request.headers.get('origin') !== origin))) {
    log('admin_refused', { request_id: requestId, problem: 'origin' })
    throw new ApiError('forbidden', { message: 'The request must be sent from the settings page of this service' })
  }
  return identity
}

const LIMIT_SECONDS = 60

/**
 * The caller with their roles, and the database of the path's company.
 *
 * @throws ApiError 403 for a role that is too low, 404 for a company that the caller may not see
 */
export async function authorise(identity: Identity, { companyId, db }: CompanyContext, contract: Contract) {
  const { actor, isPerson, isOperator } = identity
  const { role = 'operator', createsCompany } = contract
  const { memberships, database } =
    isPerson || companyId !== 0
      ? await findAccess({ db, companyId }, isPerson ? actor : '')
      : { memberships: new Map(), database: null }
  const caller: Caller = { actor, isOperator, memberships }
  if (!isOperator && memberships.size === 0) {
    throw new ApiError('forbidden', { message: `${actor} is a member of no company: ask an owner to add you` })
  }
  const held: Role = isOperator ? 'operator' : companyId === 0 ? 'member' : (memberships.get(companyId) ?? 'member')
  if (companyId !== 0 && (held === 'member' || (database === null && !createsCompany))) throw notFound('Company')
  if (ROLES.indexOf(held) < ROLES.indexOf(role)) {
    const how = role === 'operator' ? ': send `Authorization: Bearer ADMIN_TOKEN`, or sign in as one of OPERATORS' : ''
    throw new ApiError('forbidden', { message: `This needs the role \`${role}\`${how}` })
  }
  return { caller, database: database ?? DIRECTORY }
}

const NOT_SIGNED_IN = 'Sign in through Cloudflare Access, or send the header Authorization: Bearer <ADMIN_TOKEN>'

async function refuse(request: Request, env: Env, requestId: string, problem: string): Promise<ApiError> {
  const address = request.headers.get('cf-connecting-ip') ?? 'unknown'
  log('admin_refused', { request_id: requestId, problem, address })
  if (!(await countFailure(env, networkOf(address), requestId))) {
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
let keySet: { issuer: string; keys: ReturnType<typeof createRemoteJWKSet> } | undefined
/** Errors of reading the keys; all others are problems of the token. */
const KEYS_FAILED = /^ERR_(JOSE_GENERIC|JWKS_TIMEOUT|JWKS_INVALID)$/
const ASSERTION_MAX_CHARACTERS = 16_384

const claims = z.object({ email: emailAddress() })

/**
 * Verifies an application token of Cloudflare Access.
 *
 * Source: https://developers.cloudflare.com/cloudflare-one/access-controls/applications/http-apps/authorization-cookie/validating-json/
 *
 * @returns the email in lower case, or what is wrong with the token
 * @throws ApiError 503 when the keys cannot be read
 */
async function verifyAssertion(token: string, env: Env): Promise<string | { problem: string }> {
  const { ACCESS_ISSUER, ACCESS_AUDIENCE } = env
  if (!ACCESS_ISSUER || !ACCESS_AUDIENCE) return { problem: 'access_not_configured' }
  if (token.length > ASSERTION_MAX_CHARACTERS) return { problem: 'too_long' }
  if (keySet?.issuer !== ACCESS_ISSUER) {
    const keys = createRemoteJWKSet(new URL(`${ACCESS_ISSUER}/cdn-cgi/access/certs`), KEYS_CACHE)
    keySet = { issuer: ACCESS_ISSUER, keys }
  }
  try {
    const verified = jwtVerify(token, keySet.keys, {
      issuer: ACCESS_ISSUER,
      audience: ACCESS_AUDIENCE,
      algorithms: ['RS256', 'ES256'],
      requiredClaims: ['exp', 'iat', 'email'],
      clockTolerance: 5,
    })
    // The timeout of jose may not end a stalled body.
    const { payload } = await withDeadline(verified, KEYS_MS)
    const { success, data } = claims.safeParse(payload)
    return success ? data.email.toLowerCase() : { problem: 'no_email' }
  } catch (error) {
    if (error instanceof errors.JOSEError && !KEYS_FAILED.test(error.code)) return { problem: error.code }
    throw unavailable(5, { message: 'The keys of the sign-in service cannot be read: retry', cause: nameOf(error) })
  }
}

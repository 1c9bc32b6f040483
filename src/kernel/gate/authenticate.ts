import type { Context, MiddlewareHandler } from 'hono'
import type { Env } from '../../env.ts'
import type { DatabaseUse } from '../db/client.ts'
import { verifySchema } from '../db/migrations.ts'
import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError } from '../http/errors.ts'
import { log, nameOf } from '../http/log.ts'
import { blockNetwork, delayLookup, networksOf } from './failed-lookups.ts'
import { RequestUsage } from './middleware.ts'
import type { Remote } from './protocol.ts'
import { rateLimited } from './refusals.ts'
import { TokenGate } from './token-gate.ts'
import { findToken, hashToken, LAST_USED_EVERY_MS, touchToken } from './tokens.ts'

/** Hono's types of what the middleware before this one sets, and of what this one sets. */
interface GateEnv {
  Bindings: Env
  Variables: { requestId: string; receivedAt: number; databaseUse: DatabaseUse; usage: RequestUsage }
}

const BEARER = /^Bearer +([0-9a-f]{64})$/i

/** What is wrong with a token, with the challenge of RFC 6750, section 3: it has an error where there was a token. */
const REFUSALS = {
  no_header: 'Send a token in the header Authorization: Bearer <API_TOKEN>',
  wrong_form: 'The header Authorization must be Bearer, a space and the token of 64 hexadecimal characters',
  invalid_token: 'The token is unknown, revoked or expired: create another one in the developer settings',
} as const

/** Methods that change nothing. */
const READS = ['GET', 'HEAD']

/**
 * Sets the request's token and its usage of the token's limits, by one call to the token's Durable Object; the last use is
 * written after the response. A read begins beside that call where the isolate knows the token and the primary is near.
 */
export const authenticate: MiddlewareHandler<GateEnv> = async (c, next) => {
  const { env } = c
  const now = c.get('receivedAt')
  const header = c.req.header('authorization')
  const secret = BEARER.exec(header ?? '')?.[1]
  if (!secret) throw unauthenticated(header ? 'wrong_form' : 'no_header')

  const hash = hashToken(secret)
  const gate = gateOf(hash)
  const networks = networksOf(c.req.header('cf-connecting-ip') ?? 'unknown')
  if (!gate.wasValid(now)) {
    const delayMs = delayLookup(networks, hash, now)
    if (delayMs > 0) {
      dropGate(hash)
      throw tooManyUnknown(delayMs)
    }
  }
  const remote = connect(c, hash)
  const isRead = READS.includes(c.req.method)
  const admit = async () => {
    const entered = await gate.enter(remote, !isRead)
    if (typeof entered !== 'string') return entered
    if (entered === 'ended') throw unauthenticated('invalid_token')
    dropGate(hash)
    const exceeding = await countFailure(env, networks, c.get('requestId'))
    if (exceeding.length === 0) throw unauthenticated('invalid_token')
    throw tooManyUnknown(Math.max(...exceeding.map((network) => blockNetwork(network, now))))
  }
  if (gate.knownToken(now) === null) throw unauthenticated('invalid_token')
  const assumed = isRead ? gate.assume(now) : null
  const admission = gate.refuse(remote, now) ?? (assumed ? { assumed, admitting: admit() } : await admit())
  const usage = new RequestUsage(gate, remote, admission)
  c.set('usage', usage)
  await next()

  const { token, isTouchDue } = usage
  if (!isTouchDue) return
  const charged = touchToken(env.DB, token, now).then((databaseMs) => usage.charge(databaseMs))
  remote.keepAlive(charged.catch(() => undefined))
}

const gates = new LruCache<string, TokenGate>({ maxWeight: 10_000 })

/** The gate of a token in this isolate. */
function gateOf(hash: string): TokenGate {
  const gate = gates.get(hash) ?? new TokenGate()
  gates.set(hash, gate)
  return gate
}

/** For an unknown token: who sends random ones must not displace the others. */
function dropGate(hash: string): void {
  gates.delete(hash)
}

/** The token's object, which is made near the first caller, and the directory for when it fails. */
function connect(c: Context<GateEnv>, hash: string): Remote {
  const { env } = c
  const objects = env.RATE_LIMITER
  const hint = hintOf(c.req.raw.cf)
  const open = () => objects.get(objects.idFromName(hash), hint && { locationHint: hint })
  return {
    requestId: c.get('requestId'),
    enter: async (entry) => open().enter({ ...entry, hash }),
    take: async (demand) => open().take(demand),
    report: async (report) => open().report(report),
    forget: async () => open().forget(),
    lookUp: async () => {
      const found = await findToken(env.DB, hash, c.get('databaseUse'))
      verifySchema(found.applied)
      return { token: found.token, isTouchDue: Date.now() - found.lastUsedAt >= LAST_USED_EVERY_MS }
    },
    keepAlive: (work) => c.executionCtx.waitUntil(work),
  }
}

function tooManyUnknown(delayMs: number): ApiError {
  return rateLimited(Math.ceil(delayMs / 1000), 'Too many unknown tokens from this network')
}

/** Counts a failure in the networks of a caller. @returns those over their limit; none where the limiter itself fails */
export async function countFailure(
  { AUTH_FAILURES, AUTH_FAILURES_WIDE }: Env,
  [network, site]: ReturnType<typeof networksOf>,
  requestId: string,
): Promise<string[]> {
  const count = async (failures: RateLimit, key: string) => {
    try {
      return (await withDeadline(failures.limit({ key }), BUDGET_MS.limiter)).success ? [] : [key]
    } catch (error) {
      log('auth_limiter_failed', { request_id: requestId, reason: nameOf(error) })
      return []
    }
  }
  const counts = [count(AUTH_FAILURES, network), ...(site === undefined ? [] : [count(AUTH_FAILURES_WIDE, site)])]
  return (await Promise.all(counts)).flat()
}

/** Where Cloudflare may make an object. In North America, Europe and Asia the side of a meridian decides. */
const HINTS: Partial<
  Record<string, [east: DurableObjectLocationHint, meridian?: number, west?: DurableObjectLocationHint]>
> = {
  AF: ['afr'],
  AS: ['apac', 60, 'me'],
  EU: ['eeur', 16, 'weur'],
  NA: ['enam', -100, 'wnam'],
  OC: ['oc'],
  SA: ['sam'],
}

/** Where an object is to be made for the caller of a request; undefined where that is not known: then it is near the Worker. */
export function hintOf(cf: object | undefined): DurableObjectLocationHint | undefined {
  const { continent, longitude }: Partial<IncomingRequestCfPropertiesGeographicInformation> = cf ?? {}
  const [east, meridian, west] = HINTS[continent ?? ''] ?? []
  if (meridian === undefined) return east
  const degrees = Number.parseFloat(longitude ?? '')
  if (Number.isNaN(degrees)) return undefined
  return degrees < meridian ? west : east
}

function unauthenticated(refusal: keyof typeof REFUSALS): ApiError {
  const message = REFUSALS[refusal]
  const challenge =
    refusal === 'invalid_token' ? `Bearer error="invalid_token", error_description="${message}"` : 'Bearer'
  return new ApiError('unauthenticated', { message, headers: { 'WWW-Authenticate': challenge } })
}

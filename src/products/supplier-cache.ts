import * as z from 'zod/mini'
import { decryptCredentials } from '../auth/credentials.ts'
import type { RequestContext } from '../context.ts'
import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { log } from '../http/log.ts'
import type { SourceState } from './contract.ts'
import type { Integration } from './queries.ts'
import { type Lifetime, type Lookup, SupplierError, type SupplierErrorReason } from './suppliers/supplier.ts'

/** Part of every key in KV: raise it when the stored value changes. */
const CACHE_VERSION = 1

/** One call with its body read. It may outlive the request that made it: a late result is still cached. */
const CALL_MS = 10_000

/** Fresh for 10 minutes, then served stale for up to 24 hours while it is refreshed. */
export const PRODUCTS: Lifetime = { freshMs: 10 * 60_000, maxAgeMs: 24 * 3_600_000 }

/** The items of a lookup, and what the response says of them. */
export type SupplierResult<Item> =
  | { state: Exclude<SourceState, 'failed'>; items: Item[] }
  | { state: 'failed'; items: []; reason: SupplierErrorReason }

/** A cached result. */
interface Entry<Item> {
  items: Item[]
  /** Milliseconds since the epoch. */
  fetchedAt: number
  /** `updated_at` of the integration that fetched it: an entry of another account is never served. */
  account: number
}

const metadataSchema = z.object({ fetchedAt: z.number(), account: z.number() })

/**
 * What this isolate cached within the last minute. KV caches for a minute that it has nothing under a key: without this
 * the same search would call the supplier again and again in that minute.
 */
const recentEntries = new LruCache<string, { entry: Entry<unknown>; length: number }>({
  maxWeight: 4_000_000,
  weigh: ({ length }) => length,
  ttlMs: 60_000,
})

/**
 * Calls in flight by lookup and account; one that has not ended when its entry expires was lost with its request.
 *
 * A promise of one request is awaited by others: workerd allows that while the request that created it lives, and as
 * long as its value holds no I/O object. So the call is handed to `waitUntil`, and every waiter has its own deadline.
 */
const callsInFlight = new LruCache<string, Promise<SupplierResult<unknown>>>({
  maxWeight: 1_000,
  ttlMs: CALL_MS + 1_000,
})

/** By company, supplier and account. */
const healths = new LruCache<string, Health>({ maxWeight: 10_000 })

/** Reads the cache while the caller still loads the integration. Null also when the cache fails or is slow. */
export async function readCache<Item>(context: RequestContext, lookup: Lookup<Item>): Promise<Entry<Item> | null> {
  const recent = readRecent(context, lookup)
  if (recent) return recent
  try {
    const read = context.cache.getWithMetadata<Item[]>(await kvKey(context, lookup), 'json')
    const { value, metadata } = await withDeadline(read, BUDGET_MS.cache)
    const parsed = metadataSchema.safeParse(metadata)
    return Array.isArray(value) && parsed.success ? { items: value, ...parsed.data } : null
  } catch {
    return null
  }
}

/**
 * The cached items where they are fresh or stale, stale ones being refreshed after the response; else the supplier's.
 *
 * @param cached from {@link readCache}
 * @param integration the company's; `unknown` while the database fails: then only the cache is used
 * @param options.deadline when the caller stops waiting, in milliseconds since the epoch
 * @param options.isSparing leaves the last calls of the supplier's minute to others
 */
export async function findProducts<Item>(
  context: RequestContext,
  lookup: Lookup<Item>,
  cached: Promise<Entry<Item> | null>,
  integration: Integration | 'unknown',
  { deadline, isSparing }: { deadline: number; isSparing: boolean },
): Promise<SupplierResult<Item>> {
  const read = await cached
  // A call that was in flight while the cache was read may have ended since.
  const entry = readRecent(context, lookup) ?? read
  const now = Date.now()
  if (integration === 'unknown') {
    const isServed = entry && freshnessOf(entry.fetchedAt, lifetimeOf(lookup, entry.items), now) !== 'expired'
    return isServed ? { state: 'stale', items: entry.items } : failed('supplier_unavailable')
  }
  if (entry?.account === integration.updated_at) {
    const { items, fetchedAt } = entry
    const freshness = freshnessOf(fetchedAt, lifetimeOf(lookup, items), now)
    if (freshness === 'fresh') return { state: 'ok', items }
    if (freshness === 'stale') {
      if (!isSparing || !hasFewCalls(healthOf(context, integration), now)) fetchOnce(context, lookup, integration)
      return { state: 'stale', items }
    }
  }
  const call = fetchOnce(context, lookup, integration)
  return withDeadline(call, Math.max(0, deadline - now)).catch(() => failed('supplier_unavailable'))
}

export function freshnessOf(
  fetchedAt: number,
  { freshMs, maxAgeMs }: Lifetime,
  now: number,
): 'fresh' | 'stale' | 'expired' {
  const ageMs = now - fetchedAt
  if (ageMs < freshMs) return 'fresh'
  return ageMs < maxAgeMs ? 'stale' : 'expired'
}

function lifetimeOf<Item>({ emptyLifetime }: Lookup<Item>, items: Item[]): Lifetime {
  return items.length === 0 && emptyLifetime ? emptyLifetime : PRODUCTS
}

function failed(reason: SupplierErrorReason): SupplierResult<never> {
  return { state: 'failed', items: [], reason }
}

/** Calls the supplier, or joins the same call of the same company. Never rejects. */
function fetchOnce<Item>(
  context: RequestContext,
  lookup: Lookup<Item>,
  integration: Integration,
): Promise<SupplierResult<Item>> {
  const id = `${integration.updated_at}/${idOf(context, lookup)}`
  const inFlight = callsInFlight.get(id)
  // A lookup has one type of items.
  if (inFlight) return inFlight as Promise<SupplierResult<Item>>

  const now = Date.now()
  const health = healthOf(context, integration)
  if (!mayCall(health, now)) return Promise.resolve(failed(health.reason))
  healths.set(healthKey(context, integration), startCall(health, now))

  const call = fetchFrom(context, lookup, integration)
  callsInFlight.set(id, call)
  const cacheResult = async ({ state, items }: SupplierResult<Item>) => {
    if (callsInFlight.get(id) === call) callsInFlight.delete(id)
    if (state === 'ok') await writeCache(context, lookup, items, integration.updated_at)
  }
  context.waitUntil(call.then(cacheResult))
  return call
}

async function fetchFrom<Item>(
  context: RequestContext,
  lookup: Lookup<Item>,
  integration: Integration,
): Promise<SupplierResult<Item>> {
  const { companyId, requestId, credentialsKey } = context
  const { kind, base_url: baseUrl } = integration
  const key = healthKey(context, integration)
  let callsLeft: number | null = null
  const onCallsLeft = (count: number | null) => {
    callsLeft = count
  }
  try {
    const credentials = await decryptCredentials(credentialsKey, companyId, kind, integration.credentials).catch(() => {
      throw new SupplierError(kind, 'the stored credentials cannot be decrypted')
    })
    const items = await lookup.fetch({ baseUrl, credentials, timeoutMs: CALL_MS, onCallsLeft })
    healths.set(key, recordSuccess(healthOf(context, integration), callsLeft, Date.now()))
    return { state: 'ok', items }
  } catch (thrown) {
    const error = thrown instanceof SupplierError ? thrown : new SupplierError(kind, 'the adapter failed')
    healths.set(key, recordFailure(healthOf(context, integration), error, Date.now()))
    log('supplier_failed', { request_id: requestId, company_id: companyId, reason: error.reason, error: error.message })
    return failed(error.reason)
  }
}

/** Writes to this isolate and to KV. Never rejects. */
async function writeCache<Item>(
  context: RequestContext,
  lookup: Lookup<Item>,
  items: Item[],
  account: number,
): Promise<void> {
  const text = JSON.stringify(items)
  const metadata = { fetchedAt: Date.now(), account }
  recentEntries.set(idOf(context, lookup), { entry: { items, ...metadata }, length: text.length })
  const expirationTtl = Math.ceil(lifetimeOf(lookup, items).maxAgeMs / 1000)
  const put = async () => context.cache.put(await kvKey(context, lookup), text, { metadata, expirationTtl })
  await withDeadline(put(), BUDGET_MS.afterwards).catch(() => undefined)
}

function readRecent<Item>(context: RequestContext, lookup: Lookup<Item>): Entry<Item> | null {
  // A lookup has one type of items.
  return (recentEntries.get(idOf(context, lookup))?.entry ?? null) as Entry<Item> | null
}

function idOf({ companyId }: RequestContext, { supplier, name }: Lookup<unknown>): string {
  return `${companyId}/${supplier}/${name}`
}

/** Hashed, so that a key has a length that KV accepts and reveals nothing of the lookup. */
async function kvKey({ companyId }: RequestContext, { supplier, name }: Lookup<unknown>): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(name))
  return `products/${CACHE_VERSION}/${companyId}/${supplier}/${new Uint8Array(digest).toHex()}`
}

function healthKey({ companyId }: RequestContext, { kind, updated_at }: Integration): string {
  return `${companyId}/${kind}/${updated_at}`
}

function healthOf(context: RequestContext, integration: Integration): Health {
  return healths.get(healthKey(context, integration)) ?? HEALTHY
}

/** So many failures in a row open the circuit breaker. */
export const FAILURES_TO_OPEN = 5
export const OPEN_MS = 30_000
/** While the breaker is half-open, one trial call goes through; another after this time, should that one be lost. */
export const HALF_OPEN_MS = 12_000
/** The supplier counts calls by the minute. */
export const CALLS_WINDOW_MS = 60_000
const MAX_RETRY_AFTER_MS = 300_000
/** With fewer calls left than this, search refreshes nothing: they are reserved for product info. */
export const FEW_CALLS = 10

/**
 * What an isolate knows of one company's account with a supplier: a circuit breaker and the calls that are left. Per
 * company, since credentials and allowance are its own. Times are milliseconds since the epoch.
 */
export interface Health {
  readonly failuresInRow: number
  /** Why the last call failed. */
  readonly reason: SupplierErrorReason
  /** The breaker is open until then, and half-open after it until a call succeeds. */
  readonly openUntil: number
  /** No calls before: the supplier said that there were too many. */
  readonly throttledUntil: number
  /** Null where the supplier does not say; valid until `callsLeftUntil`. */
  readonly callsLeft: number | null
  readonly callsLeftUntil: number
}

export const HEALTHY: Health = {
  failuresInRow: 0,
  reason: 'supplier_unavailable',
  openUntil: 0,
  throttledUntil: 0,
  callsLeft: null,
  callsLeftUntil: 0,
}

export function mayCall({ openUntil, throttledUntil }: Health, now: number): boolean {
  return now >= openUntil && now >= throttledUntil
}

export function hasFewCalls({ callsLeft, callsLeftUntil }: Health, now: number): boolean {
  return callsLeft !== null && now < callsLeftUntil && callsLeft < FEW_CALLS
}

export function startCall(health: Health, now: number): Health {
  const isHalfOpen = health.failuresInRow >= FAILURES_TO_OPEN
  const callsLeft = health.callsLeft === null ? null : Math.max(0, health.callsLeft - 1)
  return { ...health, callsLeft, openUntil: isHalfOpen ? now + HALF_OPEN_MS : health.openUntil }
}

/** @param callsLeft as the supplier says, null where it does not */
export function recordSuccess(health: Health, callsLeft: number | null, now: number): Health {
  // Of concurrent calls the last response may be to the first call counted: an earlier wait stays.
  const throttledUntil = callsLeft === 0 ? now + CALLS_WINDOW_MS : health.throttledUntil
  return { ...health, failuresInRow: 0, openUntil: 0, throttledUntil, callsLeft, callsLeftUntil: now + CALLS_WINDOW_MS }
}

/**
 * Too many calls are no fault of the supplier: only the wait that it asked for follows. Rejected credentials open the
 * breaker at once: more of the same calls could lock the account.
 */
export function recordFailure(
  health: Health,
  { reason, retryAfterSeconds }: Pick<SupplierError, 'reason' | 'retryAfterSeconds'>,
  now: number,
): Health {
  if (retryAfterSeconds !== null) {
    return { ...health, reason, throttledUntil: now + Math.min(retryAfterSeconds * 1000, MAX_RETRY_AFTER_MS) }
  }
  const isRejected = reason === 'supplier_rejected_credentials'
  const failuresInRow = isRejected ? FAILURES_TO_OPEN : health.failuresInRow + 1
  const openUntil = failuresInRow >= FAILURES_TO_OPEN ? now + OPEN_MS : health.openUntil
  return { ...health, reason, failuresInRow, openUntil }
}

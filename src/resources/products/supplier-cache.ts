import { hash } from 'node:crypto'
import * as z from 'zod/mini'
import type { RequestContext } from '../../kernel/api/context.ts'
import { decryptCredentials } from '../../kernel/db/credentials.ts'
import { ApiError } from '../../kernel/http/errors.ts'
import { BUDGET_MS, LruCache, log, withDeadline } from '../../kernel/http/isolate.ts'
import type { SourceState } from './contract.ts'
import type { Integration } from './queries.ts'
import { type Lifetime, type Lookup, type Supplier, SupplierError } from './suppliers/supplier.ts'

/** A part of every key in KV: raise it when the stored value changes. */
const CACHE_VERSION = 1
/** Limits one call including its body. It may outlive its request: a late result is still cached. */
const CALL_MS = 10_000
const TIMEOUT = 'no response in time'

const PRODUCTS: Lifetime = { freshMs: 10 * 60_000, maxAgeMs: 24 * 3_600_000 }

type Failed = { state: 'failed'; items: []; reason: SupplierError['reason'] | 'credentials_unreadable'; cause: string }
export type SupplierResult = { state: Exclude<SourceState, 'failed'>; items: unknown[] } | Failed

/** Metadata of a cached result; only the integration with the `updated_at` of `account`, which fetched it, gets it. */
const metadataSchema = z.object({ fetchedAt: z.number(), account: z.number() })
type Entry = z.output<typeof metadataSchema> & { items: unknown[] }

/** A lookup of one company. Hashed, its key has a length that KV accepts and reveals nothing of the lookup. */
type CompanyLookup = { context: RequestContext; supplier: Supplier; lookup: Lookup; key: string }

/** This isolate's own writes of the last minute, for which KV may cache that a key has no value. */
const recentEntries = new LruCache<string, Entry & { length: number }>({
  maxWeight: 4_000_000,
  weigh: ({ length }) => length,
  ttlMs: 60_000,
})

/**
 * Calls in flight by account and lookup; one that outlives its entry was lost with its request. A promise of another
 * request settles only while that request lives: `waitUntil` keeps it alive, and every waiter has a deadline.
 */
const callsInFlight = new LruCache<string, Promise<SupplierResult>>({ maxWeight: 1_000, ttlMs: CALL_MS + 1_000 })

/** This many failures in a row open the circuit breaker, for this time; then each further failure opens it again. */
export const FAILURES_TO_OPEN = 5
export const OPEN_MS = 30_000
const MAX_RETRY_AFTER_MS = 300_000

/** An account's circuit breaker: it is open until `openUntil`, in milliseconds since the epoch. */
type Breaker = { failuresInRow: number; openUntil: number; reason: SupplierError['reason'] }

const breakers = new LruCache<string, Breaker>({ maxWeight: 10_000 })
const breakerOf = (account: string) =>
  breakers.getOrMake(account, () => ({ failuresInRow: 0, openUntil: 0, reason: 'supplier_unavailable' }))

/**
 * Starts to read the cache, which needs no database. The returned function refreshes stale items after the response.
 * The integration is `unknown` while the database fails. `deadline` is in milliseconds since the epoch.
 */
export function startLookup(context: RequestContext, supplier: Supplier, lookup: Lookup) {
  const key = `products/${CACHE_VERSION}/${context.companyId}/${supplier.name}/${hash('sha256', lookup.name)}`
  const own = { context, supplier, lookup, key }
  const cached = readCache(own).catch(() => null)
  return async (integration: Integration | 'unknown', deadline: number): Promise<SupplierResult> => {
    const read = await cached
    // A call in flight during the cache read may have ended since.
    const entry = recentEntries.get(own.key) ?? read
    const now = Date.now()
    const freshness = entry ? freshnessOf(entry.fetchedAt, lifetimeOf(lookup, entry.items), now) : 'expired'
    const usable = freshness !== 'expired' ? entry : null
    if (integration === 'unknown') {
      return usable ? { state: 'stale', items: usable.items } : failed('supplier_unavailable', 'the database failed')
    }
    // A changed integration counts as another account.
    const account = `${context.companyId}/${supplier.name}/${integration.updated_at}`
    if (usable?.account === integration.updated_at) {
      if (freshness === 'fresh') return { state: 'ok', items: usable.items }
      fetchOnce(own, integration, account)
      return { state: 'stale', items: usable.items }
    }
    const call = fetchOnce(own, integration, account)
    return withDeadline(call, Math.max(0, deadline - now)).catch(() => failed('supplier_unavailable', TIMEOUT))
  }
}

function freshnessOf(fetchedAt: number, lifetime: Lifetime, now: number): 'fresh' | 'stale' | 'expired' {
  const ageMs = now - fetchedAt
  if (ageMs < lifetime.freshMs) return 'fresh'
  return ageMs < lifetime.maxAgeMs ? 'stale' : 'expired'
}

function lifetimeOf({ emptyLifetime }: Lookup, items: unknown[]): Lifetime {
  return items.length === 0 && emptyLifetime ? emptyLifetime : PRODUCTS
}

const failed = (reason: Failed['reason'], cause: string): Failed => ({ state: 'failed', items: [], reason, cause })

async function readCache(own: CompanyLookup): Promise<Entry | null> {
  const recent = recentEntries.get(own.key)
  if (recent) return recent
  const read = own.context.cache.getWithMetadata<unknown[]>(own.key, 'json')
  const { value, metadata } = await withDeadline(read, BUDGET_MS.cache)
  const parsed = metadataSchema.safeParse(metadata)
  return Array.isArray(value) && parsed.success ? { items: value, ...parsed.data } : null
}

/** Writes to this isolate and to KV. Never rejects. */
async function writeCache(own: CompanyLookup, items: unknown[], account: number): Promise<void> {
  const text = JSON.stringify(items)
  const metadata = { fetchedAt: Date.now(), account }
  // A copy: texts read from XML are parts of the whole response, which they would keep in memory.
  recentEntries.set(own.key, { items: JSON.parse(text), ...metadata, length: text.length })
  const expirationTtl = Math.ceil(lifetimeOf(own.lookup, items).maxAgeMs / 1000)
  const put = async () => own.context.cache.put(own.key, text, { metadata, expirationTtl })
  await withDeadline(put(), BUDGET_MS.afterwards).catch(() => undefined)
}

/** Calls the supplier, or joins the same call of the same account. Never rejects. */
function fetchOnce(own: CompanyLookup, integration: Integration, account: string): Promise<SupplierResult> {
  const id = `${account}/${own.lookup.name}`
  const inFlight = callsInFlight.get(id)
  if (inFlight) return inFlight

  const { openUntil, reason } = breakerOf(account)
  if (Date.now() < openUntil) return Promise.resolve(failed(reason, 'no call was made after earlier failures'))
  const call = callSupplier(own, integration, account)
  callsInFlight.set(id, call)
  const cacheResult = async ({ state, items }: SupplierResult) => {
    if (callsInFlight.get(id) === call) callsInFlight.delete(id)
    if (state === 'ok') await writeCache(own, items, integration.updated_at)
  }
  own.context.waitUntil(call.then(cacheResult))
  return call
}

async function callSupplier(own: CompanyLookup, integration: Integration, account: string): Promise<SupplierResult> {
  const { credentialsKey, companyId: company_id, requestId: request_id } = own.context
  try {
    const { base_url: baseUrl, kind, credentials } = integration
    const decrypted = await decryptCredentials(credentialsKey, company_id, kind, credentials).catch(() => null)
    const parsed = own.supplier.credentials.safeParse(decrypted)
    if (!parsed.success) {
      // This is no fault of the supplier, so it does not count towards the circuit breaker.
      const error = `${own.supplier.name}: the stored credentials ${decrypted === null ? 'cannot be decrypted' : 'are not complete'}`
      log('credentials_unreadable', { request_id, company_id, error })
      return failed('credentials_unreadable', error)
    }
    const connection = { baseUrl, credentials: parsed.data, addresses: own.context.addresses(), timeoutMs: CALL_MS }
    const items = await own.lookup.fetch(connection)
    breakerOf(account).failuresInRow = 0
    return { state: 'ok', items }
  } catch (thrown) {
    const isBusy = thrown instanceof ApiError
    const problem = isBusy ? 'there was no memory for the response' : 'the adapter failed'
    const failure = thrown instanceof SupplierError ? thrown : new SupplierError('supplier_unavailable', problem)
    // A lack of memory here is no fault of the supplier.
    if (!isBusy) recordFailure(account, failure)
    const error = `${own.supplier.name}: ${failure.message}`
    log('supplier_failed', { request_id, company_id, reason: failure.reason, error })
    return failed(failure.reason, error)
  }
}

/** Rejected credentials open the breaker at once, since more such calls could lock the account. */
function recordFailure(account: string, { reason, retryAfterSeconds }: SupplierError): void {
  const breaker = breakerOf(account)
  breaker.reason = reason
  breaker.failuresInRow = reason === 'supplier_rejected_credentials' ? FAILURES_TO_OPEN : breaker.failuresInRow + 1
  const openMs = breaker.failuresInRow >= FAILURES_TO_OPEN ? OPEN_MS : 0
  const waitMs = Math.min((retryAfterSeconds ?? 0) * 1000, MAX_RETRY_AFTER_MS)
  breaker.openUntil = Math.max(breaker.openUntil, Date.now() + Math.max(openMs, waitMs))
}

import { decryptCredentials } from '../auth/credentials.ts'
import type { RequestContext } from '../context.ts'
import { log } from '../http/log.ts'
import { type Entry, writeEntry } from './cache.ts'
import { beginCall, HEALTHY, type Health, mayCall, noteAnswer, noteFailure } from './health.ts'
import type { Lookup } from './lookups.ts'
import type { IntegrationRow } from './queries.ts'
import { SupplierError, unavailable } from './suppliers/supplier.ts'

/** One call with its answer read. It may outlive the request that began it: what comes late is still cached. */
const CALL_MS = 10_000

/** After this a call that has not ended is taken for lost with its request. */
const LOST_MS = CALL_MS + 1_000

export type Outcome<Item> = { entry: Entry<Item> } | { error: SupplierError }

/**
 * Calls in flight in this isolate, by cache key and account. A promise of one request is awaited by others: workerd
 * allows that as long as its value holds no stream or other I/O object, and as long as the request that began it lives.
 * So the call is handed to `waitUntil`, and whoever waits has a deadline of its own. (Tried in workerd: without
 * `waitUntil` the call dies with the answer of its request and the others wait for ever.)
 */
const inFlight = new Map<string, { outcome: Promise<Outcome<unknown>>; lostAt: number }>()
const MAX_IN_FLIGHT = 1_000

/** By company and supplier; a changed integration starts anew. Lost with the isolate, which costs a few calls. */
const healths = new Map<string, { account: number; health: Health }>()
const MAX_HEALTHS = 10_000

export function healthOf(companyId: number, row: IntegrationRow): Health {
  const known = healths.get(`${companyId}/${row.kind}`)
  return known?.account === row.updatedAt ? known.health : HEALTHY
}

/**
 * Asks the supplier, or joins whoever is asking it the same for the same company. Null when the supplier must not be
 * called now (see `health.ts`). The outcome never rejects, and comes within {@link CALL_MS} unless its request is lost.
 */
export function callOnce<Item>(
  context: RequestContext,
  lookup: Lookup<Item>,
  key: string,
  row: IntegrationRow,
): Promise<Outcome<Item>> | null {
  const now = Date.now()
  const id = `${key}/${row.updatedAt}`
  const known = inFlight.get(id)
  // The key tells the lookup, and a lookup has one type of items.
  if (known && now < known.lostAt) return known.outcome as Promise<Outcome<Item>>

  const health = healthOf(context.companyId, row)
  if (!mayCall(health, now)) return null
  keepHealth(context.companyId, row, beginCall(health, now))

  const outcome = call(context, lookup, row)
  const flight = { outcome, lostAt: now + LOST_MS }
  // Only calls that were lost with their request could fill it.
  if (inFlight.size >= MAX_IN_FLIGHT) inFlight.clear()
  inFlight.set(id, flight)
  context.waitUntil(
    outcome.then(async (result) => {
      const written =
        'entry' in result && writeEntry(context.cache, key, result.entry, lookup.lifetimeOf(result.entry.items))
      if (inFlight.get(id) === flight) inFlight.delete(id)
      await written
    }),
  )
  return outcome
}

async function call<Item>(context: RequestContext, lookup: Lookup<Item>, row: IntegrationRow): Promise<Outcome<Item>> {
  const { companyId, requestId } = context
  const note = (change: (health: Health, now: number) => Health) =>
    keepHealth(companyId, row, change(healthOf(companyId, row), Date.now()))
  try {
    const credentials = await openCredentials(context, row)
    const { data, rateLimitRemaining } = await lookup.ask({ baseUrl: row.baseUrl, credentials, timeoutMs: CALL_MS })
    note((health, now) => noteAnswer(health, rateLimitRemaining, now))
    return { entry: { items: data, fetchedAt: Date.now(), account: row.updatedAt } }
  } catch (thrown) {
    const error = thrown instanceof SupplierError ? thrown : unavailable(lookup.supplier, 'the adapter failed')
    note((health, now) => noteFailure(health, error, now))
    log('supplier_failed', { request_id: requestId, company_id: companyId, reason: error.reason, error: error.message })
    return { error }
  }
}

/** @throws SupplierError when they cannot be decrypted: the supplier is not reached, and has refused nothing */
async function openCredentials({ credentialsKey, companyId }: RequestContext, row: IntegrationRow): Promise<unknown> {
  try {
    return await decryptCredentials(credentialsKey, companyId, row.kind, row.credentials)
  } catch {
    throw unavailable(row.kind, 'the stored credentials cannot be decrypted')
  }
}

/** What an older account's call tells says nothing of a newer one. */
function keepHealth(companyId: number, row: IntegrationRow, health: Health): void {
  const key = `${companyId}/${row.kind}`
  if ((healths.get(key)?.account ?? 0) > row.updatedAt) return
  if (healths.size >= MAX_HEALTHS) healths.clear()
  healths.set(key, { account: row.updatedAt, health })
}

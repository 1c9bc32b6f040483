import type { Env } from '../../env.ts'
import { isoTime } from '../../kernel/api/contract.ts'
import { CompanyObject, startObject } from '../../kernel/db/company-object.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { CredentialsError } from '../../kernel/db/credentials.ts'
import { forEachDatabase } from '../../kernel/db/placement.ts'
import { listWebhookCompanies } from '../../kernel/db/sweep.ts'
import { LruCache, log, nameOf, pause } from '../../kernel/http/isolate.ts'
import { type AddressPolicy, addressPolicy, callChecked, OutboundError } from '../../kernel/http/outbound.ts'
import type { ChangeRow } from '../../resources/changes/present.ts'
import { eventTypeOf } from './event-types.ts'
import * as message from './message.ts'
import type { EndpointRow, Item, Outcome } from './queries.ts'
import { listEnabledEndpoints, loadRound, ROUND_CHANGES, saveRound } from './queries.ts'

/** An endpoint must respond within this time; the convention suggests 15 to 30 s. */
const TIMEOUT = { afterLookupMs: 15_000 }
/** A run starts no delivery after this time; the next run continues, with what other endpoints have got meanwhile. */
const RUN_MS = 5_000
/** Rounds of an endpoint in one run: those of ten endpoints, which may only skip changes, make fewer than 1,000 queries. */
const RUN_ROUNDS = 6
/** Deliveries to one endpoint at once. */
const CONCURRENCY = 4
/** Those of a company. A Worker may wait for six responses: another call would wait in a queue while its time runs out. */
const CONNECTIONS = 6
/** An endpoint with this many failing objects is down: only retries continue until one succeeds. */
export const MAX_FAILING = 10
/** An endpoint with this many failures before its first success is disabled: it may never have asked for messages. */
export const MAX_INITIAL_FAILURES = 20
/** The delay after a failure outside of the endpoint: no response of the resolver, or another `CREDENTIALS_KEY`. */
const POSTPONE_MS = 30_000

/** Limits a company's deliveries to one host per second, over all of its endpoints. */
export const DELIVERIES_PER_SECOND = 10
const SECOND_MS = 1_000

export class HostPace {
  private readonly begins = new LruCache<string, number[]>({ maxWeight: 100 })

  /** Begins a delivery to a host. @returns 0, or the milliseconds to wait: timers may be late, and clocks go back */
  begin(hostname: string, nowMs: number): number {
    const host = hostname.replace(/\.$/, '')
    const begins = (this.begins.get(host) ?? []).filter((at) => at <= nowMs)
    const [oldest = 0] = begins.length < DELIVERIES_PER_SECOND ? [] : begins
    if (oldest + SECOND_MS > nowMs) return oldest + SECOND_MS - nowMs
    this.begins.set(host, [...begins, nowMs].slice(-DELIVERIES_PER_SECOND))
    return 0
  }
}

/** Delivers one company's changes to its endpoints. A single object keeps the changes of an object in order. */
export class WebhookDelivery extends CompanyObject {
  protected override readonly name = 'webhooks'
  private readonly pace = new HostPace()

  /** Runs the endpoints concurrently. The next run begins when all have ended, and their open calls with them. */
  protected override async run(context: CompanyContext): Promise<number | null> {
    const { CREDENTIALS_KEY: credentialsKey } = this.env
    const addresses = addressPolicy(this.env)
    const endpointIds = await listEnabledEndpoints(context)
    const concurrency = Math.max(1, Math.min(CONCURRENCY, Math.floor(CONNECTIONS / endpointIds.length)))
    const means = { credentialsKey, addresses, pace: this.pace, concurrency }
    // A slow database must not use up the time: no run would deliver anything.
    const endMs = Date.now() + RUN_MS
    const runs = endpointIds.map((endpointId) => deliverChanges({ ...context, endpointId, ...means }, endMs))
    await Promise.allSettled(runs)
    const times = (await Promise.all(runs)).filter((at) => at !== null)
    return times.length === 0 ? null : Math.min(...times)
  }
}

export interface Delivery extends CompanyContext {
  endpointId: string
  credentialsKey: string
  addresses: AddressPolicy
  /** Shared by the endpoints of the company. */
  pace: HostPace
  /** Calls of this endpoint at once. */
  concurrency: number
}

/** The result of one attempt. `gone`: the endpoint wants no more messages. `postponed`: it was not attempted. */
type Result = { status: 'delivered' } | { status: 'postponed' | 'failed' | 'gone'; error: string }

/**
 * Delivers an endpoint's due changes, in order for each object, until `endMs` plus the time of reading them. Each round
 * is stored at its end: if that fails, its changes are delivered again as the same messages.
 *
 * @returns when to continue; null for not before another change
 */
export async function deliverChanges(delivery: Delivery, endMs: number): Promise<number | null> {
  for (let round = 1; ; round++) {
    const at = await deliverRound(delivery, endMs)
    if (at === null || at > Date.now() || Date.now() >= endMs || round === RUN_ROUNDS) return at
  }
}

type Round = NonNullable<Awaited<ReturnType<typeof loadRound>>>

async function deliverRound(delivery: Delivery, endMs: number): Promise<number | null> {
  const startMs = Date.now()
  const loaded = await loadRound(delivery, delivery.endpointId, startMs)
  if (!loaded) return null
  const stopMs = endMs + Date.now() - startMs
  const { endpoint, feed } = loaded
  const { outcome, isPostponed, stoppedAt } = await deliverItems(delivery, loaded, stopMs)
  const isAtEnd = stoppedAt === null && feed.length < ROUND_CHANGES
  const readTo = findReadTo(feed, stoppedAt)
  if (endpoint.replay_end === null) outcome.progress = { position: readTo ?? endpoint.position }
  else if (isAtEnd) outcome.progress = { replay_position: null, replay_end: null }
  else outcome.progress = { replay_position: readTo ?? endpoint.replay_position }

  const queue = await saveRound(delivery, endpoint, outcome, Date.now())
  if (outcome.disabledReason !== null) {
    log('webhook_disabled', { company_id: delivery.companyId, endpoint_id: endpoint.id })
  }
  if (isPostponed) return Date.now() + POSTPONE_MS
  const hasMore = !isAtEnd || endpoint.replay_end !== null
  return hasMore && queue.failing < MAX_FAILING ? Date.now() : queue.nextAt
}

/** The last sequence read of the feed, behind the stored changes: none if the round has stopped at one of these. */
function findReadTo(feed: Item[], stoppedAt: Item | null): number | undefined {
  if (stoppedAt === null) return feed.at(-1)?.sequence
  return stoppedAt.isStored ? undefined : stoppedAt.sequence - 1
}

const objectOf = ({ type, entity_id }: Item) => `${type}/${entity_id}`

/** @returns the outcome to store, and the first change that was not considered; null if all were */
async function deliverItems(delivery: Delivery, round: Round, endMs: number) {
  const { endpoint, due, feed } = round
  const { initial_failures } = endpoint
  const outcome: Outcome = { done: [], kept: [], released: [], progress: {}, initial_failures, disabledReason: null }
  let { failing } = round
  let isPostponed = false
  /** Objects with an undelivered change, and those with a change in flight. */
  const blocked = new Set<string>()
  const flights = new Map<string, Promise<void>>()

  function keep(item: Item, next_attempt_at: number | null, last_error: string | null = null): void {
    outcome.kept.push({ ...item, next_attempt_at, last_error })
  }

  /** Makes one attempt and records its result. */
  async function deliver(item: Item & ChangeRow): Promise<void> {
    const result = await attempt(delivery, endpoint, item)
    if (result.status === 'delivered') {
      if (item.isStored) outcome.done.push(item)
      if (item.attempts > 0) failing -= 1
      outcome.initial_failures = null
      return
    }
    blocked.add(objectOf(item))
    const nowMs = Date.now()
    if (result.status === 'postponed') {
      isPostponed = true
      return keep(item, nowMs + POSTPONE_MS, result.error)
    }
    if (item.attempts === 0) failing += 1
    const attempts = item.attempts + 1
    const first_attempt_at = item.first_attempt_at ?? nowMs
    const nextAt = result.status === 'gone' ? null : message.nextAttemptAt(attempts, nowMs, Math.random())
    keep({ ...item, attempts, first_attempt_at }, nextAt ?? nowMs, result.error)
    if (result.status === 'gone') outcome.disabledReason = `The endpoint responded with ${result.error}.`
    else if (nextAt === null) {
      const change = `${eventTypeOf(item.type, item.operation)} of ${item.entity_id}`
      outcome.disabledReason = `The delivery of ${change} failed ${attempts} times since ${isoTime(first_attempt_at)}: ${result.error}.`
    } else if (outcome.initial_failures !== null) {
      outcome.initial_failures += 1
      if (outcome.initial_failures < MAX_INITIAL_FAILURES) return
      outcome.disabledReason ??= `The first ${MAX_INITIAL_FAILURES} deliveries to this address failed, the last one with: ${result.error}.`
    }
  }

  let stoppedAt: Item | null = null
  for (const item of [...due, ...feed]) {
    const object = objectOf(item)
    await flights.get(object)
    if (flights.size >= delivery.concurrency) await Promise.race(flights.values())
    const isDown = !item.isStored && failing >= MAX_FAILING
    if (isDown || isPostponed || outcome.disabledReason !== null || Date.now() >= endMs) {
      stoppedAt = item
      break
    }
    const { operation } = item
    if (operation === null || !endpoint.event_types.includes(eventTypeOf(item.type, operation))) {
      if (item.isStored) outcome.done.push(item)
    } else if (item.isBehind || blocked.has(object)) {
      if (!item.isStored) keep(item, null)
    } else {
      const flight = deliver({ ...item, operation }).finally(() => flights.delete(object))
      flights.set(object, flight)
    }
  }
  await Promise.all(flights.values())
  outcome.released = outcome.done.filter((item) => !blocked.has(objectOf(item)))
  return { outcome, isPostponed, stoppedAt }
}

/** Sends a change once. Never throws. */
async function attempt(
  { companyId, credentialsKey, addresses, db, pace }: Delivery,
  { id: endpointId, url, secret }: EndpointRow,
  change: ChangeRow,
): Promise<Result> {
  try {
    const { hostname } = new URL(url)
    for (let ms = pace.begin(hostname, Date.now()); ms > 0; ms = pace.begin(hostname, Date.now())) await pause(ms)
    const secrets = await message.openSecrets(credentialsKey, companyId, endpointId, secret)
    const body = message.bodyOf(change)
    const signed = message.signedHeaders(secrets, message.messageId(endpointId, change), body, Date.now())
    const bookmark = db.bookmark()
    const headers = bookmark === null ? signed : { ...signed, 'x-bookmark': bookmark }
    // The response's body is not read, and redirects are not followed.
    const request = { url, method: 'POST', headers, body } as const
    const status = await callChecked(addresses, request, TIMEOUT, async (response) => response.status)
    if (status >= 200 && status < 300) return { status: 'delivered' }
    if (status === 410) return { status: 'gone', error: 'HTTP 410 (Gone)' }
    const isRedirect = status >= 300 && status < 400
    return { status: 'failed', error: isRedirect ? `HTTP ${status}, redirects are not followed` : `HTTP ${status}` }
  } catch (error) {
    const isOutbound = error instanceof OutboundError
    if (isOutbound && error.failure !== 'resolver') return { status: 'failed', error: error.message }
    log('webhooks_failed', { company_id: companyId, endpoint_id: endpointId, error: nameOf(error) })
    if (isOutbound) return { status: 'postponed', error: error.message }
    if (error instanceof CredentialsError) return { status: 'postponed', error: 'the signing secret cannot be read' }
    return { status: 'failed', error: 'an internal error' }
  }
}

/** Starts companies with undelivered changes: those written by commands, or with a lost start. */
export async function sweepWebhooks(env: Pick<Env, 'DB' | 'WEBHOOK_DELIVERY'>, nowMs: number): Promise<void> {
  await forEachDatabase(env, async (db) => {
    const companyIds = await listWebhookCompanies(db, nowMs)
    await Promise.all(companyIds.map((companyId) => startObject(env.WEBHOOK_DELIVERY, 'webhooks', companyId)))
  })
}

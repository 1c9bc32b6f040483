import { type SQL, sql } from 'drizzle-orm'
import { ApiError, errorFor } from '../http/errors.ts'
import { BUDGET_MS, DeadlineError } from '../http/isolate.ts'
import { databaseMessage, type Filled, orm, type Placeholders, type Statements, statement } from './client.ts'
import { insertRow } from './columns.ts'
import type { Idempotency, WriteContext } from './context.ts'
import { FAILURES, type Failure, guardOf, quotaRefusal, withinQuotas } from './refusals.ts'
import { idempotencyKeys } from './schema.ts'
import { IDEMPOTENCY_TTL_MS, uncountResults } from './sweep.ts'

export function actorOf({ companyId, token, requestId, now }: WriteContext) {
  return { companyId, tokenId: token.id, requestId, now }
}

export type Actor = keyof ReturnType<typeof actorOf>

/** The placeholders of a keyed write; a write without a key omits them. */
export type KeyName = 'idempotencyKey' | 'fingerprint' | 'position'

export function writerOf(context: WriteContext) {
  const { key, fingerprint, position } = context.idempotency ?? {}
  return { ...actorOf(context), idempotencyKey: key, fingerprint, position }
}

/** A change as one batch. With an `Idempotency-Key` it stores its result, and fails as a whole where one is stored. */
export interface Write<T> {
  /** In the order in which they run. `result` is the {@link resultStatement}; `event` returns a row when it writes one. */
  statements: { result: Filled<unknown>; event?: Filled<unknown>; [name: string]: Filled<unknown> | undefined }
  isIdempotent?: boolean
  /** A deletion is never refused by a quota. */
  isDeletion?: boolean
  /** Decodes the result. @throws ApiError when the batch changed nothing */
  read: (result: string | null) => T
}

/** Selects the result of a write, which is JSON or null, and stores it under the request's key. */
export function resultStatement(p: Placeholders<'companyId' | 'tokenId' | 'now', KeyName>, result: SQL) {
  const { companyId, tokenId, idempotencyKey, fingerprint, position, now } = p
  if (!idempotencyKey) return orm.select({ result: sql<string | null>`(${result})`.as('result') }).from(sql`(SELECT 1)`)
  // Where another request has the key, its position is taken, so that the insertion fails.
  const taken = sql`(SELECT iif(fingerprint = ${fingerprint}, NULL, position) FROM idempotency_keys
    WHERE company_id = ${companyId} AND token_id = ${tokenId} AND key = ${idempotencyKey} LIMIT 1)`
  const key = { company_id: companyId, token_id: tokenId, key: idempotencyKey }
  return insertRow(
    idempotencyKeys,
    { ...key, position: sql`coalesce(${taken}, ${position})`, fingerprint, result: sql`(${result})`, created_at: now },
    sql`WHERE true`,
  ).returning({ result: idempotencyKeys.result })
}

/**
 * Runs a write in one round trip; two when the key is that of an earlier request, whose result is then returned.
 *
 * @throws ApiError 400 when the key is that of another request, 409 for an `external_id` that is taken, 412 for another
 *   version than `If-Match` names
 */
export async function runWrite<T>(context: WriteContext, write: Write<T>): Promise<T> {
  const [outcome] = await runWrites(context, [{ build: () => write }])
  if (!outcome) throw new Error('A write had no outcome.')
  if ('error' in outcome) throw outcome.error
  return outcome.value
}

export interface Planned<T, C extends WriteContext> {
  /** Builds it in the context of its position and of its transaction's time. @throws ApiError for one that is no write */
  build: (context: C, outcomeOf: (position: number) => Result<T>) => Write<T>
  /** The positions of earlier writes whose outcomes it is built from: it runs in a later transaction than these. */
  needs?: readonly number[]
  /** Its characters that are indexed. */
  weight?: number
}

type Result<T> = { value: T } | { error: ApiError }
/** The outcome of a write. Writes with the same `transaction`, from 1, were committed together. */
export type Outcome<T> = { value: T; transaction: number } | { error: ApiError }

type Ready<T, C extends WriteContext> = {
  position: number
  build: (context: C) => Write<T>
  weight: number
  /** Runs instead of it, where its guard refuses it. */
  refused?: Write<T> | undefined
}
type Ran<T> = { position: number; at: number; isRepeated?: boolean } & Result<T>

/** Limits the indexed characters of a transaction, which blocks all other statements. */
const WEIGHT_MAX = 40_000

/**
 * Runs writes: those that need no other in their order, then those that need only these, and so on. Each group is one
 * batch, or several if it is too large or the database refuses one of its writes. Writes that an earlier request with the
 * same key committed are not repeated.
 *
 * @throws ApiError 400 when the key is that of another request
 */
export async function runWrites<T, C extends WriteContext>(
  context: C,
  plan: readonly Planned<T, C>[],
): Promise<Outcome<T>[]> {
  let last = 0
  // Stored results of one transaction share a time, by which a repeated request groups them alike.
  const endMs = Date.now() + BUDGET_MS.handler
  const nextTime = () => {
    // The request's response was sent without what comes now.
    if (Date.now() >= endMs) throw new DeadlineError(BUDGET_MS.handler)
    last = Math.max(last + 1, last === 0 ? context.now : Date.now())
    return last
  }
  const done = new Map<number, Ran<T>>()
  const ran: Ran<T>[] = []
  const outcomeOf = (position: number): Ran<T> => {
    const outcome = done.get(position)
    if (!outcome) throw new Error('A write had no outcome.')
    return outcome
  }
  while (done.size < plan.length) {
    const ready: Ready<T, C>[] = []
    const refused: Ran<T>[] = []
    for (const [position, { build, needs = [], weight = 0 }] of plan.entries()) {
      if (done.has(position) || !needs.every((each) => done.has(each))) continue
      const item = { position, weight, build: (batchContext: C) => build(batchContext, outcomeOf) }
      const built = attempt(() => item.build(context))
      if ('error' in built) refused.push({ position, at: 0, ...built })
      else ready.push(item)
    }
    const results = await runAll(context, ready, nextTime, context.idempotency)
    ran.push(...results)
    for (const each of [...refused, ...results]) done.set(each.position, each)
  }
  const isReplayed = ran.length > 0 && ran.every(({ isRepeated }) => isRepeated)
  if (context.idempotency) context.idempotency.isReplayed = isReplayed
  const times = ran.flatMap((each) => ('value' in each ? [each.at] : []))
  const transactions = [...new Set(times)].sort((a, b) => a - b)
  return plan.map((_, position) => {
    const each = outcomeOf(position)
    return 'error' in each ? each : { value: each.value, transaction: transactions.indexOf(each.at) + 1 }
  })
}

function attempt<T>(work: () => T): Result<T> {
  try {
    return { value: work() }
  } catch (error) {
    if (error instanceof ApiError) return { error }
    throw error
  }
}

/** @param key of the request, until its stored results are looked up */
async function runAll<T, C extends WriteContext>(
  context: C,
  items: Ready<T, C>[],
  nextTime: () => number,
  key: Idempotency | null = null,
): Promise<Ran<T>[]> {
  const [first] = items
  if (!first) return []
  const runHalves = async (openKey: Idempotency | null) => {
    const half = Math.ceil(items.length / 2)
    const before = await runAll(context, items.slice(0, half), nextTime, openKey)
    return [...before, ...(await runAll(context, items.slice(half), nextTime, openKey))]
  }
  const isHeavy = items.reduce((sum, { weight }) => sum + weight, 0) > WEIGHT_MAX
  if (items.length > 1 && isHeavy) return runHalves(key)
  const at = nextTime()
  try {
    return await runTogether(context, items, at, key !== null)
  } catch (error) {
    const isTaken = KEY_TAKEN.test(databaseMessage(error))
    const refusal = isTaken ? null : refusalOf(error)
    if (!isTaken && !refusal) throw error
    // A repetition of the request, in another isolate, may have run after the first look-up.
    const lookUp = isTaken ? context.idempotency : key
    const stored = lookUp ? await findStored(context, lookUp) : new Map<number, Stored>()
    if (!refusal || stored.size > 0) {
      const open = items.filter(({ position }) => !stored.has(position))
      return [...replay(context, items, stored, at), ...(await runAll(context, open, nextTime))]
    }
    if (items.length === 1 && first.refused) return runAll(context, [{ ...first, refused: undefined }], nextTime)
    if (items.length === 1) return [{ position: first.position, at: 0, error: refusal }]
    const failure = failureOf(error)
    const marked = failure ? await markRefused(context, items, failure) : null
    return marked ? runAll(context, marked, nextTime) : runHalves(null)
  }
}

/** Reads the stored results of writes, and starts what follows them: the earlier request may have ended before it did. */
function replay<T, C extends WriteContext>(context: C, items: Ready<T, C>[], stored: Map<number, Stored>, at: number) {
  const repeated = items.flatMap(({ position, build }) => {
    const found = stored.get(position)
    if (!found) return []
    const read = attempt(() => build(context).read(found.result))
    // Where the database lost the response, these are its own results, with its time. Results of another request that
    // began in the same millisecond look the same.
    return [{ position, at: found.created_at, isRepeated: found.created_at !== at, ...read }]
  })
  if (items.some(({ build }) => build(context).statements.event)) context.deliverAccounting()
  context.announceChange()
  return repeated
}

/** Marks writes that their first guard refuses now: in their place, a batch checks that it still does. Null without any. */
async function markRefused<T, C extends WriteContext>(context: C, items: Ready<T, C>[], failure: Failure) {
  const guards = items.map(({ build, refused }) => {
    const guard = refused ? undefined : guardOf(Object.values(build(context).statements)[0])
    return guard?.reason === failure ? guard : undefined
  })
  const queries = guards.map((guard) => (guard ? guard.fails : statement('SELECT 0 LIMIT 0'))) as unknown as Statements
  // As a write it reads the primary.
  const rows = (await context.db.writeIdempotent(queries)) as unknown[][]
  const refusedAt = (index: number) => (rows[index]?.length ? guards[index]?.refused : undefined)
  const marked = items.map((item, index): Ready<T, C> => ({ ...item, refused: refusedAt(index) ?? item.refused }))
  return rows.some(({ length }) => length > 0) ? marked : null
}

async function runTogether<T, C extends WriteContext>(context: C, items: Ready<T, C>[], at: number, isFirst: boolean) {
  const { db, idempotency } = context
  const writes = items.map(
    ({ position, build, refused }) =>
      refused ?? build({ ...context, now: at, idempotency: idempotency && { ...idempotency, position } }),
  )
  // After the look-up, a second run would take the results of its first for another request's. Without a key, a later
  // write may have changed what an earlier one finds.
  const isAlone = items.filter((item) => !item.refused).length <= 1
  const canRunTwice = idempotency ? isFirst : isAlone && writes.every((write) => write.isIdempotent)
  const run = canRunTwice ? db.writeIdempotent : db.write
  const named = writes.flatMap(({ statements }, index) =>
    Object.entries(statements).flatMap(([name, statement]) => (statement ? [{ index, name, statement }] : [])),
  )
  const unguarded = named.map(({ statement }) => statement)
  const isDeletion = writes.every((write) => write.isDeletion)
  const statements = (isDeletion ? unguarded : withinQuotas(context.companyId, unguarded)) as unknown as Statements
  const results = ((await run(statements)) as { result: string | null }[][]).slice(isDeletion ? 0 : 1)
  const rowsOf = (index: number, name: string) =>
    results[named.findIndex((each) => each.index === index && each.name === name)]
  const done = writes.map((write, index) => {
    const result = rowsOf(index, 'result')?.[0]?.result ?? null
    return { position: items[index]?.position ?? 0, at, ...attempt(() => write.read(result)) }
  })
  if (writes.some((_, index) => rowsOf(index, 'event')?.length)) context.deliverAccounting()
  if (done.some((each) => 'value' in each)) context.announceChange()
  return done
}

const KEY_TAKEN = /UNIQUE constraint failed: idempotency_keys/

const failureOf = (error: unknown) => FAILURES.find((reason) => databaseMessage(error).includes(reason))

function refusalOf(error: unknown): ApiError | null {
  const message = databaseMessage(error)
  const failure = failureOf(error)
  if (failure) return errorFor(failure)
  if (/UNIQUE constraint failed: (clients|orders)\.company_id, \1\.external_id/.test(message)) {
    return errorFor('external_id_taken')
  }
  return quotaRefusal(error)
}

type Stored = { result: string | null; created_at: number }

/**
 * Removes a key's expired results and returns the others. As a write it reads the primary, which refused the batch.
 *
 * @throws ApiError 400 when the key is that of another request
 */
async function findStored(context: WriteContext, { key, fingerprint: sent }: Idempotency) {
  const { db, companyId, token, now } = context
  const isKey = sql`company_id = ${companyId} AND token_id = ${token.id} AND key = ${key}`
  const isExpired = sql`${isKey} AND created_at <= ${now - IDEMPOTENCY_TTL_MS}`
  const { position, result, fingerprint, created_at } = idempotencyKeys
  const [, , rows] = await db.writeIdempotent([
    uncountResults(isExpired),
    orm.delete(idempotencyKeys).where(isExpired),
    orm.select({ position, result, fingerprint, created_at }).from(idempotencyKeys).where(isKey),
  ])
  if (rows.some((row) => row.fingerprint !== sent)) {
    const issues = [{ path: 'Idempotency-Key', message: 'was sent with another request before' }]
    throw errorFor('idempotency_key_reused', { issues })
  }
  return new Map<number, Stored>(rows.map((row) => [row.position, row]))
}

/** Finds the stored response of an earlier request with the same key, for changes outside of the database. */
export async function findResponse<T>(context: WriteContext): Promise<T | undefined> {
  const { idempotency } = context
  const stored = idempotency ? (await findStored(context, idempotency)).get(0) : undefined
  if (!idempotency || !stored) return undefined
  idempotency.isReplayed = true
  return JSON.parse(stored.result ?? 'null') as T
}

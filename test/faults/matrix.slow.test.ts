import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { BUDGET_MS } from '../../src/kernel/http/isolate.ts'
import { noise } from '../resources/mail/support.ts'
import { migrate, removeEverything, request } from '../support/app.ts'
import { endpoints, exampleOf } from '../support/endpoints.ts'
import { linesOf } from '../support/log.ts'
import { BEHIND_MS, type Call, type Fault, MODES, type Mode, type Outcome, run } from './run.ts'
import {
  BINDINGS,
  EMAIL,
  ITEMS,
  normalise,
  ofShop,
  openShop,
  rowsOf,
  rowsWithoutCounts,
  type Shop,
  THREAD,
  withoutCounts,
} from './shop.ts'

/*
 * Every binding, at every call of every endpoint, in every way of going wrong. An endpoint joins by its contract's
 * example; further variants are in `MORE`.
 */
let injected = 0

// The shops of all tests are more than the database takes.
beforeEach(async () => {
  await removeEverything()
  await migrate()
})
afterAll(() => console.log(`${injected} faults injected`))

interface Sent {
  method: string
  path: string
  body?: unknown
  /** A request that is sent before, and goes well. */
  before?: Sent
  /** A write that is not repeated after a passing failure, because it could then change or response something else. */
  isOnce?: boolean
  isReadOnly?: boolean
  /** What a database that does not respond makes of it; else 503. */
  withoutDatabase?: (body: { sources?: unknown }) => void
  /** The n-th `DB.batch` is the one that writes; else the last. */
  writes?: number
  /** The `DB.batch` that the database refuses: there is no response to lose. Later ones have a later time. */
  refused?: number
  /** The `DB.batch` that looks for the refused operations, and is repeated. */
  looks?: number
  isStranger?: true
}

const putText = (text: string): Sent => ({
  method: 'PUT',
  path: `/mail/email-threads/${THREAD}`,
  body: {
    account_email: 'orders@ridgeline.example',
    subject: 'A',
    messages: [{ id: '1', body_plain: text }],
  },
})
const putThread = (size: number) => putText('x'.repeat(size))

/** More than a megabyte compressed. */
const [FOR_R2, OTHER_FOR_R2] = [noise(1_500_000), noise(1_600_000)]
const READ = { method: 'GET', path: `/mail/email-threads/${THREAD}?account_email=orders@ridgeline.example` }

const failedSources = (body: { sources?: unknown }) =>
  expect(body.sources).toMatchObject({ local: 'failed', lines: 'failed' })

const MORE: [string, Sent][] = [
  [
    'PATCH a client by its email',
    { method: 'PATCH', path: `/clients/${EMAIL}`, body: { deleted: true }, isOnce: true },
  ],
  ['search at both suppliers', { method: 'GET', path: '/products/search?q=PC61', withoutDatabase: failedSources }],
  ['read styles of supplier_b', { method: 'GET', path: '/products/supplier_b?styleId=40' }],
  ['read a line', { method: 'GET', path: `/products/invoice_item?id=${ITEMS[0]}` }],
  ['PUT a large thread', putThread(300_000)],
  ['PUT a thread that is stored already', { ...putThread(9), before: putThread(9) }],
  ['PUT a thread for R2', putText(FOR_R2)],
  // The isolate knows the stored hash.
  ['PUT other content for R2', { ...putText(OTHER_FOR_R2), before: putText(FOR_R2) }],
  ['PUT small content instead of that in R2', { ...putThread(9), before: putText(FOR_R2) }],
  ['PUT a thread that R2 holds already', { ...putText(FOR_R2), before: putText(FOR_R2) }],
  ['read a thread that R2 holds', { ...READ, before: putText(FOR_R2) }],
  ['be a stranger', { method: 'GET', path: '/clients', isStranger: true }],
]

/** Deleting these twice deletes one: every step is repeated. */
const REPEATED = ['DELETE /orders/{orderId}/files', 'DELETE /clients/{id}']
/** A line without an id is another one each time. */
const PUT_ITEMS = 'PUT /orders/{id}/invoice-items'

const FROM_CONTRACTS = endpoints.map(([name, contract]): [string, Sent] => {
  const sent: Sent = {
    method: contract.method,
    ...exampleOf(contract),
    isReadOnly: contract.isReadOnly === true,
  }
  sent.isOnce = ['POST', 'DELETE'].includes(contract.method) ? !REPEATED.includes(name) : name === PUT_ITEMS
  if (contract.path === '/mail/email-threads/{legacyThreadId}' && contract.method !== 'PUT') sent.before = putThread(9)
  // The version that it names is refused.
  if (name === 'POST /batch') Object.assign(sent, { refused: 1, looks: 2, writes: 3 })
  if (name === 'GET /products/search') sent.withoutDatabase = failedSources
  return [name, sent]
})

/** Calls without which a request goes on. */
const OPTIONAL = /^(RATE_LIMITER|ACCOUNTING_DELIVERY|CACHE|AUTH_FAILURES)\.|^DB\.run$/
/** Those that go on after the response. */
const BEHIND = /^ACCOUNTING_DELIVERY\.|^CACHE\.put|^DB\.run$|^RATE_LIMITER\.report/
function isRead({ method, isReadOnly }: Sent): boolean {
  return method === 'GET' || isReadOnly === true
}

function modesOf({ name }: Call): Mode[] {
  const left = name.startsWith('DB.') ? [] : ['is overloaded']
  if (!name.startsWith('DB.') && name !== 'FILES.put') left.push('loses its response', 'never responds')
  return MODES.filter((mode) => !left.includes(mode))
}

function goesWell(sent: Sent, fault: Fault): boolean {
  const { name, mode } = fault
  if (OPTIONAL.test(name) || mode === 'is slow') return true
  const isLost = mode === 'loses its response' || mode === 'never responds'
  if (isLost && name === 'DB.batch' && sent.refused === fault.ordinal) return true
  // A stream is written once.
  if (name === 'FILES.put') return false
  const isPassing = mode === 'fails once' || mode === 'loses its response'
  const isRepeated = isRead(sent) || !sent.isOnce || (name === 'DB.batch' && sent.looks === fault.ordinal)
  return isPassing && isRepeated
}

const REPORT = 'RATE_LIMITER.report'
/** Whoever is told of a change must not read it as it was before: the report is awaited. */
const isToldOfChanges = ({ path }: Sent) => path.startsWith('/changes')

/** Waits for other requests' work end at a poll. */
const POLLING_MS = 20

/** How long the request may wait for a call that hangs. */
function limitMs({ name }: Fault, sent: Sent): number {
  if (name === REPORT && isToldOfChanges(sent)) return BUDGET_MS.limiter
  // It is counted as several requests before it is carried out.
  if (name === REPORT && sent.path === '/batch') return BUDGET_MS.silence
  if (BEHIND.test(name)) return 0
  if (name.startsWith('CACHE.')) return BUDGET_MS.cache
  if (name.startsWith('RATE_LIMITER.')) return BUDGET_MS.silence
  if (name.startsWith('AUTH_FAILURES.')) return BUDGET_MS.limiter
  return BUDGET_MS.database
}

interface Result extends Outcome {
  shop: Shop
  /** Of a request that writes, or has no fault. */
  rows: string[]
}

async function attempt(sent: Sent, shop: Shop, fault?: Fault): Promise<Result> {
  if (sent.before) await run(toRequest(sent.before, shop), BINDINGS)
  const outcome = await run(toRequest(sent, shop), BINDINGS, fault)
  return { ...outcome, shop, rows: fault && isRead(sent) ? [] : await rowsOf(shop) }
}

/** Shops that are alike, one for each attempt. */
function openShops(sent: Sent, count: number): Promise<Shop[]> {
  return Promise.all(Array.from({ length: count }, () => openShop(sent.path.includes('/files'))))
}

function toRequest(sent: Sent, shop: Shop): Request {
  const { method, path, body, isStranger } = ofShop(sent, shop)
  const announced =
    body === undefined ? {} : { 'content-length': String(new TextEncoder().encode(JSON.stringify(body)).byteLength) }
  return request(isStranger ? '0'.repeat(64) : shop.token, method, path, body, announced)
}

function bodyText({ response, shop }: Result): string {
  return normalise(JSON.stringify(response.body), shop)
}

describe.each([...FROM_CONTRACTS, ...MORE])('%s', (_, sent) => {
  it('survives what it can and fails whole', { timeout: 120_000 }, async () => {
    const [untouched, first] = await openShops(sent, 2)
    if (!untouched || !first) throw new Error('There are no shops.')
    if (sent.before) await run(toRequest(sent.before, untouched), BINDINGS)
    const before = await rowsOf(untouched)
    const well = await attempt(sent, first)
    expect(well.response.status, JSON.stringify(well.response.body)).toBe(sent.isStranger ? 401 : 200)
    if (isRead(sent)) expect(well.rows).toEqual(before)
    else expect(well.rows).not.toEqual(before)

    // The report of much database time depends on the machine.
    const isByChance = ({ name }: Call) => name === REPORT && isRead(sent) && !isToldOfChanges(sent)
    const calls = well.calls.filter((call) => !isByChance(call))
    const faults = calls.flatMap((call) => modesOf(call).map((mode): Fault => ({ ...call, mode })))
    expect(faults.length, 'the calls of a binding').toBeGreaterThan(0)
    const shops = await openShops(sent, faults.length)
    const problems: string[] = []
    for (const fault of faults) {
      const shop = shops.pop()
      if (!shop) throw new Error('There are too few shops.')
      try {
        check(sent, fault, await attempt(sent, shop, fault), well, before)
        injected += 1
      } catch (error) {
        problems.push(`${fault.name} ${fault.ordinal} ${fault.mode}: ${error instanceof Error ? error.message : error}`)
      }
    }
    expect(problems.join('\n\n')).toBe('')
  })
})

const TIMES = /"(\w+_at|at)":("[^"]+"|\d+),?|X-Amz-Date=\w+/g

function check(sent: Sent, fault: Fault, result: Result, well: Result, before: string[]): void {
  const { mode, name } = fault
  const { response, calls, waitedMs, endedMs } = result
  expect(calls, 'the fault was met').toContainEqual({ name, ordinal: fault.ordinal })
  expectInTime(sent, fault, waitedMs, endedMs)
  const logged = linesOf(response.headers.get('x-request-id'))
  expect(result.counted).toEqual(response.status === 500 ? [response.headers.get('x-request-id')] : [])
  expect(logged.filter(({ event }) => event === 'request')).toMatchObject([{ status: response.status }])

  const isDatabaseBatch = name === 'DB.batch'
  const writes = sent.writes ?? well.calls.filter((call) => call.name === 'DB.batch').length
  const goesOn = goesWell(sent, fault) || (isDatabaseBatch && sent.withoutDatabase)
  const countOf = (all: Call[]) => all.filter((call) => call.name === name).length
  if (mode === 'is overloaded') {
    expect(countOf(calls)).toBe(goesOn ? countOf(well.calls) : fault.ordinal)
  }
  if (goesWell(sent, fault)) {
    expect(response.status, bodyText(result)).toBe(well.response.status)
    const isTwice = mode === 'loses its response' && !isRead(sent)
    // A change is dated after what its request waited for.
    const timeless = (text: string) => (sent.refused || waitedMs > 0 ? text.replaceAll(TIMES, '') : text)
    const textOf = (text: string) => timeless(isTwice ? withoutCounts(text) : text)
    expect(textOf(bodyText(result))).toBe(textOf(bodyText(well)))
    const keptOf = ({ rows }: Result) => (isTwice ? rowsWithoutCounts(rows) : rows).map(timeless)
    if (!isRead(sent)) expect(keptOf(result)).toEqual(keptOf(well))
    return
  }
  if (goesOn) {
    expect(response.status).toBe(200)
    sent.withoutDatabase?.(response.body)
    return
  }
  const isOfDatabase = name.startsWith('DB.')
  const isOfFiles = name.startsWith('FILES.')
  const status = isOfDatabase || isOfFiles ? 503 : 500
  expect(response.status).toBe(status)
  const retryAfter = response.headers.get('retry-after')
  const ofFiles = isOfFiles && name !== 'FILES.delete' ? '10' : null
  expect(isOfDatabase ? ['2', null] : [ofFiles]).toContain(retryAfter)
  expect(response.body.error.code).toBe('internal_error')
  expect(logged.some(({ event }) => event === (status === 503 ? 'unavailable' : 'failure'))).toBe(true)
  if (isRead(sent)) return
  if (retryAfter !== null && sent.method !== 'PUT') expect(result.rows).toEqual(before)
  // Carried out, and only its response lost: or carried out by an earlier batch.
  const isLost = fault.ordinal === writes && (mode === 'loses its response' || mode === 'never responds')
  // The deletion of a file is recorded before.
  const isDone = (isDatabaseBatch && (isLost || fault.ordinal > writes)) || name === 'FILES.delete'
  expect(result.rows).toEqual(isDone ? well.rows : before)
}

function expectInTime(sent: Sent, fault: Fault, waitedMs: number, endedMs: number): void {
  const { mode } = fault
  if (mode !== 'hangs' && mode !== 'never responds') return
  expect(waitedMs).toBeLessThanOrEqual(limitMs(fault, sent))
  // A slow object gets a report all the same, and the time of a batch counts whenever it ends.
  const ofName: Record<string, number> = { [REPORT]: BUDGET_MS.silence, 'DB.batch': BEHIND_MS }
  const behindMs = ofName[fault.name] ?? BUDGET_MS.afterwards
  expect(endedMs).toBeLessThanOrEqual(limitMs(fault, sent) + behindMs + POLLING_MS)
}

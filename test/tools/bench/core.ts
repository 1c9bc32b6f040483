import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { Request } from 'autocannon'
import { needleOf } from '../harness/client-row.ts'
import { fillOnce, inDirectory } from '../harness/state.ts'
import { fillCompany } from './company.ts'
import { bearer, column, compare, get, type Load, loadOf, median, type Pace, ROUNDS } from './load.ts'
import { buildWorker, startApi, startFloor } from './worker.ts'

const OBJECT = { className: 'Empty', useSQLite: true }

/** What is measured, and how long. */
interface Plan {
  sizes: readonly number[]
  rounds: number
  pace: Pace
  /** Works by name, by default all. */
  names?: string[]
}

const FULL: Plan = {
  sizes: [10_000, 200_000],
  rounds: ROUNDS,
  pace: { warmUpSeconds: 2, slices: 3, sliceSeconds: 1 },
}

/** A minute that shows a regression early, such as in CI. */
const QUICK: Plan = {
  sizes: [10_000],
  rounds: 2,
  pace: { warmUpSeconds: 1, slices: 2, sliceSeconds: 1 },
  names: ['one client', '25 clients and total', 'full order', 'patch order'],
}

/**
 * A token may make 300 requests a minute, so the load of each work goes round many. They are its own, and used just
 * before it: an object knows its token for 30 s and writes its last use once a minute, so those of tokens that rest while
 * other works are measured would look them up in one request of eight, where a busy one does in one of 125.
 */
const TOKENS = 60

/** How much of the floor's p50 a route may take, and how much of its own when the company grows twentyfold. */
const READ_TARGET = 1.5
const WRITE_TARGET = 2
const GROWTH_TARGET = 1.3

type Work = [name: string, target: number, api: () => Request, floor: () => Request]

/** A company of a size: its data for the API and, so that neither waits for the other's lock, for the floor. */
interface Side {
  size: number
  tokens: string[]
  apiState: string
  floorState: string
}

/**
 * Who is loaded with a work, on the small company and on the large one: the API, the floor, and the floor that calls an
 * object first, as the API does.
 */
type Loaded = `${'api' | 'floor' | 'calling'} ${number}`

/** The p50 of a work in one round, in milliseconds. */
type Measured = Record<Loaded, number>

/** Clients and orders: each route against a floor Worker, on a small and on a large company. */
export const run = (): Promise<void> => measure(FULL)

export const runQuick = (): Promise<void> => measure(QUICK)

function measure(plan: Plan): Promise<void> {
  return inDirectory(async (directory) => {
    const script = buildWorker(join(directory, 'build'), 'no-company-limit.js')
    const sides: Side[] = []
    for (const size of plan.sizes) sides.push(await prepare(size, directory))
    const measured = NAMES.map((): Measured[] => [])
    for (let round = 0; round < plan.rounds; round++) await measureRound(plan, sides, measured, script)
    print(plan, measured)
  })
}

async function prepare(size: number, directory: string): Promise<Side> {
  const tokenCount = TOKENS * NAMES.length
  const { cached, tokens } = await fillOnce(`${size}-${tokenCount}`, async (worker) => {
    const start = Date.now()
    const tokens = await fillCompany(worker, size, tokenCount)
    console.log(
      `filled a company of ${size} clients and ${size * 2} orders in ${((Date.now() - start) / 1000).toFixed(0)} s`,
    )
    return tokens
  })
  const [apiState, floorState] = [join(directory, `${size}-api`), join(directory, `${size}-floor`)]
  for (const state of [apiState, floorState]) cpSync(cached, state, { recursive: true })
  return { size, tokens, apiState, floorState }
}

async function measureRound(plan: Plan, sides: Side[], measured: Measured[][], script: string): Promise<void> {
  await using running = new AsyncDisposableStack()
  const served: (Side & { apiUrl: string; floorUrl: string })[] = []
  for (const side of sides) {
    const api = running.use(await startApi(script, side.apiState))
    const floor = running.use(await startFloor('floor.js', side.floorState, { durableObjects: { OBJECT } }))
    served.push({ ...side, apiUrl: api.url, floorUrl: floor.url })
  }
  for (const [index, rounds] of measured.entries()) {
    if (!isMeasured(plan, index)) continue
    const loads: [Loaded, Load][] = []
    for (const { size, tokens: all, apiUrl, floorUrl } of served) {
      const tokens = all.slice(index * TOKENS, (index + 1) * TOKENS)
      const work = worksOf(size, tokens, await cursorsOf(apiUrl, tokens[0] ?? '', size))[index]
      if (!work) throw new Error('There is no such work.')
      await Promise.all(tokens.map((token) => textOf(apiUrl, '/clients/1', token)))
      let turn = 0
      const [, , ofApi, ofFloor] = work
      const calling = () => {
        const request = ofFloor()
        return { ...request, headers: { ...request.headers, ...bearer(tokens[turn++ % tokens.length] ?? '') } }
      }
      loads.push(
        [`floor ${size}`, loadOf(floorUrl, ofFloor)],
        [`calling ${size}`, loadOf(floorUrl, calling)],
        [`api ${size}`, loadOf(apiUrl, ofApi)],
      )
    }
    rounds.push(await compare(Object.fromEntries(loads) as Record<Loaded, Load>, plan.pace))
  }
}

/** Ratio and growth are taken within a round; what is printed is the median of the rounds. */
function print(plan: Plan, measured: readonly Measured[][]): void {
  const { sizes, rounds: count, pace } = plan
  console.log(
    `\nmedian of ${count} rounds, each of ${pace.slices} slices of ${pace.sliceSeconds} s in turn and with new processes; p50 in ms; growth: p50 over that of the first`,
  )
  console.log('  work                     clients      API    floor   ratio  target     with a call   ratio  growth')
  const mark = (value: number, limit: number) => (value > limit ? ' over' : '')
  for (const [index, [name, target]] of worksOf(0, []).entries()) {
    if (!isMeasured(plan, index)) continue
    const rounds = measured[index] ?? []
    for (const size of sizes) {
      const p50 = (of: 'api' | 'floor' | 'calling') =>
        column(median(rounds.map((round) => find(round, `${of} ${size}`))))
      const ratio = (over: Loaded) => median(rounds.map((round) => find(round, `api ${size}`) / find(round, over)))
      const [overFloor, growth] = [ratio(`floor ${size}`), ratio(`api ${sizes[0] ?? 0}`)]
      console.log(
        `  ${name.padEnd(24)} ${String(size).padStart(7)} ${p50('api')} ${p50('floor')}   ${overFloor.toFixed(2)}  ${target}${mark(overFloor, target).padEnd(5)}` +
          `  ${p50('calling')}   ${ratio(`calling ${size}`).toFixed(2)}` +
          (size === sizes[0] ? '' : `   ${growth.toFixed(2)}${mark(growth, GROWTH_TARGET)}`),
      )
    }
  }
}

const find = (round: Measured, loaded: Loaded) => round[loaded] ?? Number.NaN

const isMeasured = ({ names }: Plan, index: number) => names?.includes(NAMES[index] ?? '') ?? true

async function textOf(url: string, path: string, token: string): Promise<string> {
  return (await fetch(`${url}/api/v1${path}`, { headers: bearer(token) })).text()
}

/** Lists that are measured behind a cursor: of their first page, or of one in their middle. */
const WALKS: [name: string, path: (size: number) => string][] = [
  ['clients, cursor', () => '/clients?page=1'],
  ['clients, cursor, middle', (size) => `/clients?page=${Math.floor(size / 50)}`],
  ['clients, updated_at', () => '/clients?sort=updated_at&page=20'],
  ['search, cursor', () => '/clients?q=son&page=1'],
  ['orders, cursor, middle', (size) => `/orders?page=${Math.floor(size / 25)}`],
  ['changes', () => '/changes?per_page=25'],
]

/** The paths behind the cursors of {@link WALKS}. */
function cursorsOf(url: string, token: string, size: number): Promise<string[]> {
  return Promise.all(
    WALKS.map(async ([, path]) => {
      const { pagination }: { pagination: { next_cursor: string } } = JSON.parse(await textOf(url, path(size), token))
      const next = new URL(path(size), url)
      next.searchParams.delete('page')
      next.searchParams.set('cursor', pagination.next_cursor)
      return `${next.pathname}${next.search}`
    }),
  )
}

function worksOf(size: number, tokens: readonly string[], walks: readonly string[] = []): Work[] {
  let turn = 0
  const clientId = () => 1 + ((turn * 7_919) % size)
  const read = (path: () => string) => () => get(path(), token())
  const token = () => tokens[turn++ % tokens.length] ?? ''
  const bare = (path: () => string) => () => {
    turn++
    return { method: 'GET', path: path() }
  }
  const write = (method: string, path: () => string, body: () => unknown, authorised: boolean) => () => ({
    method,
    path: path(),
    headers: { 'content-type': 'application/json', ...(authorised && bearer(token())) },
    body: JSON.stringify(body()),
  })
  const needle = () => encodeURIComponent(needleOf(clientId()))
  const newClient = () => ({ company_name: `New Client ${turn++}`, email: `new.${turn}@client.example` })
  const change = () => ({ title: `Order ${turn++}`, client_notes: 'Please call before delivery' })
  return [
    ['one client', READ_TARGET, read(() => `/clients/${clientId()}`), bare(() => `/client/${clientId()}`)],
    ['25 clients and total', READ_TARGET, read(() => '/clients'), bare(() => '/clients')],
    ['search', READ_TARGET, read(() => `/clients?q=${needle()}`), bare(() => `/search?q=${needle()}`)],
    [
      'orders of a client',
      READ_TARGET,
      read(() => `/orders?client_id=${clientId()}`),
      bare(() => `/orders/${clientId()}`),
    ],
    ['full order', READ_TARGET, read(() => `/orders/${clientId()}`), bare(() => `/order/${clientId()}`)],
    [
      '100 orders with lines',
      READ_TARGET,
      read(() => '/orders?per_page=100&expand=invoice_items'),
      bare(() => '/lines'),
    ],
    ...WALKS.map(([name], at): Work => [name, READ_TARGET, read(() => walks[at] ?? ''), bare(() => '/clients')]),
    [
      'create client',
      WRITE_TARGET,
      write('POST', () => '/api/v1/clients', newClient, true),
      write('POST', () => '/client', newClient, false),
    ],
    [
      'patch order',
      WRITE_TARGET,
      write('PATCH', () => `/api/v1/orders/${clientId()}`, change, true),
      write('PATCH', () => `/order/${clientId()}`, change, false),
    ],
  ]
}

const NAMES = worksOf(0, []).map(([name]) => name)

import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fillCompany, needleOf } from '../harness/company.ts'
import { bearer, call, get, sendWell, type Wire } from '../harness/http.ts'
import {
  column,
  compare,
  describePace,
  idAt,
  inTurn,
  judged,
  type Load,
  loadOf,
  median,
  type Pace,
  ROUNDS,
} from '../harness/load.ts'
import { fillOnce, openBuild, startApi, startFloor } from '../harness/worker.ts'

const OBJECT = { className: 'Empty', useSQLite: true }

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

type Work = [name: string, target: number, api: () => Wire, floor: () => Wire]

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

async function measure(plan: Plan): Promise<void> {
  await using build = await openBuild('no-company-limit.js')
  const sides: Side[] = []
  for (const size of plan.sizes) sides.push(await prepare(size, build.directory))
  const measured = NAMES.map((): Measured[] => [])
  for (let round = 0; round < plan.rounds; round++) await measureRound(plan, sides, measured, build.script)
  print(plan, measured)
}

async function prepare(size: number, directory: string): Promise<Side> {
  const tokenCount = TOKENS * NAMES.length
  const { cached, tokens } = await fillOnce(`${size}-${tokenCount}`, async (worker) => {
    const start = Date.now()
    const tokens = await fillCompany(worker, size, tokenCount)
    const seconds = Math.round((Date.now() - start) / 1_000)
    console.log(`filled a company of ${size} clients and ${size * 2} orders in ${seconds} s`)
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
      const token = inTurn(tokens)
      const [, , ofApi, ofFloor] = work
      const calling = () => {
        const request = ofFloor()
        return { ...request, headers: { ...request.headers, ...bearer(token()) } }
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
  const { sizes, pace } = plan
  console.log(`\n${describePace(pace, plan.rounds)}; growth: p50 over that of the first`)
  console.log('  work                     clients      API    floor   ratio target      with a call   ratio  growth')
  for (const [index, [name, target]] of worksOf(0, []).entries()) {
    if (!isMeasured(plan, index)) continue
    const rounds = measured[index] ?? []
    for (const size of sizes) {
      const p50 = (of: 'api' | 'floor' | 'calling') =>
        column(median(rounds.map((round) => find(round, `${of} ${size}`))))
      const ratio = (over: Loaded) => median(rounds.map((round) => find(round, `api ${size}`) / find(round, over)))
      const growth = ratio(`api ${sizes[0] ?? 0}`)
      console.log(
        `  ${name.padEnd(24)} ${String(size).padStart(7)} ${p50('api')} ${p50('floor')}  ${judged(ratio(`floor ${size}`), target)}` +
          `  ${p50('calling')}   ${ratio(`calling ${size}`).toFixed(2)}` +
          (size === sizes[0] ? '' : `   ${growth.toFixed(2)}${growth > GROWTH_TARGET ? ' over' : ''}`),
      )
    }
  }
}

const find = (round: Measured, loaded: Loaded) => round[loaded] ?? Number.NaN

const isMeasured = ({ names }: Plan, index: number) => names?.includes(NAMES[index] ?? '') ?? true

const textOf = async (url: string, path: string, token: string) => (await sendWell(url, get(path, token))).text()

/** Lists that are measured behind a cursor: of their first page, or of one in their middle. */
const WALKS: [name: string, path: (size: number) => string][] = [
  ['clients, cursor', () => '/clients?page=1'],
  ['clients, cursor, middle', (size) => `/clients?page=${Math.floor(size / 50)}`],
  ['clients, updated_at', () => '/clients?sort=updated_at&page=20'],
  ['search, cursor', () => '/clients?q=son&page=1'],
  ['orders, cursor, middle', (size) => `/orders?page=${Math.floor(size / 25)}`],
  ['changes', () => '/changes?per_page=25'],
]

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

type Path = (id: number) => string
type Read = [name: string, api: Path, floor: Path]

const needle = (id: number) => encodeURIComponent(needleOf(id))

const READS: Read[] = [
  ['one client', (id) => `/clients/${id}`, (id) => `/client/${id}`],
  ['25 clients and total', () => '/clients', () => '/clients'],
  ['search', (id) => `/clients?q=${needle(id)}`, (id) => `/search?q=${needle(id)}`],
  ['orders of a client', (id) => `/orders?client_id=${id}`, (id) => `/orders/${id}`],
  ['full order', (id) => `/orders/${id}`, (id) => `/order/${id}`],
  ['100 orders with lines', () => '/orders?per_page=100&expand=invoice_items', () => '/lines'],
]

const newClient = (turn: number) => ({ company_name: `New Client ${turn}`, email: `new.${turn}@client.example` })
const change = (turn: number) => ({ title: `Order ${turn}`, client_notes: 'Please call before delivery' })
const WRITES: [...Read, method: string, body: (turn: number) => object][] = [
  ['create client', () => '/clients', () => '/client', 'POST', newClient],
  ['patch order', (id) => `/orders/${id}`, (id) => `/order/${id}`, 'PATCH', change],
]

function worksOf(size: number, tokens: readonly string[], walks: readonly string[] = []): Work[] {
  let turn = 0
  const token = inTurn(tokens)
  const id = () => idAt(turn++, size)
  const walking = WALKS.map(([name], at): Read => [name, () => walks[at] ?? '', () => '/clients'])
  return [
    ...[...READS, ...walking].map(([name, api, floor]): Work => {
      return [name, READ_TARGET, () => get(api(id()), token()), () => ({ path: floor(id()) })]
    }),
    ...WRITES.map(([name, api, floor, method, body]): Work => {
      const bare = () => ({ method, path: floor(id()), body: JSON.stringify(body(turn)) })
      return [name, WRITE_TARGET, () => call(method, api(id()), token(), body(turn)), bare]
    }),
  ]
}

const NAMES = worksOf(0, []).map(([name]) => name)

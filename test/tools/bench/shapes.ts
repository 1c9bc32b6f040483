import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fold } from '../../../src/kernel/db/columns.ts'
import { clientRow, DAY_MS, fillCompany, insert, insertOf, NEWEST } from '../harness/company.ts'
import { get, sendWell } from '../harness/http.ts'
import { databaseLeft, inTurn, median } from '../harness/load.ts'
import { fillOnce, openBuild, type Running, startApi } from '../harness/worker.ts'
import { run as measureWrites } from './writes.ts'

/** `SIZES=20000` measures one. */
const SIZES = (process.env.SIZES ?? '20000,200000').split(',').map(Number)
const LARGE_SIZE = 200_000
const SMALL_SIZE = 50
const CHUNK = 5_000
const TOKENS = 400
const ROUNDS = Number(process.env.ROUNDS ?? 3)
/** Requests of each shape in a round, one after the other. */
const TIMES = 15
/** After a request, so many times its duration: a company gets a third of the database's time, see `limits.ts`. */
const PAUSES = 3

/**
 * How much of the p50 of its list's first page a shape may take; of `LARGE_SIZE` rows only those that do not grow with
 * their hits. The others may use so much database time there.
 */
const TARGET = 3
const FLAT_TARGET = 1.5
const GROWN_MS = 200

/** Two of these words never stand in one title; the last is in every one. */
const WORDS = 'cotton wool fleece canvas denim linen hoodie'.split(' ')
const ALWAYS = 'blank'

const PER_PAGE = 25
/** Stands in a path for a cursor in the middle of the list. */
const CURSOR = '{cursor}'
/** Pages walked to that cursor. */
const WALKED = 40

type Get = ReturnType<typeof get>
type Growth = 'flat' | 'grows'
type Shape = [name: string, path: string, growth: Growth]

const OF_SMALL = 'clients of a small neighbour'

const LETTERS = Array.from({ length: 90 }, (_, n) => encodeURIComponent(String.fromCodePoint(0x61 + n * 5)))

/** The first path of a list is what the others are compared with. */
function listsOf(size: number): Record<string, Shape[]> {
  const last = size / PER_PAGE
  return {
    clients: [
      ['first page', '/clients', 'flat'],
      ['by cursor', `/clients?cursor=${CURSOR}`, 'flat'],
      ['by updated_at', '/clients?sort=-updated_at', 'flat'],
      ['updated_since, none', '/clients?updated_since=2030-01-01T00:00:00Z', 'flat'],
      ['middle page', `/clients?page=${last / 2}`, 'grows'],
      ['last page', `/clients?page=${last}`, 'grows'],
      ['page=1000000', '/clients?page=1000000', 'grows'],
      ['q, one hit', `/clients?q=${encodeURIComponent(`${size - 7}@`)}`, 'flat'],
      ['q=zz', '/clients?q=zz', 'flat'],
      ['q=a', '/clients?q=a', 'grows'],
      ['q=a, middle page', `/clients?q=a&page=${last / 2}`, 'grows'],
      ['q=a, last page', `/clients?q=a&page=${last}`, 'grows'],
      ['q=on', '/clients?q=on', 'grows'],
      ['q=5', '/clients?q=5', 'grows'],
      ['q=son', '/clients?q=son', 'grows'],
      ['q=.example', '/clients?q=.example', 'grows'],
      ['q=.example, middle', `/clients?q=.example&page=${last / 2}`, 'grows'],
      ['q=.example, last', `/clients?q=.example&page=${last}`, 'grows'],
      ['q=555', '/clients?q=555', 'grows'],
    ],
    orders: [
      ['first page', '/orders', 'flat'],
      ['by cursor', `/orders?cursor=${CURSOR}`, 'flat'],
      ['of one client', `/orders?client_id=${size / 2}`, 'flat'],
      ['middle page', `/orders?page=${last / 2}`, 'grows'],
      ['last page', `/orders?page=${last}`, 'grows'],
      ['status, middle page', `/orders?status=1&page=${last / 4}`, 'grows'],
    ],
    products: [
      ['q=hoodie navy', '/products/search?q=hoodie%20navy', 'grows'],
      ['q=hoodie xl', '/products/search?q=hoodie%20xl', 'grows'],
      ['q=hoodie qq', '/products/search?q=hoodie%20qq', 'grows'],
      ['q=cotton wool', '/products/search?q=cotton%20wool', 'grows'],
      ['90 letters', `/products/search?q=${LETTERS.join('+')}`, 'grows'],
      ['26 letters', `/products/search?q=${'abcdefghijklmnopqrstuvwxyz'.split('').join('+')}`, 'grows'],
    ],
    [OF_SMALL]: [
      ['first page', '/clients', 'flat'],
      ['q=a', '/clients?q=a', 'flat'],
      ['q=on', '/clients?q=on', 'flat'],
      ['q=.example', '/clients?q=.example', 'flat'],
    ],
  }
}

/** The worst shapes of paged lists and searches, each beside the first page of its list in the same run; then of writes. */
export async function run(): Promise<void> {
  await using build = await openBuild('no-company-limit.js')
  for (const size of SIZES) {
    const { cached, tokens } = await fillOnce(`shapes-${size}`, (worker) => fill(worker, size))
    const measured: Measured = new Map()
    for (let round = 0; round < ROUNDS; round++) {
      const state = join(build.directory, `round-${round}`)
      cpSync(cached, state, { recursive: true })
      await measureRound(build.script, state, size, tokens, measured)
      rmSync(state, { recursive: true, force: true })
    }
    print(size, measured)
  }
  await measureWrites()
}

/** By list and shape, of each round: the median of its requests and the database time of one, in milliseconds. */
type Measured = Map<string, { p50: number[]; databaseMs: number[] }>

type Tokens = Record<'large' | 'small', string[]>

/** Fills two companies. Nothing gathers statistics. */
async function fill(worker: Running['worker'], size: number): Promise<Tokens> {
  const tokens = await fillCompany(worker, 0, TOKENS * 2)
  const db = await worker.getD1Database('DB')
  const times = { created_at: 0, updated_at: 0 }
  await insert(db, 'companies', [{ id: 2, slot: 2, name: 'Small', ...times }])
  await db.prepare(`UPDATE api_tokens SET company_id = 2 WHERE id > ${TOKENS}`).run()
  // The order that has all lines, beside the company's own.
  const holder = { id: 1_000_000, ...times }
  await insertOf(db, 1, 'clients', [{ ...holder, company_name: 'Holder', company_name_key: 'HOLDER', deleted: 1 }])
  await insertOf(db, 1, 'orders', [{ ...holder, title: 'Holder', client_id: holder.id, created_date: '2020-01-01' }])
  await insertOf(db, 1, 'invoices', [{ id: 1, project_id: holder.id, number: '1', ...times }])
  for (let from = 1; from <= size; from += CHUNK) {
    const ids = Array.from({ length: CHUNK }, (_, index) => from + index)
    await insertOf(db, 1, 'clients', ids.map(clientRow))
    await insertOf(db, 1, 'orders', ids.map(orderRow))
    await insertOf(db, 1, 'catalog_items', ids.map(itemRow))
    const lines = ids.map((id) => ({ ...itemRow(id), invoice_id: 1, quantity: 1, unit_price_cents: 950 }))
    await insertOf(db, 1, 'invoice_items', lines)
  }
  const few = Array.from({ length: SMALL_SIZE }, (_, index) => clientRow(index + 1))
  await insertOf(db, 2, 'clients', few)
  return { large: tokens.slice(0, TOKENS), small: tokens.slice(TOKENS) }
}

function orderRow(id: number) {
  const created_date = new Date(NEWEST - (id % 1_000) * DAY_MS).toISOString().slice(0, 10)
  const times = { created_date, created_at: 0, updated_at: 0 }
  return { id, title: `Order ${id}`, client_id: id, order_status_id: (id % 2) + 1, ...times }
}

function itemRow(id: number) {
  const of = (list: string[], n: number) => list[n % list.length] ?? ''
  const title = `${of(WORDS, id)} ${ALWAYS} ${of(['navy', 'black', 'white'], id >>> 2)} ${of(['s', 'm', 'l'], id >>> 4)} ${id}`
  return { id, title, search_text: fold(title) }
}

async function measureRound(
  script: string,
  state: string,
  size: number,
  tokens: Tokens,
  measured: Measured,
): Promise<void> {
  await using api = await startApi(script, state)
  const { url } = api
  for (const [list, shapes] of Object.entries(listsOf(size))) {
    const token = inTurn(tokens[list === OF_SMALL ? 'small' : 'large'])
    const request = (path: string) => () => get(path, token())
    const first = shapes[0]?.[1] ?? ''
    for (let n = 0; n < 20; n++) await sendWell(url, request(first)())
    const cursor = shapes.some(([, path]) => path.includes(CURSOR)) ? await walk(url, first, request) : ''
    const requests = shapes.map(([name, path]) => ({
      name,
      next: request(path.replace(CURSOR, cursor)),
      ms: [] as number[],
    }))
    for (let n = 0; n < TIMES; n++) {
      for (const { next, ms } of requests) {
        const start = performance.now()
        await sendWell(url, next())
        ms.push(performance.now() - start)
        await setTimeout((ms.at(-1) ?? 0) * PAUSES)
      }
    }
    for (const { name, next, ms } of requests) {
      const result = resultOf(measured, list, name)
      result.p50.push(median(ms))
      result.databaseMs.push(await databaseTime(url, next))
    }
  }
}

function resultOf(measured: Measured, list: string, name: string) {
  const key = `${list}\n${name}`
  const result = measured.get(key) ?? { p50: [], databaseMs: [] }
  measured.set(key, result)
  return result
}

/** The cursor behind {@link WALKED} pages. */
async function walk(url: string, path: string, request: (path: string) => () => Get): Promise<string> {
  let cursor = ''
  for (let n = 0; n < WALKED; n++) {
    const response = await sendWell(url, request(cursor ? `${path}?cursor=${cursor}` : path)())
    cursor = JSON.parse(await response.text()).pagination.next_cursor
  }
  return cursor
}

/** Database time of a request, by the limits of one token before and after it. */
async function databaseTime(url: string, next: () => Get): Promise<number> {
  const request = next()
  const before = databaseLeft(await sendWell(url, { ...request, path: '/api/v1/clients/1' }))
  return before - databaseLeft(await sendWell(url, request))
}

function print(size: number, measured: Measured): void {
  console.log(
    `\nworst shapes at ${size} clients, orders, catalog items and lines; median of ${ROUNDS} rounds; p50 in ms, one request after the other; ratio: p50 over that of the first; database: time of one request`,
  )
  for (const [list, shapes] of Object.entries(listsOf(size))) {
    console.log(`  ${list.padEnd(30)}     p50   ratio  database   target`)
    const base = resultOf(measured, list, shapes[0]?.[0] ?? '').p50
    for (const [name, , growth] of shapes) {
      const { databaseMs, p50: rounds } = resultOf(measured, list, name)
      const ratio = median(rounds.map((each, round) => each / (base[round] ?? Number.NaN)))
      const p50 = median(rounds)
      const ms = median(databaseMs)
      const isGrown = size >= LARGE_SIZE && growth === 'grows'
      const target = size >= LARGE_SIZE ? FLAT_TARGET : TARGET
      const isOver = isGrown ? ms > GROWN_MS : ratio > target
      const shown = isGrown ? `${GROWN_MS} ms` : `${target} ×`
      console.log(
        `    ${name.padEnd(28)} ${p50.toFixed(2).padStart(7)}  ${ratio.toFixed(2).padStart(6)}  ${`${ms} ms`.padStart(8)}   ${shown}${isOver ? ' over' : ''}`,
      )
    }
  }
}

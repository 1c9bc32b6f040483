import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import type {
  Client,
  FullOrder,
  ListedOrder,
  PullPage,
  PushedClient,
  PushedOrder,
  PushResult,
} from '../../src/client/index.ts'
import { freshState, runSql } from '../node/cli-support.ts'
import { serveState } from '../node/dev-server.ts'
import { createRandom, type Random } from '../support/random.ts'
import { chooseSeed, createToken, loadFile, numbers } from './large-shop.ts'

/* The whole of a company in and out, by a process that is interrupted at ten random points. */

const CLIENTS = 3_000
const ORDERS = 8_000
const LINES = 19_898
const PAYMENTS = 5_334
const REQUESTS_MAX = 130
const INTERRUPTIONS = 10
const FAULTS = ['kill', 'lost', '429', '503']
/** What is pushed: a token may carry out 300 operations a minute. */
const PUSHED = { clients: 80, orders: 120 }

/** Each order has one to four lines, and most have a payment; a look-alike company comes first. */
async function fill(state: string): Promise<void> {
  for (const id of [1, 2, 3]) {
    const isLarge = id === 2
    let [line, payment] = [0, 0]
    const linesOf = (order: number) => Math.floor((order * LINES) / ORDERS) - Math.floor(((order - 1) * LINES) / ORDERS)
    const paymentsOf = (order: number) =>
      Math.floor((order * PAYMENTS) / ORDERS) - Math.floor(((order - 1) * PAYMENTS) / ORDERS)
    await loadFile(state, {
      company: { id, name: `Company ${id}` },
      order_statuses: [{ id: 1, title: 'New', is_default: true }],
      taxes: [{ id: 1, name: 'State', rate: 8.25 }],
      clients: numbers(isLarge ? CLIENTS : id === 1 ? 500 : 0).map((number) => ({
        id: number,
        company_name: `Club ${number}`,
        email: `club${number}@mail.example`,
        deleted: number % 50 === 0,
      })),
      orders: numbers(isLarge ? ORDERS : id === 1 ? 500 : 0).map((number) => ({
        id: number,
        title: `Order ${number}`,
        client_id: (number % (isLarge ? CLIENTS : 500)) + 1,
        description: `Description ${number}`,
        deleted: number % 100 === 0,
        invoice: {
          id: number,
          tax_id: number % 2,
          deleted: number % 100 === 0,
          items: numbers(linesOf(number)).map((position) => {
            return { id: ++line, title: `Line ${position}`, quantity: position + 0.25, unit_price: 9.95 }
          }),
          payments: numbers(paymentsOf(number)).map(() => ({ id: ++payment, amount: 1.5, note: `Payment ${number}` })),
        },
        artworks: number % 10 === 0 ? [{ id: number, name: 'Crest', placements: ['front'] }] : [],
      })),
    })
  }
}

/** Runs the process once. @returns its requests; null where it was interrupted */
async function runOnce(env: Record<string, string>): Promise<number | null> {
  const path = join(import.meta.dirname, 'sync-process.ts')
  const run = promisify(execFile)(process.execPath, [path], { env: { ...process.env, ...env } })
  const output = await run.catch((error) => (env.FAULT === undefined ? Promise.reject(error) : null))
  return output && Number(output.stdout)
}

/** Runs it to the end, interrupted at random points before. */
async function runInterrupted(random: Random, env: Record<string, string>, tokens: string[], last: number) {
  let interrupted = 0
  for (let run = 0; run < INTERRUPTIONS; run++) {
    const point = random.between(1, last)
    const fault = `${FAULTS[run % FAULTS.length]}:${point}`
    if ((await runOnce({ ...env, TOKEN: tokens[run] ?? '', FAULT: fault })) === null) interrupted += 1
  }
  await runOnce({ ...env, TOKEN: tokens[INTERRUPTIONS] ?? '' })
  return interrupted
}

const linesOf = <T>(path: string): T[] =>
  (existsSync(path) ? readFileSync(path, 'utf8') : '')
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))

function copyOf(path: string) {
  const clients = new Map<number, Client>()
  const orders = new Map<number, ListedOrder>()
  for (const page of linesOf<PullPage>(path)) {
    for (const client of page.clients) clients.set(client.id, client)
    for (const order of page.orders) orders.set(order.id, order)
  }
  return { clients, orders }
}

it('is pulled in few requests, and pushed by one operation each, wherever it is interrupted', {
  timeout: 600_000,
}, async () => {
  const random = createRandom(chooseSeed())
  const state = await freshState()
  await fill(state)
  const tokens: string[] = []
  const pushTokens: string[] = []
  for (let run = 0; run <= INTERRUPTIONS; run++) {
    tokens.push(await createToken(state, `pull ${run}`, 2))
    pushTokens.push(await createToken(state, `push ${run}`, 3))
  }
  const server = await serveState(state)
  const file = (name: string) => join(state, name)

  const started = Date.now()
  const requests = await runOnce({ BASE_URL: server.url, TOKEN: tokens[0] ?? '', STORE: file('pulled') })
  console.log(`pull: ${requests} requests, ${((Date.now() - started) / 1000).toFixed(1)} s`)
  expect(requests).toBeLessThanOrEqual(REQUESTS_MAX)
  const copy = copyOf(file('pulled'))
  expect([copy.clients.size, copy.orders.size]).toEqual([CLIENTS, ORDERS])
  const orders = [...copy.orders.values()]
  const stored = (table: string, order: string) =>
    runSql(state, `SELECT * FROM ${table} WHERE company_id = 2 ORDER BY ${order}`)
  const lines = await stored('invoice_items', 'id')
  expect(lines).toHaveLength(LINES)
  expect(
    orders
      .flatMap(({ invoice_items = [] }) => invoice_items)
      .map(({ id, title, quantity, unit_price, position, invoice_id }) => {
        return [id, invoice_id, title, quantity, Math.round(unit_price * 100), position]
      }),
  ).toEqual(lines.map((row) => [row.id, row.invoice_id, row.title, row.quantity, row.unit_price_cents, row.position]))
  const payments = await stored('payments', 'id')
  expect(payments).toHaveLength(PAYMENTS)
  expect(
    orders
      .flatMap(({ payments = [] }) => payments)
      .map(({ id, invoice_id, amount, note }) => [id, invoice_id, amount * 100, note]),
  ).toEqual(payments.map((row) => [row.id, row.invoice_id, row.amount_cents, row.note]))
  const api = async (path: string) => {
    const response = await fetch(`${server.url}/api/v1${path}`, { headers: { authorization: `Bearer ${tokens[1]}` } })
    return (await response.json()) as FullOrder
  }
  for (let number = 0; number < 40; number++) {
    const order = orders[random.between(0, orders.length - 1)]
    const { project, accounting: _, ...parts } = await api(`/orders/${order?.id}?deleted=include`)
    const { totals, ...pulled } = order ?? {}
    expect(pulled).toEqual({ ...project, ...parts })
    expect(parts.invoice).toMatchObject(totals ?? {})
  }

  const pulls = { BASE_URL: server.url, STORE: file('interrupted') }
  const interrupted = await runInterrupted(random, pulls, tokens.slice(1).concat(tokens[0] ?? ''), 10)
  console.log(`pull: interrupted ${interrupted} times`)
  expect(copyOf(file('interrupted'))).toEqual(copy)

  const pushed: { clients: PushedClient[]; orders: PushedOrder[] } = {
    clients: numbers(PUSHED.clients).map((number) => {
      return { external_id: `client-${number}`, company_name: `Club ${number}`, phone: `555-${number}` }
    }),
    orders: numbers(PUSHED.orders).map((number) => ({
      external_id: `order-${number}`,
      client: `client-${1 + (number % PUSHED.clients)}`,
      title: `Order ${number}`,
      tax_id: 1,
      invoice_items: numbers(number % 4).map((line) => ({ title: `Line ${line}`, quantity: line, unit_price: 9.95 })),
      payments: numbers(number % 3).map((payment) => ({ amount: payment + 0.5, note: `Payment ${payment}` })),
    })),
  }
  writeFileSync(file('push.json'), JSON.stringify(pushed))
  const push = { BASE_URL: server.url, STORE: file('results'), PUSH: file('push.json') }
  console.log(`push: interrupted ${await runInterrupted(random, push, pushTokens, 3)} times`)
  const results = linesOf<PushResult>(file('results'))
  expect(results.filter(({ status }) => status !== 200)).toEqual([])
  const whole = PUSHED.clients + PUSHED.orders
  expect(results.slice(-whole).map(({ external_id }) => external_id)).toEqual(
    [...pushed.clients, ...pushed.orders].map(({ external_id }) => external_id),
  )

  await runOnce({ BASE_URL: server.url, TOKEN: pushTokens[0] ?? '', STORE: file('back') })
  const back = copyOf(file('back'))
  const clientIds = new Map([...back.clients.values()].map((client) => [client.external_id, client.id]))
  expect(
    [...back.clients.values()].map(({ external_id, company_name, phone }) => ({ external_id, company_name, phone })),
  ).toEqual(pushed.clients)
  const shown = [...back.orders.values()].map(
    ({ external_id, client_id, title, invoice, invoice_items = [], payments = [] }) => ({
      external_id,
      client_id,
      title,
      tax_id: invoice?.tax_id,
      invoice_items: invoice_items.map(({ title, quantity, unit_price }) => ({ title, quantity, unit_price })),
      payments: payments.map(({ amount, note }) => ({ amount, note })),
    }),
  )
  expect(shown).toEqual(
    pushed.orders.map(({ client, ...order }) => ({ ...order, client_id: clientIds.get(client ?? '') })),
  )
})

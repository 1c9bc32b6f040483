import { expect, it } from 'vitest'
import type { ApiClient, Client, ListedOrder } from '../../src/client/index.ts'
import { freshState, runSql } from '../node/cli-support.ts'
import { importInstalledClient } from '../node/client-package.ts'
import { serveState } from '../node/dev-server.ts'
import { createRandom } from '../support/random.ts'
import { type Copy, copyAll, followChanges } from './copy.ts'
import { CLIENTS, chooseSeed, createToken, fillShop, ORDERS, seedLater } from './large-shop.ts'
import { type LossyProxy, startLossyProxy } from './lossy-proxy.ts'
import { type Actor, emptyJournal, type Journal, makeChanges } from './random-changes.ts'

/* A new user's sync, as an integrator would build it, over a connection that loses responses. */

const ROUNDS = 10
/** Changes of one round: 100 in all. The integrator also reads, so it makes fewer. */
const CHANGES = { integrator: { count: 30, batched: 12 }, shop: { count: 35, batched: 20 } }
const LOSS = 0.1
const MAX_RETRIES = 12
const REQUESTS_PER_MINUTE = 300

it('copies a company from nothing, and both sides end equal after 1,000 changes with lost responses', async () => {
  const seed = chooseSeed()
  const started = Date.now()
  const report = (step: string) => console.log(`${((Date.now() - started) / 1000).toFixed(1)} s: ${step}`)
  const state = await freshState()
  const [{ createClient }] = await Promise.all([importInstalledClient(), fillShop(state)])
  report('the client is installed and the company loaded')
  const server = await serveState(state)
  const proxy = await startLossyProxy(server.url, createRandom(seed))
  report('the service runs')

  const connect = async (name: string, baseUrl = proxy.url): Promise<ApiClient> =>
    createClient({ baseUrl, token: await createToken(state, name), maxRetries: MAX_RETRIES, pace: true })
  const journal = emptyJournal()
  const api = await connect('integrator')
  const shops = await Promise.all(['ines', 'joel'].map((name) => connect(name)))

  expect(await api.me()).toMatchObject({ company: { id: 1 }, limits: { requests_per_minute: REQUESTS_PER_MINUTE } })
  expect((await api.orderStatuses()).map(({ title }) => title)).toEqual(['New', 'Printing', 'Shipped'])
  expect(await api.taxes()).toMatchObject([{ name: 'State', rate: 8.25 }])
  proxy.setLoss(LOSS)
  const copy = await copyAll(api)
  expect([copy.clients.size, copy.orders.size]).toEqual([CLIENTS, ORDERS])
  const { cursor } = copy
  report(`copied ${CLIENTS} clients and ${ORDERS} orders`)

  const integrator: Actor = { name: 'integrator', api, random: createRandom(seed + 1), journal, copy }
  const users = shops.map(
    (shop, index): Actor => ({ name: `shop ${index}`, api: shop, random: createRandom(seed + 2 + index), journal }),
  )
  let seeded = { clients: 0, orders: 0 }
  for (let round = 0; round < ROUNDS; round += 1) {
    const { count, batched } = CHANGES.integrator
    const own = async () => {
      await makeChanges(integrator, round, count, batched)
      await followChanges(api, copy)
    }
    const others = users.map((user) => makeChanges(user, round, CHANGES.shop.count, CHANGES.shop.batched))
    await Promise.all([own(), ...others])
    if (round === ROUNDS / 2) seeded = await seedLater(state)
  }
  await followChanges(api, copy)
  report(`followed ${ROUNDS * 100} changes; refused: ${JSON.stringify(journal.refused)}`)
  describeProxy(proxy, report)

  proxy.setLoss(0)
  const reader = await connect('reader', server.url)
  const truth = await copyAll(reader)
  report('copied again')
  expect(toRows(copy.clients)).toEqual(toRows(truth.clients))
  expect(toRows(copy.orders)).toEqual(toRows(truth.orders))
  checkCreations(state, journal, seeded, truth)
  checkChanges(journal, truth)
  await checkFeed(reader, cursor, truth)
  checkProxy(proxy)
  report('compared')
})

function toRows<Row extends { id: number }>(rows: Map<number, Row>): Row[] {
  return [...rows.values()].sort((a, b) => a.id - b.id)
}

/** Each creation made one row, whatever was lost and sent again. */
function checkCreations(state: string, journal: Journal, seeded: { clients: number; orders: number }, truth: Copy) {
  const upserts = [...truth.clients.values()].filter(
    ({ id, external_id }) => id > CLIENTS && /^crm-/.test(external_id ?? ''),
  )
  expect(new Set(upserts.map(({ external_id }) => external_id)).size).toBe(upserts.length)
  const counts = runSql(
    state,
    'SELECT (SELECT count(*) FROM clients) AS clients, (SELECT count(*) FROM orders) AS orders',
  )
  expect(counts).toEqual([
    {
      clients: CLIENTS + journal.created.clients.length + seeded.clients + upserts.length,
      orders: ORDERS + journal.created.orders.length + seeded.orders,
    },
  ])
  for (const names of Object.values(journal.created)) expect(new Set(names).size).toBe(names.length)
}

/** Each change was carried out once: it made one version, and the last one is what is there. */
function checkChanges({ changes, upserted }: Journal, truth: Copy): void {
  const byKey = new Map<string, Client | ListedOrder>([
    ...[...truth.clients].map(([id, client]) => [`clients ${id}`, client] as const),
    ...[...truth.orders].map(([id, order]) => [`orders ${id}`, order] as const),
  ])
  for (const [key, rows] of changes) {
    const current = byKey.get(key)
    rows.sort((a, b) => a.version - b.version)
    const last = rows.at(-1)
    // A PUT that is sent again makes another version of the same content.
    if (current?.external_id && upserted.has(current.external_id)) {
      expect({ ...last, version: 0, updated_at: '' }, key).toEqual({ ...current, version: 0, updated_at: '' })
      continue
    }
    expect(last, key).toEqual(current)
    const versions = rows.map(({ version }) => version)
    const first = versions[0] === 1 ? 1 : 2
    expect(versions, key).toEqual(Array.from({ length: rows.length }, (_, index) => first + index))
  }
}

/** The feed has each version of each row once and in order, from the first copy to now. */
async function checkFeed(reader: ApiClient, cursor: string, truth: Copy): Promise<void> {
  const versions = new Map<string, number[]>()
  for await (const { data } of reader.changes.pages({ cursor, types: ['clients', 'orders'] })) {
    for (const { type, id, version, operation } of data) {
      // It follows the update of its version.
      if (operation === 'status_changed') continue
      const key = `${type} ${id}`
      versions.set(key, [...(versions.get(key) ?? []), version])
    }
  }
  for (const [key, listed] of versions) {
    const [type, id] = key.split(' ')
    const version = (type === 'clients' ? truth.clients : truth.orders).get(Number(id))?.version ?? 0
    const first = version - listed.length + 1
    expect(listed, key).toEqual(Array.from({ length: listed.length }, (_, index) => first + index))
  }
}

function describeProxy({ fates, statuses, windows }: LossyProxy, report: (step: string) => void): void {
  const counts = [...windows.values()].map((each) => each.map(({ requests }) => requests))
  report(`requests by fate ${JSON.stringify(fates)}, by status ${JSON.stringify(statuses)}`)
  report(`requests of each token in each window ${JSON.stringify(counts)}`)
}

/** Responses were lost in every way, none was a failure of the service, and no token was over its limit. */
function checkProxy({ fates, statuses, windows }: LossyProxy): void {
  expect(Math.min(...Object.values(fates))).toBeGreaterThan(5)
  expect(Object.keys(statuses).filter((status) => Number(status) >= 500)).toEqual([])
  // A client that lost responses may ask a moment too early; it waits, and its caller does not see it.
  expect(statuses[429] ?? 0).toBeLessThan(5)
  expect(windows.size).toBe(3)
  for (const { requests } of [...windows.values()].flat()) expect(requests).toBeLessThanOrEqual(REQUESTS_PER_MINUTE)
}

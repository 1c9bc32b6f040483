import { applyD1Migrations } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { runWrite, runWrites } from '../../src/kernel/db/idempotency.ts'
import { creationOf as createClient } from '../../src/resources/clients/queries.ts'
import { replacementOf as putContext } from '../../src/resources/mail/context-queries.ts'
import { changeOf as changeOrder, creationOf as createOrder } from '../../src/resources/orders/write-queries.ts'
import type { TestCompany } from '../support/app.ts'
import { createRandom } from '../support/random.ts'
import { mintPair, readRowBytes, readStored } from './support.ts'
import { contextOf, textOf } from './work.ts'

/*
 * The bytes that a company's writes add to the database, in turn with those of a look-alike, compared with those that are
 * counted: all of them together and each kind by itself.
 */
let pair: { other: TestCompany; company: TestCompany }

beforeAll(async () => {
  // Without the look-alike of all tests, whose 1,500 clients the full-text tables would go on to merge.
  await applyD1Migrations(env.DB, env.TEST_MIGRATIONS)
  pair = await mintPair()
  // The first pages of every table and index.
  for (const write of [clients([20]), order(2, [60]), threadContext(2, 100)]) await writeEach(40, write)
})

const sizeBytes = async () => (await env.DB.prepare('SELECT 1').run()).meta.size_after

async function countedBytes(): Promise<number> {
  const sums = [pair.other, pair.company].map(
    async ({ id }) => (await readStored(id)).counted + (await readRowBytes(id)),
  )
  return (await Promise.all(sums)).reduce((sum, bytes) => sum + bytes, 0)
}

const random = createRandom(20_261_101)

type Context = ReturnType<typeof contextOf>

/** 50 clients. */
const clients = (lengths: readonly number[]) => async (context: Context) => {
  const text = () => textOf(random, random.pick(lengths))
  const builds = Array.from({ length: 50 }, () => {
    const letters = text().slice(0, 100)
    const email = `${letters.replaceAll(/[^a-z0-9]/g, '')}@x.example`
    const names = { company_name: text(), first_name: text(), last_name: text() }
    const fields = { ...names, email, phone: `(555) ${random.between(1e6, 9e6)}`, website: text() }
    return (own: Context) => createClient(own, fields)
  })
  await runWrites(
    context,
    builds.map((build) => ({ build })),
  )
}

/** An order whose invoice has so many lines. */
const order = (lines: number, lengths: readonly number[]) => async (context: Context) => {
  const text = (max = 10_000) => textOf(random, Math.min(max, random.pick(lengths)))
  const described = { title: text(255), client_id: context.companyId * 10_000_000 + 1, description: text() }
  const made = await runWrite(context, createOrder(context, described))
  const goods = { supplier: 'supplier_a', style: 'PC61', color: 'Navy', size: 'XL' }
  const items = Array.from({ length: lines }, () => {
    const texts = { title: text(255), description: text(200) }
    return { ...texts, quantity: 1, unit_price: 2, taxable: true, ...goods, sku: textOf(random, 8) }
  })
  const own = { ...context, idempotency: null }
  const body = { invoice_items: items } as Parameters<typeof changeOrder>[2]
  await runWrite(own, changeOrder(own, made?.row.id ?? 0, body))
}

const threadContext = (elements: number, length: number) => async (context: Context) => {
  const participants_data = Array.from({ length: elements }, () => ({ name: textOf(random, length) }))
  const body = { client_id: context.companyId * 10_000_000 + 1, participants_data }
  await runWrite(context, putContext(context, random.hex(16), body as Parameters<typeof putContext>[2]))
}

let now = Date.UTC(2026, 10, 1)

async function writeEach(times: number, write: (context: Context) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < times; at++) {
    for (const { id } of [pair.other, pair.company]) await write(contextOf(id, 'DB', random, now++))
  }
}

// One test: what a write adds depends on those before it, as the full-text tables merge what they have.
it('the stored bytes of both companies grow by what the database grows for each kind of write, to 10 %', async () => {
  const kinds: [string, number, (context: Context) => Promise<unknown>][] = [
    ['clients of a usual size', 40, clients([8, 12, 20, 30])],
    ['clients as long as they may be', 6, clients([255])],
    ['orders and lines of a usual size', 150, order(3, [15, 30, 60, 120])],
    ['orders and lines with long descriptions', 30, order(5, [4_000, 9_000])],
    ['contexts of a usual size', 400, threadContext(2, 100)],
    ['contexts of 250 KB', 30, threadContext(100, 2_500)],
  ]
  for (const [kind, times, write] of kinds) {
    const [size, counted] = [await sizeBytes(), await countedBytes()]
    await writeEach(times, write)
    const ratio = ((await countedBytes()) - counted) / ((await sizeBytes()) - size)
    expect(ratio, kind).toBeGreaterThan(0.9)
    expect(ratio, kind).toBeLessThan(1.1)
  }
})

import { env } from 'cloudflare:workers'
import { beforeEach, expect, it, vi } from 'vitest'
import { BUDGET_MS } from '../../../src/kernel/http/isolate.ts'
import { putThreadContext } from '../../../src/resources/mail/contract.ts'
import { type ApiResponse, expect200, mintCompany, request, send, type TestCompany } from '../../support/app.ts'
import { moveTime, resumeTime } from '../../support/time.ts'
import { DATABASE_BATCH, replaceCalls } from '../../support/wrap-bindings.ts'
import { create, fresh, newOrder, shapeOf } from './support.ts'

/* While a transaction runs, nobody else's statement does: so a batch of long texts is committed in several. */
let company: TestCompany

// Each batch counts as its operations against the limit of a token.
beforeEach(async () => {
  company = await mintCompany()
})

let next = 0
/** Four searched texts of 250 characters. */
const heavy = () => {
  const text = `heavy ${next++} `.padEnd(250, 'x')
  const body = { company_name: text, first_name: text, last_name: text, phone: text }
  return { method: 'POST', path: '/clients', body }
}
const listOf = (count: number) => Array.from({ length: count }, heavy)
const run = (operations: unknown, headers?: Record<string, string>) =>
  company.call('POST', '/batch', { operations }, headers)

interface Result {
  status: number
  transaction: number
  body: { client: { id: number; company_name: string } }
}

const clientsOf = async () => (await company.call('GET', '/clients')).body.pagination.total

it('a batch of many texts is one transaction up to 40,000 characters, and several beyond, in the order of its operations', async () => {
  expect((await run(listOf(40))).body.transactions).toBe(1)
  const operations = listOf(100)
  const body = expect200(await run(operations))
  const results: Result[] = body.results
  const names = operations.map((each) => each.body.company_name)
  expect(results.map(({ body: { client } }) => client.company_name)).toEqual(names)
  const ids = results.map(({ body: { client } }) => client.id)
  expect(ids).toEqual([...ids].sort((a, b) => a - b))
  expect(results.map(({ transaction }) => transaction)).toEqual(operations.map((_, n) => Math.floor(n / 25) + 1))
  expect(body.transactions).toBe(4)
})

it('a batch of many texts counts no more of a text than a name may have', async () => {
  const [first] = (await run([heavy()])).body.results
  const { id } = first.body.client
  const change = { method: 'PATCH', path: `/clients/${id}`, body: { tax_exempt_reason: 'y'.repeat(1_000) } }
  expect((await run(Array(100).fill(change))).body.transactions).toBe(1)
})

it('a batch of many texts counts a reference as a text that it may name', async () => {
  const client = heavy()
  const title = { $ref: '0.client.company_name' }
  const invoice_items = Array(30).fill({ title })
  const order = newOrder({ title: 'Long lines', client_id: { $ref: '0.client.id' }, invoice_items })
  const { body } = await run([client, ...Array(8).fill(order)])
  const results: Result[] = body.results
  expect(results.map(({ transaction }) => transaction)).toEqual([1, 2, 2, 2, 2, 3, 3, 3, 3])
})

it('a batch of many texts counts 5,000 characters for the lines that an operation may remove', async () => {
  const { body } = await run([{ method: 'POST', path: '/clients', body: { company_name: 'Quay' } }])
  const order = { title: 'Few lines', client_id: body.results[0].body.client.id, invoice_items: [{ title: 'One' }] }
  const created = (await run(Array(9).fill(newOrder(order)))).body
  expect(created.transactions).toBe(1)
  const paths: string[] = created.results.map(({ body }: ApiResponse) => `/orders/${body.project.id}`)
  const removals = [
    paths.map((path) => ({ method: 'PUT', path: `${path}/invoice-items`, body: { items: [] } })),
    paths.map((path) => ({ method: 'PATCH', path, body: { invoice_items: [] } })),
    paths.map((_, n) => ({ method: 'PUT', path: `/orders/by-external-id/few-${n}`, body: order })),
  ]
  for (const operations of removals) {
    const { results, transactions } = (await run(operations)).body
    expect(results.map((each: Result) => each.status)).toEqual(operations.map(() => 200))
    expect(transactions).toBe(2)
  }
  const renamed = paths.map((path) => ({ method: 'PATCH', path, body: { title: 'Renamed' } }))
  expect((await run(renamed)).body.transactions).toBe(1)
})

it('a batch of many texts repeats nothing that was committed before another transaction failed', async () => {
  const operations = listOf(80)
  const key = { 'idempotency-key': crypto.randomUUID() }
  const before = await clientsOf()
  const failing = replaceCalls(env, DATABASE_BATCH, async (work, batch) => {
    if (batch === 2) throw new Error('down')
    return work()
  })
  const sent = request(company.token, 'POST', '/batch', { operations }, key)
  expect((await send(sent, { env: failing })).status).toBe(500)
  expect(await clientsOf()).toBe(before + 40)
  const again = expect200(await run(operations, key))
  expect(await clientsOf()).toBe(before + 80)
  const replayed = await run(operations, key)
  expect(replayed.headers.get('idempotency-replayed')).toBe('true')
  expect(replayed.body).toEqual(again)
  expect(await clientsOf()).toBe(before + 80)
})

it('a batch of many texts commits no further transaction after its time is over', async () => {
  const before = await clientsOf()
  const late = replaceCalls(env, DATABASE_BATCH, (work) => work().finally(() => moveTime(BUDGET_MS.handler)))
  const sent = request(company.token, 'POST', '/batch', { operations: listOf(80) })
  const { status, headers } = await send(sent, { env: late }).finally(resumeTime)
  expect([status, headers.has('retry-after')]).toEqual([503, false])
  expect(await clientsOf()).toBe(before + 40)
})

it('a batch that is committed in many transactions reads each body once', async () => {
  const { id } = expect200(await company.call('POST', '/clients', { company_name: 'Linked' })).client
  const read = vi.spyOn(putThreadContext.body, 'safeParse')
  const context = { method: 'PUT', path: '/mail/threads/once', body: { client_id: id } }
  const pairs = Array.from({ length: 4 }, fresh).flatMap((externalId) => [create(externalId), create(externalId)])
  const shape = shapeOf(await run([...pairs, context]))
  expect(shape.filter(([status]) => status === 409)).toHaveLength(4)
  expect(shape.at(-1)).toEqual([200, expect.any(Number)])
  expect(read).toHaveBeenCalledTimes(1)
  read.mockRestore()
})

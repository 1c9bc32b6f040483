import {
  abortAllDurableObjects,
  createScheduledController,
  evictDurableObject,
  runInDurableObject,
} from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import worker from '../../../src/index.ts'
import { mintToken, request, sql, sqlIn } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { logLines } from '../../support/log.ts'
import { countStarts } from '../alarm.ts'
import { Shop } from './shop.ts'
import { REALM } from './support.ts'

const runSweep = () => worker.scheduled(createScheduledController({ scheduledTime: Date.now() }), env)

describe('the object of a company', () => {
  it('is started by the write, and delivers after the response', async () => {
    const shop = await Shop.open()
    const made = await shop.company.call('POST', '/orders', { title: 'T', client_id: shop.clientId })
    expect(made.body.accounting).toEqual({ status: 'pending', last_error: null, synced_at: null })
    await expect.poll(() => shop.accounting(made.body.project.id)).toMatchObject({ status: 'synced' })
    expect(await runInDurableObject(shop.object, (_, state) => state.storage.getAlarm())).toBeNull()
  })

  it('repeats the same call when it was killed during one', async () => {
    const { shop, id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: '^POST .*invoice', apply: true, hold: true, destroy: true })
    await shop.object.start(shop.company.id)
    await expect.poll(() => shop.invoiceCalls()).toHaveLength(1)
    await abortAllDurableObjects()
    expect(await shop.open()).toMatchObject([{ state: 'sent', attempts: 0 }])
    await shop.world.spoil()
    await runSweep()
    await expect.poll(() => shop.accounting(id)).toMatchObject({ status: 'synced' })
    const calls = await shop.invoiceCalls()
    expect(calls.length).toBeGreaterThan(1)
    expect(new Set(calls.map((call) => JSON.stringify(call))).size).toBe(1)
    expect(await shop.invoices()).toHaveLength(1)
  })

  it.each(['DB', 'DB_TWO'] as const)(
    'keeps rotated tokens that %s does not store, also when it is evicted',
    async (home) => {
      const shop = await Shop.open({}, home)
      const id = await shop.makeOrder()
      const trigger = `refuse_tokens_${shop.company.id}`
      await sqlIn(
        home,
        `CREATE TRIGGER ${trigger} BEFORE INSERT ON accounting_connections
        WHEN NEW.company_id = ${shop.company.id} AND NEW.tokens IS NOT NULL BEGIN SELECT RAISE(ABORT, 'down'); END`,
      )
      try {
        for (let run = 1; run <= 2; run++) {
          expect(await shop.deliver()).not.toBeNull()
          await evictDurableObject(shop.object)
          await shop.passTime()
        }
      } finally {
        await sqlIn(home, `DROP TRIGGER ${trigger}`)
      }
      const kept = await runInDurableObject(shop.object, (_, state) => JSON.stringify([...state.storage.kv.list()]))
      expect(kept).not.toContain((await shop.world.look()).state.grants[REALM])
      expect(await shop.deliver()).toBeNull()
      expect(await shop.accounting(id)).toMatchObject({ status: 'synced' })
      expect((await shop.world.lines()).filter((line) => line.startsWith('POST /oauth2'))).toHaveLength(1)
      expect(await shop.connection()).toMatchObject({ tokens: expect.stringMatching(/^v1\./), stopped_for: null })
      const left = await runInDurableObject(shop.object, (_, state) =>
        [...state.storage.kv.list()].map(([name]) => name),
      )
      expect(left).toEqual(['company'])
    },
  )

  it('renews the tokens once for calls at once, since each renewal ends the tokens before', async () => {
    const shop = await Shop.open()
    const checks = await Promise.all([shop.object.check(shop.company.id), shop.object.check(shop.company.id)])
    expect(checks).toMatchObject([{ ok: true }, { ok: true }])
    expect((await shop.world.lines()).filter((line) => line.startsWith('POST /oauth2'))).toHaveLength(1)
  })

  it('delivers more orders than fit in one run, the ones that wait longest first', async () => {
    const shop = await Shop.open()
    for (let each = 0; each < 25; each++) await shop.makeOrder()
    expect(await shop.deliver()).toBeNull()
    const numbers = (await shop.invoices()).map((invoice) => Number(invoice.DocNumber))
    expect(numbers).toEqual(Array.from({ length: 25 }, (_, index) => 1_001 + index))
  })
})

describe('the sweep', () => {
  it('starts companies whose call was lost, and no others', async () => {
    const [lost, paused, disabled] = [await Shop.open(), await Shop.open(), await Shop.open()]
    const id = await lost.makeOrder()
    await paused.makeOrder()
    await sql(
      `INSERT INTO accounting_connections (company_id, remote_account, paused_until) VALUES (?, '', ?)`,
      paused.company.id,
      Date.now() + 60_000,
    )
    await disabled.makeOrder()
    await disabled.connect({}, false)
    await runSweep()
    await expect.poll(() => lost.accounting(id)).toMatchObject({ status: 'synced' })
    expect(await paused.world.lines()).toEqual([])
    expect(await disabled.world.lines()).toEqual([])
    // Other tests of this file may have left work of their own companies.
    const { started } = logLines.filter((line) => line.event === 'sweep').at(-1) ?? {}
    expect(started).toBeGreaterThanOrEqual(1)
  })
})

describe('a write', () => {
  it('does not wait for the network while the accounting system is silent', async () => {
    const shop = await Shop.open()
    await shop.world.spoil({ hold: true })
    const token = await mintToken(shop.company.id)
    // The objects run in this isolate, where their own calls would be counted too: they are started later.
    const { started, bindings } = countStarts('ACCOUNTING_DELIVERY', 500)
    const measure = (method: string, path: string, body?: object) =>
      measureHops(request(token, method, path, body), bindings)

    await measure('GET', '/orders')
    const made = await measure('POST', '/orders', { title: 'T', client_id: shop.clientId })
    const order: { project: { id: number } } = await made.response.json()
    const path = `/orders/${order.project.id}`
    const deliveries = shop.deliver()
    const changed = await measure('PATCH', path, { title: 'U' })
    const read = await measure('GET', path)
    const removed = await measure('DELETE', path)
    for (const { response, hops } of [made, changed, removed]) {
      expect(response.status).toBe(200)
      const own = hops.filter((hop) => hop.name !== 'fetch')
      expect(own.map((hop) => hop.name)).toEqual(['RATE_LIMITER.admit', 'DB.batch'])
    }
    expect([made.depth, read.depth]).toEqual([2, 2])
    expect(started).toEqual([shop.company.id, shop.company.id, shop.company.id])
    await shop.world.spoil()
    await deliveries
  })
})

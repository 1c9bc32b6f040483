import { createScheduledController } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import worker from '../../../src/index.ts'
import { SLOW_MS } from '../../../src/kernel/db/client.ts'
import { logGauges } from '../../../src/operation/health/gauges.ts'
import { homeOf, mintCompany, request, send, sql, type TestCompany } from '../../support/app.ts'
import { linesOf, logLines } from '../../support/log.ts'
import { meterBindings } from '../../support/meter.ts'
import { insert, insertEndpoint } from '../../support/rows.ts'
import { moveTime } from '../../support/time.ts'
import { breakCalls, wrapBindings } from '../../support/wrap-bindings.ts'

const NOW = Date.UTC(2026, 10, 22, 12)

const company = await mintCompany()
await addOrder(company)

/** Adds an order to a company with an integration for its events. */
async function addOrder(of: TestCompany): Promise<void> {
  const { id: client_id } = (await of.call('POST', '/clients', { company_name: 'Acme' })).body.client
  await of.call('POST', '/orders', { title: 'T', client_id })
  const integration = { kind: 'accounting_sync', enabled: 1, base_url: 'https://x.example', credentials: '' }
  await insert('integrations', { company_id: of.id, ...integration, updated_at: 0 })
}

async function readGauge(bindings: Env = env): Promise<Record<string, unknown> | undefined> {
  await logGauges(bindings, NOW)
  return logLines.findLast(({ event }) => event === 'gauge')
}

async function addEvents(state: string, count: number, createdAt: number, of = company): Promise<void> {
  await sql(
    `INSERT INTO accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)
     WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     SELECT company_id, id, 'update', ?2, ?3, ?3, ?3 FROM n, (SELECT company_id, id FROM orders WHERE company_id = ?4)`,
    ...[count, state, createdAt, of.id],
  )
}

it('of the other databases is written while the directory fails, in an isolate that has verified the schema', async () => {
  const runWith = (bindings: Env) => worker.scheduled(createScheduledController({ scheduledTime: NOW }), bindings)
  await runWith(env)
  moveTime(31_000)
  const count = () => logLines.filter(({ event }) => event === 'gauge').length
  const before = count()
  await expect(runWith(breakCalls(env, /^DB\./, new Error('D1_ERROR: overloaded')))).rejects.toThrow()
  expect(count()).toBe(before + 1)
})

describe('the gauge line', () => {
  beforeEach(async () => {
    for (const db of [env.DB, env.DB_TWO]) {
      const emptied = ['accounting_outbox', 'webhook_deliveries', 'webhook_endpoints']
      await db.batch(emptied.map((table) => db.prepare(`DELETE FROM ${table}`)))
      await db.prepare('UPDATE companies SET backed_up_at = ?').bind(NOW).run()
    }
  })

  it('has zeros for an idle database, and its size', async () => {
    expect(await readGauge()).toEqual({
      event: 'gauge',
      events_pending: 0,
      events_parked: 0,
      events_dead: 0,
      oldest_pending_seconds: 0,
      webhooks_disabled: 0,
      deliveries_pending: 0,
      companies_near_quota: 0,
      backups_overdue: 0,
      database_bytes: expect.any(Number),
      databases: 2,
    })
    expect(Number((await readGauge())?.database_bytes)).toBeGreaterThan(100_000)
  })

  it('counts what waits, what needs a person, and how long the oldest event waits', async () => {
    await addEvents('dead', 3, NOW - 9_000_000)
    await addEvents('parked', 2, NOW - 9_000_000)
    await addEvents('done', 5, NOW - 9_000_000)
    await addEvents('sent', 1, NOW - 65_000)
    await addEvents('pending', 4, NOW - 1_000)
    await insertEndpoint(company.id, 'we_1', { enabled: 0 })
    await insertEndpoint(company.id, 'we_2')
    const delivery = { endpoint_id: 'we_2', type: 'clients', entity_id: '1', sequence: 1 }
    await insert('webhook_deliveries', { company_id: company.id, ...delivery })
    await sql('UPDATE companies SET backed_up_at = ? WHERE id = ?', NOW - 36 * 3_600_000 - 1, company.id)
    expect(await readGauge()).toMatchObject({
      events_pending: 5,
      events_parked: 2,
      events_dead: 3,
      oldest_pending_seconds: 65,
      webhooks_disabled: 1,
      deliveries_pending: 1,
      companies_near_quota: 0,
      backups_overdue: 1,
    })
  })

  it.each([
    ['a suspended company', 'UPDATE companies SET suspended = 1 WHERE id = ?'],
    ['a paused company', 'UPDATE companies SET deliveries_paused = 1 WHERE id = ?'],
    ['a disabled integration', 'UPDATE integrations SET enabled = 0 WHERE company_id = ?'],
    ['a removed integration', 'DELETE FROM integrations WHERE company_id = ?'],
    [
      'a connection that stopped until the integration changes',
      "INSERT INTO accounting_connections (company_id, remote_account, stopped_for) VALUES (?, '', 0)",
    ],
  ])('counts events of %s, and not how long they wait', async (_, stop) => {
    const other = await mintCompany({ home: homeOf(company.id) })
    await addOrder(other)
    await addEvents('pending', 1, NOW - 9_000_000, other)
    await addEvents('pending', 1, NOW - 65_000)
    expect(await readGauge()).toMatchObject({ events_pending: 2, oldest_pending_seconds: 9_000 })
    await sql(stop, other.id)
    expect(await readGauge()).toMatchObject({ events_pending: 2, oldest_pending_seconds: 65 })
  })

  it('reads a limited number of rows, however much waits', async () => {
    await addEvents('dead', 3, NOW)
    await addEvents('pending', 30_000, NOW)
    const meter = meterBindings(env)
    expect(await readGauge(meter.env)).toMatchObject({ events_pending: 9_997, events_dead: 3 })
    expect(meter.take().rowsRead).toBeLessThan(45_000)
  })

  it('adds up the databases, and says which of them failed', async () => {
    await addEvents('dead', 3, NOW)
    const other = await mintCompany({ home: 'DB_TWO' })
    await addOrder(other)
    await addEvents('dead', 1, 0, other)
    const both = await readGauge()
    expect(await readGauge(breakCalls(env, /^DB\./, new Error('x')))).toMatchObject({ events_dead: 1, databases: 1 })
    expect(both).toMatchObject({ events_dead: 4, databases: 2 })
    expect(logLines).toContainEqual({ event: 'gauge_failed', database: 'DB', error: 'Error' })
  })
})

/** The database reports that every statement took so long. */
function slow(duration: number): Env {
  return wrapBindings(env, async (name, work) => {
    const results = await work()
    if (name !== 'DB.batch' || !Array.isArray(results)) return results
    return results.map((result) => ({ ...result, meta: { ...result.meta, duration } }))
  })
}

it('slow statements are counted by the request, and are none below the limit', async () => {
  const countAt = async (ms: number) => {
    const { headers } = await send(request(company.token, 'GET', '/clients'), { env: slow(ms) })
    return linesOf(headers.get('x-request-id'))[0]?.slow_statements
  }
  expect(await countAt(SLOW_MS)).toBeGreaterThan(0)
  expect(await countAt(SLOW_MS - 1)).toBe(0)
})

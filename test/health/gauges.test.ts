import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { SLOW_MS } from '../../src/db/client.ts'
import type { Env } from '../../src/env.ts'
import { logGauges } from '../../src/health/gauges.ts'
import { countSlow, readSlow } from '../../src/health/slow-statements.ts'
import worker from '../../src/index.ts'
import { migrate, mintCompany, sql, type TestCompany } from '../support/app.ts'
import { logLines } from '../support/log.ts'
import { meterRows } from '../support/meter.ts'

const NOW = Date.UTC(2026, 10, 22, 12)
const PERIOD_MS = 300_000

let company: TestCompany

beforeAll(async () => {
  await migrate()
  company = await mintCompany()
  const { id: client_id } = (await company.call('POST', '/clients', { company_name: 'Acme' })).body.client
  await company.call('POST', '/orders', { title: 'T', client_id })
})

async function gauge(now = NOW): Promise<Record<string, unknown> | undefined> {
  await logGauges(env, now)
  return logLines.findLast(({ event }) => event === 'gauge')
}

async function addEvents(state: string, count: number, createdAt: number): Promise<void> {
  await sql(
    `INSERT INTO accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)
     WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     SELECT company_id, id, 'update', ?2, ?3, ?3, ?3 FROM n, (SELECT company_id, id FROM orders WHERE company_id = ?4)`,
    count,
    state,
    createdAt,
    company.id,
  )
}

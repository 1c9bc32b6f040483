import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { mintCompany, request, send } from '../../support/app.ts'
import { type Call, recordSql } from '../../support/record-sql.ts'

/*
 * Which index the total of a list reads: rows that D1 counts do not tell a covering index from one whose rows are looked up.
 * Statements are caught as they are sent, so that what is explained is what runs.
 */

const company = await mintCompany({ home: 'DB' })

/** The plan of every statement that a request sends, one line a step. */
async function plansOf(path: string): Promise<{ text: string; steps: string[] }[]> {
  const calls: Call[] = []
  const bindings: Env = { ...env, DB: recordSql(env.DB, calls) }
  expect((await send(request(company.token, 'GET', path), { env: bindings })).status).toBe(200)
  const sent = calls.flat()
  expect(sent.length).toBeGreaterThan(0)
  return Promise.all(
    sent.map(async ([text, params]) => {
      const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${text}`)
        .bind(...params)
        .all<{ detail: string }>()
      return { text, steps: results.map(({ detail }) => detail) }
    }),
  )
}

it('a sorted page of orders of several statuses reads these alone', async () => {
  const statuses = [1, 2].map((each) => company.id * 100 + each)
  const plans = await plansOf(`/orders?status=${statuses}&sort=-updated_at`)
  const steps = plans.find(({ text }) => /page_id/.test(text))?.steps.join('\n')
  expect(steps).toContain('orders_of_status (company_id=? AND order_status_id=?)')
  expect(steps).not.toContain('orders_of_status (company_id=?)')
})

describe('the total', () => {
  it.each([
    [`/orders?status=${company.id * 100 + 1}`, 'orders_of_status (company_id=? AND order_status_id=?)'],
    [`/orders?status=${company.id * 100 + 1},2`, 'orders_of_status (company_id=? AND order_status_id=?)'],
    ['/orders?client_id=1', 'orders_of_client (company_id=? AND client_id=?)'],
    ['/orders?from=2026-01-01', 'orders_live (company_id=? AND created_date>?)'],
    ['/clients?updated_since=2026-01-01T00:00:00Z', 'clients_live_updated (company_id=? AND updated_at>?)'],
    ['/clients?deleted=only', 'clients_deleted (company_id=?)'],
  ])('of %s reads an index alone', async (path, step) => {
    const totals = (await plansOf(path)).filter(({ text }) => /count\(\*\) FROM (clients|orders) /.test(text))
    expect(totals).toHaveLength(1)
    expect(totals[0]?.steps.join('\n')).toContain(`USING COVERING INDEX ${step}`)
  })

  it('of a search of clients reads the full-text index alone', async () => {
    for (const q of ['a', 'ab', 'abc', '5550100']) {
      const totals = (await plansOf(`/clients?q=${q}`)).filter(({ text }) => /count\(\*\)/.test(text))
      expect(totals).toHaveLength(1)
      expect(totals[0]?.steps.filter((step) => /\bclients\b/.test(step))).toEqual([])
    }
  })
})

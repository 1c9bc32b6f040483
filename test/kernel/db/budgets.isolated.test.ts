import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { mintToken, request, send, sql, type TestCompany } from '../../support/app.ts'
import { expectConforms } from '../../support/conformance.ts'
import { contracts, exampleOf } from '../../support/endpoints.ts'
import { fillCompany, ROWS } from '../../support/fill-company.ts'
import { measureHops } from '../../support/hops.ts'
import { meterBindings } from '../../support/meter.ts'
import { BUDGETS, type Budget, defaultBudget, dollarsPerMillion, formatBudgets } from './budgets.ts'

/*
 * What every request reads and writes at most, as D1 counts it, and its waits for the network, one behind the other.
 * What the objects do later, such as deliveries to accounting systems, is no part of a request.
 */
const quiet = { idFromName: () => ({}), get: () => ({ start: async () => undefined }) }
const meter = meterBindings(Object.assign({}, env, { ACCOUNTING_DELIVERY: quiet }) as Env)
const companies = [await fillCompany(), await fillCompany()]

/** Sends a request, and returns its cost, and its waits behind the call of the token's object. */
async function measure(token: string, { operation, path, body, status = [200] }: Budget) {
  const [before, page] = path.split('cursor=after:')
  const from = page && (await send(request(token, 'GET', `${before}page=${page}`), { env: meter.env }))
  const sent = from ? `${before}cursor=${from.body.pagination.next_cursor}` : path
  meter.take()
  const method = contracts.find(({ operationId }) => operationId === operation)?.method ?? ''
  const made = request(token, method, sent, body)
  const { response, hops } = await measureHops(made, meter.env)
  await expectConforms(made, response)
  expect(response.status, await response.text()).toBeOneOf([...status])
  const [first, ...waits] = hops.map(({ name, depth }) => `${depth} ${name}`)
  expect(first).toBe('1 RATE_LIMITER.admit')
  return { used: meter.take(), waits: waits.sort() }
}

/** The tables that hold a company's rows, but for those that cannot have many of one company. */
function tablesOfRows(): Promise<{ name: string }[]> {
  return sql(
    `SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%company_id%' AND sql NOT LIKE 'CREATE VIRTUAL%'
       AND name NOT IN ('integrations', 'accounting_connections', 'company_guards', 'moves')`,
  )
}

const budgeted = new Set(BUDGETS.map(({ operation }) => operation))
const ALL = [
  ...BUDGETS,
  ...contracts.filter((each) => !budgeted.has(each.operationId)).map((each) => defaultBudget(each, exampleOf(each))),
]

describe('the budget of a request', () => {
  it('belongs to an operation of the API', () => {
    expect(contracts.map(({ operationId }) => operationId)).toEqual(expect.arrayContaining([...budgeted]))
  })

  it('includes the price of a million requests', () => {
    const read = { rowsRead: 1_000, rowsWritten: 0, objectCalls: 0, cacheReads: 0, cacheWrites: 0 }
    expect(dollarsPerMillion(read)).toBeCloseTo(1.3)
    expect(dollarsPerMillion({ ...read, rowsRead: 0, rowsWritten: 2, objectCalls: 1 })).toBeCloseTo(2.45)
    expect(dollarsPerMillion({ ...read, rowsRead: 0, cacheReads: 1, cacheWrites: 1 })).toBeCloseTo(5.8)
    const successful = BUDGETS.filter(({ status }) => !status || status.includes(200))
    for (const { operation } of successful) expect(formatBudgets()).toContain(`\n| ${operation} |`)
  })
})

/** Checks that every table has rows of the company, and that only with statistics SQLite has some of them. */
async function expectFilled(company: TestCompany, hasStatistics: boolean): Promise<void> {
  const tables = await tablesOfRows()
  expect(tables.length).toBeGreaterThan(15)
  for (const { name } of tables) {
    const [count] = await sql<{ n: number }>(`SELECT count(*) AS n FROM ${name} WHERE company_id = ?`, company.id)
    expect(count?.n, name).toBeGreaterThanOrEqual(ROWS)
  }
  const known = await sql<{ tbl: string }>('SELECT DISTINCT tbl FROM sqlite_stat1')
  const ofRows = known.filter(({ tbl }) => tables.some(({ name }) => name === tbl))
  if (hasStatistics) expect(ofRows.length).toBeGreaterThan(5)
  else expect(ofRows).toEqual([])
}

// One test, as requests that write are measured after those that read, and statistics are not unlearned.
it('of no request is exceeded with 5,000 rows in every table, first without statistics, then with them', async () => {
  const exceeded: unknown[] = []
  for (const [index, company] of companies.entries()) {
    const hasStatistics = index === 1
    if (hasStatistics) await env.DB.prepare('PRAGMA optimize').run()
    await expectFilled(company, hasStatistics)
    let token = ''
    for (const [at, budget] of ALL.entries()) {
      // One may not send all of them in a minute.
      if (at % 50 === 0) token = await mintToken(company.id)
      const { used, waits } = await measure(token, budget)
      const isOver = Object.entries(used).some(([kind, count]) => count > budget[kind as keyof typeof used])
      if (isOver || waits.join() !== budget.waits.join()) {
        exceeded.push([budget.operation, budget.name, hasStatistics, used, waits])
      }
    }
  }
  expect(exceeded).toEqual([])
}, 300_000)

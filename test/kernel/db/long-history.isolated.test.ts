import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { loadRound, saveRound } from '../../../src/delivery/webhooks/queries.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import type { AdminContext } from '../../../src/operation/admin/context.ts'
import { listEvents } from '../../../src/operation/admin/integrations/queries.ts'
import { findAccess } from '../../../src/operation/admin/queries.ts'
import { findToken } from '../../../src/operation/admin/tokens/queries.ts'
import { deleteEndpoint, findEndpoint } from '../../../src/operation/admin/webhooks/queries.ts'
import { removeSome } from '../../../src/operation/copies/restore-queries.ts'
import { removeRows } from '../../../src/operation/copies/write-queries.ts'
import { mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { meterBindings } from '../../support/meter.ts'
import { type Call, recordSql } from '../../support/record-sql.ts'
import { insert } from '../../support/rows.ts'

/*
 * The rows that background work and administration read, where a table has many that they do not need: of other companies,
 * of the past, or waiting. SQLite has no statistics of them.
 */

const NOW = Date.UTC(2026, 10, 22, 12)
/** Far more than any of these reads. */
const MANY = 3_000
const FEW = 300
const ID = 'we_0123456789abcdef01'

const { env: metered, take } = meterBindings(env)
const db = openDatabase(metered.DB)

/** Counts the rows that some work reads. */
async function readsOf(work: () => Promise<unknown>): Promise<number> {
  take()
  await work()
  return take().rowsRead
}

function contextOf({ id: companyId }: { id: number }): AdminContext {
  const by = { caller: { actor: 'operator', isOperator: true }, requestId: 'r', address: '192.0.2.1', now: NOW }
  return { ...by, env: metered, companyId, db, directory: db, database: 'DB' } as unknown as AdminContext
}

/** Adds many rows, in which `i` counts from 1. @param columns of the table, and what is selected for them */
function addMany(companyId: number, columns: string) {
  const numbers = `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${MANY})`
  return sql(`${numbers} INSERT INTO ${columns} FROM n`, companyId)
}

async function addOrders({ id: company_id }: TestCompany): Promise<void> {
  const times = { company_id, created_at: 0, updated_at: 0 }
  await insert('clients', { ...times, id: 1, company_name: 'Acme', company_name_key: 'ACME' })
  for (const id of [1, 2, 3, 4, 5]) {
    await insert('orders', { ...times, id, title: 'Shirts', client_id: 1, created_date: '2026-01-31' })
  }
}

const EVENTS = 'accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)'

describe('an endpoint with many changes that wait behind a failed one', () => {
  const DELIVERIES =
    'webhook_deliveries (company_id, endpoint_id, type, entity_id, sequence, attempts, next_attempt_at)'

  /** A company whose endpoint has two failed changes, one of them due. */
  async function mintWaiting(): Promise<TestCompany> {
    await mintCompany({ home: 'DB' })
    const company = await mintCompany({ home: 'DB' })
    const of = { company_id: company.id, id: ID, url: 'https://x.example', secret: 's', event_types: '[]', position: 0 }
    await insert('webhook_endpoints', { ...of, created_at: 0, updated_at: 0 })
    const nextAt = `iif(i = 1, ${NOW - 1}, iif(i = 2, ${NOW + 1}, NULL))`
    await addMany(company.id, `${DELIVERIES} SELECT ?1, '${ID}', 'orders', i % 2, i, i <= 2, ${nextAt}`)
    return company
  }

  it('loads and stores a round by those that are due', async () => {
    const company = await mintWaiting()
    const context = contextOf(company)
    const read = await readsOf(async () => {
      const round = await loadRound(context, ID, NOW)
      expect(round?.due.map(({ sequence }) => sequence)).toEqual([1, 3, 5, 7])
      if (!round) throw new Error('There is no endpoint.')
      const kept = { kept: [], progress: { position: 0 }, initial_failures: null, disabledReason: null }
      await saveRound(context, round.endpoint, { done: round.due, released: round.due, ...kept }, NOW)
    })
    expect(read).toBeLessThan(FEW)
    const next = await sql(
      'SELECT min(sequence) AS first FROM webhook_deliveries WHERE company_id = ? AND next_attempt_at = ?',
      company.id,
      NOW,
    )
    expect(next).toEqual([{ first: 9 }])
  })

  it('is shown with 1,000 of them', async () => {
    const context = contextOf(await mintWaiting())
    expect(
      await readsOf(async () => expect(await findEndpoint(context, ID)).toMatchObject({ waiting: 1_000 })),
    ).toBeLessThan(4_000)
  })

  it('is deleted with them, some at a time', async () => {
    const company = await mintWaiting()
    const calls: Call[] = []
    await deleteEndpoint({ ...contextOf(company), db: openDatabase(recordSql(env.DB, calls)) }, ID)
    expect(calls.flat().filter(([text]) => text.startsWith('DELETE FROM "webhook_deliveries"'))).toHaveLength(2)
    expect(await sql('SELECT id FROM webhook_endpoints WHERE company_id = ?', company.id)).toEqual([])
  })

  it('loses them some at a time when its company’s feed begins again', async () => {
    const [other, company] = [await mintWaiting(), await mintWaiting()]
    const left = () =>
      sql(
        'SELECT company_id, count(*) AS n FROM webhook_deliveries WHERE company_id IN (?, ?) GROUP BY 1',
        other.id,
        company.id,
      )
    expect(await removeSome(contextOf(company), 'webhook_deliveries')).toBe(false)
    expect(await left()).toEqual([
      { company_id: other.id, n: MANY },
      { company_id: company.id, n: MANY - 2_000 },
    ])
    expect(await removeSome(contextOf(company), 'webhook_deliveries')).toBe(true)
    expect(await left()).toEqual([{ company_id: other.id, n: MANY }])
  })
})

describe('with many delivered events of another company', () => {
  async function mintBoth() {
    const [other, company] = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB' })]
    for (const each of [other, company]) await addOrders(each)
    await addMany(other.id, `${EVENTS} SELECT ?1, 1, 'update', 'done', 0, 0, ${NOW}`)
    await sql(`INSERT INTO ${EVENTS} VALUES (?, 5, 'update', 'dead', 0, 0, 0)`, company.id)
    return company
  }

  it('a company that has moved is removed by its own rows', async () => {
    const company = await mintBoth()
    await insert('company_guards', { company_id: company.id, state: 'moved', destination: 'DB_TWO', slot: 0 })
    const of = { database: 'DB', isCopy: false }
    const read = await readsOf(async () => {
      for (let step: number | null = 0; step !== null; ) step = await removeRows(contextOf(company), { ...of, step })
    })
    expect(read).toBeLessThan(2 * FEW)
    expect(await sql('SELECT id FROM orders WHERE company_id = ?', company.id)).toEqual([])
    await sql('DELETE FROM company_guards')
  })

  it('the events of all companies are listed by those that are not delivered', async () => {
    const company = await mintBoth()
    const page = { query: { company_id: 0, state: 'dead', per_page: 100 }, after: [], limit: 101 }
    const read = await readsOf(async () => {
      const events = await listEvents(contextOf({ id: 0 }), page)
      expect(events.map(({ company_id }) => company_id)).toContain(company.id)
    })
    expect(read).toBeLessThan(FEW)
  })
})

it('a person is found in one of many companies by two rows', async () => {
  const { id } = await mintCompany({ home: 'DB' })
  await addMany(
    id,
    `companies (id, slot, name, database, database_slot, created_at, updated_at)
     SELECT 7000000 + i, 1023, ?1, 'DB_' || i, i % 1024, 0, 0`,
  )
  await sql(
    `INSERT INTO members (company_id, email, role, created_at)
     SELECT id, 'staff@x.example', 'developer', 0 FROM companies WHERE id >= 7000000 OR id = ?`,
    id,
  )
  const read = await readsOf(async () => {
    const access = await findAccess(contextOf({ id }), 'staff@x.example')
    expect(access).toEqual({ isMember: true, ownRole: 'developer', database: 'DB' })
  })
  expect(read).toBeLessThan(10)
})

it('the rotation of a token is found by the times of later tokens, not in the whole log', async () => {
  await mintCompany({ home: 'DB' })
  const company = await mintCompany({ home: 'DB' })
  const entry = "'operator', 'members.put', 'x', '192.0.2.1', 'r'"
  await addMany(
    company.id,
    `admin_log (company_id, actor, action, entity_id, address, request_id, at) SELECT ?1, ${entry}, i`,
  )
  const [token] = await sql<{ id: number }>('SELECT id FROM api_tokens WHERE company_id = ?', company.id)
  const read = await readsOf(async () => {
    expect(await findToken(contextOf(company), token?.id ?? 0)).toMatchObject({ isRotated: false })
  })
  expect(read).toBeLessThan(FEW)
})

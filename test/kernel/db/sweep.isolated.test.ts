import { createScheduledController } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, describe, expect, it, vi } from 'vitest'
import worker from '../../../src/index.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { listDueCompanies, listWebhookCompanies, removeExpiredRows, sweepRows } from '../../../src/kernel/db/sweep.ts'
import { mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { meterBindings } from '../../support/meter.ts'
import { insert } from '../../support/rows.ts'

afterEach(() => sql('DELETE FROM company_guards'))

const DAY_MS = 86_400_000
const NOW = Date.UTC(2026, 10, 22, 12)

/** A database that always has more to remove, and counts the statements. @param during is called with each batch */
function endlessDatabase(during?: () => void) {
  const statements: string[] = []
  const binding = {
    prepare: (text: string) => {
      const run = () => {
        statements.push(text)
        return { results: [], meta: { changes: 3_000 } }
      }
      const statement = { bind: () => statement, run: async () => run(), now: run }
      return statement
    },
    batch: async (batch: { now: () => object }[]) => {
      during?.()
      return batch.map((each) => each.now())
    },
    withSession: () => binding,
    getBookmark: () => null,
  }
  return { binding: binding as unknown as D1Database, statements }
}

/** Gives a company an old entry of the audit log. */
const addEntry = (company_id: number, id = 1) =>
  insert('audit_log', { company_id, id, token_id: 1, request_id: 'r', action: 'x', entity_id: '1', at: 0 })

const entriesOf = (companyId: number) => sql('SELECT id FROM audit_log WHERE company_id = ?', companyId)

/** Adds rows of a company, in which `i` counts from 1. @param columns of the table, and what is selected for them */
function addRows(companyId: number, rows: number, columns: string) {
  const numbers = 'WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2)'
  return sql(`${numbers} INSERT INTO ${columns} FROM n`, companyId, rows)
}
/** What is inserted into the audit log at a time. */
const entriesAt = (at: string) =>
  `audit_log (company_id, id, token_id, request_id, action, entity_id, at) SELECT ?1, i, 1, 'r', 'x', i, ${at}`

/** Gives a company the order 1. */
async function addOrder(companyId: number): Promise<void> {
  const key = { company_id: companyId, id: 1, created_at: 0, updated_at: 0 }
  await insert('clients', { ...key, company_name: 'Acme', company_name_key: 'ACME' })
  await insert('orders', { ...key, title: 'Shirts', client_id: 1, created_date: '2026-01-31' })
}

describe('the removal of old rows', () => {
  it('removes more than the limits admit between two sweeps, and leaves newer rows', async () => {
    const { id } = await mintCompany()
    // What 10 tokens write in 5 minutes with 300 requests a minute each.
    const written = 10 * 5 * 300
    await addRows(id, written + 10, entriesAt(`${NOW - 90 * DAY_MS - 1} + (i > ?2 - 10)`))
    await removeExpiredRows(openDatabase(env.DB), NOW)
    expect(await entriesOf(id)).toHaveLength(10)
  })

  it('removes a company’s whole audit log without assigning its ids again', async () => {
    const company = await mintCompany()
    for (const id of [6, 7]) await addEntry(company.id, id)
    await removeExpiredRows(openDatabase(env.DB), NOW)
    await company.call('POST', '/clients', { company_name: 'New' })
    const left = await sql('SELECT id, action FROM audit_log WHERE company_id = ?', company.id)
    expect(left).toEqual([{ id: 8, action: 'client.create' }])
  })

  it('leaves accounting events that are not delivered, and those that were in the last 7 days', async () => {
    const { id } = await mintCompany()
    await addOrder(id)
    const [kept, old] = [NOW - 7 * DAY_MS, NOW - 7 * DAY_MS - 1]
    const events = [['done', kept], ...['done', 'pending', 'sent', 'parked', 'dead'].map((state) => [state, old])]
    await sql(
      `INSERT INTO accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)
       SELECT ?1, 1, 'update', value ->> 0, 0, 0, value ->> 1 FROM json_each(?2)`,
      ...[id, JSON.stringify(events)],
    )
    await removeExpiredRows(openDatabase(env.DB), NOW)
    const left = await sql('SELECT state, updated_at AS at FROM accounting_outbox WHERE company_id = ? ORDER BY id', id)
    expect(left.map(({ state, at }) => [state, at])).toEqual(events.toSpliced(1, 1))
  })

  it('removes tokens that ended 400 days ago, of every company, and leaves those that have not ended', async () => {
    const [other, { id }] = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB' })]
    await sql('DELETE FROM api_tokens WHERE company_id = ?', id)
    const [kept, old] = [NOW - 400 * DAY_MS, NOW - 400 * DAY_MS - 1]
    const addTokens = (of: number, ends: (number | null)[][]) =>
      sql(
        `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at, revoked_at, expires_at)
         SELECT ?1, ?1 || '-' || key, key, '[]', 0, value ->> 0, value ->> 1 FROM json_each(?2)`,
        ...[of, JSON.stringify(ends)],
      )
    await addTokens(other.id, [[old, null]])
    await addTokens(id, [
      [null, null],
      [kept, null],
      [null, kept],
      [null, old],
      [old, null],
      [old, NOW],
      [kept, old],
    ])
    await removeExpiredRows(openDatabase(env.DB), NOW)
    const namesOf = async (of: number) =>
      (await sql('SELECT name FROM api_tokens WHERE company_id = ? ORDER BY id', of)).map(({ name }) => name)
    expect(await namesOf(id)).toEqual(['0', '1', '2'])
    expect(await namesOf(other.id)).not.toContain('0')
  })

  /** Gives a company so many idempotent results and delivered accounting events, which have expired. */
  async function expire({ id }: TestCompany, rows: number): Promise<void> {
    await addOrder(id)
    const results = 'idempotency_keys (company_id, token_id, key, fingerprint, result, created_at)'
    const events = 'accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)'
    await addRows(id, rows, `${results} SELECT ?1, 1, i, 'f', '[]', 0`)
    await addRows(id, rows, `${events} SELECT ?1, 1, 'update', 'done', 0, 0, 0`)
  }

  async function expiredOf({ id }: TestCompany) {
    const count = (table: string) => `(SELECT count(*) FROM ${table} WHERE company_id = ?1)`
    return Object.values((await sql(`SELECT ${count('idempotency_keys')}, ${count('accounting_outbox')}`, id))[0] ?? {})
  }

  it.each(['read_only', 'moved', 'writable'])(
    'is not held up by more rows than a statement removes of a company that is %s',
    async (state) => {
      const [moving, behind] = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB' })]
      await expire(moving, 3_100)
      await expire(behind, 5)
      const guard = { company_id: moving.id, state, destination: 'DB_TWO', slot: 0, read_only_at: NOW }
      await insert('company_guards', guard)
      await removeExpiredRows(openDatabase(env.DB), NOW)
      expect(await expiredOf(behind)).toEqual([0, 0])
      expect(await expiredOf(moving)).toEqual([3_100, 3_100])
      await sql('DELETE FROM company_guards')
      await removeExpiredRows(openDatabase(env.DB), NOW)
      expect(await expiredOf(moving)).toEqual([0, 0])
    },
  )

  it('reads few rows of a company that has none to remove, where SQLite has no statistics', async () => {
    const addBoth = async (companyId: number, rows: number, at: number) => {
      const feed = 'changes (company_id, sequence, type, entity_id, operation, version, at)'
      await addRows(companyId, rows, entriesAt(`${at}`))
      await addRows(companyId, rows, `${feed} SELECT ?1, i, 'clients', i, 'update', 1, ${at}`)
    }
    const measure = async () => {
      await removeExpiredRows(openDatabase(env.DB), NOW)
      const { id } = await mintCompany({ home: 'DB' })
      await addBoth(id, 5, 0)
      const { env: metered, take } = meterBindings(env)
      await removeExpiredRows(openDatabase(metered.DB), NOW)
      expect(await entriesOf(id)).toEqual([])
      expect(await sql('SELECT sequence FROM changes WHERE company_id = ?', id)).toEqual([])
      return take().rowsRead
    }
    const alone = await measure()
    await addBoth((await mintCompany({ home: 'DB' })).id, 5_000, NOW)
    expect(await sql("SELECT tbl FROM sqlite_stat1 WHERE tbl IN ('audit_log', 'changes')")).toEqual([])
    expect((await measure()) - alone).toBeLessThan(50)
  })

  it('is bounded in statements, and removes in one sweep what 200 tokens may write until the next', async () => {
    const { binding, statements } = endlessDatabase()
    await removeExpiredRows(openDatabase(binding), NOW)
    const ofAudit = statements.filter((text) => text.includes('delete from "audit_log"'))
    expect(ofAudit.length * 3_000).toBeGreaterThanOrEqual(200 * 5 * 300)
    // D1 accepts at most 1,000 statements from one invocation.
    expect(statements.length).toBeLessThan(1_000)
    for (const table of ['accounting_outbox', 'changes', 'idempotency_keys']) {
      expect(statements.filter((text) => text.includes(`delete from "${table}"`))).toHaveLength(ofAudit.length)
    }
  })

  it('is bounded in statements and time over all databases', async () => {
    const run = async (during?: () => void) => {
      const databases = [endlessDatabase(during), endlessDatabase(during)] as const
      const [DB, DB_TWO] = databases.map(({ binding }) => binding)
      await sweepRows(Object.assign({}, env, { DB, DB_TWO }), NOW)
      return databases.flatMap(({ statements }) => statements).length
    }
    expect(await run()).toBeLessThan(1_000)
    vi.useFakeTimers({ toFake: ['Date'], now: NOW })
    expect(await run(() => vi.setSystemTime(Date.now() + 5_000))).toBeLessThan(40)
  })

  it('of a database does not always wait for another one, which has more than a sweep removes', async () => {
    const { id } = await mintCompany({ home: 'DB_TWO' })
    await addEntry(id)
    const bindings = Object.assign({}, env, { DB: endlessDatabase().binding })
    for (let sweeps = 0; sweeps < 50 && (await entriesOf(id)).length > 0; sweeps++) await sweepRows(bindings, NOW)
    expect(await entriesOf(id)).toEqual([])
  })

  it('begins after due backups are started', async () => {
    const { id } = await mintCompany({ home: 'DB' })
    await addEntry(id)
    const found: unknown[] = []
    const start = async () => found.push(await entriesOf(id))
    const COMPANY_BACKUP = { idFromName: String, get: () => ({ start }) }
    const bindings = Object.assign({}, env, { COMPANY_BACKUP })
    await worker.scheduled(createScheduledController({ scheduledTime: NOW }), bindings)
    expect([found[0], await entriesOf(id)]).toEqual([[{ id: 1 }], []])
  })
})

it('some due companies of a database are started at once, in any order, so that all are by and by', async () => {
  const companies = "FROM companies WHERE name = 'due'"
  const key = 'company_id, id, created_at, updated_at'
  for (const text of [
    `companies (id, slot, name, last_change, created_at, updated_at)
     WITH RECURSIVE n (i) AS (VALUES (500) UNION ALL SELECT i + 1 FROM n WHERE i < 799)
     SELECT 5000000 + i, i, 'due', 1, 0, 0 FROM n`,
    `clients (${key}, company_name, company_name_key) SELECT id, 1, 0, 0, 'x', 'X' ${companies}`,
    `orders (${key}, title, client_id, created_date) SELECT id, 1, 0, 0, 'x', 1, '2026-01-31' ${companies}`,
    `accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)
     SELECT id, 1, 'update', 'pending', 0, 0, 0 ${companies}`,
    `integrations (company_id, kind, enabled, base_url, credentials, updated_at)
     SELECT id, 'accounting_sync', 1, 'https://x.example', 'x', 0 ${companies}`,
    `webhook_endpoints (company_id, id, url, secret, event_types, position, created_at, updated_at)
     SELECT id, 'we_' || id, 'https://x.example/', 's', '[]', 0, 0, 0 ${companies}`,
  ]) {
    await sql(`INSERT INTO ${text}`)
  }
  const db = openDatabase(env.DB)
  for (const list of [listDueCompanies, listWebhookCompanies]) {
    const [first, second] = [await list(db, NOW), await list(db, NOW)]
    // An invocation makes at most 1,000 calls, of which backups need some too.
    expect([new Set(first).size, first.length]).toEqual([100, 100])
    expect(second.toSorted()).not.toEqual(first.toSorted())
  }
  await sql("UPDATE companies SET suspended = 1 WHERE name = 'due'")
})

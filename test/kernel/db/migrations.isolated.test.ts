import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { mintCompany, sql, sqlIn } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'

/** A migration that does one of these on purpose says so in a comment: `-- reviewed: …`. */
const DANGERS: [string, RegExp][] = [
  ['a table rebuilt by drizzle-kit deletes the rows that hang on it, and its triggers', /__new_/i],
  ['a cascade deletes what no one looked at', /ON\s+DELETE\s+(CASCADE|SET)/i],
  ['a dropped table is gone', /DROP\s+TABLE/i],
  ['a dropped trigger leaves its index or count to go stale', /DROP\s+TRIGGER/i],
  ['rows are deleted', /^\s*DELETE\s+FROM/im],
  ['D1 ignores it, so what relies on it fails', /PRAGMA\s+foreign_keys/i],
]
const REVIEWED = /^--\s*reviewed:/im

function dangersOf(queries: readonly string[]): string[] {
  if (queries.some((query) => REVIEWED.test(query))) return []
  // Triggers delete from full-text tables: that is what they are for.
  const plain = queries.map((query) => query.replaceAll(/CREATE TRIGGER.*?END;?/gis, ''))
  return DANGERS.filter(([, pattern]) => plain.some((query) => pattern.test(query))).map(([danger]) => danger)
}

const MIGRATIONS = env.TEST_MIGRATIONS.map(({ name, queries }): [string, string[]] => [name, queries])

describe('a migration', () => {
  it.each(MIGRATIONS)('%s does nothing dangerous unreviewed', (_, queries) => {
    expect(dangersOf(queries)).toEqual([])
  })

  it.each([
    ['CREATE TABLE `__new_clients` (id integer)'],
    ['CREATE TABLE a (b integer REFERENCES c(d) ON UPDATE no action ON DELETE cascade)'],
    ['DROP TABLE clients;'],
    ['drop trigger clients_insert'],
    ['DELETE FROM clients'],
    ['PRAGMA foreign_keys=OFF;'],
  ])('is found out when it says: %s', (query) => {
    expect(dangersOf([query])).toHaveLength(1)
    expect(dangersOf([`-- reviewed: children are kept aside\n${query}`])).toEqual([])
  })

  it.each(MIGRATIONS)('%s writes triggers as the remote splitter needs them', (_, queries) => {
    for (const query of queries.filter((each) => /CREATE TRIGGER/i.test(each))) {
      expect(query).toMatch(/\bBEGIN\b.*\bEND;?\s*$/s)
      expect(query).not.toMatch(/\bCASE\b/i)
      expect(query).not.toContain('\r')
    }
  })
})

describe('the schema', () => {
  it('lets no row refer into another company', async () => {
    const [{ id: company_id }, other] = [await mintCompany(), await mintCompany()]
    const times = { created_at: 0, updated_at: 0 }
    await insert('clients', { company_id, id: 10, company_name: 'a', company_name_key: 'A', ...times }, 'DB')
    const order = (company_id: number) =>
      insert('orders', { company_id, id: 1, title: 't', client_id: 10, created_date: '2026-01-01', ...times }, 'DB')
    await order(company_id)
    await expect(order(other.id)).rejects.toThrow(/FOREIGN KEY/)
    await expect(sqlIn('DB', 'DELETE FROM clients WHERE company_id = ?', company_id)).rejects.toThrow(/FOREIGN KEY/)
  })

  it('has the company first in the key of every table that holds rows of companies', async () => {
    const tables = await sql<{ name: string; sql: string }>(
      `SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%company_id%'`,
    )
    const others = tables.filter(({ sql }) => !/PRIMARY KEY\(`company_id`|`company_id` integer PRIMARY KEY/.test(sql))
    // These have a key of their own, and an index that begins with the company.
    const indexes = "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%(`company_id`%' AND tbl_name = ?"
    for (const { name } of others) expect(await sql(indexes, name), name).not.toEqual([])
    expect(others.length).toBeLessThan(tables.length / 2)
  })
})

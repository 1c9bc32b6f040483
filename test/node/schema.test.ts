import { execFileSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from './cli-support.ts'

/** WITHOUT ROWID, written into the migration by hand. */
const CLUSTERED = [
  'accounting_links',
  'audit_log',
  'changes',
  'clients',
  'imports',
  'integrations',
  'invoices',
  'members',
  'order_statuses',
  'orders',
  'payments',
  'taxes',
  'thread_context_links',
  'webhook_deliveries',
  'webhook_endpoints',
]

/*
 * drizzle-kit generates a migration from the difference between the schema and its newest snapshot, under the number after
 * its journal's last one. So both must know every migration, those that are written by hand, too.
 */
const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, 'drizzle', path), 'utf8')
const files = readdirSync(join(ROOT, 'drizzle')).filter((name) => name.endsWith('.sql'))

describe('the journal of the migrations', () => {
  const { entries }: { entries: { idx: number; tag: string; when: number }[] } = JSON.parse(read('meta/_journal.json'))

  it('has an entry for every file, and a file for every entry, in their order', () => {
    expect(entries.map(({ tag }) => `${tag}.sql`)).toEqual(files.sort())
    expect(entries.map(({ idx, tag }) => [idx, Number(tag.slice(0, 4))])).toEqual(files.map((_, at) => [at, at]))
    const times = entries.map(({ when }) => when)
    expect(times).toEqual([...times].sort((a, b) => a - b))
  })

  it('has a snapshot for every entry, each of which follows the one before', () => {
    const snapshots = entries.map(({ tag }) => JSON.parse(read(`meta/${tag.slice(0, 4)}_snapshot.json`)))
    expect(readdirSync(join(ROOT, 'drizzle/meta'))).toHaveLength(entries.length + 1)
    for (const [at, { prevId }] of snapshots.entries()) if (at > 0) expect(prevId).toBe(snapshots[at - 1].id)
    expect(new Set(snapshots.map(({ id }) => id)).size).toBe(entries.length)
  })
})

describe('the schema in TypeScript', () => {
  it('is that of the migrations: tables, columns, indexes and references', () => {
    const migrated = new DatabaseSync(':memory:')
    for (const file of files) {
      for (const statement of read(file).split('--> statement-breakpoint')) migrated.exec(statement)
    }
    const written = new DatabaseSync(':memory:')
    const args = ['export', '--dialect', 'sqlite', '--schema', 'src/kernel/db/schema.ts']
    written.exec(execFileSync(join(ROOT, 'node_modules/.bin/drizzle-kit'), args, { cwd: ROOT, encoding: 'utf8' }))
    const tables = describeTables(written)
    expect(Object.keys(tables).length).toBeGreaterThan(25)
    expect(describeTables(migrated)).toEqual(tables)
  })
})

it('keeps the tables of small rows under their key, which drizzle-kit cannot say', () => {
  const sql = files.map(read).join('\n')
  const created = Array.from(sql.matchAll(/CREATE TABLE `(\w+)` \(.*?\n\)( WITHOUT ROWID)?;/gs))
  const clustered = created.flatMap(([, name = '', option]) => (option ? [name] : []))
  expect(clustered.sort()).toEqual(CLUSTERED)
})

it('keeps the long texts of a thread behind the columns that its list filters by', () => {
  const [, columns = ''] = /CREATE TABLE `email_threads` \((.*?)\n\);/s.exec(files.map(read).join('\n')) ?? []
  const names = Array.from(columns.matchAll(/^\t`(\w+)`/gm), ([, name]) => name)
  expect(names.slice(-5)).toEqual(['mail_thread_id', 'subject', 'snippet', 'mail_history_id', 'content'])
})

it('leaves the next migration nothing to add', async () => {
  const copy = await temporaryFolder()
  cpSync(join(ROOT, 'drizzle'), copy, { recursive: true })
  const args = ['generate', '--dialect', 'sqlite', '--schema', 'src/kernel/db/schema.ts', '--out', relative(ROOT, copy)]
  const output = execFileSync(join(ROOT, 'node_modules/.bin/drizzle-kit'), args, { cwd: ROOT, encoding: 'utf8' })
  expect(output).toContain('No schema changes')
})

/** By table, but for those of full-text search: what SQLite says of its columns, indexes and references. */
function describeTables(db: DatabaseSync): Record<string, unknown> {
  const all = (sql: string, ...params: string[]) => db.prepare(sql).all(...params)
  const names = all(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '%\\_fts%' ESCAPE '\\' ORDER BY name",
  ).map(({ name }) => String(name))
  const plain = (value: unknown) => String(value ?? '').replaceAll(/[`"\s]|\b\w+\."?(?=\w+"? )/g, '')
  return Object.fromEntries(
    names.map((name) => {
      const columns = all(
        'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?) ORDER BY name',
        name,
      )
      const indexes = all(
        'SELECT l.name, l."unique", l.partial, group_concat(i.name) AS columns FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i WHERE l.origin = \'c\' GROUP BY l.name ORDER BY l.name',
        name,
      )
      const conditions = all(
        "SELECT name, substr(sql, instr(sql, ' WHERE ')) AS condition FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND instr(sql, ' WHERE ') ORDER BY name",
        name,
      ).map((row) => [row.name, plain(row.condition)])
      const references = all(
        'SELECT "from", "table", "to", on_delete FROM pragma_foreign_key_list(?) ORDER BY 1, 2, 3',
        name,
      )
      return [name, { columns, indexes, conditions, references }]
    }),
  )
}

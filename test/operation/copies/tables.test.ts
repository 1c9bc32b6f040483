import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import {
  BackupError,
  listBackups,
  openPartWriter,
  readManifest,
  readPart,
} from '../../../src/operation/copies/store.ts'
import {
  DIRECTORY_TABLES,
  FULL_TEXT,
  MOVED,
  ONLY_MOVED,
  REMOVED,
  TABLES,
  UNITS,
} from '../../../src/operation/copies/tables.ts'
import { sql } from '../../support/app.ts'
import { TABLE_NAMES } from '../../support/tables.ts'

/** Tables that neither a backup nor a move copies like others, with the reason. */
const NOT_COPIED = {
  companies: 'A manifest has the row, and the end of a move copies it. Triggers count, last ids are raised.',
  thread_context_links: 'Written by triggers.',
  company_guards: 'Of a move under way.',
  moves: 'Of a move under way.',
}

const withParts = MOVED.flatMap((plan) => [plan, ...plan.children])
const ofMoves = ['companies', 'moves', 'company_guards']

it.each([
  ['backed up, only moved, or named with a reason', [...UNITS, ...ONLY_MOVED], Object.keys(NOT_COPIED)],
  ['moved, in the directory, or named with a reason', withParts, [...DIRECTORY_TABLES, ...Object.keys(NOT_COPIED)]],
  ['removed with its company, in the directory, or of moves', REMOVED, [...DIRECTORY_TABLES, ...ofMoves]],
])('every table is %s', (_, plans, others) => {
  const planned = new Set(plans.map(({ table }) => table))
  expect([...planned, ...others].toSorted()).toEqual(TABLE_NAMES.toSorted())
})

it('every full-text table is emptied of a company that has moved', async () => {
  const tables = await sql<{ name: string }>("SELECT name FROM sqlite_master WHERE sql LIKE '%USING fts5(%'")
  expect(tables.map(({ name }) => name).toSorted()).toEqual([...FULL_TEXT].toSorted())
})

it('a restore writes each table behind those that it refers to', async () => {
  const order = [...new Set(TABLES.map(({ table }) => table))]
  for (const [index, table] of order.entries()) {
    const references = await sql<{ table: string }>(`SELECT "table" FROM pragma_foreign_key_list('${table}')`)
    const later = references.filter((reference) => order.indexOf(reference.table) > index)
    expect([table, later]).toEqual([table, []])
  }
})

describe('the files of a backup', () => {
  const at = '2026-11-22T03:00:00.000Z'
  const storeOf = (companyId: number) => ({ bucket: env.BACKUPS, companyId })

  it('can be read where JSON escapes every character of them', async () => {
    const store = storeOf(900_003)
    const writer = openPartWriter(store, { at, parts: 0 })
    const rows = [{ id: 2, note: 'a\n"b"\u0000 \ud83d\ude00', amount_cents: null }]
    rows.push(...new Array(60).fill({ note: '\u0001'.repeat(100_000) }))
    await writer.add('payments', rows)
    const parts = await Promise.all((await writer.take()).map((part) => readPart(store, part)))
    expect(parts.flat()).toEqual(rows.map((row) => ({ name: 'payments', row })))
  })

  it('are named by time, and nothing else is a manifest', async () => {
    const store = storeOf(900_002)
    const names = ['-full.json', '.json', '-full.json.bak', '-increment.json'].map((end) => at + end)
    for (const name of [...names, 'x-full.json']) {
      await env.BACKUPS.put(`backups/900002/manifests/${name}`, '{}')
    }
    expect(await listBackups(store)).toEqual([at])
    await expect(readManifest(store, at)).rejects.toThrow(BackupError)
    await env.BACKUPS.put(`backups/900002/manifests/${at}-full.json`, '{')
    await expect(readManifest(store, at)).rejects.toThrow(BackupError)
  })
})

import { expect, it } from 'vitest'
import { DIRECTORY_TABLES, FULL_TEXT, MOVED, REMOVED } from '../../../../src/operation/copies/tables.ts'
import { sql } from '../../../support/app.ts'
import { TABLE_NAMES } from '../../../support/tables.ts'
import { NOT_COPIED } from '../not-copied.ts'

it('every table is moved, in the directory, or named with a reason', () => {
  const moved = MOVED.flatMap(({ table, parts }) => [table, ...parts.map((part) => part.table)])
  const others = [...DIRECTORY_TABLES, ...Object.keys(NOT_COPIED)]
  expect([...new Set(moved), ...others].toSorted()).toEqual(TABLE_NAMES.toSorted())
})

it('every full-text table is emptied of a company that has moved', async () => {
  const tables = await sql<{ name: string }>("SELECT name FROM sqlite_master WHERE sql LIKE '%USING fts5(%'")
  expect(tables.map(({ name }) => name).toSorted()).toEqual([...FULL_TEXT].toSorted())
})

it('every table of a company is removed, apart from those of the directory', async () => {
  const removed = REMOVED.map(({ table }) => table)
  const directory = ['companies', 'api_tokens', 'members', 'admin_log', 'moves', 'company_guards']
  expect([...removed, ...directory].toSorted()).toEqual(TABLE_NAMES.toSorted())
})

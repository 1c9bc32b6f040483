import { beforeAll, expect, it } from 'vitest'
import { TABLE_NAMES } from '../../../../src/kernel/db/tables.ts'
import {
  AUDIT,
  CHANGES,
  EVENTS,
  FULL_TEXT,
  MOVED,
  NOT_MOVED,
  REMOVED,
} from '../../../../src/operation/copies/move-tables.ts'
import { migrate, mintCompany, sql } from '../../../support/app.ts'

beforeAll(migrate)

const moved = MOVED.map(({ table }) => table)

it('every table is moved, or named with a reason', () => {
  const named = [...moved, CHANGES.table, AUDIT.table, EVENTS.table, ...Object.keys(NOT_MOVED)]
  expect(named.toSorted()).toEqual(TABLE_NAMES.toSorted())
})

it('every moved row is logged while its company is copied, and refused while it is frozen', async () => {
  const triggers = await sql<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'trigger'")
  const names = new Set(triggers.map(({ name }) => name))
  for (const table of moved) {
    for (const change of ['insert', 'update', 'delete']) expect(names).toContain(`${table}_moving_${change}`)
  }
  for (const { table } of [AUDIT, EVENTS]) expect(names).toContain(`${table}_moving_insert`)
})

it('every full-text table is emptied of a company that has moved', async () => {
  const tables = await sql<{ name: string }>("SELECT name FROM sqlite_master WHERE sql LIKE '%USING fts5(%'")
  expect(tables.map(({ name }) => name).toSorted()).toEqual([...FULL_TEXT].toSorted())
})

it('every table of a company is removed, apart from those of the directory', async () => {
  const removed = REMOVED.map(({ table }) => table)
  const directory = ['companies', 'api_tokens', 'members', 'admin_log', 'moves', 'company_guards', 'move_log']
  expect([...removed, ...directory].toSorted()).toEqual(TABLE_NAMES.toSorted())
})

it.each([
  ["INSERT INTO taxes (company_id, id, name, rate) VALUES (?, 1, 'a', 1)"],
  ["UPDATE taxes SET name = 'b' WHERE company_id = ?"],
  ['DELETE FROM taxes WHERE company_id = ?'],
  ['UPDATE companies SET mail_quota_bytes = 1 WHERE id = ?'],
  ['UPDATE companies SET storage_quota_bytes = 1 WHERE id = ?'],
  ["INSERT INTO audit_log (company_id, token_id, request_id, action, entity_id, at) VALUES (?, 1, 'r', 'a', '1', 0)"],
])('a frozen company refuses %s, whoever sends it', async (text) => {
  const { id } = await mintCompany()
  const guard = "INSERT INTO company_guards (company_id, state, destination, slot) VALUES (?, 'frozen', 'DB_TWO', 0)"
  await sql(guard, id)
  await expect(sql(text, id)).rejects.toThrow(/company is moving/)
  await sql("UPDATE company_guards SET state = 'copying' WHERE company_id = ?", id)
  await sql(text, id)
})

it('writes of a frozen company get 503 with Retry-After, and its reads go on', async () => {
  const { id, call } = await mintCompany()
  await sql("INSERT INTO company_guards (company_id, state, destination, slot) VALUES (?, 'frozen', 'DB_TWO', 0)", id)
  const refused = await call('POST', '/clients', { company_name: 'a' })
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '2'])
  expect((await call('GET', '/clients')).status).toBe(200)
})

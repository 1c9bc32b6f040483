import { env } from 'cloudflare:workers'
import { beforeEach, expect, it, onTestFinished } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { closeSource } from '../../../src/operation/copies/guard-queries.ts'
import { readPage } from '../../../src/operation/copies/read-queries.ts'
import { type Row, UNITS } from '../../../src/operation/copies/tables.ts'
import { putPage } from '../../../src/operation/copies/write-queries.ts'
import { operatorOf } from '../../support/admin.ts'
import { freshId, sql } from '../../support/app.ts'
import { loadSeed } from '../admin/transfer-support.ts'

/*
 * Copies write into a company's database beside a company with rows of the same ids, versions and texts.
 */
let shop: Awaited<ReturnType<typeof openShop>>
let neighbour: typeof shop

beforeEach(async () => {
  neighbour = await openShop()
  shop = await openShop()
})

async function openShop() {
  const company = { id: 1_000 + freshId(), name: 'Shop' }
  await loadSeed({ company, clients: [{ id: 1, company_name: 'Acme', external_id: 'acme' }] })
  return { id: company.id, context: { companyId: company.id, db: openDatabase(env.DB) } }
}

const CLIENTS = UNITS.find(({ name }) => name === 'clients') ?? expect.fail()

/** The shop's client, as a copy reads it. */
async function readClient(): Promise<Row> {
  const { rows } = await readPage(shop.context, CLIENTS, null)
  return rows[0] ?? expect.fail()
}

const leave = (id: number) =>
  sql("INSERT INTO company_guards (company_id, state, destination, slot) VALUES (?, 'moved', 'DB_TWO', 0)", id)

it('a move that has ended writes nothing more', async () => {
  const row = await readClient()
  await leave(neighbour.id)
  const late = putPage(shop.context, [{ plan: CLIENTS, rows: [{ ...row, phone: 'late' }] }])
  await expect(late).rejects.toThrow('the company is not moved')
  expect((await readClient()).phone).toBeNull()
})

it('a move switches its own company only, and only while that refuses writes', async () => {
  const readOnly = "INSERT INTO company_guards VALUES (?, 'read_only', 'DB_TWO', 0, 1)"
  onTestFinished(async () => {
    await sql('UPDATE companies SET database = NULL, database_slot = NULL WHERE id = ?', shop.id)
  })
  const states = 'SELECT state, database FROM companies LEFT JOIN company_guards ON company_id = id WHERE id = ?'
  const statesOf = ({ id }: typeof shop) => sql(states, id)
  const close = () =>
    closeSource(shop.context, { source: 'DB', destination: 'DB_TWO', slot: 510, by: operatorOf(shop.id) })
  await leave(neighbour.id)
  expect([await close(), await statesOf(shop)]).toEqual([false, [{ state: null, database: null }]])
  await sql("UPDATE company_guards SET state = 'read_only' WHERE company_id = ?", neighbour.id)
  await sql(readOnly, shop.id)
  expect([await close(), await statesOf(shop), await statesOf(neighbour)]).toEqual([
    true,
    [{ state: 'moved', database: 'DB_TWO' }],
    [{ state: 'read_only', database: null }],
  ])
})

it('a move clears a unique value of its own company only', async () => {
  const row = await readClient()
  await leave(shop.id)
  await putPage(shop.context, [{ plan: CLIENTS, rows: [{ ...row, id: 2 }] }])
  const select = 'SELECT id, external_id FROM clients WHERE company_id = ? ORDER BY id'
  const own = [
    { id: 1, external_id: null },
    { id: 2, external_id: 'acme' },
  ]
  expect([await sql(select, shop.id), await sql(select, neighbour.id)]).toEqual([own, [{ id: 1, external_id: 'acme' }]])
})

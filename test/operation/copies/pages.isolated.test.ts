import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { type BackupState, beginBackup, stepBackup } from '../../../src/operation/copies/backup.ts'
import { exportPage } from '../../../src/operation/copies/export.ts'
import { readPage } from '../../../src/operation/copies/read-queries.ts'
import { type Manifest, openPartWriter } from '../../../src/operation/copies/store.ts'
import { type Key, MOVED, TABLES } from '../../../src/operation/copies/tables.ts'
import { operatorOf } from '../../support/admin.ts'
import { mintCompany, sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { meterBindings } from '../../support/meter.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { backUp, manifestsOf, mintBeside, objectOf } from './support.ts'

const rowsOf = (manifest: Manifest | undefined, table: string) =>
  manifest?.parts.reduce((sum, { rows }) => sum + (rows[table] ?? 0), 0)

/** Rows of about 5 MB, in five pages and three parts. */
async function addLargeTaxes(companyId: number): Promise<void> {
  await sql(
    `INSERT INTO taxes (company_id, id, name, rate)
     WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
     SELECT ?, i, hex(zeroblob(600)), 5 FROM n`,
    companyId,
  )
}

it('a backup that is interrupted continues behind its last written part, and has every row once', async () => {
  const { id } = await mintCompany({ home: 'DB' })
  await addLargeTaxes(id)
  let puts = 0
  const { BACKUPS } = wrapBindings(env, (name, work) => {
    if (name === 'BACKUPS.put' && ++puts === 2) throw new Error('R2 fails.')
    return work()
  })
  await backUp(id, { BACKUPS })
  expect([puts, await manifestsOf(id)]).toEqual([2, []])
  expect(logLines).toContainEqual(expect.objectContaining({ event: 'backup_failed', company_id: id }))
  await backUp(id)
  const [manifest] = await manifestsOf(id)
  const [company] = await sql('SELECT backed_up_at FROM companies WHERE id = ?', id)
  expect(company?.backed_up_at).toBe(Date.parse(manifest?.at ?? ''))
  expect(rowsOf(manifest, 'taxes')).toBe(5_001)
  expect(manifest?.parts.length).toBe(3)
  const { objects } = await env.BACKUPS.list({ prefix: `backups/${id}/parts/` })
  expect(objects.map(({ key }) => key)).toEqual(manifest?.parts.map(({ key }) => key))
})

it('a backup ends each run after 5 s, since calls for its company wait for that, and continues in the next', async () => {
  const { id } = await mintBeside()
  await addLargeTaxes(id)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
  const { BACKUPS } = wrapBindings(env, (name, work) => {
    if (name === 'BACKUPS.put') vi.setSystemTime(Date.now() + 5_000)
    return work()
  })
  const runs = await runInDurableObject(objectOf(id), async (instance, { storage }) => {
    storage.kv.put('company', id)
    Reflect.set(instance, 'env', Object.assign({}, env, { BACKUPS }))
    for (let count = 1; ; count++) {
      await instance.alarm()
      const isDone = storage.kv.get('backup') === undefined
      expect(await storage.getAlarm()).toBe(isDone ? null : Date.now())
      await storage.deleteAlarm()
      if (isDone) return count
    }
  })
  const [manifest] = await manifestsOf(id)
  expect(rowsOf(manifest, 'taxes')).toBe(5_001)
  expect([runs, manifest?.parts.length]).toEqual([2, 3])
})

it('a backup does not run between the steps of a move, but does where a move was left', async () => {
  const { id } = await mintCompany({ home: 'DB' })
  const stepAt = (at: number) => sql("INSERT OR REPLACE INTO moves VALUES (?, 'DB', 'DB_TWO', '{}', ?, ?)", id, at, at)
  await stepAt(Date.now())
  await backUp(id)
  expect(await manifestsOf(id)).toEqual([])
  expect(logLines).toContainEqual({ event: 'backup_skipped', company_id: id, reason: 'move' })
  await stepAt(Date.now() - 3_600_000)
  await backUp(id)
  expect(await manifestsOf(id)).toHaveLength(1)
  await sql('DELETE FROM moves WHERE company_id = ?', id)
})

it('a move waits for a backup under way, which then has every part', async () => {
  const { id } = await mintBeside()
  await addLargeTaxes(id)
  const object = await runInDurableObject(objectOf(id), (instance) => instance)
  const events: string[] = []
  let puts = 0
  let move: Promise<unknown> = Promise.resolve()
  const { BACKUPS } = wrapBindings(env, async (name, work) => {
    if (name === 'BACKUPS.put' && ++puts === 3) {
      move = object.move(operatorOf(id), 'DB').then(() => events.push('move'))
      await sql('SELECT 1')
    }
    const result = await work()
    // The manifest comes behind the three parts.
    if (name === 'BACKUPS.put' && puts === 4) events.push('manifest')
    return result
  })
  await backUp(id, { BACKUPS })
  await move
  const [manifest] = await manifestsOf(id)
  expect(rowsOf(manifest, 'taxes')).toBe(5_001)
  expect(events).toEqual(['manifest', 'move'])
})

/** Adds orders with so many parts each; the ids of their invoices descend. */
async function addOrders(companyId: number, count: number, parts: Record<'items' | 'payments' | 'artworks', number>) {
  const fill = (rows: number) =>
    `WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < ${rows} - 1)`
  const texts = [
    `INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at) VALUES (?, 1, 'a', 'A', 1, 1)`,
    `INSERT INTO orders (company_id, id, title, title_key, number_key, client_id, created_date, created_at, updated_at)
      ${fill(count)} SELECT ?, i + 1, 'a', 'A', '', 1, '2026-01-01', 1, 1 FROM n`,
    `INSERT INTO invoices (company_id, id, project_id, number, created_at, updated_at)
      ${fill(count)} SELECT ?, ${count} - i, i + 1, 'N' || i, 1, 1 FROM n`,
    `INSERT INTO invoice_items (company_id, id, invoice_id, title, quantity, unit_price_cents, position, search_text)
      ${fill(count * parts.items)} SELECT ?, i + 1, i % ${count} + 1, 'Line', 1, 100, 1, '' FROM n WHERE ${parts.items}`,
    `INSERT INTO payments (company_id, id, invoice_id, amount_cents)
      ${fill(count * parts.payments)} SELECT ?, i + 1, i % ${count} + 1, 100 FROM n WHERE ${parts.payments}`,
    `INSERT INTO artworks (company_id, id, project_id, name)
      ${fill(count * parts.artworks)} SELECT ?, i + 1, i % ${count} + 1, 'a' FROM n WHERE ${parts.artworks}`,
  ]
  for (const text of texts) await sql(text, companyId)
}

/** Adds threads whose content R2 has. */
async function addThreads(companyId: number, count: number): Promise<void> {
  const numbers = `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${count}) SELECT`
  await sql(
    `INSERT INTO email_threads (company_id, id, account_email, legacy_thread_id, message_count, last_synced_at,
      content_hash, revision, content_revision, created_at, updated_at)
      ${numbers} ?1, ?1 || '-' || i, 'box@x.example', 't' || i, 1, 0, 'x', 1, 1, 0, 0 FROM n`,
    companyId,
  )
  await sql(
    `INSERT INTO email_thread_objects (company_id, id, content_hash, bytes, state, thread_id)
      ${numbers} ?1, ?1 || '-' || i, 'x', 1, 'stored', ?1 || '-' || i FROM n`,
    companyId,
  )
}

/** The bindings, and the batches and rows read of the database since the last `take`. */
function countBatches() {
  let batches = 0
  const counted = wrapBindings(env, (name, work) => {
    if (name === 'DB.batch') batches++
    return work()
  })
  const { env: metered, take } = meterBindings(counted)
  return {
    db: openDatabase(metered.DB),
    take: () => {
      const taken = { batches, rows: take().rowsRead }
      batches = 0
      return taken
    },
  }
}

describe('a page of orders ends by the bytes of all their parts', () => {
  const SHAPES = [
    { items: 100, payments: 0, artworks: 0 },
    { items: 0, payments: 60, artworks: 60 },
  ] as const

  it.each([
    { name: 'orders', fill: (id: number, size: number) => addOrders(id, size, SHAPES[0]) },
    { name: 'orders', fill: (id: number, size: number) => addOrders(id, size, SHAPES[1]) },
    { name: 'email_threads', fill: addThreads },
  ])('in a backup, whose rows read grow with its $name', async ({ name, fill }) => {
    const [sizes, read] = [[40, 120], [] as number[]]
    for (const size of sizes) {
      const { id } = await mintCompany({ home: 'DB' })
      await fill(id, size)
      const { db, take } = countBatches()
      const context = { companyId: id, db, directory: db, database: 'DB', bucket: env.BACKUPS }
      const begun = beginBackup(Date.now())
      const table = TABLES.findIndex((plan) => plan.name === name)
      let rows = 0
      for (let state: BackupState = { ...begun, table }; state.table === table; ) {
        take()
        state = await stepBackup(context, state, openPartWriter(context, begun))
        const used = take()
        rows += used.rows
        expect(used.batches).toBeLessThan(16)
      }
      read.push(rows)
    }
    const [few = 0, many = 0] = read
    expect(many / few).toBeLessThan(3.5)
  })

  it.each(SHAPES)('in an export, which has at most 60 pages a response: %o', async (parts) => {
    const { id } = await mintCompany({ home: 'DB' })
    await addOrders(id, 120, parts)
    const { db, take } = countBatches()
    const found: string[] = []
    for (let after: Key | null = []; after; ) {
      const page = await exportPage({ companyId: id, db }, env.FILES, 'orders', after)
      for await (const piece of page.pieces) found.push(...String(piece).trim().split('\n'))
      expect(take().batches).toBeLessThan(16)
      after = page.next
    }
    expect(found.map((text) => JSON.parse(text).data.id)).toEqual(Array.from({ length: 120 }, (_, at) => at + 1))
  })

  it('in a move', async () => {
    const { id } = await mintCompany({ home: 'DB' })
    await addOrders(id, 120, { items: 100, payments: 0, artworks: 0 })
    const plan = MOVED.find(({ name }) => name === 'orders') ?? expect.fail('no plan')
    const { db, take } = countBatches()
    const { rows, next } = await readPage({ companyId: id, db }, plan, null)
    expect(take().batches).toBeLessThan(16)
    expect(next).toEqual([rows.length])
  })
})

import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { type Database, openDatabase } from '../../../src/kernel/db/client.ts'
import { BUDGET_MS } from '../../../src/kernel/http/isolate.ts'
import { type BackupState, beginBackup, endBackup, stepBackup } from '../../../src/operation/copies/backup.ts'
import { type Manifest, openPartWriter, readPart } from '../../../src/operation/copies/store.ts'
import { TABLES } from '../../../src/operation/copies/tables.ts'
import { adminCall } from '../../support/admin.ts'
import { call, mintCompany, mintToken, sql, sqlIn, type TestCompany } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { insert } from '../../support/rows.ts'
import { holdTimers } from '../../support/time.ts'
import { breakCalls, wrapBindings } from '../../support/wrap-bindings.ts'
import { loadSeed } from '../admin/transfer-support.ts'
import { backUp, backUpInParts, HOMES, manifestsOf, restore, rowsOf, sweepDueBackups, wipe } from './support.ts'

const DAY_MS = 86_400_000

/** @returns the path of the order */
async function makeOrder({ call }: TestCompany): Promise<string> {
  const { client } = (await call('POST', '/clients', { company_name: 'Acme' })).body
  const { body } = await call('POST', '/orders', { title: 'Shirts', client_id: client.id })
  return `/orders/${body.project.id}`
}

describe.each(HOMES)('a backup of a company in %s', (home) => {
  const mint = () => mintCompany({ home })

  /** Backs a company up. @param beforePage gets the table of each page */
  async function backUpWith(id: number, db: Database, beforePage: (table: string, isFirst: boolean) => unknown) {
    const context = { companyId: id, db, directory: openDatabase(env.DB), bucket: env.BACKUPS }
    const begun = beginBackup(Date.now())
    const writer = openPartWriter(context, begun)
    for (let state: BackupState = begun; state.table >= 0; ) {
      await beforePage(TABLES[state.table]?.name ?? '', state.after === null)
      state = await stepBackup(context, state, writer)
    }
    await endBackup(context, begun, await writer.take(), Date.now())
    await wipe(id)
  }

  it('has an order as a whole, though it changes with each read of it', async () => {
    const company = await mint()
    const path = await makeOrder(company)
    const pay = (amount: number) => company.call('POST', `${path}/payments`, { amount })
    await pay(1)
    const real = openDatabase(env[home])
    let changes = 0
    let isOrders = false
    const db: Database = {
      ...real,
      read: async (queries) => {
        const rows = await real.read(queries)
        if (isOrders && ++changes) await pay(2)
        return rows
      },
    }
    await backUpWith(company.id, db, (table) => {
      isOrders = table === 'orders'
    })
    expect(changes).toBeGreaterThan(1)
    const { differences } = await restore(company.id)
    // The log of changes was read before the changes, and the order before the last one.
    expect(differences).toEqual([
      { table: 'payments', expected: 1 + changes, found: changes },
      { table: 'audit_log', expected: 3 + changes, found: 3 },
    ])
    const { orders, payments = [] } = await rowsOf(company.id)
    expect(orders).toMatchObject([{ version: 1 + payments.length }])
  })

  it('has both clients where an external id went from one page to the next while these were read', async () => {
    const { id, call } = await mint()
    const first = id * 10_000_000 + 1_000
    const clients = Array.from({ length: 501 }, (_, index) => ({ id: first + index, company_name: `Client ${index}` }))
    const orders = [{ id: first, title: 'Shirts', client_id: first + 499 }]
    await loadSeed({ company: { id, name: 'Many' }, clients, orders })
    const setExternalId = (index: number, external_id: string | null) =>
      call('PATCH', `/clients/${first + index}`, { external_id })
    await setExternalId(499, 'x')
    await backUpWith(id, openDatabase(env[home]), async (table, isFirst) => {
      if (table !== 'clients' || isFirst) return
      await setExternalId(499, null)
      await setExternalId(500, 'x')
    })
    expect(await restore(id)).toMatchObject({ done: true })
    const restored = (await rowsOf(id)).clients ?? []
    expect([restored.length, ...restored.slice(499).map((row) => row.external_id)]).toEqual([501, null, 'x'])
  })

  it('replaces backups of more than 35 days ago, with all of their files', async () => {
    const company = await mint()
    const start = Date.now()
    for (const ageMs of [50 * DAY_MS, 35 * DAY_MS + 1, 35 * DAY_MS]) {
      vi.setSystemTime(start - ageMs)
      await backUp(company.id)
    }
    vi.setSystemTime(start)
    await env.BACKUPS.put(`backups/${company.id}/parts/2020-01-01T00:00:00.000Z/00001.ndjson.gz`, 'of no manifest')
    await backUp(company.id)
    const manifests = await manifestsOf(company.id)
    expect(manifests.map(({ at }) => Date.parse(at))).toEqual([start - 35 * DAY_MS, start])
    const { objects } = await env.BACKUPS.list({ prefix: `backups/${company.id}/parts/` })
    expect(objects.map(({ key }) => key)).toEqual(manifests.flatMap(({ parts }) => parts.map(({ key }) => key)))
  })

  it('keeps the newest one with data, however old it is, while the company that was made again is empty', async () => {
    const company = await mint()
    const path = await makeOrder(company)
    const start = Date.now()
    vi.setSystemTime(start - 50 * DAY_MS)
    await backUp(company.id)
    await wipe(company.id)
    await sqlIn('DB', 'DELETE FROM companies WHERE id = ?', company.id)
    vi.setSystemTime(start)
    expect((await adminCall('POST', '/companies', { id: company.id, database: home })).status).toBe(200)
    await backUp(company.id)
    expect(await manifestsOf(company.id)).toHaveLength(2)
    await restore(company.id)
    expect((await call(await mintToken(company.id), 'GET', path)).status).toBe(200)
  })

  it('is whole though R2 stores the part of a call that failed by its deadline after that of the retry', async () => {
    const company = await mint()
    const path = await makeOrder(company)
    const deadlines = holdTimers(BUDGET_MS.storage)
    const release = Promise.withResolvers<void>()
    let puts = 0
    let late: Promise<unknown> | undefined
    const { BACKUPS } = wrapBindings(env, (name, work) => {
      // A failed first part begins another backup.
      if (name !== 'BACKUPS.put' || ++puts !== 2) return work()
      late = release.promise.then(work)
      queueMicrotask(() => deadlines.at(-1)?.())
      return late
    })
    await expect(backUpInParts(company.id, BACKUPS)).rejects.toMatchObject({ kind: 'unavailable' })
    await company.call('PATCH', path, { title: 'Changed' })
    await backUpInParts(company.id, BACKUPS)
    release.resolve()
    await late
    const [{ parts } = expect.fail('no manifest')] = await manifestsOf(company.id)
    expect(parts.length).toBeGreaterThan(2)
    const store = { companyId: company.id, bucket: env.BACKUPS }
    const lines = (await Promise.all(parts.map((part) => readPart(store, part)))).flat()
    expect(lines.filter(({ name }) => name === 'orders')).toMatchObject([{ row: { title: 'Changed' } }])
  })

  it('is complete though old ones are not removed, which the next one does', async () => {
    const company = await mint()
    const failing = new Proxy(env.BACKUPS, {
      get: (target, name) => {
        const list = (options: R2ListOptions) =>
          options.delimiter ? Promise.reject(new Error('internal')) : target.list(options)
        return name === 'list' ? list : Reflect.get(target, name).bind(target)
      },
    })
    const orphan = `backups/${company.id}/parts/2020-01-01T00:00:00.000Z/00001.ndjson.gz`
    await env.BACKUPS.put(orphan, 'of no manifest')
    await backUp(company.id, { BACKUPS: failing })
    const lines = logLines.filter(({ company_id }) => company_id === company.id)
    expect(lines).toMatchObject([{ event: 'backup' }, { event: 'backup_failed', error: 'ApiError' }])
    vi.setSystemTime(Date.now() + DAY_MS)
    await backUp(company.id)
    expect(await manifestsOf(company.id)).toHaveLength(2)
    expect(await env.BACKUPS.head(orphan)).toBeNull()
  })

  const setBackedUp = async (at: number) => {
    for (const each of HOMES) await sqlIn(each, 'UPDATE companies SET backed_up_at = ?', at)
  }

  it('is started by the sweep once a day', async () => {
    const [due, recent] = [await mint(), await mint()]
    const now = Date.now()
    // One sweep starts some only.
    await setBackedUp(now)
    await sql('UPDATE companies SET backed_up_at = ? WHERE id = ?', now - DAY_MS - 1, due.id)
    await sql('UPDATE companies SET backed_up_at = ? WHERE id = ?', now - DAY_MS + 1, recent.id)
    const started = await sweepDueBackups(now)
    expect(started).toContain(due.id)
    expect(started).not.toContain(recent.id)
  })

  it.runIf(home === 'DB')('is not started for the row that an interrupted creation left elsewhere', async () => {
    const { id, call } = await mint()
    await insert('companies', { id, slot: 1_000, name: 'X', created_at: 0, updated_at: 0 }, 'DB_TWO')
    await call('POST', '/clients', { company_name: 'Acme' })
    const now = Date.now()
    await setBackedUp(now)
    await sqlIn('DB_TWO', 'UPDATE companies SET backed_up_at = NULL WHERE id = ?', id)
    logLines.length = 0
    for (const _ of [1, 2]) expect(await sweepDueBackups(now)).toEqual([])
    expect(logLines.filter(({ event }) => event === 'database_set_back')).toEqual([])
    await sqlIn('DB_TWO', 'DELETE FROM companies WHERE id = ?', id)
  })

  it.runIf(home === 'DB')('is no reason to lower the marks of the last ids where two sweeps overlap', async () => {
    const { id } = await mintCompany({ home: 'DB_TWO' })
    const marked = async () => (await (await env.BACKUPS.get('sequences.json'))?.json<Record<number, object>>())?.[id]
    await sweepDueBackups()
    await sqlIn('DB_TWO', 'UPDATE companies SET last_order_id = 8e12 WHERE id = ?', id)
    await sqlIn('DB', 'UPDATE companies SET last_order_id = last_order_id + 1')
    let isOther = false
    const { BACKUPS } = wrapBindings(env, async (name, work) => {
      if (name === 'BACKUPS.put' && !isOther) {
        isOther = true
        // The other sweep ends while this one is between its read and its write.
        await sweepDueBackups()
      }
      return work()
    })
    const { DB_TWO } = breakCalls(env, /^DB_TWO/, new Error('D1_ERROR: down'))
    await sweepDueBackups(Date.now(), { BACKUPS, DB_TWO }).catch(() => undefined)
    expect(isOther).toBe(true)
    expect(await marked()).toMatchObject({ last_order_id: 8e12 })
  })

  it.runIf(home === 'DB')('writes the marks of all databases at once: R2 takes one write a second', async () => {
    const [here, there] = [await mint(), await mintCompany({ home: 'DB_TWO' })]
    await sweepDueBackups()
    for (const each of [here, there]) await each.call('POST', '/clients', { company_name: 'Acme' })
    let puts = 0
    const { BACKUPS } = wrapBindings(env, (name, work) => {
      if (name === 'BACKUPS.put') puts++
      return work()
    })
    await sweepDueBackups(Date.now(), { BACKUPS })
    expect(puts).toBe(1)
    const marks = await (await env.BACKUPS.get('sequences.json'))?.json<Record<number, { last_change: number }>>()
    expect([here, there].map(({ id }) => marks?.[id]?.last_change)).toEqual([1, 1])
  })

  it('is started though the backups of more companies than one sweep starts never succeed', async () => {
    const [due, ...stuck] = [await mint(), await mint(), await mint(), await mint(), await mint(), await mint()]
    const now = Date.now()
    await setBackedUp(now)
    await sql('UPDATE companies SET backed_up_at = ? WHERE id = ?', now - 2 * DAY_MS, due?.id)
    for (const { id } of stuck) await sql('UPDATE companies SET backed_up_at = 0 WHERE id = ?', id)
    const started = new Set<number>()
    for (let sweeps = 0; sweeps < 50 && started.size <= stuck.length; sweeps++) {
      for (const id of await sweepDueBackups(now)) started.add(id)
    }
    expect(started).toEqual(new Set([due?.id, ...stuck.map(({ id }) => id)]))
  })
})

describe('a damaged backup', () => {
  it('is refused before anything of it is restored, with a message without data', async () => {
    const company = await mintCompany()
    await makeOrder(company)
    await backUp(company.id)
    const [manifest] = await manifestsOf(company.id)
    const part = manifest?.parts.find(({ rows }) => rows.clients)
    const bytes = (await (await env.BACKUPS.get(part?.key ?? ''))?.bytes()) ?? expect.fail('no file')
    expect(part?.bytes).toBe(bytes.length)
    bytes[bytes.length - 1] = 255 - (bytes.at(-1) ?? 0)
    await env.BACKUPS.put(part?.key ?? '', bytes)
    await wipe(company.id)
    await expect(restore(company.id)).rejects.toMatchObject({
      kind: 'conflict',
      message: `${part?.key} is damaged: its checksum differs.`,
    })
    expect(await sql('SELECT id FROM companies WHERE id = ?', company.id)).toEqual([])
  })

  /** Writes a manifest again. */
  async function spoil(companyId: number, change: (manifest: Manifest) => object): Promise<Manifest> {
    const [manifest] = await manifestsOf(companyId)
    if (!manifest) return expect.fail('no manifest')
    const key = `backups/${companyId}/manifests/${manifest.at}-full.json`
    await env.BACKUPS.put(key, JSON.stringify(change(manifest)))
    return manifest
  }

  it.each<[string, (manifest: Manifest) => object]>([
    ['that lost a part', (manifest) => ({ ...manifest, parts: manifest.parts.slice(1) })],
    ['that lost all parts', (manifest) => ({ ...manifest, parts: [] })],
    [
      'that lost the rows of a part',
      ({ parts, ...manifest }) => ({ ...manifest, parts: parts.map((each) => ({ ...each, rows: {} })) }),
    ],
    ['with another count', (manifest) => ({ ...manifest, counts: { ...manifest.counts, clients: 0 } })],
    ['without its checksum', (manifest) => ({ ...manifest, sha256: undefined })],
    ['that is half of itself', (manifest) => ({ half: JSON.stringify(manifest).slice(0, 100) })],
  ])('with a manifest %s ends with an error, and nothing is changed', async (_, change) => {
    const other = await mintCompany()
    const company = await mintCompany()
    await makeOrder(other)
    await makeOrder(company)
    await backUp(company.id)
    const { at } = await spoil(company.id, change)
    await wipe(company.id)
    const before = await rowsOf(other.id)
    await expect(restore(company.id)).rejects.toMatchObject({
      kind: 'conflict',
      message: expect.stringMatching(
        new RegExp(`^backups/${company.id}/manifests/${at}-full\\.json is damaged: its checksum differs\\.$`),
      ),
    })
    expect(await rowsOf(other.id)).toEqual(before)
    for (const [table, rows] of Object.entries(await rowsOf(company.id))) expect([table, rows]).toEqual([table, []])
  })

  it('behind the restored one is logged, and keeps nothing from being restored', async () => {
    const company = await mintCompany()
    await makeOrder(company)
    await backUp(company.id)
    vi.setSystemTime(Date.now() + 8 * DAY_MS)
    await backUp(company.id)
    const [first, second] = await manifestsOf(company.id)
    await env.BACKUPS.put(`backups/${company.id}/manifests/${second?.at}-full.json`, '{')
    await wipe(company.id)
    await restore(company.id, first?.at ?? '')
    expect(await sql('SELECT id FROM companies WHERE id = ?', company.id)).toEqual([{ id: company.id }])
    const logged = { event: 'backup_unreadable', company_id: company.id, backup: second?.at }
    expect(logLines).toContainEqual(expect.objectContaining(logged))
  })
})

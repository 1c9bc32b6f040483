import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { accepted } from '../../../src/kernel/http/errors.ts'
import { continueBackup } from '../../../src/operation/copies/backup.ts'
import { sweepBackups } from '../../../src/operation/copies/company-backup.ts'
import type { Manifest } from '../../../src/operation/copies/store.ts'
import {
  DIRECTORY_TABLES,
  FULL_TEXT,
  REMOVED,
  SEQUENCES,
  type Sequences,
} from '../../../src/operation/copies/tables.ts'
import { adminCall, operatorOf } from '../../support/admin.ts'
import { type Home, homeOf, mintCompany, sql } from '../../support/app.ts'
import { TABLE_NAMES } from '../../support/tables.ts'

export type Rows = Record<string, Record<string, unknown>[]>

/** The object that backs up, restores and moves a company. */
export const objectOf = (companyId: number) => env.COMPANY_BACKUP.get(env.COMPANY_BACKUP.idFromName(String(companyId)))

/** Gives the company's object other bindings. */
export const bindObject = (companyId: number, bindings: object) =>
  runInDurableObject(objectOf(companyId), (instance) => void Reflect.set(instance, 'env', bindings))

/** Runs the company's backup to its end, or until it fails; with other bindings beside the real ones. */
export async function backUp(companyId: number, bindings: Partial<Env> = {}): Promise<void> {
  await runInDurableObject(objectOf(companyId), async (instance, { storage }) => {
    storage.kv.put('company', companyId)
    Reflect.set(instance, 'env', Object.assign({}, env, bindings))
    do await instance.alarm()
    while (storage.kv.get('backup') !== undefined && storage.kv.get('retry') === undefined)
    storage.kv.delete('retry')
    await storage.deleteAlarm()
    Reflect.set(instance, 'env', env)
  })
}

/** Backs the company up, a part for each page of a table. Rejects as soon as a call fails; the next one continues. */
export async function backUpInParts(companyId: number, bucket = env.BACKUPS): Promise<void> {
  const context = { companyId, bucket, db: openDatabase(env[homeOf(companyId)]), directory: openDatabase(env.DB) }
  await runInDurableObject(objectOf(companyId), async (_, { storage }) => {
    while (!(await continueBackup(context, storage.kv, 0)));
  })
}

/** The manifests of a company, the oldest first. */
export async function manifestsOf(companyId: number): Promise<Manifest[]> {
  const { objects } = await env.BACKUPS.list({ prefix: `backups/${companyId}/manifests/` })
  return Promise.all(
    objects.map(async ({ key }) => {
      const object = await env.BACKUPS.get(key)
      return object?.json<Manifest>() ?? Promise.reject(new Error(key))
    }),
  )
}

/** Restores the company to a time, call by call. */
export async function restore(companyId: number, until = '2099-01-01') {
  for (;;) {
    const result = accepted(await objectOf(companyId).restore(operatorOf(companyId), Date.parse(until)))
    if (result.done) return result
  }
}

/** Repeats the operator's call until the restore is done or refused. */
export async function restoreAsOperator(companyId: number, from = '2099-01-01') {
  for (;;) {
    const response = await adminCall('POST', `/companies/${companyId}/restore`, { from })
    if (response.status !== 200 || response.body.done) return response
  }
}

/** A call of a restore from the newest backup. */
export const restoreNewest = (id: number) => adminCall('POST', `/companies/${id}/restore`, { from: '2099-01-01' })

/** A company that is not the first of its database, where another one is beside it. */
export async function mintBeside(home: Home = 'DB') {
  await mintCompany({ home })
  return mintCompany({ home })
}

/** A company with one client that is gone since its backup. */
export async function goneSinceBackup(home: Home = 'DB') {
  const company = await mintBeside(home)
  const { client } = (await company.call('POST', '/clients', { company_name: 'Acme' })).body
  await backUp(company.id)
  await wipe(company.id)
  return { ...company, client }
}

/** The last ids and numbers that a company has given out. */
export async function marksOf(companyId: number): Promise<Sequences> {
  const [row] = await sql<Sequences>(`SELECT ${SEQUENCES} FROM companies WHERE id = ?`, companyId)
  return row ?? expect.fail('no company')
}

/** Repeats a recovery until it is done. */
export async function recover() {
  // biome-ignore lint/suspicious/noExplicitAny: checked against the contract
  const steps: any[] = []
  for (let sent: object | null = {}; sent; ) {
    const { status, body } = await adminCall('POST', '/recovery', sent)
    expect(status, JSON.stringify(body)).toBe(200)
    steps.push(body)
    sent = body.next_cursor === null ? null : { cursor: body.next_cursor }
  }
  return steps
}

/** Sweeps backups. @returns the companies whose objects are started, which then do nothing */
export async function sweepDueBackups(now = Date.now(), bindings: Partial<Env> = {}): Promise<number[]> {
  const started: number[] = []
  const COMPANY_BACKUP = { idFromName: String, get: () => ({ start: async (id: number) => void started.push(id) }) }
  await sweepBackups(Object.assign({}, env, bindings, { COMPANY_BACKUP }), now)
  return started
}

/** Where companies have their data. */
export const HOMES: Home[] = ['DB', 'DB_TWO']

export const today = () => new Date().toISOString().slice(0, 10)

export const OF_DIRECTORY: readonly string[] = [...DIRECTORY_TABLES, 'moves']

const conditionOf = (table: string) => (table === 'companies' ? 'id = ?1' : 'company_id = ?1')

/** Every row of a company, by table. @param home where it has its data */
export async function rowsOf(companyId: number, home = homeOf(companyId)): Promise<Rows> {
  const select = (from: Home, tables: readonly string[]) => {
    const texts = tables.map((table) => `SELECT * FROM ${table} WHERE ${conditionOf(table)} ORDER BY 1, 2, 3`)
    return env[from].batch<Rows[string][number]>(texts.map((text) => env[from].prepare(text).bind(companyId)))
  }
  const own = TABLE_NAMES.filter((table) => !OF_DIRECTORY.includes(table))
  const results = [...(await select('DB', OF_DIRECTORY)), ...(await select(home, own))]
  return Object.fromEntries([...OF_DIRECTORY, ...own].map((table, index) => [table, results[index]?.results ?? []]))
}

/** What a full-text table finds of a company, by rowid. */
export async function hitsOf(companyId: number, table: string, text: string): Promise<number[]> {
  const [company] = await sql<{ slot: number }>('SELECT slot FROM companies WHERE id = ?', companyId)
  const hits = await sql<{ id: number }>(
    `SELECT rowid & ((1 << 53) - 1) AS id FROM ${table} WHERE ${table} MATCH ?1 AND rowid >> 53 = ?2 ORDER BY 1`,
    `"${text}"`,
    company?.slot,
  )
  return hits.map(({ id }) => id)
}

const DELETED = [...REMOVED.map(({ table }) => table), ...DIRECTORY_TABLES]

/** Removes every company of earlier tests. The look-alike of a database stays, in slot 0 and with a lower id. */
export async function wipeAll(): Promise<void> {
  const tables = [...DELETED, 'company_guards', 'moves'].map((table) => `${table} WHERE company_id > 700000`)
  const indexes = FULL_TEXT.map((table) => `${table} WHERE rowid >> 53 > 0`)
  for (const db of [env.DB, env.DB_TWO]) {
    const all = [...indexes, ...tables, 'companies WHERE id > 700000']
    await db.batch(all.map((rows) => db.prepare(`DELETE FROM ${rows}`)))
  }
}

/** Removes a company and all that it has, as in a database of its own. */
export async function wipe(companyId: number): Promise<void> {
  for (const table of FULL_TEXT) {
    await sql(`DELETE FROM ${table} WHERE rowid >> 53 = (SELECT slot FROM companies WHERE id = ?)`, companyId)
  }
  for (const table of DELETED) await sql(`DELETE FROM ${table} WHERE ${conditionOf(table)}`, companyId)
  await sql('DELETE FROM companies WHERE id = ?', companyId)
}

import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import type { Env } from '../../../src/env.ts'
import { accepted } from '../../../src/kernel/http/errors.ts'
import type { Manifest } from '../../../src/operation/copies/store.ts'
import { DIRECTORY_TABLES, FULL_TEXT, REMOVED } from '../../../src/operation/copies/tables.ts'
import { operatorOf } from '../../support/admin.ts'
import { sql } from '../../support/app.ts'

export type Rows = Record<string, Record<string, unknown>[]>

function objectOf(companyId: number) {
  return env.COMPANY_BACKUP.get(env.COMPANY_BACKUP.idFromName(String(companyId)))
}

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
export async function restore(companyId: number, until: string) {
  for (;;) {
    const result = accepted(await objectOf(companyId).restore(operatorOf(companyId), Date.parse(until)))
    if (result.done) return result
  }
}

/** Tables with rows of companies, but for those that full-text search keeps. */
async function listTables(): Promise<string[]> {
  const rows = await sql<{ name: string }>(
    `SELECT m.name FROM sqlite_master AS m WHERE m.type = 'table' AND m.name NOT LIKE '%_fts%'
       AND m.name NOT LIKE 'sqlite%' AND m.name NOT LIKE '_cf%' AND m.name NOT LIKE 'd1_%' ORDER BY 1`,
  )
  return rows.map(({ name }) => name)
}

const conditionOf = (table: string) => (table === 'companies' ? 'id = ?1' : 'company_id = ?1')

/** Every row of a company, by table. */
export async function rowsOf(companyId: number): Promise<Rows> {
  const rows: Rows = {}
  for (const table of await listTables()) {
    rows[table] = await sql(`SELECT * FROM ${table} WHERE ${conditionOf(table)} ORDER BY 1, 2, 3`, companyId)
  }
  return rows
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

/** Removes a company and all that it has, as in a database of its own. */
export async function wipe(companyId: number): Promise<void> {
  for (const table of FULL_TEXT) {
    await sql(`DELETE FROM ${table} WHERE rowid >> 53 = (SELECT slot FROM companies WHERE id = ?)`, companyId)
  }
  for (const table of DELETED) await sql(`DELETE FROM ${table} WHERE ${conditionOf(table)}`, companyId)
  await sql('DELETE FROM companies WHERE id = ?', companyId)
}

import { type SQL, sql } from 'drizzle-orm'
import type { Env } from '../../env.ts'
import { openDatabase, type Placeholders, statement } from './client.ts'
import { insertRow } from './columns.ts'
import type { Actor } from './idempotency.ts'
import { bindingOf, DIRECTORY, directoryFor } from './placement.ts'
import { auditLog } from './schema.ts'

export interface Administrator {
  /** 0 stands for the whole deployment. */
  companyId: number
  caller: { actor: string }
  address: string
  requestId: string
  now: number
}

/** A change is not recorded if the same token made it on the same entity within this time, among the last entries. */
const REPEATED = { withinMs: 60_000, entries: 20 }

/**
 * A statement for the batch of a change that records who did what. `entityId` (a number or text) may be SQL that reads an
 * id created in the same batch. Nothing is written unless `when` holds, or if the same was recorded within a minute.
 */
export function auditEntry(
  { companyId, tokenId, requestId, now }: Placeholders<Actor>,
  action: string | SQL,
  entityId: SQL,
  when: SQL = sql`1`,
) {
  // D1 binds numbers as floating-point, whose text would end in `.0`.
  const entity = sql`(SELECT CASE typeof(value) WHEN 'real' THEN CAST(value AS INTEGER) ELSE value END AS id
    FROM (SELECT ${entityId} AS value)) AS entity`
  const ofCompany = sql`FROM audit_log WHERE company_id = ${companyId}`
  const newest = sql`(SELECT * ${ofCompany} ORDER BY id DESC LIMIT ${sql.raw(String(REPEATED.entries))})`
  const isRecorded = sql`EXISTS (SELECT 1 FROM ${newest} WHERE entity_id = entity.id
    AND action = ${action} AND token_id = ${tokenId} AND at > ${now} - ${sql.raw(String(REPEATED.withinMs))})`
  return insertRow(
    auditLog,
    {
      company_id: companyId,
      id: sql`1 + coalesce((SELECT max(id) ${ofCompany}), (SELECT audit_expired FROM companies WHERE id = ${companyId}))`,
      token_id: tokenId,
      request_id: requestId,
      action: sql`${action}`,
      entity_id: sql`entity.id`,
      at: now,
    },
    sql`FROM ${entity} WHERE ${when} AND NOT ${isRecorded}`,
  )
}

const ADMIN_COLUMNS = 'company_id, actor, action, entity_id, address, request_id, at'

/** A statement for the batch of an administrator's change. `entityId` may be SQL that reads an id of the same batch. */
export function adminEntry(
  { companyId, caller, address, requestId, now }: Administrator,
  action: string,
  entityId: SQL | string | number,
  when: SQL = sql`1`,
) {
  const company = companyId === 0 ? null : companyId
  const entity = typeof entityId === 'number' ? String(entityId) : entityId
  return statement(sql`INSERT INTO admin_log (${sql.raw(ADMIN_COLUMNS)})
    SELECT ${company}, ${caller.actor}, ${action}, ${entity}, ${address}, ${requestId}, ${now} WHERE ${when}`)
}

const COLLECTED_AT_ONCE = 500

/** Moves entries from the database of their change to the directory, which is listed. A repeated run adds none twice. */
export async function collectAdminEntries(env: Env, database: string): Promise<void> {
  if (database === DIRECTORY) return
  const db = openDatabase(bindingOf(env, database))
  const [rows] = await db.read([
    statement(`SELECT ${ADMIN_COLUMNS} FROM admin_log ORDER BY id LIMIT ${COLLECTED_AT_ONCE}`),
  ])
  if (rows.length === 0) return
  const json = JSON.stringify(rows)
  const values = ADMIN_COLUMNS.replaceAll(/\w+/g, (name) => `e.value ->> '$.${name}'`)
  const same = `admin_log AS o WHERE o.at = e.value ->> '$.at' AND (${ADMIN_COLUMNS}) IS (${values})`
  const insertion = `INSERT INTO admin_log (${ADMIN_COLUMNS}) SELECT ${values} FROM json_each(?) AS e
    WHERE NOT EXISTS (SELECT 1 FROM ${same})`
  await directoryFor(env).writeIdempotent([statement(insertion, json)])
  // Once the table is empty, new entries get the same ids again.
  const removal = `DELETE FROM admin_log WHERE id IN (SELECT o.id FROM json_each(?) AS e, ${same})`
  await db.writeIdempotent([statement(removal, json)])
}

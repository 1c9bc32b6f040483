import { sql } from 'drizzle-orm'
import { adminEntry, collectAdminEntries } from '../../../kernel/db/audit.ts'
import { orm } from '../../../kernel/db/client.ts'
import { isPresent, isSettled } from '../../../kernel/db/placement.ts'
import { accountingConnections, integrations, moves, webhookEndpoints } from '../../../kernel/db/schema.ts'
import type { AdminContext } from '../context.ts'

/** Columns with encrypted values. Each value is bound to its company and kind: see `kernel/gate/credentials.ts`. */
const COLUMNS = {
  integrations: { table: integrations, column: integrations.credentials, id: integrations.kind },
  webhook_endpoints: { table: webhookEndpoints, column: webhookEndpoints.secret, id: webhookEndpoints.id },
  accounting_connections: {
    table: accountingConnections,
    column: accountingConnections.tokens,
    id: sql<string>`'accounting_sync'`,
  },
} as const

export type EncryptedTable = keyof typeof COLUMNS

export interface EncryptedValue {
  table: EncryptedTable
  companyId: number
  /** The kind of an integration, or the id of a webhook endpoint. */
  id: string
  stored: string
}

/** Finds a company with an unfinished move: it is undecided which of its two copies stays. */
export async function findMoving({ directory }: AdminContext): Promise<number | null> {
  const [[row]] = await directory.read([orm.select({ id: moves.company_id }).from(moves).limit(1)])
  return row?.id ?? null
}

/**
 * Counts the values not encrypted with a key, and lists some that may be changed.
 *
 * @param prefix how values of that key begin
 */
export async function listOldValues({ db }: AdminContext, prefix: string, after: string, limit: number) {
  const selects = (Object.keys(COLUMNS) as EncryptedTable[]).map((name) => {
    const { table, column, id } = COLUMNS[name]
    return sql`SELECT ${name} AS name, ${table.company_id} AS company_id, ${id} AS id, ${column} AS stored
      FROM ${table} WHERE ${column} IS NOT NULL AND substr(${column}, 1, ${prefix.length}) <> ${prefix}
        AND ${isPresent(sql`${table.company_id}`)}`
  })
  const all = sql`(${sql.join(selects, sql` UNION ALL `)}) AS v`
  const place = sql<string>`v.name || '/' || printf('%015d', v.company_id) || '/' || v.id`
  const [[count], rows] = await db.read([
    orm.select({ total: sql<number>`count(*)`.as('total') }).from(all),
    orm
      .select({
        table: sql<EncryptedTable>`v.name`.as('value_table'),
        companyId: sql<number>`v.company_id`.as('value_company'),
        id: sql<string>`v.id`.as('value_id'),
        stored: sql<string>`v.stored`.as('value_stored'),
        place: place.as('value_place'),
      })
      .from(all)
      .where(sql`${place} > ${after} AND ${isSettled(sql`v.company_id`)}`)
      .orderBy(sql`value_place`)
      .limit(limit),
  ])
  return { total: count?.total ?? 0, rows: rows satisfies EncryptedValue[] }
}

/** Replaces values unless they changed meanwhile. @param values with their new text */
export async function saveValues(context: AdminContext, values: (EncryptedValue & { encrypted: string })[]) {
  const updates = values.map(({ table: name, companyId, id, stored, encrypted }) => {
    const { table, column, id: idColumn } = COLUMNS[name]
    // This context is of a whole database, whose writes nothing else refuses.
    const isMeant = sql`${table.company_id} = ${companyId} AND ${idColumn} = ${id} AND ${column} = ${stored}
      AND ${isSettled(table.company_id.getSQL())}`
    return orm
      .update(table)
      .set({ [column.name]: encrypted })
      .where(isMeant)
  })
  await context.db.writeIdempotent([adminEntry(context, 'keys.rotate', values.length), ...updates])
  await collectAdminEntries(context.env, context.database)
}

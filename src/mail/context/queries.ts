import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { type Database, orm, type Placeholders, prepare } from '../../db/client.ts'
import { threadContexts } from '../../db/schema.ts'

type JsonColumn = 'client_data' | 'clients_data' | 'orders_data' | 'participant_emails' | 'participants_data'

/** Tables that an id in a context may be of; a deleted row is still the company's. */
type Owned = 'clients' | 'orders'

const newestTied = prepare((p: Placeholders<'companyId' | 'legacyThreadId'>) => {
  const { company_id: companyId, ...columns } = getTableColumns(threadContexts)
  return orm
    .select({
      ...columns,
      clientId: sql<string | null>`CASE WHEN ${isOwned('clients', sql`thread_contexts.client_id`)} THEN client_id END`,
      clientData: sql<string | null>`(SELECT json FROM ${elementsOf('client_data')} WHERE ${belongs('clients')})`,
      clientsData: ownedPart('clients_data', 'clients'),
      ordersData: ownedPart('orders_data', 'orders'),
      selectedOrderId: sql<
        string | null
      >`CASE WHEN ${isOwned('orders', sql`thread_contexts.selected_order_id`)} THEN selected_order_id END`,
    })
    .from(threadContexts)
    .where(sql`${companyId} = ${p.companyId} AND ${columns.legacy_thread_id} = ${p.legacyThreadId} AND ${isTied()}`)
    .orderBy(sql`${columns.updated_at} DESC, ${threadContexts}.rowid DESC`)
    .limit(1)
})

/** The company's newest context with this legacy id that is tied to it, without what is another company's. */
export async function findThreadContext(db: Database, companyId: number, legacyThreadId: string) {
  const [[row]] = await db.read([newestTied({ companyId, legacyThreadId })])
  return row
}

export type ThreadContextRow = NonNullable<Awaited<ReturnType<typeof findThreadContext>>>

/** By its client, by an order in `orders_data`, or by the company's id anywhere in its JSON. */
function isTied(): SQL {
  const names = (
    ['client_data', 'clients_data', 'orders_data', 'participant_emails', 'participants_data'] as const
  ).map(
    (
      column,
    ) => sql`EXISTS (SELECT 1 FROM json_tree(${sql.raw(column)}) AS node WHERE node.key IN ('company_id', 'companyId')
      AND node.type IN ('integer', 'text') AND CAST(node.atom AS TEXT) = CAST(thread_contexts.company_id AS TEXT))`,
  )
  const order = sql`SELECT 1 FROM ${elementsOf('orders_data')} WHERE ${belongs('orders')} AND element.id <> 'null'`
  return sql`(${isOwned('clients', sql`thread_contexts.client_id`)} OR EXISTS (${order}) OR ${sql.join(names, sql` OR `)})`
}

/** The elements of an array, or any other JSON as one: each as JSON with its id, also as JSON. */
function elementsOf(column: JsonColumn): SQL {
  const name = sql.raw(`thread_contexts.${column}`)
  return sql`(SELECT json, CASE WHEN type IN ('integer', 'real', 'text') THEN json ELSE json -> '$.id' END AS id FROM (
    SELECT type, CASE WHEN type IN ('object', 'array') THEN value WHEN type IN ('null', 'true', 'false') THEN type
      ELSE json_quote(value) END AS json FROM json_each(${name}) WHERE json_type(${name}) = 'array'
    UNION ALL SELECT json_type(${name}), ${name} WHERE json_type(${name}) <> 'array')) AS element`
}

/** Whether an element names no other company and has no id but one of the company's. */
function belongs(table: Owned): SQL {
  const company = sql`CAST(thread_contexts.company_id AS TEXT)`
  const namesNoOther = (member: string) => sql`coalesce(element.json -> ${sql.raw(`'$.${member}'`)}, 'null')
    IN ('null', ${company}, '"' || ${company} || '"')`
  return sql`${namesNoOther('company_id')} AND ${namesNoOther('companyId')}
    AND (coalesce(element.id, 'null') = 'null' OR ${isOwned(table, sql`trim(element.id, '"')`)})`
}

/** Whether a text is the id of a row of the company, as its digits. */
function isOwned(table: Owned, text: SQL): SQL {
  return sql`EXISTS (SELECT 1 FROM ${sql.raw(table)} AS owned WHERE owned.company_id = thread_contexts.company_id
    AND owned.id = CAST(${text} AS INTEGER) AND CAST(owned.id AS TEXT) = ${text})`
}

/** What of a part is the company's. */
function ownedPart(column: JsonColumn, table: Owned): SQL<string | null> {
  const owned = sql`FROM ${elementsOf(column)} WHERE ${belongs(table)}`
  return sql`CASE WHEN json_type(${sql.raw(column)}) = 'array' THEN (SELECT json_group_array(json(json)) ${owned})
    ELSE (SELECT json ${owned}) END`
}

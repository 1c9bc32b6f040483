import { type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../db/client.ts'
import { threadContexts } from '../../db/schema.ts'

/*
 * A context belongs to the company whose seed wrote it, but may tell of others; ids are unique only within a company.
 * So whose an id is must be decided, and one rule does it everywhere: an id that the writer has is the writer's, else
 * it is the caller's if the caller has it, else that of whoever has it; what nobody has, and what has no id, is the
 * writer's. A deleted client or order still belongs to its company. An element that names a company belongs to that one.
 */

/** The caller. */
const ME = sql`me.company_id`
/** The company that wrote the context. */
const WRITER = sql`t.company_id`

/** What the JSON columns hold that is JSON; anything else is left out of the answer and ties to nobody. */
const CLIENT_DATA = sql`t.client_data`
const CLIENTS_DATA = sql`t.clients_data`
const ORDERS_DATA = sql`t.orders_data`
const PARTICIPANT_EMAILS = sql`t.participant_emails`
const PARTICIPANTS_DATA = sql`t.participants_data`

type Owned = 'clients' | 'orders'

/**
 * The newest context with this legacy id that is tied to the company: through its client, an order in `orders_data`, or
 * a company id anywhere in its JSON. What belongs to another company is left out of it. JSON comes as text.
 */
export async function findThreadContext(db: Database, companyId: number, legacyThreadId: string) {
  const clientId = idIn(sql`t.client_id`)
  const selectedOrderId = idIn(sql`t.selected_order_id`)
  const [[row]] = await db.read([
    db.orm
      .select({
        threadId: sql<string>`t.thread_id`.as('thread_id'),
        legacyThreadId: sql<string | null>`t.legacy_thread_id`.as('legacy_thread_id'),
        senderEmail: sql<string | null>`t.sender_email`.as('sender_email'),
        clientId: when(belongs('clients', clientId), sql`t.client_id`).as('client_id'),
        clientData: when(
          sql`json_type(${valid(CLIENT_DATA)}) = 'object' AND ${belongsElement('clients', sql`(SELECT ${valid(CLIENT_DATA)} AS value, 'object' AS type)`, clientId)}`,
          CLIENT_DATA,
        ).as('client_data'),
        clientsData: ownElements('clients', CLIENTS_DATA).as('clients_data'),
        ordersData: ownElements('orders', ORDERS_DATA).as('orders_data'),
        selectedOrderId: when(belongs('orders', selectedOrderId), sql`t.selected_order_id`).as('selected_order_id'),
        participantEmails: valid(PARTICIPANT_EMAILS).as('participant_emails'),
        participantsData: valid(PARTICIPANTS_DATA).as('participants_data'),
        fetchedAt: sql<number>`t.fetched_at`.as('fetched_at'),
        updatedAt: sql<number>`t.updated_at`.as('updated_at'),
      })
      .from(
        sql`(SELECT CAST(${companyId} AS INTEGER) AS company_id) AS me
          JOIN ${threadContexts} AS t ON t.legacy_thread_id = ${legacyThreadId}`,
      )
      .where(
        sql`${ties('clients', clientId)} OR ${tiesByOrders()} OR ${namesMe(CLIENT_DATA)} OR ${namesMe(CLIENTS_DATA)}
          OR ${namesMe(ORDERS_DATA)} OR ${namesMe(PARTICIPANT_EMAILS)} OR ${namesMe(PARTICIPANTS_DATA)}`,
      )
      .orderBy(sql`t.updated_at DESC`, sql`t.fetched_at DESC`, sql`t.company_id = me.company_id DESC`, sql`t.thread_id`)
      .limit(1),
  ])
  return row
}

export type ThreadContextRow = NonNullable<Awaited<ReturnType<typeof findThreadContext>>>

function when(condition: SQL, value: SQL): SQL<string | null> {
  return sql`CASE WHEN ${condition} THEN ${value} END`
}

/** JSON text, or null where it is none: SQLite throws on broken JSON. */
function valid(json: SQL): SQL<string | null> {
  return sql`CASE WHEN json_valid(${json}) THEN ${json} END`
}

/** The elements of an array; anything else is one element. */
function elements(json: SQL): SQL {
  return sql`json_each(CASE WHEN json_valid(${json}) THEN
    CASE json_type(${json}) WHEN 'array' THEN ${json} ELSE json_array(json(${json})) END ELSE '[]' END)`
}

/** The id that a number or text is, else null. */
function idIn(value: SQL): SQL {
  return sql`(SELECT CASE
    WHEN typeof(v) IN ('integer', 'real') AND v = CAST(v AS INTEGER) AND v BETWEEN 1 AND 9007199254740991 THEN CAST(v AS INTEGER)
    WHEN typeof(v) = 'text' AND length(v) <= 16 AND v GLOB '[1-9]*' AND v NOT GLOB '*[^0-9]*' THEN CAST(v AS INTEGER)
    END FROM (SELECT ${value} AS v))`
}

/** A member of an object's JSON text that is a number or text: `true` would come out as 1. */
function member(json: SQL, name: string): SQL {
  const path = sql.raw(`'$.${name}'`)
  return sql`CASE WHEN json_type(${json}, ${path}) IN ('integer', 'real', 'text') THEN json_extract(${json}, ${path}) END`
}

/** The company that an element names. */
function companyIn(element: SQL): SQL {
  return idIn(
    sql`CASE ${element}.type WHEN 'object' THEN coalesce(${member(sql`${element}.value`, 'company_id')}, ${member(sql`${element}.value`, 'companyId')}) END`,
  )
}

function elementId(element: SQL): SQL {
  return idIn(
    sql`CASE WHEN ${element}.type = 'object' THEN ${member(sql`${element}.value`, 'id')}
      WHEN ${element}.type IN ('integer', 'real', 'text') THEN ${element}.value END`,
  )
}

function has(company: SQL, table: Owned, id: SQL): SQL {
  return sql`EXISTS (SELECT 1 FROM ${sql.raw(table)} AS o WHERE o.company_id = ${company} AND o.id = ${id})`
}

/** Whether an id (SQL that may be null) is the caller's. */
function belongs(table: Owned, id: SQL): SQL {
  const own = sql`own.id`
  return sql`(SELECT CASE
    WHEN own.id IS NULL OR ${has(WRITER, table, own)} THEN ${WRITER} = ${ME}
    WHEN ${has(ME, table, own)} THEN 1
    WHEN ${WRITER} <> ${ME} THEN 0
    ELSE NOT EXISTS (SELECT 1 FROM companies AS c WHERE ${has(sql`c.id`, table, own)})
    END FROM (SELECT ${id} AS id) AS own)`
}

/** Whether an id makes the caller one whom the context concerns. */
function ties(table: Owned, id: SQL): SQL {
  const own = sql`own.id`
  return sql`(SELECT ${has(ME, table, own)} AND (${WRITER} = ${ME} OR NOT ${has(WRITER, table, own)})
    FROM (SELECT ${id} AS id) AS own)`
}

/** @param fallbackId the id of an element that has none */
function belongsElement(table: Owned, rows: SQL, fallbackId: SQL = sql`NULL`): SQL {
  const element = sql`e`
  return sql`EXISTS (SELECT 1 FROM ${rows} AS e WHERE CASE WHEN ${companyIn(element)} IS NULL
    THEN ${belongs(table, sql`coalesce(${elementId(element)}, ${fallbackId})`)} ELSE ${companyIn(element)} = ${ME} END)`
}

/** The JSON without what is another company's. */
function ownElements(table: Owned, json: SQL): SQL<string | null> {
  const one = sql`(SELECT a.value AS value, a.type AS type)`
  return sql`CASE WHEN json_type(${valid(json)}) = 'array'
    THEN (SELECT json_group_array(json(${json} -> a.fullkey)) FROM ${elements(json)} AS a WHERE ${belongsElement(table, one)})
    WHEN EXISTS (SELECT 1 FROM ${elements(json)} AS a WHERE ${belongsElement(table, one)}) THEN ${json} END`
}

function tiesByOrders(): SQL {
  const element = sql`a`
  return sql`EXISTS (SELECT 1 FROM ${elements(ORDERS_DATA)} AS a
    WHERE coalesce(${companyIn(element)}, ${ME}) = ${ME} AND ${ties('orders', elementId(element))})`
}

/** Whether a company id of the caller stands anywhere in the JSON. */
function namesMe(json: SQL): SQL {
  return sql`EXISTS (SELECT 1 FROM json_tree(CASE WHEN json_valid(${json}) THEN ${json} ELSE '[]' END) AS n
    WHERE n.key IN ('company_id', 'companyId') AND n.type IN ('integer', 'real', 'text') AND ${idIn(sql`n.atom`)} = ${ME})`
}

import { type SQL, sql } from 'drizzle-orm'
import { type Database, orm, type Placeholders, prepare } from '../../db/client.ts'

/*
 * A context belongs to the company whose seed wrote it, but may tell of others; ids are unique only within a company.
 * So whose an id is must be decided, and one rule does it everywhere: an id that the writer has is the writer's, else
 * it is the caller's if the caller has it, else that of whoever has it; what nobody has, and what has no id, is the
 * writer's. A deleted client or order still belongs to its company. What names a company belongs to that one.
 */

type Wanted = Placeholders<'companyId' | 'legacyThreadId'>

const newestTied = prepare((p: Wanted) =>
  orm
    .select({
      threadId: sql<string>`thread_id`.as('the_thread_id'),
      legacyThreadId: sql<string | null>`legacy_thread_id`.as('the_legacy_thread_id'),
      senderEmail: sql<string | null>`sender_email`.as('the_sender_email'),
      clientId: sql<string | null>`client_id`.as('the_client_id'),
      clientData: sql<string | null>`client_data`.as('the_client_data'),
      clientsData: sql<string | null>`clients_data`.as('the_clients_data'),
      ordersData: sql<string | null>`orders_data`.as('the_orders_data'),
      selectedOrderId: sql<string | null>`selected_order_id`.as('the_selected_order_id'),
      participantEmails: sql<string | null>`participant_emails`.as('the_participant_emails'),
      participantsData: sql<string | null>`participants_data`.as('the_participants_data'),
      fetchedAt: sql<number>`fetched_at`.as('the_fetched_at'),
      updatedAt: sql<number>`updated_at`.as('the_updated_at'),
    })
    .from(sql`(${tiedContext(p)})`),
)

/**
 * The newest context with this legacy id that is tied to the company: through its client, an order in `orders_data`, or
 * a company id anywhere in its JSON. What belongs to another company is left out of it, and so is what is no JSON.
 * JSON comes as text.
 */
export async function findThreadContext(db: Database, companyId: number, legacyThreadId: string) {
  const [[row]] = await db.read([newestTied({ companyId, legacyThreadId })])
  return row
}

export type ThreadContextRow = NonNullable<Awaited<ReturnType<typeof findThreadContext>>>

/** The parts of a context that may belong to one company or another, in the order in which `values` reads them. */
const CLIENT_ID = sql.raw('0')
const CLIENT_DATA = sql.raw('1')
const CLIENTS_DATA = sql.raw('2')
const ORDERS_DATA = sql.raw('3')
const SELECTED_ORDER_ID = sql.raw('4')

/**
 * Step by step: `context` is every context with this id; `part_value` each value in its parts, `named` with the id and
 * the company that it names, `found` with who has that id, `owned` with whether it is the caller's.
 */
function tiedContext({ companyId, legacyThreadId }: Wanted): SQL {
  return sql`WITH me (company_id) AS (SELECT CAST(${companyId} AS INTEGER)),
    context AS MATERIALIZED (
      SELECT rowid AS row, company_id AS writer, thread_id, legacy_thread_id, sender_email, client_id,
        selected_order_id, fetched_at, updated_at, ${valid('client_data')}, ${valid('clients_data')},
        ${valid('orders_data')}, ${valid('participant_emails')}, ${valid('participants_data')}
      FROM thread_contexts WHERE legacy_thread_id = ${legacyThreadId}),
    part_value AS (
      SELECT c.row, c.writer, p.key AS part, v.key AS place, p.value -> v.fullkey AS json,
        CASE v.type WHEN 'object' THEN coalesce(${member('company_id')}, ${member('companyId')}) END AS company,
        CASE WHEN v.type = 'object' THEN ${member('id')} WHEN v.type IN ('integer', 'real', 'text') THEN v.value END AS id,
        CASE p.key WHEN ${CLIENT_DATA} THEN c.client_id END AS other_id
      FROM context AS c,
        json_each(json_array(json_array(c.client_id), ${listOf('c.client_data')}, ${listOf('c.clients_data')},
          ${listOf('c.orders_data')}, json_array(c.selected_order_id))) AS p,
        json_each(p.value) AS v),
    named AS MATERIALIZED (
      SELECT row, writer, part, place, json, ${idIn('company')} AS company,
        coalesce(${idIn('id')}, ${idIn('other_id')}) AS id_of_value
      FROM part_value),
    found AS MATERIALIZED (
      SELECT named.*, ${has('me.company_id')} AS i_have, ${has('writer')} AS writer_has FROM named, me),
    owned AS MATERIALIZED (
      SELECT row, part, place, json,
        CASE WHEN company IS NOT NULL THEN company = me.company_id
          WHEN id_of_value IS NULL OR writer_has THEN writer = me.company_id
          WHEN i_have THEN 1
          WHEN writer <> me.company_id THEN 0
          ELSE NOT EXISTS (SELECT 1 FROM companies WHERE ${has('companies.id')}) END AS is_mine,
        part IN (${CLIENT_ID}, ${ORDERS_DATA}) AND i_have AND (writer = me.company_id OR NOT writer_has)
          AND coalesce(company, me.company_id) = me.company_id AS ties
      FROM found, me)
    SELECT thread_id, legacy_thread_id, sender_email, ${mine(CLIENT_ID, 'client_id')},
      CASE WHEN json_type(client_data) = 'object' AND ${isMine(CLIENT_DATA)} THEN client_data END AS client_data,
      ${mineAmong(CLIENTS_DATA, 'clients_data')}, ${mineAmong(ORDERS_DATA, 'orders_data')},
      ${mine(SELECTED_ORDER_ID, 'selected_order_id')}, participant_emails, participants_data, fetched_at, updated_at
    FROM context, me
    WHERE EXISTS (SELECT 1 FROM owned WHERE owned.row = context.row AND ties)
      OR EXISTS (
        SELECT 1 FROM json_tree(json_array(json(client_data), json(clients_data), json(orders_data),
          json(participant_emails), json(participants_data))) AS n
        WHERE n.key IN ('company_id', 'companyId') AND n.type IN ('integer', 'real', 'text')
          AND ${idIn('n.atom')} = me.company_id)
    ORDER BY updated_at DESC, fetched_at DESC, writer = me.company_id DESC, thread_id LIMIT 1`
}

/** A column's text where it is JSON, also two levels deep: SQLite throws on broken JSON, and past 1,000 levels. */
function valid(column: string): SQL {
  const name = sql.raw(column)
  return sql`CASE WHEN json_valid(${name}) AND json_valid('[[' || ${name} || ']]') THEN ${name} END AS ${name}`
}

/** The elements of an array; any other JSON is one value. */
function listOf(column: string): SQL {
  const name = sql.raw(column)
  return sql`json(CASE WHEN ${name} IS NULL THEN '[]' WHEN json_type(${name}) = 'array' THEN ${name} ELSE '[' || ${name} || ']' END)`
}

/** A member that is a number or text: SQLite would make 1 of `true`. */
function member(name: string): SQL {
  const path = sql.raw(`'$.${name}'`)
  return sql`CASE WHEN json_type(v.value, ${path}) IN ('integer', 'real', 'text') THEN v.value ->> ${path} END`
}

/** The id that a number or text is, else null. */
function idIn(value: string): SQL {
  const v = sql.raw(value)
  return sql`CASE
    WHEN typeof(${v}) IN ('integer', 'real') AND ${v} = CAST(${v} AS INTEGER) AND ${v} BETWEEN 1 AND 9007199254740991
      THEN CAST(${v} AS INTEGER)
    WHEN typeof(${v}) = 'text' AND length(${v}) <= 16 AND ${v} GLOB '[1-9]*' AND ${v} NOT GLOB '*[^0-9]*'
      THEN CAST(${v} AS INTEGER) END`
}

/** Whether a company has the client, or the order, whose id a value is. */
function has(company: string): SQL {
  const owner = sql.raw(company)
  return sql`CASE WHEN part < ${ORDERS_DATA}
    THEN EXISTS (SELECT 1 FROM clients AS o WHERE o.company_id = ${owner} AND o.id = id_of_value)
    ELSE EXISTS (SELECT 1 FROM orders AS o WHERE o.company_id = ${owner} AND o.id = id_of_value) END`
}

function isMine(part: SQL): SQL {
  return sql`(SELECT is_mine FROM owned WHERE owned.row = context.row AND part = ${part} LIMIT 1)`
}

function mine(part: SQL, column: string): SQL {
  const name = sql.raw(column)
  return sql`CASE WHEN ${isMine(part)} THEN ${name} END AS ${name}`
}

/** A part's JSON without what is another company's. */
function mineAmong(part: SQL, column: string): SQL {
  const name = sql.raw(column)
  return sql`CASE WHEN json_type(${name}) = 'array' THEN (
      SELECT json_group_array(json(json)) FROM (
        SELECT json FROM owned WHERE owned.row = context.row AND part = ${part} AND is_mine ORDER BY place))
    WHEN ${isMine(part)} THEN ${name} END AS ${name}`
}

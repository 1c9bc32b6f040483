import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { type CompanyContext, orm, type Placeholders, prepare } from '../db/client.ts'
import { emailThreadSegments, emailThreads, threadContexts } from '../db/schema.ts'

/** What identifies a thread within its company; the email is lower-case. */
export type ThreadKey = Record<'legacyThreadId' | 'accountEmail', string>

export type Key = 'companyId' | keyof ThreadKey

export type ThreadRow = typeof emailThreads.$inferSelect

/** A stored segment of a thread. */
export interface Segment {
  field: string
  position: number
  /** Stored bytes. */
  bytes: number
  /** Null where it is not read yet, or not needed any more. */
  data: string | null
}

/** What a text's column holds while the text is stored in segments; no JSON text is equal to it. */
export const IN_SEGMENTS = '@'

/** The segments of a thread are read with its row when all of them have fewer stored bytes than this together. */
export const READ_AT_ONCE_BYTES = 262_144

/** Raise the number at its start whenever the form of the response changes. */
const etag = sql<string>`'"1.' || ${emailThreads.id} || '.' || ${emailThreads.revision} || '"'`

const threadRow = prepare((p: Placeholders<Key>) =>
  orm
    .select({ ...getTableColumns(emailThreads), etag: etag.as('etag') })
    .from(emailThreads)
    .where(isLive(p)),
)

const threadSegments = prepare((p: Placeholders<Key | 'knownEtags'>) =>
  selectSegments(sql`(SELECT id FROM ${emailThreads} WHERE ${isLive(p)}
    AND NOT EXISTS (SELECT 1 FROM json_each(${p.knownEtags}) WHERE value IN ('*', ${etag})))`),
)

/** A live thread and its segments: none when `knownEtags` has its ETag or `*`, without data when they are large. */
export async function findThread({ companyId, db }: CompanyContext, key: ThreadKey, knownEtags: string[]) {
  const [[row], segments] = await db.read([
    threadRow({ companyId, ...key }),
    threadSegments({ companyId, ...key, knownEtags: JSON.stringify(knownEtags) }),
  ])
  return row && { row, segments, isKnown: knownEtags.some((known) => known === '*' || known === row.etag) }
}

type OfRevision = Placeholders<'companyId' | 'id' | 'revision' | 'content_revision' | 'field' | 'first' | 'last'>

const segmentData = prepare((p: OfRevision) =>
  orm
    .select({ data: emailThreadSegments.data })
    .from(emailThreadSegments)
    .where(
      sql`thread_id = ${p.id} AND field = ${p.field} AND position BETWEEN ${p.first} AND ${p.last}
        AND EXISTS (SELECT 1 FROM ${emailThreads} WHERE id = ${p.id} AND company_id = ${p.companyId}
          AND (revision = ${p.revision} OR (${p.field} = 'content' AND content_revision = ${p.content_revision})))`,
    )
    .orderBy(emailThreadSegments.position),
)

/** Reads the data of consecutive segments of one field. @throws Error when the thread was replaced meanwhile */
export async function readSegments(
  { companyId, db }: CompanyContext,
  { id, revision, content_revision }: ThreadRow,
  segments: readonly Segment[],
): Promise<void> {
  const [first, last] = [segments[0], segments.at(-1)]
  if (!first || !last) return
  const range = { field: first.field, first: first.position, last: last.position }
  const [rows] = await db.read([segmentData({ companyId, id, revision, content_revision, ...range })])
  if (rows.length !== segments.length) throw new Error('The thread was replaced while it was sent.')
  for (const [index, { data }] of rows.entries()) Object.assign(segments[index] ?? {}, { data })
}

export const isThread = (p: Placeholders<Key>): SQL =>
  sql`${emailThreads.company_id} = ${p.companyId} AND ${emailThreads.legacy_thread_id} = ${p.legacyThreadId}
    AND ${emailThreads.account_email} = ${p.accountEmail}`

const isLive = (p: Placeholders<Key>) => sql`${isThread(p)} AND ${emailThreads.deleted} = 0`

/** Segments by field and position; without data where those of the thread are large together. */
export const selectSegments = (threadId: SQL, condition: SQL = sql`1`) => {
  const storedBytes = sql`(SELECT sum(octet_length(data)) FROM ${emailThreadSegments} WHERE thread_id = ${threadId})`
  const isSmall = sql`${storedBytes} <= ${sql.raw(String(READ_AT_ONCE_BYTES))}`
  return orm
    .select({
      field: emailThreadSegments.field,
      position: emailThreadSegments.position,
      bytes: sql<number>`octet_length(data)`.as('bytes'),
      data: sql<string | null>`CASE WHEN ${isSmall} THEN ${emailThreadSegments.data} END`.as('d'),
    })
    .from(emailThreadSegments)
    .where(sql`thread_id = ${threadId} AND ${condition}`)
    .orderBy(emailThreadSegments.field, emailThreadSegments.position)
}

/** Columns that hold JSON text. */
export const JSON_COLUMNS = [
  'client_data',
  'clients_data',
  'orders_data',
  'participant_emails',
  'participants_data',
] as const

/** Tables whose ids a context names; a soft-deleted row still belongs to the company. */
type Owned = 'clients' | 'orders'

const newestTied = prepare((p: Placeholders<'companyId' | 'legacyThreadId'>) => {
  const { company_id, ...columns } = getTableColumns(threadContexts)
  return orm
    .select({
      ...columns,
      client_id: ownedId('client_id', 'clients'),
      client_data: sql<string | null>`(SELECT json FROM ${elementsOf('client_data')} WHERE ${belongs('clients')})`,
      clients_data: ownedElements('clients_data', 'clients'),
      orders_data: ownedElements('orders_data', 'orders'),
      selected_order_id: ownedId('selected_order_id', 'orders'),
    })
    .from(threadContexts)
    .where(sql`${company_id} = ${p.companyId} AND ${columns.legacy_thread_id} = ${p.legacyThreadId} AND ${isTied()}`)
    .orderBy(sql`${columns.updated_at} DESC, ${threadContexts}.rowid DESC`)
    .limit(1)
})

/** The newest context with this legacy id that is tied to the company, without what belongs to another company. */
export async function findThreadContext({ companyId, db }: CompanyContext, legacyThreadId: string) {
  const [[row]] = await db.read([newestTied({ companyId, legacyThreadId })])
  return row
}

export type ThreadContextRow = NonNullable<Awaited<ReturnType<typeof findThreadContext>>>

/** By its client, by an order in `orders_data`, or by the company's id anywhere in its JSON. */
function isTied(): SQL {
  const namesCompany = JSON_COLUMNS.map(
    (column) => sql`EXISTS (SELECT 1 FROM json_tree(${sql.raw(column)}) AS node
      WHERE node.key IN ('company_id', 'companyId') AND node.type IN ('integer', 'text')
      AND CAST(node.atom AS TEXT) = CAST(thread_contexts.company_id AS TEXT))`,
  )
  const order = sql`SELECT 1 FROM ${elementsOf('orders_data')} WHERE ${belongs('orders')} AND element.id <> 'null'`
  const client = isOwned('clients', sql`thread_contexts.client_id`)
  return sql`(${client} OR EXISTS (${order}) OR ${sql.join(namesCompany, sql` OR `)})`
}

/** The elements of an array, or any other JSON as one element: each as JSON, with its id as JSON. */
function elementsOf(column: (typeof JSON_COLUMNS)[number]): SQL {
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

/** An id, or null where it is not one of the company's. */
function ownedId(column: 'client_id' | 'selected_order_id', table: Owned) {
  const id = sql`${threadContexts[column]}`
  return sql<string | null>`CASE WHEN ${isOwned(table, id)} THEN ${id} END`
}

/** The elements that belong to the company. */
function ownedElements(column: 'clients_data' | 'orders_data', table: Owned) {
  const owned = sql`FROM ${elementsOf(column)} WHERE ${belongs(table)}`
  return sql<string | null>`CASE WHEN json_type(${sql.raw(column)}) = 'array'
    THEN (SELECT json_group_array(json(json)) ${owned}) ELSE (SELECT json ${owned}) END`
}

import { Buffer } from 'node:buffer'
import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareBatch, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, insertRow } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type Actor, type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import type { CursorPosition } from '../../kernel/db/lists.ts'
import { threadContextLinks, threadContexts } from '../../kernel/db/schema.ts'
import { ApiError, invalid } from '../../kernel/http/errors.ts'
import { MAX_JSON_BYTES, NESTED, type NewThreadContext, referencesOf, refuseOtherCompanies } from './context-input.ts'
import type { ContextList } from './contract.ts'

/** A soft-deleted row still belongs to the company. */
type Owned = 'clients' | 'orders'

type ContextKey = Placeholders<'companyId' | 'legacyThreadId'>

const { company_id, legacy_thread_id, thread_id, updated_at } = threadContexts

const hasLegacyId = (p: ContextKey) => sql`${company_id} = ${p.companyId} AND ${legacy_thread_id} = ${p.legacyThreadId}`

const { company_id: _company, version, text_bytes, stored_bytes, ...columns } = getTableColumns(threadContexts)

/** Selects contexts tied to the company, reduced to the company's own contents. */
function selectContexts(condition: SQL) {
  return orm
    .select({
      ...columns,
      client_id: ownedId('client_id', 'clients'),
      client_data: sql<string | null>`(SELECT json ${ownedIn('client_data', 'clients')})`.as('client_data'),
      clients_data: ownedElements('clients_data', 'clients'),
      orders_data: ownedElements('orders_data', 'orders'),
      selected_order_id: ownedId('selected_order_id', 'orders'),
    })
    .from(threadContexts)
    .where(sql`${condition} AND ${isTied()}`)
}

const selectNewest = (p: ContextKey) =>
  selectContexts(hasLegacyId(p)).orderBy(sql`${updated_at} DESC, ${thread_id} DESC`).limit(1)

const newestTied = prepare(selectNewest)

/** Finds the newest context with this legacy id tied to the company, without the contents of other companies. */
export async function findThreadContext({ companyId, db }: CompanyContext, legacyThreadId: string) {
  const [[row]] = await db.read([newestTied({ companyId, legacyThreadId })])
  return row
}

type Page = Placeholders<'companyId' | 'entity' | 'entityId' | 'after' | 'limit'>

/** Limits the stored JSON of one page: further contexts are on the next. */
const MAX_PAGE_BYTES = 4_000_000

/** Selects the thread ids of a page and those after it: at most one more, or those that exceed the page's limit. */
function linksOf(p: Page): SQL {
  const bytes = NESTED.map((column) => sql.raw(`octet_length(coalesce(context.${column}, ''))`))
  const links = sql`SELECT link.thread_id, ${sql.join(bytes, sql` + `)} AS bytes
    FROM ${threadContextLinks} AS link CROSS JOIN ${threadContexts} AS context
      ON context.company_id = link.company_id AND context.thread_id = link.thread_id
    WHERE link.company_id = ${p.companyId} AND link.entity = ${p.entity} AND link.entity_id = ${p.entityId}
      AND link.thread_id > ${p.after} ORDER BY link.thread_id LIMIT ${p.limit} + 1`
  return sql`SELECT thread_id, sum(bytes) OVER (ORDER BY thread_id) - bytes < ${sql.raw(String(MAX_PAGE_BYTES))}
    AND row_number() OVER (ORDER BY thread_id) <= ${p.limit} AS is_shown FROM (${links})`
}

const contextPage = prepareBatch((p: Page) => {
  const isOnPage = sql`${company_id} = ${p.companyId}
    AND ${thread_id} IN (SELECT thread_id FROM (${linksOf(p)}) WHERE is_shown)`
  const isThisOne = sql`trim(element.id, '"') = ${p.entityId}`
  const names = (column: 'clients_data' | 'orders_data', table: Owned) =>
    sql`EXISTS (SELECT 1 ${ownedIn(column, table)} AND ${isThisOne})`
  const isClient = sql`thread_contexts.client_id = ${p.entityId} AND ${isOwned('clients', sql`thread_contexts.client_id`)}`
  const isLinked = sql`CASE ${p.entity} WHEN 'order' THEN ${names('orders_data', 'orders')}
    ELSE (${isClient}) OR ${names('clients_data', 'clients')} END`
  return [
    orm.select({ threadId: sql<string>`thread_id`, isShown: sql<number>`is_shown` }).from(sql`(${linksOf(p)})`),
    selectContexts(sql`${isOnPage} AND ${isLinked}`).orderBy(thread_id),
  ]
})

/** Lists contexts by thread id. `position` is the `next` of the previous page, null when no context follows. */
export async function listThreadContexts(
  { companyId, db }: CompanyContext,
  { client_id, order_id, per_page: limit, cursor: _cursor, ...unused }: ContextList,
  position: CursorPosition | null,
) {
  unused satisfies Record<string, never>
  const [after = ''] = position ?? []
  const entity = order_id === undefined ? 'client' : 'order'
  const values = { companyId, entity, entityId: String(order_id ?? client_id), after: String(after), limit }
  const [links, rows] = await db.read(contextPage(values))
  const shown = links.filter(({ isShown }) => isShown)
  const last = links.length > shown.length ? shown.at(-1) : undefined
  return { rows, next: last ? [last.threadId] : null }
}

const CONTEXT = sql.raw(`json_object(${Object.keys(columns).map((name) => `'${name}', ${name}`)})`)

const replacement = prepareNamed((p: Values) => {
  const problems = problemsOf(p)
  const isValid = sql`NOT EXISTS (${problems})`
  const times = { fetched_at: p.now, updated_at: p.now }
  const values = { ...p, ...times, legacy_thread_id: p.legacyThreadId }
  const created = { ...values, company_id: p.companyId, thread_id: threadIdOf(p) }
  const { thread_id: _, ...replaced } = assignments(threadContexts, values)
  return {
    context: insertRow(threadContexts, created, sql`WHERE ${isValid}`).onConflictDoUpdate({
      target: [company_id, thread_id],
      set: { ...replaced, version: sql`${version} + 1` },
    }),
    audit: auditEntry(p, 'thread_context.write', sql`${p.legacyThreadId}`, sql`changes() > 0`),
    others: orm
      .delete(threadContexts)
      .where(sql`${hasLegacyId(p)} AND ${thread_id} <> ${threadIdOf(p)} AND ${isValid}`),
    result: resultStatement(
      p,
      sql`json_array(json((SELECT ${CONTEXT} FROM ${selectNewest(p)})),
        json((SELECT json_group_array(path) FROM (${problems}))))`,
    ),
  }
})

/**
 * Makes this the only context with its legacy id, if all ids in it are the company's. Reading its result throws an
 * ApiError 400 naming each id that is not the company's or is deleted.
 *
 * @throws ApiError 400 naming each element of another company, 413 for too much JSON
 */
export function replacementOf(
  context: RequestContext,
  legacyThreadId: string,
  body: NewThreadContext,
): Write<ThreadContextRow> {
  refuseOtherCompanies(context.companyId, body)
  return {
    statements: replacement(valuesOf(context, legacyThreadId, body)),
    isIdempotent: true,
    read: (result) => {
      const [row, problems]: [ThreadContextRow | null, string[]] = JSON.parse(result ?? '[null,[]]')
      if (problems.length > 0) throw invalid(problems.map((path) => ({ path, message: messageOf(path) })))
      if (!row) throw new Error('The context that was written is not found.')
      return row
    },
  }
}

function messageOf(path: string): string {
  if (path === 'thread_id') return 'is the thread_id of a context with another legacy id'
  return `must be ${path.startsWith('client') ? 'a client' : 'an order'} of the company, and not a deleted one`
}

const deletion = prepareNamed((p: ContextKey & Placeholders<Actor, KeyName>) => {
  const isFound = sql`EXISTS (SELECT 1 FROM ${threadContexts} WHERE ${hasLegacyId(p)} AND ${isTied()})`
  return {
    result: resultStatement(p, sql`SELECT ${CONTEXT} FROM ${selectNewest(p)}`),
    audit: auditEntry(p, 'thread_context.delete', sql`${p.legacyThreadId}`, isFound),
    contexts: orm.delete(threadContexts).where(sql`${hasLegacyId(p)} AND ${isFound}`),
  }
})

/** Deletes every context with a legacy id. The result is the one found by it, undefined if none was. */
export function contextDeletionOf(
  context: RequestContext,
  legacyThreadId: string,
): Write<ThreadContextRow | undefined> {
  const statements = deletion({ ...writerOf(context), legacyThreadId })
  return { statements, isDeletion: true, read: (result) => (result === null ? undefined : JSON.parse(result)) }
}

type Values = Placeholders<Exclude<keyof ReturnType<typeof valuesOf>, KeyName>, KeyName>

function valuesOf(context: RequestContext, legacyThreadId: string, body: NewThreadContext) {
  const { thread_id = null, sender_email = null } = body
  // Ids are numbers, whose JSON is their digits.
  const names = ['client_id', 'selected_order_id', ...NESTED] as const
  const columns = names.map((name) => [name, body[name] == null ? null : JSON.stringify(body[name])])
  const json = Object.fromEntries(columns) as Record<(typeof names)[number], string | null>
  if (Buffer.byteLength(Object.values(json).join('')) > MAX_JSON_BYTES) {
    const message = `The context must have at most ${MAX_JSON_BYTES} bytes as JSON with its numbers written out`
    throw new ApiError('too_large', { message, details: { limit_bytes: MAX_JSON_BYTES } })
  }
  const references = JSON.stringify(referencesOf(body))
  return { ...writerOf(context), ...json, legacyThreadId, thread_id, sender_email, references }
}

/**
 * The stored thread id if none is sent, else the legacy id; the same before and after the write. The plus sign keeps
 * SQLite from searching the minimum among all contexts by key.
 */
function threadIdOf(p: Values): SQL {
  const stored = sql`(SELECT min(+${thread_id}) FROM ${threadContexts} WHERE ${hasLegacyId(p)})`
  return sql`coalesce(${p.thread_id}, ${stored}, ${p.legacyThreadId})`
}

/** Selects the path of each id that is deleted, of another company or of another context. A stored context keeps its own. */
function problemsOf(p: Values): SQL {
  const id = sql`reference.value ->> 'id'`
  const link = sql`SELECT 1 FROM ${threadContextLinks} AS link
    WHERE link.company_id = ${p.companyId} AND link.entity_id = ${id} AND link.thread_id = ${thread_id} AND link.entity`
  // The stored context names the id: the same before and after a write that names it, too.
  const isUsable = (table: Owned, isNamed: SQL) => sql`EXISTS (SELECT 1 FROM ${sql.raw(table)} AS used
    WHERE used.company_id = ${p.companyId} AND used.id = ${id}
      AND (used.deleted = 0 OR EXISTS (SELECT 1 FROM ${threadContexts} WHERE ${hasLegacyId(p)} AND ${isNamed})))`
  const client = sql`(CAST(client_data ->> '$.id' AS INTEGER) = ${id} OR EXISTS (${link} = 'client'))`
  return sql`SELECT reference.value ->> 'path' AS path FROM json_each(${p.references}) AS reference
      WHERE NOT CASE reference.value ->> 'table'
        WHEN 'orders' THEN ${isUsable('orders', sql`EXISTS (${link} = 'order')`)} ELSE ${isUsable('clients', client)} END
    UNION ALL SELECT 'thread_id' WHERE EXISTS (SELECT 1 FROM ${threadContexts} AS other
      WHERE other.company_id = ${p.companyId} AND other.thread_id = ${threadIdOf(p)}
        AND other.legacy_thread_id <> ${p.legacyThreadId})`
}

export type ThreadContextRow = NonNullable<Awaited<ReturnType<typeof findThreadContext>>>

/** A context is tied by its client, an order in `orders_data`, or the company's id anywhere in its JSON. */
function isTied(): SQL {
  const namesCompany = NESTED.map(
    (column) => sql`EXISTS (SELECT 1 FROM json_tree(${sql.raw(column)}) AS node
      WHERE node.key IN ('company_id', 'companyId') AND node.type IN ('integer', 'text')
      AND CAST(node.atom AS TEXT) = CAST(thread_contexts.company_id AS TEXT))`,
  )
  const order = sql`SELECT 1 ${ownedIn('orders_data', 'orders')} AND element.id <> 'null'`
  const client = isOwned('clients', sql`thread_contexts.client_id`)
  return sql`(${client} OR EXISTS (${order}) OR ${sql.join(namesCompany, sql` OR `)})`
}

/** The elements of an array as JSON, each with its id as JSON; any other JSON counts as one element. */
function elementsOf(column: (typeof NESTED)[number]): SQL {
  const name = sql.raw(`thread_contexts.${column}`)
  return sql`(SELECT json, CASE WHEN type IN ('integer', 'real', 'text') THEN json ELSE json -> '$.id' END AS id FROM (
    SELECT type, CASE WHEN type IN ('object', 'array') THEN value WHEN type IN ('null', 'true', 'false') THEN type
      ELSE json_quote(value) END AS json FROM json_each(${name}) WHERE json_type(${name}) = 'array'
    UNION ALL SELECT json_type(${name}), ${name} WHERE json_type(${name}) <> 'array')) AS element`
}

/** Whether an element names no other company and its id, if any, is the company's. */
function belongs(table: Owned): SQL {
  const company = sql`CAST(thread_contexts.company_id AS TEXT)`
  const namesNoOther = (member: string) => sql`coalesce(element.json -> ${sql.raw(`'$.${member}'`)}, 'null')
    IN ('null', ${company}, '"' || ${company} || '"')`
  return sql`${namesNoOther('company_id')} AND ${namesNoOther('companyId')}
    AND (coalesce(element.id, 'null') = 'null' OR ${isOwned(table, sql`trim(element.id, '"')`)})`
}

/** Whether a text has the digits of a company's row id. */
function isOwned(table: Owned, text: SQL): SQL {
  return sql`EXISTS (SELECT 1 FROM ${sql.raw(table)} AS owned WHERE owned.company_id = thread_contexts.company_id
    AND owned.id = CAST(${text} AS INTEGER) AND CAST(owned.id AS TEXT) = ${text})`
}

function ownedId(column: 'client_id' | 'selected_order_id', table: Owned) {
  const id = sql`${threadContexts[column]}`
  return sql<string | null>`CASE WHEN ${isOwned(table, id)} THEN ${id} END`.as(column)
}

/** `FROM` and `WHERE` of the elements that are the company's. */
const ownedIn = (column: (typeof NESTED)[number], table: Owned) =>
  sql`FROM ${elementsOf(column)} WHERE ${belongs(table)}`

function ownedElements(column: 'clients_data' | 'orders_data', table: Owned) {
  const owned = ownedIn(column, table)
  return sql<string | null>`CASE WHEN json_type(${sql.raw(column)}) = 'array'
    THEN (SELECT json_group_array(json(json)) ${owned}) ELSE (SELECT json ${owned}) END`.as(column)
}

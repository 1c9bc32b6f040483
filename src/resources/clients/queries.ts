import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { auditEntry } from '../../kernel/db/audit.ts'
import { mapRows, OWN_SLOT, orm, type Placeholders, prepare, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, COLUMNS, fold, insertRow, jsonRow, type RowOf, withClientKeys } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type Actor, type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { idsOfPage, type List, type PageStart, perVariant, readPage, summaryOf } from '../../kernel/db/lists.ts'
import { creationGuard, externalGuardsOf, failWhen, isOtherVersion, versionsOf } from '../../kernel/db/refusals.ts'
import { clients, companies } from '../../kernel/db/schema.ts'
import { clientSearch, idOf, inSlot, rowidOf } from '../../kernel/db/search.ts'
import { type ClientFields, type ClientList, initial, type NewClient, type WholeClient } from './contract.ts'

export type ClientRow = RowOf<typeof COLUMNS.clients>

export type ClientKey = { clientId: number } | { emailKey: string } | { externalId: string }

type Key = Placeholders<'companyId', 'clientId' | 'emailKey' | 'externalId'>

const clientByKey = prepare((p: Key) => orm.select(COLUMNS.clients).from(clients).where(isClient(p)))

export async function findClient({ db, companyId }: CompanyContext, key: ClientKey) {
  const [[row]] = await db.read([clientByKey({ companyId, ...key })])
  return row
}

export async function listClients(context: RequestContext, query: ClientList, start: PageStart) {
  const { page: _page, per_page: _perPage, cursor: _cursor, ...listed } = query
  const { sort, deleted, q = '', updated_since, external_id, ...unused } = listed
  // A parameter that this list ignores is a type error.
  unused satisfies Record<string, never>
  const { db, companyId } = context
  const text = fold(q).trim()
  const search = text === '' ? {} : { slot: OWN_SLOT, ...clientSearch(text) }
  const values = { companyId, updated_since, external_id, ...search }
  return readPage(db, sort, start, statements({ sort, deleted }), values)
}

type Variant = Pick<ClientList, 'sort' | 'deleted'>
type ListedValues = List['p'] & Placeholders<never, 'slot' | 'match' | 'folded' | 'digits'>

const CLIENT = jsonRow(COLUMNS.clients)

const statements = perVariant((variant: Variant) => {
  const page = prepare((p: ListedValues) => {
    const { ids, order } = idsOfPage(listOf(variant, p))
    const isOnPage = sql`${clients.company_id} = ${p.companyId} AND ${clients.id} = page_id`
    return orm
      .select({ json: CLIENT.row.as('json'), sortValue: sql`sort_value`.as('sortValue') })
      .from(sql`(${ids}) AS page CROSS JOIN ${clients} ON ${isOnPage}`)
      .orderBy(order)
  })
  return {
    page: (values: Parameters<typeof page>[0]) => mapRows(page(values), decodeRows),
    summary: prepare((p: ListedValues) => summaryOf(listOf(variant, p))),
  }
})

const decodeRows = (rows: { json: string; sortValue: string | number }[]) =>
  rows.map(({ json, sortValue }) => ({ row: CLIENT.decode(json), sortValue }))

function listOf(variant: Variant, p: ListedValues): List {
  // The full-text table has only clients that are not deleted.
  const search = p.match && { hits: hitsOf(p, variant.sort), condition: hasText(p), isExact: true }
  return { table: 'clients', ...variant, filters: [], search, p }
}

function hasText({ folded, digits }: ListedValues): SQL {
  const inDigits = digits ? sql`OR instr(clients.phone_digits, ${digits}) > 0` : sql``
  return sql`(instr(clients.search_text, ${folded}) > 0 ${inDigits})`
}

/** The hits in the order of their ids; in an order by id, those behind the cursor. */
function hitsOf({ slot, match, id }: ListedValues, sort: Variant['sort']) {
  const isDescending = sort.startsWith('-')
  const [low, high] = isDescending ? [sql`0`, sql`${id} - 1`] : [sql`${id} + 1`, sql`9007199254740991`]
  const isBehind = /^-?id$/.test(sort) && id && slot
  const inRange = isBehind ? sql`BETWEEN ${rowidOf(slot, low)} AND ${rowidOf(slot, high)}` : slot && inSlot(slot)
  return (limit: SQL) => sql`SELECT ${idOf(sql`rowid`)} AS id FROM clients_fts
    WHERE clients_fts MATCH ${match} AND rowid ${inRange} ORDER BY rowid ${sql.raw(isDescending ? 'DESC' : 'ASC')} ${limit}`
}

type Change = Placeholders<Actor, keyof ReturnType<typeof withClientKeys<ClientFields>> | KeyName>

const insertion = (p: Change) =>
  insertRow(
    clients,
    { ...p, company_id: p.companyId, id: sql`last_client_id + 1`, created_at: p.now, updated_at: p.now },
    sql`FROM ${companies} WHERE ${companies.id} = ${p.companyId}`,
  )

const creation = prepareNamed((p: Change) => {
  const created = sql`(SELECT last_client_id FROM companies WHERE id = ${p.companyId})`
  const isCreated = sql`${clients.company_id} = ${p.companyId} AND ${clients.id} = ${created}`
  return {
    ...creationGuard('clients', p),
    client: insertion(p),
    audit: auditEntry(p, 'client.create', created),
    result: resultStatement(p, sql`SELECT ${CLIENT.row} FROM ${clients} WHERE ${isCreated}`),
  }
})

export function creationOf(context: RequestContext, fields: NewClient): Write<ClientRow> {
  return { statements: creation({ ...writerOf(context), ...withClientKeys(fields) }), read: decodeCreated }
}

function decodeCreated(result: string | null): ClientRow {
  if (result === null) throw new Error('An insert returned no row.')
  return CLIENT.decode(result)
}

const valuesOf = (p: Change) => assignments(clients, { ...p, updated_at: p.now, version: sql`version + 1` })

const change = prepareNamed((p: Change & Key & Placeholders<never, 'versions' | 'isDeletion'>) => {
  // A repeated deletion is no change: it has no version, no audit entry and no place in the feed.
  const isMeant = p.isDeletion ? sql`${isClient(p)} AND deleted = 0` : isClient(p)
  const id = sql`(SELECT id FROM ${clients} WHERE ${isMeant})`
  // After the change, the email may name another client, or none: the changed one is the feed's newest.
  const newest = sql`(SELECT entity_id FROM changes WHERE company_id = ${p.companyId}
    AND sequence = (SELECT last_change FROM companies WHERE id = ${p.companyId}))`
  const clientId = sql`iif(changes() > 0, ${newest}, (SELECT id FROM ${clients} WHERE ${isClient(p)}))`
  const isResult = p.emailKey ? isClient({ ...p, clientId }) : isClient(p)
  const action = p.deleted ? sql`iif(${p.deleted}, 'client.delete', 'client.update')` : 'client.update'
  return {
    ...(p.versions && { guard: failWhen(isOtherVersion(p.versions), sql`${clients}`, isClient(p)) }),
    audit: auditEntry(p, action, id, sql`EXISTS ${id}`),
    client: orm.update(clients).set(valuesOf(p)).where(isMeant),
    result: resultStatement(p, sql`SELECT ${CLIENT.row} FROM ${clients} WHERE ${isResult}`),
  }
})

/** Sets only the columns of the sent fields, so that concurrent updates of different fields are all applied. */
export function changeOf(context: RequestContext, key: ClientKey, fields: ClientFields): Write<ClientRow | undefined> {
  const versions = versionsOf(context.ifMatch)
  const isDeletion = fields.deleted === true && Object.keys(fields).length === 1
  const deletionFlag = isDeletion ? 1 : undefined
  return {
    statements: change({ ...writerOf(context), ...withClientKeys(fields), ...key, versions, isDeletion: deletionFlag }),
    // A second run would find its own version refused. After a change of the email or of `deleted`, the same email may
    // name another client.
    isIdempotent: 'clientId' in key && versions === undefined,
    isDeletion,
    read: (result) => (result === null ? undefined : CLIENT.decode(result)),
  }
}

/** The key's placeholder is `externalId`, since a change may set the column `external_id`. */
const replacement = prepareNamed((p: Change & Record<'externalId', Placeholder>) => ({
  client: insertion({ ...p, external_id: p.externalId }).onConflictDoUpdate({
    target: [clients.company_id, clients.external_id],
    targetWhere: sql`external_id IS NOT NULL`,
    set: valuesOf(p),
  }),
  audit: auditEntry(p, 'client.write', sql`(SELECT id FROM ${clients} WHERE ${isClient(p)})`),
  result: resultStatement(p, sql`SELECT ${CLIENT.row} FROM ${clients} WHERE ${isClient(p)}`),
}))

const externalGuards = externalGuardsOf('clients')

export function replacementOf(context: RequestContext, externalId: string, sent: WholeClient): Write<ClientRow> {
  const guards = externalGuards(context, externalId)
  const fields = withClientKeys({ ...initial, ...sent })
  const statements = { ...guards, ...replacement({ ...writerOf(context), ...fields, externalId }) }
  return { statements, isIdempotent: Object.keys(guards).length === 0, read: decodeCreated }
}

type SelectedKey = Omit<Key, 'clientId'> & { clientId?: Placeholder | SQL }

/** Prefers a client that is not deleted among several with one email, then the lowest id. */
function isClient({ companyId, clientId, emailKey, externalId }: SelectedKey): SQL {
  if (externalId) return sql`${clients.company_id} = ${companyId} AND ${clients.external_id} = ${externalId}`
  const id =
    clientId ??
    sql`(SELECT id FROM clients WHERE company_id = ${companyId} AND email_key = ${emailKey} ORDER BY deleted, id LIMIT 1)`
  return sql`${clients.company_id} = ${companyId} AND ${clients.id} = ${id}`
}

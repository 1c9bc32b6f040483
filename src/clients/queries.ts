import { and, desc, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type Actor, actorOf, auditEntry } from '../db/audit.ts'
import { type Database, orm, type Placeholders, prepare } from '../db/client.ts'
import { clientColumns, given, jsonRow } from '../db/columns.ts'
import { clients, companies } from '../db/schema.ts'
import { clientQuery, digitsOf, fold, idOf, inSlot } from '../db/search.ts'
import type { RequestContext } from '../http/context.ts'
import { offsetOf, type Page } from '../http/pagination.ts'
import type { ClientFields } from './contract.ts'
import type { ClientRow } from './present.ts'

/** How a caller names a client: by id, or by an email that matches exactly whatever its case. */
export type ClientKey = { id: number } | { email: string }

interface Company {
  companyId: number
  companySlot: number
}

const countAll = sql<number>`count(*)`.as('total')

const isLive = (companyId: number | Placeholder) => sql`${clients.companyId} = ${companyId} AND ${clients.deleted} = 0`

const pageOfAll = prepare((p: Placeholders<'companyId' | 'limit' | 'offset'>) =>
  orm
    .select(clientColumns)
    .from(clients)
    .where(isLive(p.companyId))
    .orderBy(desc(clients.id))
    .limit(p.limit)
    .offset(p.offset),
)

const countOfAll = prepare((p: Placeholders<'companyId'>) =>
  orm.select({ total: companies.clientCount }).from(companies).where(eq(companies.id, p.companyId)),
)

/** So many hits behind a page are gathered with it: where there are no more, their number is the total. */
const GATHERED = 100

/**
 * A page of what the index finds, and the total, of which a second search is needed only where many are found. A row
 * without a client where the page is empty.
 */
const pageOfHits = prepare((p: Placeholders<'companyId' | 'slot' | 'match' | 'limit' | 'offset' | 'gathered'>) => {
  const found = sql`FROM clients_fts WHERE clients_fts MATCH ${p.match} AND ${inSlot(p.slot, sql`rowid`)}`
  const page = sql`(SELECT hit FROM hits ORDER BY hit DESC LIMIT ${p.limit} OFFSET ${p.offset})`
  return orm
    .select({ total: sql<number>`total`.as('the_total'), client: sql`client`.mapWith(client.decode).as('the_client') })
    .from(
      sql`(WITH hits AS MATERIALIZED (
          SELECT ${idOf(sql`rowid`)} AS hit ${found} ORDER BY rowid DESC LIMIT ${p.gathered})
        SELECT CASE WHEN gathered.number < ${p.gathered} THEN gathered.number ELSE (SELECT count(*) ${found}) END AS total,
          ${client.rowOrNull} AS client
        FROM (SELECT count(*) AS number FROM hits) AS gathered
        LEFT JOIN ${clients} ON ${clients.companyId} = ${p.companyId} AND ${clients.id} IN ${page}
        ORDER BY ${clients.id} DESC)`,
    )
})

const client = jsonRow(clientColumns)

/** One page, newest first, and the exact total. */
export async function listClients(
  db: Database,
  { companyId, companySlot: slot }: Company,
  page: Page,
  q: string,
): Promise<{ rows: ClientRow[]; total: number }> {
  const search =
    q === '' ? null : clientQuery(q, { text: sql`${clients.searchText}`, digits: sql`${clients.phoneDigits}` })
  const [limit, offset] = [page.per_page, offsetOf(page)]
  if (search && search.match !== null) {
    const gathered = offset + limit + GATHERED
    const [found] = await db.read([pageOfHits({ companyId, slot, match: search.match, limit, offset, gathered })])
    return { rows: found.flatMap((row) => row.client ?? []), total: found[0]?.total ?? 0 }
  }
  const [rows, [count]] = await db.read(pageAndCount())
  return { rows, total: count?.total ?? 0 }

  function pageAndCount() {
    if (!search) return [pageOfAll({ companyId, limit, offset }), countOfAll({ companyId })] as const
    const condition = and(isLive(companyId), ...search.rest)
    return [
      orm.select(clientColumns).from(clients).where(condition).orderBy(desc(clients.id)).limit(limit).offset(offset),
      orm.select({ total: countAll }).from(clients).where(condition),
    ] as const
  }
}

const clientById = prepare((p: Placeholders<'companyId' | 'id'>) =>
  orm.select(clientColumns).from(clients).where(isClient(p.companyId, p)),
)

const clientByEmail = prepare((p: Placeholders<'companyId' | 'emailKey'>) =>
  orm.select(clientColumns).from(clients).where(isClient(p.companyId, p)),
)

export async function findClient(db: Database, companyId: number, key: ClientKey): Promise<ClientRow | undefined> {
  const [[row]] = await db.read([
    'id' in key ? clientById({ companyId, id: key.id }) : clientByEmail({ companyId, emailKey: fold(key.email) }),
  ])
  return row
}

type Field = keyof ReturnType<typeof valuesOf>

/** The statements of {@link createClient}. */
const creation = {
  row: prepare(({ companyId, tokenId: _, requestId: __, now, ...columns }: Placeholders<Actor, Field>) =>
    orm
      .insert(clients)
      .values({
        ...given(columns),
        companyName: sql`${columns.companyName}`,
        companyNameKey: sql`${columns.companyNameKey}`,
        companyId,
        id: sql`(SELECT last_client_id + 1 FROM companies WHERE id = ${companyId})`,
        createdAt: now,
        updatedAt: now,
      })
      .returning(clientColumns),
  ),
  audit: prepare((p: Placeholders<Actor>) =>
    auditEntry(p, 'client.create', sql`(SELECT last_client_id FROM companies WHERE id = ${p.companyId})`),
  ),
}

export async function createClient(context: RequestContext, fields: ClientFields & { company_name: string }) {
  const actor = actorOf(context)
  const [[row]] = await context.db.write([creation.row({ ...actor, ...valuesOf(fields) }), creation.audit(actor)])
  if (!row) throw new Error('An insert returned no row.')
  return row
}

type Change = Placeholders<Actor, Field | 'ofId' | 'ofEmail'>

/** The statements of {@link updateClient}. */
const change = {
  audit: prepare((p: Change) =>
    auditEntry(
      p,
      'client.update',
      sql`(SELECT id FROM ${clients} WHERE ${isChanged(p)})`,
      sql`EXISTS (SELECT 1 FROM ${clients} WHERE ${isChanged(p)})`,
    ),
  ),
  row: prepare((p: Change) => {
    const { companyId, tokenId, requestId, now, ofId, ofEmail, ...columns } = p
    return orm
      .update(clients)
      .set(given({ ...columns, updatedAt: now }))
      .where(isChanged(p))
      .returning(clientColumns)
  }),
}

/** Sets only the columns that are sent, so that two concurrent updates keep what they did not both set. */
export async function updateClient(context: RequestContext, key: ClientKey, fields: ClientFields) {
  const { db } = context
  const which = 'id' in key ? { ofId: key.id } : { ofEmail: fold(key.email) }
  const values = { ...actorOf(context), ...valuesOf(fields), ...which }
  // A change of the email, or of `deleted`, can make an email name another client the second time.
  const write = 'id' in key ? db.writeRepeatably : db.write
  const [, [row]] = await write([change.audit(values), change.row(values)])
  return row
}

function isChanged({ companyId, ofId, ofEmail }: Change): SQL {
  return isClient(companyId, ofId ? { id: ofId } : { emailKey: ofEmail })
}

/** Of several clients with one email: one that is not deleted, then the lowest id. */
function isClient(companyId: Placeholder, key: { id: unknown } | { emailKey: unknown }): SQL {
  if ('id' in key) return sql`${clients.companyId} = ${companyId} AND ${clients.id} = ${key.id}`
  return sql`${clients.companyId} = ${companyId} AND ${clients.id} = (
    SELECT id FROM clients WHERE company_id = ${companyId} AND email_key = ${key.emailKey} ORDER BY deleted, id LIMIT 1)`
}

/** The columns of the fields that are sent, some with their folded twin. */
function valuesOf(fields: ClientFields) {
  const { company_name, first_name, last_name, email, phone } = fields
  return {
    companyName: company_name,
    companyNameKey: foldSent(company_name),
    firstName: first_name,
    firstNameKey: foldSent(first_name),
    lastName: last_name,
    lastNameKey: foldSent(last_name),
    email,
    emailKey: foldSent(email),
    phone,
    phoneKey: foldSent(phone),
    phoneDigits: phone === undefined ? undefined : digitsOf(phone ?? ''),
    website: fields.website,
    accountingSyncEnabled: fields.accounting_sync_enabled,
    taxExempt: fields.tax_exempt,
    taxExemptReason: fields.tax_exempt_reason,
    deleted: fields.deleted,
  }
}

function foldSent<T extends string | null | undefined>(value: T): T | string {
  return typeof value === 'string' ? fold(value) : value
}

import { and, desc, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { actorOf, auditEntry } from '../db/audit.ts'
import { type Database, orm, type Placeholders, prepare } from '../db/client.ts'
import { clientColumns } from '../db/columns.ts'
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

const isHit = (p: Placeholders<'match' | 'slot'>) => sql`clients_fts MATCH ${p.match} AND ${inSlot(p.slot, sql`rowid`)}`

const pageOfHits = prepare((p: Placeholders<'companyId' | 'slot' | 'match' | 'limit' | 'offset'>) => {
  const ids = sql`(SELECT ${idOf(sql`rowid`)} FROM clients_fts WHERE ${isHit(p)} ORDER BY rowid DESC LIMIT ${p.limit} OFFSET ${p.offset})`
  return orm
    .select(clientColumns)
    .from(clients)
    .where(and(eq(clients.companyId, p.companyId), sql`${clients.id} IN ${ids}`))
    .orderBy(desc(clients.id))
})

const countOfHits = prepare((p: Placeholders<'slot' | 'match'>) =>
  orm.select({ total: countAll }).from(sql`clients_fts`).where(isHit(p)),
)

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
  const [rows, [count]] = await db.read(pageAndCount())
  return { rows, total: count?.total ?? 0 }

  function pageAndCount() {
    if (!search) return [pageOfAll({ companyId, limit, offset }), countOfAll({ companyId })] as const
    const { match, rest } = search
    if (match !== null) {
      return [pageOfHits({ companyId, slot, match, limit, offset }), countOfHits({ slot, match })] as const
    }
    const condition = and(isLive(companyId), ...rest)
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

export async function createClient(context: RequestContext, fields: ClientFields & { company_name: string }) {
  const { db, companyId, now } = context
  const [[row]] = await db.write([
    orm
      .insert(clients)
      .values({
        ...columnsOf(fields),
        companyName: fields.company_name,
        companyNameKey: fold(fields.company_name),
        companyId,
        id: sql`(SELECT value + 1 FROM sequences WHERE name = 'clients')`,
        createdAt: now,
        updatedAt: now,
      })
      .returning(clientColumns),
    auditEntry(actorOf(context), 'client.create', sql`(SELECT value FROM sequences WHERE name = 'clients')`),
  ])
  if (!row) throw new Error('An insert returned no row.')
  return row
}

/** Sets only the columns that are sent, so that two concurrent updates keep what they did not both set. */
export async function updateClient(context: RequestContext, key: ClientKey, fields: ClientFields) {
  const { db, companyId, now } = context
  const isThis = isClient(companyId, 'id' in key ? key : { emailKey: fold(key.email) })
  // A change of the email, or of `deleted`, can make an email name another client the second time.
  const write = 'id' in key ? db.writeRepeatably : db.write
  const [, [row]] = await write([
    auditEntry(
      actorOf(context),
      'client.update',
      sql`(SELECT id FROM ${clients} WHERE ${isThis})`,
      sql`EXISTS (SELECT 1 FROM ${clients} WHERE ${isThis})`,
    ),
    orm
      .update(clients)
      .set({ ...columnsOf(fields), updatedAt: now })
      .where(isThis)
      .returning(clientColumns),
  ])
  return row
}

/** Of several clients with one email: one that is not deleted, then the lowest id. */
function isClient(companyId: number | Placeholder, key: { id: unknown } | { emailKey: unknown }): SQL {
  if ('id' in key) return sql`${clients.companyId} = ${companyId} AND ${clients.id} = ${key.id}`
  return sql`${clients.companyId} = ${companyId} AND ${clients.id} = (
    SELECT id FROM clients WHERE company_id = ${companyId} AND email_key = ${key.emailKey} ORDER BY deleted, id LIMIT 1)`
}

/** The columns of the fields that are present, each with its folded twin. */
function columnsOf(fields: ClientFields) {
  const { company_name, first_name, last_name, email, phone } = fields
  return {
    ...(company_name !== undefined && { companyName: company_name, companyNameKey: fold(company_name) }),
    ...(first_name !== undefined && { firstName: first_name, firstNameKey: foldOrNull(first_name) }),
    ...(last_name !== undefined && { lastName: last_name, lastNameKey: foldOrNull(last_name) }),
    ...(email !== undefined && { email, emailKey: foldOrNull(email) }),
    ...(phone !== undefined && { phone, phoneKey: foldOrNull(phone), phoneDigits: digitsOf(phone ?? '') }),
    ...(fields.website !== undefined && { website: fields.website }),
    ...(fields.accounting_sync_enabled !== undefined && { accountingSyncEnabled: fields.accounting_sync_enabled }),
    ...(fields.tax_exempt !== undefined && { taxExempt: fields.tax_exempt }),
    ...(fields.tax_exempt_reason !== undefined && { taxExemptReason: fields.tax_exempt_reason }),
    ...(fields.deleted !== undefined && { deleted: fields.deleted }),
  }
}

function foldOrNull(value: string | null): string | null {
  return value === null ? null : fold(value)
}

import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { type Actor, actorOf, auditEntry } from '../db/audit.ts'
import { type Database, orm, type Placeholders, prepare } from '../db/client.ts'
import { clientColumns, given } from '../db/columns.ts'
import { clients } from '../db/schema.ts'
import { digitsOf, fold } from '../db/search.ts'
import type { ClientFields } from './contract.ts'
import type { ClientRow } from './present.ts'

/** How a caller names a client: by id, or by an email that matches exactly whatever its case. */
export type ClientKey = { id: number } | { email: string }

const clientById = prepare((p: Placeholders<'companyId' | 'id'>) =>
  orm.select(clientColumns).from(clients).where(isClient(p.companyId, p)),
)

const clientByEmail = prepare((p: Placeholders<'companyId' | 'email_key'>) =>
  orm.select(clientColumns).from(clients).where(isClient(p.companyId, p)),
)

export async function findClient(db: Database, companyId: number, key: ClientKey): Promise<ClientRow | undefined> {
  const [[row]] = await db.read([
    'id' in key ? clientById({ companyId, id: key.id }) : clientByEmail({ companyId, email_key: fold(key.email) }),
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
        company_name: sql`${columns.company_name}`,
        company_name_key: sql`${columns.company_name_key}`,
        company_id: companyId,
        id: sql`(SELECT last_client_id + 1 FROM companies WHERE id = ${companyId})`,
        created_at: now,
        updated_at: now,
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
      .set(given({ ...columns, updated_at: now }))
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
  const write = 'id' in key ? db.writeIdempotent : db.write
  const [, [row]] = await write([change.audit(values), change.row(values)])
  return row
}

function isChanged({ companyId, ofId, ofEmail }: Change): SQL {
  return isClient(companyId, ofId ? { id: ofId } : { email_key: ofEmail })
}

/** Of several clients with one email: one that is not deleted, then the lowest id. */
function isClient(companyId: Placeholder, key: { id: unknown } | { email_key: unknown }): SQL {
  if ('id' in key) return sql`${clients.company_id} = ${companyId} AND ${clients.id} = ${key.id}`
  return sql`${clients.company_id} = ${companyId} AND ${clients.id} = (
    SELECT id FROM clients WHERE company_id = ${companyId} AND email_key = ${key.email_key} ORDER BY deleted, id LIMIT 1)`
}

/** The columns of the fields that are sent, some with their folded twin. */
function valuesOf(fields: ClientFields) {
  const { company_name, first_name, last_name, email, phone } = fields
  return {
    company_name: company_name,
    company_name_key: foldSent(company_name),
    first_name: first_name,
    first_name_key: foldSent(first_name),
    last_name: last_name,
    last_name_key: foldSent(last_name),
    email,
    email_key: foldSent(email),
    phone,
    phone_key: foldSent(phone),
    phone_digits: phone === undefined ? undefined : digitsOf(phone ?? ''),
    website: fields.website,
    accounting_sync_enabled: fields.accounting_sync_enabled,
    tax_exempt: fields.tax_exempt,
    tax_exempt_reason: fields.tax_exempt_reason,
    deleted: fields.deleted,
  }
}

function foldSent<T extends string | null | undefined>(value: T): T | string {
  return typeof value === 'string' ? fold(value) : value
}

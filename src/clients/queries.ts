import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { type Actor, actorOf, auditEntry } from '../db/audit.ts'
import { type CompanyContext, orm, type Placeholders, prepare, prepareBatch } from '../db/client.ts'
import { assignments, clientColumns, insertRow, type RowOf } from '../db/columns.ts'
import { clients, companies } from '../db/schema.ts'
import { digitsOf, fold } from '../db/search.ts'
import type { ClientFields, NewClient } from './contract.ts'

export type ClientRow = RowOf<typeof clientColumns>

/** Identifies a client by id, or by its email in any case. */
export type ClientKey = { id: number } | { email: string }

type Key = Placeholders<'companyId', 'clientId' | 'emailKey'>

const clientByKey = prepare((p: Key) => orm.select(clientColumns).from(clients).where(isClient(p)))

export async function findClient({ db, companyId }: CompanyContext, key: ClientKey) {
  const [[row]] = await db.read([clientByKey({ companyId, ...keyValues(key) })])
  return row
}

type Column = keyof ReturnType<typeof columnValues>

const creation = prepareBatch((p: Placeholders<Actor, Column>) => [
  insertRow(
    clients,
    { ...p, company_id: p.companyId, id: sql`last_client_id + 1`, created_at: p.now, updated_at: p.now },
    sql`FROM ${companies} WHERE ${companies.id} = ${p.companyId}`,
  ).returning(clientColumns),
  auditEntry(p, 'client.create', sql`(SELECT last_client_id FROM companies WHERE id = ${p.companyId})`),
])

export async function createClient(context: RequestContext, client: NewClient): Promise<ClientRow> {
  const [[row]] = await context.db.write(creation({ ...actorOf(context), ...columnValues(client) }))
  if (!row) throw new Error('An insert returned no row.')
  return row
}

const change = prepareBatch((p: Placeholders<Actor, Column> & Key) => {
  const id = sql`(SELECT id FROM ${clients} WHERE ${isClient(p)})`
  const values = assignments(clients, { ...p, updated_at: p.now })
  return [
    auditEntry(p, 'client.update', id, sql`EXISTS ${id}`),
    orm.update(clients).set(values).where(isClient(p)).returning(clientColumns),
  ]
})

/** Sets only the columns of the fields that are sent, so that concurrent updates of different fields are all applied. */
export async function updateClient(context: RequestContext, key: ClientKey, fields: ClientFields) {
  const { write, writeIdempotent } = context.db
  const statements = change({ ...actorOf(context), ...columnValues(fields), ...keyValues(key) })
  // After a change of the email or of `deleted`, the same email may name another client: such a write is not retried.
  const [, [row]] = await ('id' in key ? writeIdempotent(statements) : write(statements))
  return row
}

function keyValues(key: ClientKey) {
  return 'id' in key ? { clientId: key.id } : { emailKey: fold(key.email) }
}

/** Of several clients with one email: one that is not deleted, then the lowest id. */
function isClient({ companyId, clientId, emailKey }: Key): SQL {
  const id =
    clientId ??
    sql`(SELECT id FROM clients WHERE company_id = ${companyId} AND email_key = ${emailKey} ORDER BY deleted, id LIMIT 1)`
  return sql`${clients.company_id} = ${companyId} AND ${clients.id} = ${id}`
}

/** The fields that are sent, with the folded columns that searches and lookups read. */
function columnValues(fields: ClientFields) {
  const { company_name, first_name, last_name, email, phone } = fields
  return {
    ...fields,
    company_name_key: foldIfSent(company_name),
    first_name_key: foldIfSent(first_name),
    last_name_key: foldIfSent(last_name),
    email_key: foldIfSent(email),
    phone_key: foldIfSent(phone),
    phone_digits: phone === undefined ? undefined : digitsOf(phone ?? ''),
  }
}

const foldIfSent = (value: string | null | undefined) => (typeof value === 'string' ? fold(value) : value)

import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, clientColumns, insertRow, jsonRow, type RowOf } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { clients, companies } from '../../kernel/db/schema.ts'
import { digitsOf, fold } from '../../kernel/db/search.ts'
import { externalGuardsOf, failWhen, isOtherVersion, versionsOf } from '../../kernel/db/versions.ts'
import { type ClientFields, initial, type NewClient, type WholeClient } from './contract.ts'

export type ClientRow = RowOf<typeof clientColumns>

/** Identifies a client by id, by its email in any case, or by the caller's own id. */
export type ClientKey = { id: number } | { email: string } | { externalId: string }

type Key = Placeholders<'companyId', 'clientId' | 'emailKey' | 'externalId'>

const clientByKey = prepare((p: Key) => orm.select(clientColumns).from(clients).where(isClient(p)))

export async function findClient({ db, companyId }: CompanyContext, key: ClientKey) {
  const [[row]] = await db.read([clientByKey({ companyId, ...keyValues(key) })])
  return row
}

type Column = keyof ReturnType<typeof columnValues>
type Change = Placeholders<Actor, Column | KeyName>

const client = jsonRow(clientColumns)

const creation = prepareNamed((p: Change) => {
  const created = sql`(SELECT last_client_id FROM companies WHERE id = ${p.companyId})`
  const isCreated = sql`${clients.company_id} = ${p.companyId} AND ${clients.id} = ${created}`
  return {
    client: insertRow(
      clients,
      { ...p, company_id: p.companyId, id: sql`last_client_id + 1`, created_at: p.now, updated_at: p.now },
      sql`FROM ${companies} WHERE ${companies.id} = ${p.companyId}`,
    ),
    audit: auditEntry(p, 'client.create', created),
    result: resultStatement(p, sql`SELECT ${client.row} FROM ${clients} WHERE ${isCreated}`),
  }
})

export function creationOf(context: RequestContext, fields: NewClient): Write<ClientRow> {
  const statements = creation({ ...writerOf(context), ...columnValues(fields) })
  return { statements, read: decodeCreated }
}

function decodeCreated(result: string | null): ClientRow {
  if (result === null) throw new Error('An insert returned no row.')
  return client.decode(result)
}

const change = prepareNamed((p: Change & Key) => {
  const id = sql`(SELECT id FROM ${clients} WHERE ${isClient(p)})`
  const values = assignments(clients, { ...p, updated_at: p.now, version: sql`version + 1` })
  // After the change, the email may name another client, or none: the changed one is the feed's newest.
  const isChanged = sql`changes() > 0 AND ${clients.company_id} = ${p.companyId}
    AND ${clients.id} = (SELECT entity_id FROM changes WHERE company_id = ${p.companyId}
      AND sequence = (SELECT last_change FROM companies WHERE id = ${p.companyId}))`
  return {
    audit: auditEntry(p, 'client.update', id, sql`EXISTS ${id}`),
    client: orm.update(clients).set(values).where(isClient(p)),
    result: resultStatement(p, sql`SELECT ${client.row} FROM ${clients} WHERE ${p.emailKey ? isChanged : isClient(p)}`),
  }
})

const versionGuard = prepare((p: Key & Placeholders<'versions'>) =>
  failWhen(isOtherVersion(p.versions), sql`${clients}`, isClient(p)),
)

/**
 * The change of a client: sets only the columns of the fields that are sent, so that concurrent updates of different
 * fields are all applied. Its result is undefined when the client does not exist.
 */
export function changeOf(context: RequestContext, key: ClientKey, fields: ClientFields): Write<ClientRow | undefined> {
  const named = { ...keyValues(key), companyId: context.companyId }
  const versions = versionsOf(context.ifMatch)
  const statements = change({ ...writerOf(context), ...columnValues(fields), ...named })
  return {
    statements: versions === null ? statements : { guard: versionGuard({ ...named, versions }), ...statements },
    // After a change of the email or of `deleted`, the same email may name another client: such a write is not retried.
    isIdempotent: 'id' in key && versions === null,
    isDeletion: fields.deleted === true && Object.keys(fields).length === 1,
    read: (result) => (result === null ? undefined : client.decode(result)),
  }
}

/** The key's placeholder is `externalId`, since a change may set the column `external_id`. */
const replacement = prepareNamed((p: Change & Record<'externalId', Placeholder>) => {
  const created = { id: sql`last_client_id + 1`, external_id: p.externalId, created_at: p.now, updated_at: p.now }
  const ofCompany = sql`FROM ${companies} WHERE ${companies.id} = ${p.companyId}`
  const replaced = assignments(clients, { ...p, updated_at: p.now, version: sql`version + 1` })
  return {
    client: insertRow(clients, { ...p, company_id: p.companyId, ...created }, ofCompany).onConflictDoUpdate({
      target: [clients.company_id, clients.external_id],
      targetWhere: sql`external_id IS NOT NULL`,
      set: replaced,
    }),
    audit: auditEntry(p, 'client.write', sql`(SELECT id FROM ${clients} WHERE ${isClient(p)})`),
    result: resultStatement(p, sql`SELECT ${client.row} FROM ${clients} WHERE ${isClient(p)}`),
  }
})

const externalGuards = externalGuardsOf('clients')

/** The creation of the client with this external id, or the replacement of all of its fields. */
export function replacementOf(context: RequestContext, externalId: string, sent: WholeClient): Write<ClientRow> {
  const guards = externalGuards(context, externalId)
  const fields = columnValues({ ...initial, ...sent })
  const statements = { ...guards, ...replacement({ ...writerOf(context), ...fields, externalId }) }
  return { statements, isIdempotent: Object.keys(guards).length === 0, read: decodeCreated }
}

function keyValues(key: ClientKey) {
  if ('id' in key) return { clientId: key.id }
  return 'email' in key ? { emailKey: fold(key.email) } : { externalId: key.externalId }
}

/** Prefers a client that is not deleted among several with one email, then the lowest id. */
function isClient({ companyId, clientId, emailKey, externalId }: Key): SQL {
  if (externalId) return sql`${clients.company_id} = ${companyId} AND ${clients.external_id} = ${externalId}`
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

import type { ResponseBody } from '../../../kernel/api/contract.ts'
import { databaseMessage } from '../../../kernel/db/client.ts'
import { decryptCredentials, encryptCredentials, firstKeyPrefix } from '../../../kernel/db/credentials.ts'
import { conflict } from '../../../kernel/http/errors.ts'
import type { createImport } from '../../admin/transfers/contract.ts'
import type { SeedFile } from './file.ts'
import type { IntegrationsFile } from './integrations-file.ts'
import * as queries from './queries.ts'
import { COLUMN_OF, deriveRows, findDuplicates, type KnownIds, NAMES, OWNERS, type Rows, TABLES } from './rows.ts'

/** An existing row that differs from the file and stays unchanged. */
export type Difference = ResponseBody<typeof createImport>['differences'][number]

const CONFLICTS: Record<string, string> = {
  'invoices.company_id, invoices.number': 'an invoice number is already that of another invoice in the database',
  'invoices.company_id, invoices.project_id': 'an order already has another invoice in the database',
  'clients.company_id, clients.external_id': 'an external_id is already that of another client in the database',
  'orders.company_id, orders.external_id': 'an external_id is already that of another order in the database',
  'email_threads.id':
    'an email thread with this id is in the database already, of another company or under another key',
  'created elsewhere': 'the company was created in another database meanwhile: repeat this',
  'created meanwhile': 'a row with an id of the file was created meanwhile: repeat this',
  'company has data': 'the company is not empty: import into a new one',
  'credentials changed': 'the credentials were changed meanwhile: repeat this',
  companies_slot: 'the database is full: it takes 1,024 companies',
}

/** Explains a failed write in terms of the file; undefined for any other failure. @param message the database's own */
const describeConflict = (message: string): string | undefined =>
  Object.entries(CONFLICTS).find(([constraint]) => message.includes(constraint))?.[1]

/** For `catch`. @throws ApiError 409 for a write that failed by a row of another write or company */
export function throwConflict(error: unknown): never {
  const message = describeConflict(databaseMessage(error))
  throw message === undefined ? error : conflict(message)
}

/**
 * Compares a file with itself and the database, and plans the batch that loads it.
 *
 * @param known ids of rows that may be referred to without a check
 * @returns `issues` and `conflict` if the file contradicts itself or the database: then do not load it. Otherwise
 *   only a concurrent write can fail the batch: see {@link throwConflict}.
 */
export async function planLoad(context: queries.LoadContext, file: SeedFile, known: KnownIds = {}) {
  const { now, db } = context
  const { company, connections } = await queries.readStored(context)
  const rows = deriveRows(file, company?.number ?? 1000, now)
  rows.integrations = await listIntegrationRows(context, connections, file.integrations)

  const [first, ...rest] = [
    ...queries.selectBadReferences(context, rows, known),
    ...queries.selectConflicts(context, rows),
    ...queries.selectDifferences(context, file, rows),
  ]
  const found = first ? (await db.read([first, ...rest])).flat() : []
  const missing = found.flatMap((row) => ('issue' in row ? row.issue : []))
  const violated = found.find((row) => 'constraint' in row)
  const compared = found.filter((row) => 'columns' in row)
  const issues = [...findDuplicates(rows), ...missing, ...compared.flatMap(findOtherOwner)]
  const existing = new Set(compared.map(({ name, id }) => `${name} ${id}`))
  const isOld = ({ id }: Order) => existing.has(`orders ${id}`)
  const fileOfAbsent = { ...file, orders: file.orders.filter((order) => !isOld(order)) }
  const loaded = { ...deriveRows(fileOfAbsent, company?.number ?? 1000, now), integrations: rows.integrations }
  const tables = NAMES.flatMap((name) => {
    const absent = loaded[name].filter((row) => !existing.has(`${name} ${Reflect.get(row, 'id')}`))
    return queries.loadRows(context, TABLES[name], absent)
  })
  return {
    issues,
    conflict: violated && `${describeConflict(violated.constraint)}: ${violated.taken}`,
    differences: [
      ...compared.flatMap(toDifference),
      ...file.orders.filter(isOld).flatMap((order) => findLacking(order, existing)),
    ],
    statements: [...queries.saveCompany(context, file), ...tables] as const,
  }
}

export async function planIntegrations(context: queries.LoadContext, integrations: IntegrationsFile) {
  const { connections } = await queries.readStored(context)
  return queries.loadRows(context, TABLES.integrations, await listIntegrationRows(context, connections, integrations))
}

export function countFile(file: SeedFile): Partial<Record<keyof Rows, number>> {
  const rows = { ...deriveRows(file, 0, 0), integrations: Object.values(file.integrations).filter(Boolean) }
  const counts = NAMES.map((name) => [name, rows[name].length] as const)
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
}

type Order = SeedFile['orders'][number]

function toDifference({ name, id, columns }: queries.Compared): Difference[] {
  const names = columns.split(',').filter(Boolean)
  const fields = names.map((column) => Object.keys(COLUMN_OF).find((field) => COLUMN_OF[field] === column) ?? column)
  return fields.length === 0 ? [] : [{ type: TABLES[name].noun, id, fields }]
}

/** Finds an invoice, line, payment or artwork of the file that belongs to another order in the database. */
function findOtherOwner({ name, id, columns, own: owner }: queries.Compared): string[] {
  const { own: column, noun } = TABLES[name]
  const of = column && OWNERS[column]
  if (!of || !columns.split(',').includes(column)) return []
  return [`${noun} ${id} belongs to ${TABLES[of].noun} ${owner} in the database`]
}

/** Finds what an order of the file has and the database has not. */
function findLacking({ id, invoice, artworks }: Order, existing: ReadonlySet<string>): Difference[] {
  const { items = [], payments = [] } = invoice ?? {}
  const lists = { invoices: invoice ? [invoice] : [], items, payments, artworks }
  const lacking = Object.entries(lists).filter(([name, list]) => list.some(({ id }) => !existing.has(`${name} ${id}`)))
  const fields = lacking.map(([name]) => name.replace('invoices', 'invoice'))
  return fields.length === 0 ? [] : [{ type: TABLES.orders.noun, id, fields }]
}

/** Unchanged credentials keep their encrypted form. */
async function listIntegrationRows(
  { companyId, credentialsKey: key, now }: queries.LoadContext,
  stored: Rows['integrations'],
  file: IntegrationsFile,
): Promise<Rows['integrations']> {
  const given = Object.entries(file).flatMap(([kind, integration]) => (integration ? [{ kind, ...integration }] : []))
  const rows = given.map(async ({ kind, enabled, base_url, credentials, ...rest }) => {
    const before = stored.find((row) => row.kind === kind)?.credentials ?? ''
    const decrypted = await decryptCredentials(key, companyId, kind, before).catch(() => null)
    const isStored = sortedText(decrypted) === sortedText(credentials) && before.startsWith(await firstKeyPrefix(key))
    const encrypted = isStored ? before : await encryptCredentials(key, companyId, kind, credentials)
    const settings = JSON.stringify(rest)
    return { kind, enabled, base_url, settings, credentials: encrypted, updated_at: now }
  })
  return Promise.all(rows)
}

const sortedText = (credentials: unknown) => JSON.stringify(credentials && Object.entries(credentials).sort())

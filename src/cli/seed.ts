import { and, eq, getTableColumns, ne, or, sql } from 'drizzle-orm'
import type { SQLiteTable } from 'drizzle-orm/sqlite-core'
import * as schema from '../db/schema.ts'
import { digitsOf, fold, searchText } from '../db/search.ts'
import { isoDate } from '../http/contract.ts'
import { toHundredths } from '../orders/totals.ts'
import { CommandError, FLAG, print, readCommandLine, resolvePath, runCommand, warn } from './command.ts'
import { type CommandDatabase, chunkJson, loadRows, openDatabase, PLACE, readPlace } from './database.ts'
import { describeIssues, readSeedFile, type SeedFile } from './seed-file.ts'
import { checkStorage, listIntegrationRows, readCredentialsKey } from './seed-integrations.ts'

const { catalogItems, companies, invoices, orderStatuses, threadContexts } = schema

/**
 * The tables in the order in which they are filled. Rows that only a file can change are replaced; of the others only the
 * absent ones are inserted, so that no change by the API is undone.
 */
export const TABLES = {
  order_statuses: { table: orderStatuses, key: 'id', replaces: true, noun: 'status' },
  taxes: { table: schema.taxes, key: 'id', replaces: true, noun: 'tax' },
  clients: { table: schema.clients, key: 'id', replaces: false, noun: 'client' },
  orders: { table: schema.orders, key: 'id', replaces: false, noun: 'order' },
  invoices: { table: invoices, key: 'id', replaces: false, noun: 'invoice' },
  items: { table: schema.invoiceItems, key: 'id', replaces: false, noun: 'line' },
  payments: { table: schema.payments, key: 'id', replaces: false, noun: 'payment' },
  artworks: { table: schema.artworks, key: 'id', replaces: false, noun: 'artwork' },
  catalog_items: { table: catalogItems, key: 'id', replaces: true, noun: 'catalogue item' },
  thread_contexts: { table: threadContexts, key: 'thread_id', replaces: true, noun: 'thread context' },
  integrations: { table: schema.integrations, key: 'kind', replaces: true, noun: 'integration' },
} as const

type Name = keyof typeof TABLES
type Rows = { [N in Name]: (typeof TABLES)[N]['table']['$inferInsert'][] }
const NAMES = Object.keys(TABLES) as Name[]

const REFERENCES = [
  ['orders', 'client_id', 'clients'],
  ['orders', 'order_status_id', 'order_statuses'],
  ['invoices', 'tax_id', 'taxes'],
] as const

/** Constraints that only the write can check. */
const CONFLICTS = {
  'invoices.company_id, invoices.number': 'an invoice number is already that of another invoice in the database',
  'invoices.company_id, invoices.project_id': 'an order already has another invoice in the database',
  'clients.company_id, clients.external_id': 'an external_id is already that of another client in the database',
  'orders.company_id, orders.external_id': 'an external_id is already that of another order in the database',
  companies_slot: 'the database is full: it takes 1,024 companies',
}

/**
 * Loads one company in one transaction.
 *
 * @param name of the file, for errors
 * @param key the deployment's `CREDENTIALS_KEY`; needed only for integrations
 * @returns a summary of one line, and a line for each row that exists, differs from the file and was not changed
 * @throws CommandError when the file contradicts itself or the database, which is then unchanged
 */
export async function loadSeed(db: CommandDatabase, file: SeedFile, name: string, key: string, now: number) {
  const { orm, write } = db
  const { company, integrations } = file
  const isCompany = eq(companies.id, company.id)
  const [stored] = await orm.select({ number: companies.last_invoice_number }).from(companies).where(isCompany)
  const rows = deriveRows(file, stored?.number ?? 1000, now)
  rows.integrations = await listIntegrationRows(orm, company.id, integrations, key, now)
  const issues = [...findDuplicates(rows), ...(await findBadReferences(db, company.id, rows))]
  if (issues.length > 0) throw new CommandError(describeIssues(name, issues))
  const differences = stored ? await findDifferences(db, file, rows, now) : []

  const tables = NAMES.flatMap((each) => loadRows(TABLES[each], rows[each], now))
  await write([...saveCompany(db, file, now), ...tables]).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : ''
    const [, conflict] = Object.entries(CONFLICTS).find(([constraint]) => message.includes(constraint)) ?? []
    throw conflict === undefined ? error : new CommandError(`${name}: ${conflict}.`)
  })
  const counts = NAMES.filter((each) => rows[each].length > 0).map((each) => {
    const [{ length }, { noun }] = [rows[each], TABLES[each]]
    const plural = /[sx]$/.test(noun) ? `${noun}es` : `${noun}s`
    return `${length} ${length === 1 ? noun : plural}`
  })
  const summary = `Loaded company ${company.id} (${company.name})${counts.length > 0 ? `: ${counts.join(', ')}` : ''}.`
  return { summary, differences }
}

/** The rows of a file. An invoice without a number gets the next one after the company's and the file's highest. */
export function deriveRows(file: SeedFile, lastInvoiceNumber: number, now: number): Rows {
  const company_id = file.company.id
  const numbers = file.orders.flatMap(({ invoice }) => invoice?.number?.match(/^\d{1,15}$/) ?? []).map(Number)
  let lastNumber = numbers.reduce((highest, number) => Math.max(highest, number), lastInvoiceNumber)
  const orders = file.orders.map((order) => {
    const created_at = order.created_at ?? (order.created_date === undefined ? now : Date.parse(order.created_date))
    const created_date = order.created_date ?? isoDate(created_at)
    const updated_at = order.updated_at ?? created_at
    const number = order.invoice && (order.invoice.number ?? String(++lastNumber))
    const keys = { title_key: fold(order.title), number_key: fold(number ?? '') }
    return { ...order, ...keys, number, company_id, created_date, created_at, updated_at }
  })
  const invoices = orders.flatMap(({ id: project_id, invoice, number, created_at, updated_at }) => {
    if (!invoice || !number) return []
    const discount_hundredths = toHundredths(invoice.discount_amount)
    const tax_id = invoice.tax_id || null
    return { ...invoice, company_id, project_id, number, tax_id, discount_hundredths, created_at, updated_at }
  })
  const items = invoices.flatMap(({ id: invoice_id, items }) =>
    numbered(items).map((item) => {
      const search_text = searchText([item.title, item.description])
      return { ...item, company_id, invoice_id, unit_price_cents: toHundredths(item.unit_price), search_text }
    }),
  )
  const payments = invoices.flatMap(({ id: invoice_id, payments }) =>
    payments.map((payment) => ({ ...payment, company_id, invoice_id, amount_cents: toHundredths(payment.amount) })),
  )
  const artworks = orders.flatMap((order) =>
    order.artworks.map((each) => ({ ...each, company_id, project_id: order.id })),
  )
  const order_statuses = numbered(file.order_statuses).map((status) => ({ ...status, company_id }))
  const taxes = file.taxes.map((tax) => ({ ...tax, company_id, accounting_tax_code_id: tax.tax_code_id }))
  const clients = file.clients.map((client) => ({
    ...client,
    company_id,
    company_name_key: fold(client.company_name),
    first_name_key: orNull(fold, client.first_name),
    last_name_key: orNull(fold, client.last_name),
    email_key: orNull(fold, client.email),
    phone_key: orNull(fold, client.phone),
    phone_digits: digitsOf(client.phone ?? ''),
    accounting_customer_linked: client.accounting_customer_id !== null,
    created_at: client.created_at ?? now,
    updated_at: client.updated_at ?? client.created_at ?? now,
  }))
  const catalog_items = file.catalog_items.map((item) => {
    const search_text = searchText([item.title])
    return { ...item, company_id, price_cents: orNull(toHundredths, item.price), search_text }
  })
  const thread_contexts = file.thread_contexts.map((context) => ({
    ...context,
    company_id,
    client_data: orNull(JSON.stringify, context.client_data),
    clients_data: orNull(JSON.stringify, context.clients_data),
    orders_data: orNull(JSON.stringify, context.orders_data),
    participant_emails: orNull(JSON.stringify, context.participant_emails),
    participants_data: orNull(JSON.stringify, context.participants_data),
    fetched_at: context.fetched_at ?? now,
    updated_at: context.updated_at ?? now,
  }))
  const listed = { order_statuses, taxes, clients, catalog_items, thread_contexts, integrations: [] }
  return { ...listed, orders, invoices, items, payments, artworks }
}

/** The elements with their positions, by default those in the list, from 1. */
function numbered<T extends { position?: number | undefined }>(elements: T[]) {
  return elements.map((element, index) => ({ ...element, position: element.position ?? index + 1 }))
}

function orNull<T, U>(convert: (value: T) => U, value: T | null | undefined): U | null {
  return value === null || value === undefined ? null : convert(value)
}

const UNIQUE = [
  { name: 'invoices', field: 'number' },
  { name: 'clients', field: 'external_id' },
  { name: 'orders', field: 'external_id' },
] as const

/** Unique values that occur twice, and a second default status. */
export function findDuplicates(rows: Rows): string[] {
  const issues: string[] = []
  const keys = NAMES.map((name) => ({ name, field: TABLES[name].key as string }))
  for (const { name, field } of [...keys, ...UNIQUE]) {
    const seen = new Set<unknown>()
    for (const value of rows[name].map((row) => Reflect.get(row, field)).filter((each) => each !== null)) {
      if (seen.has(value)) issues.push(`\`${name}\` must not contain ${field} ${value} twice`)
      seen.add(value)
    }
  }
  const defaults = rows.order_statuses.filter((status) => status.is_default)
  if (defaults.length > 1) issues.push('`order_statuses` must contain only one with `is_default`')
  return issues
}

/** References to rows that neither the file nor the database has, and invoices of another order in the database. */
async function findBadReferences({ orm }: CommandDatabase, companyId: number, rows: Rows): Promise<string[]> {
  const issues: string[] = []
  for (const [from, field, to] of REFERENCES) {
    const known = new Set<unknown>([null, ...rows[to].map(({ id }) => id)])
    const pairs = rows[from].map((row) => [row.id, Reflect.get(row, field)]).filter(([, target]) => !known.has(target))
    const exists = sql`SELECT 1 FROM ${TABLES[to].table} WHERE company_id = ${companyId} AND id = value ->> 1`
    for (const chunk of chunkJson(pairs)) {
      const missing = sql`SELECT value ->> 0, value ->> 1 FROM json_each(${chunk}) WHERE NOT EXISTS (${exists})`
      for (const [id, target] of await orm.values(missing)) {
        const source = `\`${field}\` of ${TABLES[from].noun} ${id}`
        issues.push(`${source}: there is no ${TABLES[to].noun} ${target}, in the file or in the database`)
      }
    }
  }
  for (const chunk of chunkJson(rows.invoices.map(({ id, project_id }) => [id, project_id]))) {
    const moved = sql`SELECT invoices.id, project_id FROM json_each(${chunk}) JOIN invoices
      ON company_id = ${companyId} AND invoices.id = value ->> 0 AND project_id <> value ->> 1`
    for (const [id, order] of await orm.values(moved)) {
      issues.push(`invoice ${id} belongs to order ${order} in the database`)
    }
  }
  return issues
}

/** Columns that are made of others, or move with every change. */
const DERIVED = /_key$|_digits$|_linked$|^(company_id|search_text|updated_at)$/
/** Of one statement, so that its rows fit into one response. */
const COMPARED_ROWS = 1000

/** The fields of clients and orders in which rows that exist differ from the file, one line for each row. */
async function findDifferences({ orm }: CommandDatabase, file: SeedFile, rows: Rows, now: number): Promise<string[]> {
  const differences: string[] = []
  const unnumbered = new Set(file.orders.map(({ invoice }) => invoice?.number === undefined && invoice?.id))
  // What the file leaves open cannot differ; the accounting sync finds customers by itself.
  const isOpen = (row: object, column: string, value = Reflect.get(row, column)) =>
    value === undefined ||
    (/^created_(at|date)$/.test(column) && Reflect.get(row, 'created_at') === now) ||
    (column === 'number' && unnumbered.has(Reflect.get(row, 'id'))) ||
    (column === 'accounting_customer_id' && value === null)
  for (const name of NAMES.filter((each) => !TABLES[each].replaces)) {
    const { table, noun }: { table: SQLiteTable; noun: string } = TABLES[name]
    const columns = Object.keys(getTableColumns(table)).filter((column) => !DERIVED.test(column))
    for (let start = 0; start < rows[name].length; start += COMPARED_ROWS) {
      const given = new Map(rows[name].slice(start, start + COMPARED_ROWS).map((row) => [Reflect.get(row, 'id'), row]))
      const ids = JSON.stringify([...given.keys()])
      const isGiven = sql`company_id = ${file.company.id} AND id IN (SELECT value FROM json_each(${ids}))`
      for (const stored of await orm.select().from(table).where(isGiven)) {
        const row = given.get(stored.id) ?? {}
        const differing = columns.filter((each) => !isOpen(row, each) && Reflect.get(row, each) !== stored[each])
        const fields = differing.map((each) => each.replace(/_cents$/, '').replace('_hundredths', '_amount'))
        if (fields.length > 0) differences.push(`${noun} ${stored.id} already exists and differs: ${fields.join(', ')}`)
      }
    }
  }
  return differences
}

/** Saves the company, and makes room for the file's default status. */
function saveCompany({ orm }: CommandDatabase, { company, order_statuses }: SeedFile, now: number) {
  const { id, name, accounting_sync_enabled, suspended, mail_quota_bytes } = company
  const slot = sql<number>`coalesce((SELECT slot FROM companies WHERE id = ${id}), (SELECT max(slot) + 1 FROM companies), 0)`
  const row = { ...company, slot, created_at: now, updated_at: now }
  const differs = or(
    ne(companies.name, name),
    ne(companies.accounting_sync_enabled, accounting_sync_enabled),
    ne(companies.suspended, suspended),
    ne(companies.mail_quota_bytes, mail_quota_bytes),
  )
  const chosen = order_statuses.find((status) => status.is_default)?.id
  const isOtherDefault = sql`company_id = ${id} AND is_default AND id <> ${chosen ?? sql`id`}`
  return [
    orm.insert(companies).values(row).onConflictDoNothing(),
    orm
      .update(companies)
      .set({ ...company, updated_at: now })
      .where(and(eq(companies.id, id), differs)),
    orm.update(orderStatuses).set({ is_default: false }).where(isOtherDefault),
  ]
}

const DIFFERENCES_MAX = 20

/** What to tell of rows that differ: the first 20, how many more there are, and how to change them. */
export function listDifferences(differences: string[]): string[] {
  if (differences.length === 0) return []
  const more = differences.length - DIFFERENCES_MAX
  const advice = 'Clients and orders that exist are not changed by a file: change them through the API.'
  return [...differences.slice(0, DIFFERENCES_MAX), ...(more > 0 ? [`and ${more} more`] : []), advice]
}

const USAGE = `npm run seed -- FILE.json [--check] ${PLACE.usage}`
const HELP = `${USAGE}

Loads one company's data. The same file twice changes nothing; clients and orders that exist are not changed.
The format is that of src/cli/seed-file.schema.json, an example src/cli/sample-company.json.

  --check      first makes one signed listing of the file's storage; nothing is loaded when that fails
${PLACE.help}`

if (import.meta.main) await runCommand(HELP, main)

async function main(args: string[]): Promise<void> {
  const { positionals, values } = readCommandLine(args, USAGE, { ...PLACE.options, check: FLAG }, { min: 1, max: 1 })
  const [name = ''] = positionals
  const place = readPlace(values, true)
  const file = await readSeedFile(resolvePath(name), name)
  const { storage } = file.integrations
  const key = Object.values(file.integrations).some(Boolean) ? readCredentialsKey(place) : ''
  if (values.check && storage?.enabled) await checkStorage(storage, file.company.id, Date.now())
  const status = storage?.enabled ? `${storage.bucket} can be listed` : 'the file has none that is enabled'
  if (values.check) print(`storage: ${status}.`)
  await using database = await openDatabase(place)
  const { summary, differences } = await loadSeed(database, file, name, key, Date.now())
  print(summary)
  listDifferences(differences).forEach(warn)
}

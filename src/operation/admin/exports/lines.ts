import { isoTime, isoTimeOrNull } from '../../../kernel/api/contract.ts'
import { decompress } from '../../../resources/mail/content.ts'
import { openObject } from '../../../resources/mail/objects.ts'
import { TEXT_FIELDS } from '../../../resources/mail/thread-input.ts'
import { fromCents } from '../../../resources/orders/totals.ts'
import type { AdminContext } from '../context.ts'
import {
  type ExportedThread,
  listContexts,
  listIntegrations,
  listOrders,
  listRows,
  listThreads,
  type OrderWithParts,
  readCompany,
} from './queries.ts'

/**
 * The parts of an export, referenced rows first. Clients are never removed, so the clients of every exported order are
 * included, even if rows are created meanwhile.
 */
export const SECTIONS = [
  'company',
  'integrations',
  'orders',
  'clients',
  'taxes',
  'order_statuses',
  'catalog_items',
  'thread_contexts',
  'email_threads',
] as const

export type Section = (typeof SECTIONS)[number]

/** The key after which a page begins: an id, or the ids of a thread. It is empty at the beginning. */
export type Place = readonly (string | number | null)[]

/** A piece of a line; only the last piece ends with a line feed. */
type Piece = string | Uint8Array

interface Page {
  /** The key of the page's last line; null when no more follow. */
  last: Place | null
  pieces: AsyncGenerator<Piece> | Piece[]
}

const END: Page = { last: null, pieces: [] }

/** Reads a page of a section. */
export async function readPage(context: AdminContext, section: Section, after: Place): Promise<Page> {
  const [first = 0, second = ''] = after
  switch (section) {
    case 'company': {
      const company = await readCompany(context)
      return company ? { last: null, pieces: [line(section, presentCompany(company))] } : END
    }
    case 'integrations': {
      const rows = await listIntegrations(context)
      return { last: null, pieces: rows.map((row) => line(section, presentIntegration(row))) }
    }
    case 'orders': {
      const rows = await listOrders(context, Number(first))
      return pageOf(section, rows, presentOrder, ({ order }) => [order.id])
    }
    case 'clients':
      return pageOf(section, await listRows(context, section, Number(first)), presentClient, ({ id }) => [id])
    case 'taxes':
      return pageOf(section, await listRows(context, section, Number(first)), presentTax, ({ id }) => [id])
    case 'order_statuses':
      return pageOf(section, await listRows(context, section, Number(first)), ownFields, ({ id }) => [id])
    case 'catalog_items':
      return pageOf(section, await listRows(context, section, Number(first)), presentCatalogItem, ({ id }) => [id])
    case 'thread_contexts': {
      const rows = await listContexts(context, String(first || ''))
      return pageOf(section, rows, presentContext, ({ thread_id }) => [thread_id])
    }
    case 'email_threads': {
      const threads = await listThreads(context, [String(first || ''), String(second)])
      const row = threads.at(-1)
      return row ? { last: [row.legacy_thread_id, row.account_email], pieces: threadLines(context, threads) } : END
    }
  }
}

export function line(type: string, data: object): string {
  return `${JSON.stringify({ type, data })}\n`
}

function pageOf<Row>(section: Section, rows: Row[], present: (row: Row) => object, placeOf: (row: Row) => Place): Page {
  const last = rows.at(-1)
  return last ? { last: placeOf(last), pieces: rows.map((row) => line(section, present(row))) } : END
}

type Counted = { company_id: number; text_bytes?: number | null; stored_bytes?: number | null }

function ownFields<T extends Counted>({ company_id: _, text_bytes: _texts, stored_bytes: _stored, ...row }: T) {
  return row
}

type Times = { created_at: number; updated_at: number }

function isoTimes({ created_at, updated_at }: Times) {
  return { created_at: isoTime(created_at), updated_at: isoTime(updated_at) }
}

function presentCompany(row: NonNullable<Awaited<ReturnType<typeof readCompany>>>) {
  const { id, name, currency, accounting_sync_enabled, suspended, mail_quota_bytes, storage_quota_bytes } = row
  const settings = { currency, accounting_sync_enabled, suspended, mail_quota_bytes, storage_quota_bytes }
  const { last_client_id, last_order_id, last_invoice_id, last_payment_id, last_invoice_number } = row
  const last = { last_client_id, last_order_id, last_invoice_id, last_payment_id, last_invoice_number }
  return { id, name, ...settings, ...isoTimes(row), ...last }
}

/** Exports omit credentials, so the result cannot be seeded as it is. */
function presentIntegration({
  kind,
  base_url,
  enabled,
  settings,
}: Awaited<ReturnType<typeof listIntegrations>>[number]) {
  const address = kind === 'storage' ? { endpoint: base_url } : { base_url }
  return { [kind]: { enabled, ...address, ...JSON.parse(settings), credentials: {} } }
}

function presentOrder({ order, invoice, artworks }: OrderWithParts) {
  const { title_key: _title, number_key: _number, ...own } = ownFields(order)
  return {
    ...own,
    ...isoTimes(order),
    invoice: invoice ? presentInvoice(invoice) : null,
    artworks: artworks.map(({ project_id: _order, placements, colors, ...artwork }) => ({
      ...ownFields(artwork),
      placements: JSON.parse(placements),
      colors: JSON.parse(colors),
    })),
  }
}

function presentInvoice(invoice: NonNullable<OrderWithParts['invoice']>) {
  const { project_id: _order, discount_hundredths, items, payments, ...own } = ownFields(invoice)
  return {
    ...own,
    ...isoTimes(invoice),
    discount_amount: fromCents(discount_hundredths),
    items: items.map(({ invoice_id: _invoice, search_text: _text, unit_price_cents, ...item }) => ({
      ...ownFields(item),
      unit_price: fromCents(unit_price_cents),
    })),
    payments: payments.map(({ invoice_id: _invoice, amount_cents, ...payment }) => ({
      ...ownFields(payment),
      amount: fromCents(amount_cents),
    })),
  }
}

type RowOf<Name extends Parameters<typeof listRows>[1]> = Awaited<ReturnType<typeof listRows<Name>>>[number]

function presentClient(client: RowOf<'clients'>) {
  const isShown = ([name]: [string, unknown]) => !/_key$|_digits$|^search_text$/.test(name)
  const fields = Object.entries(ownFields(client)).filter(isShown)
  return { ...Object.fromEntries(fields), ...isoTimes(client) }
}

function presentTax({ accounting_tax_code_id, ...tax }: RowOf<'taxes'>) {
  return { ...ownFields(tax), tax_code_id: accounting_tax_code_id }
}

function presentCatalogItem({ price_cents, search_text: _, version: _version, ...item }: RowOf<'catalog_items'>) {
  return { ...ownFields(item), price: price_cents === null ? null : fromCents(price_cents) }
}

function presentContext({ version: _, ...row }: Awaited<ReturnType<typeof listContexts>>[number]) {
  const parse = (text: string | null) => (text === null ? null : JSON.parse(text))
  return {
    ...ownFields(row),
    client_data: parse(row.client_data),
    clients_data: parse(row.clients_data),
    orders_data: parse(row.orders_data),
    participant_emails: parse(row.participant_emails),
    participants_data: parse(row.participants_data),
    fetched_at: isoTime(row.fetched_at),
    updated_at: isoTime(row.updated_at),
  }
}

/** Yields the lines of threads; their arrays are the JSON that was sent. */
async function* threadLines(context: AdminContext, threads: ExportedThread[]): AsyncGenerator<Piece> {
  for (const row of threads) {
    const { id, account_email, legacy_thread_id, first_message_at, last_message_at, revision, content_revision } = row
    const head = {
      id,
      account_email,
      legacy_thread_id,
      first_message_at: isoTimeOrNull(first_message_at),
      last_message_at: isoTimeOrNull(last_message_at),
      last_synced_at: isoTime(row.last_synced_at),
      ...isoTimes(row),
      deleted: row.deleted,
      revision,
      content_revision,
    }
    const texts = TEXT_FIELDS.map((field) => `,"${field}":${row[field] ?? 'null'}`)
    yield `{"type":"email_threads","data":${JSON.stringify(head).slice(0, -1)}${texts.join('')}`
    const content = await openContent(context, row)
    if (content) {
      yield ','
      yield* decompress(content)
    }
    yield '}}\n'
  }
}

/** Opens the compressed content of a thread; nothing if it is lost. */
async function openContent({ env }: AdminContext, { company_id, content, content_hash, object }: ExportedThread) {
  if (content !== null) return [Uint8Array.fromBase64(content)]
  return object === null ? null : openObject(env.FILES, { id: object, company_id, content_hash })
}

import { type BuildColumns, sql } from 'drizzle-orm'
import {
  check,
  foreignKey,
  index,
  integer,
  primaryKey,
  real,
  type SQLiteColumn,
  type SQLiteColumnBuilderBase,
  type SQLiteTableExtraConfigValue,
  sqliteTable,
  text,
  uniqueIndex,
} from 'drizzle-orm/sqlite-core'

/*
 * Columns have the names of the API's fields. Every row belongs to a company and every key begins with it: the primary
 * key is `(company_id, id)`, and foreign keys have both columns, so the database refuses references into another company.
 * Ids are assigned per company and reveal nothing of others; a seed may use any free id up to 2^48.
 *
 * No query plan relies on statistics: every read finds its rows by the first columns of a key or index. A partial index
 * is used only by queries that repeat its condition literally.
 *
 * Times are milliseconds since the epoch, dates are `YYYY-MM-DD`, money is integer cents. The migrations also have
 * full-text tables, counters and their triggers, which Drizzle cannot express.
 */

/*
 * The bytes of a row in its company's storage quota, as SQL: the row, its entries in indexes and full-text tables, and its
 * share of the rows written by triggers. Each is a generated column `stored_bytes`, the one definition for triggers, the
 * recount and tests. The numbers were measured with `dbstat` on rows of typical and of extreme lengths. Text without
 * repetition takes up to twice as much of the full-text tables.
 */

/** @param columns their names, with white space between */
const octets = (columns: string) =>
  columns
    .split(/\s+/)
    .map((name) => `coalesce(octet_length(${name}), 0)`)
    .join(' + ')

/**
 * The length of a row's texts: {@link TEXT_BYTES}, and the columns that a later migration has added. These are named here,
 * as `text_bytes` cannot change while `stored_bytes` reads it: see `src/site/guides/upgrades.md`.
 */
const textsWith = (added = '') => (added === '' ? 'text_bytes' : `(text_bytes + ${octets(added)})`)

/** A row in a table, whose rows over a third of a page waste the rest of it. @param text a column or in parentheses */
const inTable = (text: string) =>
  `${text} + iif(${text} % 4092 > 2040, 4096 - ${text} % 4092, iif(${text} % 4092 > 1360, 2044 - ${text} % 4092, ${text} / 16))`

/** A row WITHOUT ROWID. Rows of more than a quarter of a page put all but 489 bytes on a page of their own. */
const inTree = (text: string) => `iif(${text} > 950, max(${text}, 4550), (${text}) * 9 / 8)`

/** Indexed as trigrams, and with a separator around each character. @param length in characters */
const trigrams = (length: string) => `17 * (${length}) / 2 + 5 * min(${length}, 60) / 2`

/** Lengths of the texts of the first migration, which long expressions read. */
export const TEXT_BYTES = {
  clients: octets(`company_name first_name last_name email website phone company_name_key first_name_key
    last_name_key email_key phone_key phone_digits tax_exempt_reason external_id accounting_customer_id`),
  orders: octets('title description start_date deadline client_notes created_date external_id title_key number_key'),
  invoice_items: octets('title description supplier style color size sku search_text'),
  catalog_items: octets('title description search_text'),
  thread_contexts: octets(`thread_id legacy_thread_id sender_email client_id client_data clients_data orders_data
    selected_order_id participant_emails participants_data`),
  idempotency_keys: octets('key fingerprint result'),
}

/** A deleted client or item is not indexed. */
const unlessDeleted = (bytes: string) => `iif(deleted, 0, ${bytes})`

/** Counts entries of `thread_context_links`; an element without an id counts too. */
const elements = (column: string) => `json_array_length(iif(json_valid(${column}), ${column}, '[]'))`
const LINKS = `(max(${elements('clients_data')}, client_id IS NOT NULL) + ${elements('orders_data')})`

/** The indexed text of a client. Long texts repeat trigrams. */
const CLIENT_TEXT = 'length(search_text) + length(phone_digits)'

export const STORED_BYTES = {
  clients: `225 + ${inTree(textsWith())} + (${octets('email_key external_id')}) * 5 / 4 + ${trigrams('length(company_name_key)')} + ${unlessDeleted(`6 * (${CLIENT_TEXT}) + 4 * min(${CLIENT_TEXT}, 110)`)}`,
  orders: `225 + ${inTree(textsWith())} + (${octets('external_id')}) * 5 / 4 + ${trigrams('length(title_key) + length(number_key)')}`,
  invoices: `100 + octet_length(number) + ${inTree(octets('number tax_exempt_reason'))}`,
  invoice_items: `110 + ${inTable(textsWith())} + ${trigrams('min(length(search_text), length(title) + 201)')}`,
  payments: `31 + ${inTree(octets('method paid_at note'))}`,
  artworks: `52 + (${octets('name print_method placements colors preview_url status')}) * 17 / 16`,
  catalog_items: `32 + ${inTable(textsWith())} + ${unlessDeleted(`48 + ${trigrams('length(search_text)')}`)}`,
  thread_contexts: `70 + ${inTable(textsWith())} + ${octets('thread_id legacy_thread_id')} + ${LINKS} * (36 + 11 * octet_length(thread_id) / 5)`,
  // The texts and the content are in `mail_bytes`; this has the row of an object in R2 too.
  email_threads: '410 + 16 * octet_length(account_email) / 5 + 21 * octet_length(legacy_thread_id) / 10',
  // A delivered event has no body, and is removed after 7 days.
  accounting_outbox: `iif(state = 'done', 0, 90 + (${octets('operation state request_id request_body last_error')}) * 17 / 16)`,
  accounting_links: `20 + (${octets('external_id sync_token customer_id')}) * 9 / 8`,
  webhook_deliveries: `54 + 2 * (${octets('endpoint_id type entity_id')}) + (${octets('last_error')}) * 9 / 8`,
  idempotency_keys: `58 + ${inTable(textsWith())} + octet_length(key)`,
}

/** A row of tables whose keys have no gaps: the rows are counted by their first and their last. */
export const BYTES_A_ROW = { changes: 60, audit_log: 95 }

const bool = () => integer({ mode: 'boolean' })
const flag = () => bool().notNull().default(false)
const companyId = () =>
  integer()
    .notNull()
    .references(() => companies.id)

const id = () => integer().notNull()
type Id = ReturnType<typeof id>
const version = () => integer().notNull().default(1)
const stored = (table: keyof typeof STORED_BYTES) => integer().generatedAlwaysAs(sql.raw(STORED_BYTES[table]))
const texts = (table: keyof typeof TEXT_BYTES) => integer().generatedAlwaysAs(sql.raw(TEXT_BYTES[table]))
const counted = (table: keyof typeof TEXT_BYTES) => ({ text_bytes: texts(table), stored_bytes: stored(table) })
const nullable = <Name extends string>(...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, text()])) as Record<Name, ReturnType<typeof text>>
const oneOf = <const T extends readonly [string, ...string[]]>(...values: T) => text({ enum: values }).notNull()
const times = () => ({ created_at: integer().notNull(), updated_at: integer().notNull() })

type Builders = Record<string, SQLiteColumnBuilderBase>
type OfCompany<C> = { company_id: ReturnType<typeof companyId> } & C
type Rest<Name extends string, C extends Builders> = (
  t: BuildColumns<Name, OfCompany<C>, 'sqlite'>,
) => SQLiteTableExtraConfigValue[]

/** A table of companies' rows. @param key the columns of its primary key after the company */
function companyTable<Name extends string, C extends Builders>(
  name: Name,
  key: (keyof C & string)[],
  columns: C,
  rest?: Rest<Name, C>,
) {
  return sqliteTable(name, { company_id: companyId(), ...columns } as OfCompany<C>, (t) => {
    const byName: Record<string, SQLiteColumn> = t
    const keyColumns = ['company_id', ...key].map((each) => byName[each]) as [SQLiteColumn, ...SQLiteColumn[]]
    return [primaryKey({ columns: keyColumns }), ...(rest?.(t) ?? [])]
  })
}

function idTable<Name extends string, C extends Builders>(name: Name, columns: C, rest?: Rest<Name, { id: Id } & C>) {
  return companyTable<Name, { id: Id } & C>(name, ['id'], { id: id(), ...columns }, rest)
}

export const companies = sqliteTable(
  'companies',
  {
    id: integer().primaryKey(),
    /** Small dense number: the high bits of this company's rowids in the full-text tables (`(slot << 53) | id`). */
    slot: integer().notNull(),
    /** In the directory: the binding of the database that has the company's data, and its slot there. Null for this one. */
    database: text(),
    database_slot: integer(),
    name: text().notNull(),
    /** The currency of all amounts: three capital letters. */
    currency: text().notNull().default('USD'),
    accounting_sync_enabled: flag(),
    suspended: flag(),
    /** Whether events and changes wait until an operator resumes their delivery. */
    deliveries_paused: flag(),
    /** When its last complete backup began; null before the first. */
    backed_up_at: integer(),
    /** Rows that are not deleted, counted by triggers: a list's total costs one row. */
    client_count: integer().notNull().default(0),
    order_count: integer().notNull().default(0),
    /** The highest ids so far, raised by triggers, also above those of a seed. */
    last_client_id: integer().notNull().default(0),
    last_order_id: integer().notNull().default(0),
    last_invoice_id: integer().notNull().default(0),
    last_invoice_number: integer().notNull().default(1000),
    last_invoice_item_id: integer().notNull().default(0),
    last_payment_id: integer().notNull().default(0),
    /** The `sequence` of the newest row of `changes`. */
    last_change: integer().notNull().default(0),
    /** Stored bytes of email threads, counted by triggers, and their limit. */
    mail_bytes: integer().notNull().default(0),
    mail_quota_bytes: integer().notNull().default(2_147_483_648),
    /** The bytes at the start of the last write, if above the quota; else 0. A write that does not raise them passes. */
    mail_bytes_checked: integer().notNull().default(0),
    /** The same of all other rows but those of `changes` and `audit_log`: see `refusals.ts`. */
    stored_bytes: integer().notNull().default(0),
    storage_quota_bytes: integer().notNull().default(2_147_483_648),
    stored_bytes_checked: integer().notNull().default(0),
    /** The highest id of the audit log that has expired: ids are not assigned again. */
    audit_expired: integer().notNull().default(0),
    /** When its rows were last recounted; null where they were never counted, and the quota does not apply yet. */
    recounted_at: integer().default(0),
    ...times(),
  },
  (t) => [
    check('companies_slot', sql`${t.slot} BETWEEN 0 AND 1023`),
    uniqueIndex('companies_slot_unique').on(t.slot).where(sql`${t.database} IS NULL`),
    uniqueIndex('companies_elsewhere').on(t.database, t.database_slot).where(sql`${t.database} IS NOT NULL`),
  ],
)

export const apiTokens = sqliteTable(
  'api_tokens',
  {
    id: integer().primaryKey({ autoIncrement: true }),
    company_id: companyId(),
    /** SHA-256 of the token, lower-case hex. The token itself is not stored. */
    token_hash: text().notNull().unique(),
    name: text().notNull(),
    permissions: text({ mode: 'json' }).$type<string[]>().notNull(),
    created_at: integer().notNull(),
    /** The email of who made it; null for an operator. */
    created_by: text(),
    last_used_at: integer(),
    expires_at: integer(),
    revoked_at: integer(),
  },
  (t) => [index('api_tokens_company').on(t.company_id, t.id)],
)

export const orderStatuses = idTable(
  'order_statuses',
  {
    title: text().notNull(),
    color: text(),
    workflow_key: text(),
    position: integer().notNull().default(0),
    is_default: flag(),
    deleted: flag(),
  },
  (t) => [
    index('order_statuses_default')
      .on(t.company_id, t.position, t.id)
      .where(sql`${t.is_default} = 1 AND ${t.deleted} = 0`),
  ],
)

export const taxes = idTable('taxes', {
  name: text().notNull(),
  /** Percent, at most 4 decimals. */
  rate: real().notNull(),
  accounting_tax_code_id: text(),
  deleted: flag(),
})

export const clients = idTable(
  'clients',
  {
    company_name: text().notNull(),
    ...nullable('first_name', 'last_name', 'email', 'website', 'phone'),
    /** Folded fields for search and lookup (see `kernel/db/columns.ts`): one each, so that a partial update sets its own. */
    company_name_key: text().notNull(),
    ...nullable('first_name_key', 'last_name_key', 'email_key', 'phone_key'),
    phone_digits: text().notNull().default(''),
    /** Separated by U+001F, which no folded text contains: a match never spans two fields. */
    search_text: text().generatedAlwaysAs(
      sql`company_name_key || coalesce(char(31) || coalesce(first_name_key || ' ' || last_name_key, first_name_key, last_name_key), '') || coalesce(char(31) || email_key, '') || coalesce(char(31) || phone_key, '')`,
    ),
    accounting_sync_enabled: flag(),
    tax_exempt: flag(),
    tax_exempt_reason: text(),
    deleted: flag(),
    external_id: text(),
    version: version(),
    accounting_customer_id: text(),
    /** Whether it was linked by hand: then it is never replaced. */
    accounting_customer_linked: flag(),
    ...times(),
    // New columns come here: stored results have columns by position.
    ...counted('clients'),
  },
  (t) => [
    index('clients_email').on(t.company_id, t.email_key, t.deleted, t.id),
    index('clients_live').on(t.company_id, t.id).where(sql`${t.deleted} = 0`),
    index('clients_deleted').on(t.company_id, t.id).where(sql`${t.deleted} = 1`),
    ...byTime('clients', t),
  ],
)

export const orders = idTable(
  'orders',
  {
    title: text().notNull(),
    client_id: integer().notNull(),
    ...nullable('description', 'start_date', 'deadline'),
    order_status_id: integer(),
    client_notes: text(),
    created_date: text().notNull(),
    ...times(),
    deleted: flag(),
    external_id: text(),
    /** Raised by every change of the order, its invoice, lines and payments. */
    version: version(),
    /** The folded title, and the folded number of its invoice, for searches. */
    title_key: text().notNull().default(''),
    number_key: text().notNull().default(''),
    ...counted('orders'),
  },
  (t) => [
    belongsTo([t.company_id, t.client_id], [clients.company_id, clients.id]),
    belongsTo([t.company_id, t.order_status_id], [orderStatuses.company_id, orderStatuses.id]),
    index('orders_live').on(t.company_id, t.created_date, t.id).where(sql`${t.deleted} = 0`),
    index('orders_of_client')
      .on(t.company_id, t.client_id, t.created_date, t.id, t.order_status_id)
      .where(sql`${t.deleted} = 0`),
    index('orders_of_status').on(t.company_id, t.order_status_id, t.created_date, t.id).where(sql`${t.deleted} = 0`),
    index('orders_deleted').on(t.company_id, t.created_date, t.id).where(sql`${t.deleted} = 1`),
    index('orders_deleted_id').on(t.company_id, t.id).where(sql`${t.deleted} = 1`),
    ...byTime('orders', t),
  ],
)

export const invoices = idTable(
  'invoices',
  {
    project_id: integer().notNull(),
    number: text().notNull(),
    due_date: text(),
    tax_id: integer(),
    tax_exempt: flag(),
    tax_exempt_reason: text(),
    /** Hundredths of a percent or of a currency unit, see `discount_amount_type`. */
    discount_hundredths: integer().notNull().default(0),
    discount_amount_type: oneOf('percentage', 'fixed_amount').default('percentage'),
    discount_type: oneOf('before_tax', 'after_tax').default('before_tax'),
    deleted: flag(),
    ...times(),
    stored_bytes: stored('invoices'),
  },
  (t) => [
    belongsTo([t.company_id, t.project_id], [orders.company_id, orders.id]),
    belongsTo([t.company_id, t.tax_id], [taxes.company_id, taxes.id]),
    uniqueIndex('invoices_of_order').on(t.company_id, t.project_id),
    uniqueIndex('invoices_number').on(t.company_id, t.number),
    check('invoices_discount', sql`${t.discount_hundredths} >= 0`),
    check('invoices_discount_amount_type', sql`${t.discount_amount_type} IN ('percentage', 'fixed_amount')`),
    check('invoices_discount_type', sql`${t.discount_type} IN ('before_tax', 'after_tax')`),
  ],
)

export const invoiceItems = idTable(
  'invoice_items',
  {
    invoice_id: integer().notNull(),
    title: text().notNull(),
    description: text(),
    quantity: real().notNull(),
    unit_price_cents: integer().notNull(),
    taxable: bool().notNull().default(true),
    ...nullable('supplier', 'style', 'color', 'size', 'sku'),
    position: integer().notNull().default(0),
    search_text: text().notNull(),
    ...counted('invoice_items'),
  },
  (t) => [
    belongsTo([t.company_id, t.invoice_id], [invoices.company_id, invoices.id]),
    index('invoice_items_of_invoice').on(t.company_id, t.invoice_id, t.id),
  ],
)

export const payments = companyTable(
  'payments',
  ['invoice_id', 'id'],
  {
    id: integer().notNull(),
    invoice_id: integer().notNull(),
    amount_cents: integer().notNull(),
    ...nullable('method', 'paid_at', 'note'),
    stored_bytes: stored('payments'),
  },
  (t) => [
    belongsTo([t.company_id, t.invoice_id], [invoices.company_id, invoices.id]),
    uniqueIndex('payments_id').on(t.company_id, t.id),
  ],
)

export const artworks = idTable(
  'artworks',
  {
    project_id: integer().notNull(),
    name: text().notNull(),
    print_method: text(),
    /** JSON arrays, as seeded. */
    placements: text().notNull().default('[]'),
    colors: text().notNull().default('[]'),
    preview_url: text(),
    status: text(),
    stored_bytes: stored('artworks'),
  },
  (t) => [
    belongsTo([t.company_id, t.project_id], [orders.company_id, orders.id]),
    index('artworks_of_order').on(t.company_id, t.project_id, t.id),
    check('artworks_json', sql`json_valid(${t.placements}) AND json_valid(${t.colors})`),
  ],
)

export const catalogItems = idTable('catalog_items', {
  title: text().notNull(),
  description: text(),
  price_cents: integer(),
  deleted: flag(),
  search_text: text().notNull(),
  version: version(),
  ...counted('catalog_items'),
})

/** Links between mail threads and the CRM. They belong to the company whose seed or request wrote them. */
export const threadContexts = companyTable(
  'thread_contexts',
  ['thread_id'],
  {
    thread_id: text().notNull(),
    ...nullable('legacy_thread_id', 'sender_email', 'client_id', 'client_data', 'clients_data', 'orders_data'),
    ...nullable('selected_order_id', 'participant_emails', 'participants_data'),
    fetched_at: integer().notNull(),
    updated_at: integer().notNull(),
    version: version(),
    ...counted('thread_contexts'),
  },
  (t) => [
    index('thread_contexts_legacy').on(t.company_id, t.legacy_thread_id, t.updated_at, t.thread_id),
    check(
      'thread_contexts_json',
      sql`json_valid(${t.client_data}) AND json_valid(${t.clients_data}) AND json_valid(${t.orders_data}) AND json_valid(${t.participant_emails}) AND json_valid(${t.participants_data}) AND json_type(${t.client_data}) = 'object'`,
    ),
  ],
)

/** The clients and orders that thread contexts name. Triggers write them. */
export const threadContextLinks = companyTable(
  'thread_context_links',
  ['entity', 'entity_id', 'thread_id'],
  {
    entity: oneOf('client', 'order'),
    entity_id: integer().notNull(),
    thread_id: text().notNull(),
  },
  (t) => [index('thread_context_links_of_thread').on(t.company_id, t.thread_id)],
)

/** The four texts are stored as JSON (`"…"`), since D1 changes lone surrogates and cuts text at U+0000. */
export const emailThreads = sqliteTable(
  'email_threads',
  {
    /** UUID. */
    id: text().primaryKey(),
    company_id: companyId(),
    account_email: text().notNull(),
    legacy_thread_id: text().notNull(),
    message_count: integer().notNull(),
    first_message_at: integer(),
    last_message_at: integer(),
    last_synced_at: integer().notNull(),
    /** SHA-256 of the three arrays as sent, hex: equal content is not written again. */
    content_hash: text().notNull(),
    /** Bytes of the three arrays as sent. */
    content_bytes: integer().notNull().default(0),
    /** Raised by every write; `content_revision` is the one that wrote the content. */
    revision: integer().notNull(),
    content_revision: integer().notNull(),
    ...times(),
    deleted: flag(),
    text_bytes: integer().generatedAlwaysAs(sql.raw(octets('mail_thread_id subject snippet mail_history_id content'))),
    stored_bytes: stored('email_threads'),
    // Long texts stand last, so that a filter reads the columns before them without them.
    ...nullable('mail_thread_id', 'subject', 'snippet', 'mail_history_id'),
    /**
     * The arrays as they were sent, compressed, in base64; null where R2 has them. Text travels ten times as fast as a
     * BLOB, which D1 sends as numbers in JSON.
     */
    content: text(),
  },
  (t) => [
    uniqueIndex('email_threads_identity').on(t.company_id, t.legacy_thread_id, t.account_email),
    index('email_threads_of_account').on(t.company_id, t.account_email, t.created_at, t.id),
  ],
)

/** Objects of R2, each with the content of one thread as it was at one write: see `resources/mail/content.ts`. */
export const emailThreadObjects = sqliteTable(
  'email_thread_objects',
  {
    /** UUID. No two writes have the same one, so no key is ever written twice. */
    id: text().primaryKey(),
    company_id: companyId(),
    content_hash: text().notNull(),
    bytes: integer().notNull(),
    /** `writing` until a thread names it, then `stored`; `replaced` when none does any more; `removing` for good. */
    state: text().notNull().default('writing'),
    thread_id: text().references(() => emailThreads.id),
    /** When the sweep removes it; null while a thread names it. */
    remove_at: integer(),
  },
  (t) => [
    index('email_thread_objects_company').on(t.company_id, t.id),
    uniqueIndex('email_thread_objects_thread').on(t.thread_id).where(sql`thread_id IS NOT NULL`),
    index('email_thread_objects_removal').on(t.remove_at).where(sql`remove_at IS NOT NULL`),
    index('email_thread_objects_writing').on(t.company_id).where(sql`state = 'writing'`),
  ],
)

export const integrations = companyTable(
  'integrations',
  ['kind'],
  {
    kind: text().notNull(),
    enabled: flag(),
    /** Base address; the endpoint for `storage`. */
    base_url: text().notNull(),
    /** JSON object of what is not secret: bucket and region of `storage`. */
    settings: text().notNull().default('{}'),
    /** Encrypted with AES-GCM, bound to company and kind: see `kernel/db/credentials.ts`. */
    credentials: text().notNull(),
    updated_at: integer().notNull(),
  },
  (t) => [
    index('integrations_accounting')
      .on(t.company_id, t.updated_at)
      .where(sql`${t.kind} = 'accounting_sync' AND ${t.enabled} = 1`),
  ],
)

/** The state of a company's connection to its accounting system. Created by the first delivery. */
export const accountingConnections = sqliteTable('accounting_connections', {
  company_id: companyId().primaryKey(),
  /** The remote account (address and realm) that links and customer ids belong to. */
  remote_account: text().notNull(),
  /** The current tokens, encrypted as credentials are; null before the first refresh. */
  tokens: text(),
  paused_until: integer().notNull().default(0),
  /** `updated_at` of the integration that failed for good: a changed integration is tried again. */
  stopped_for: integer(),
  reason: text(),
})

/**
 * Events for the accounting system, written in the transaction of the change. `pending`: not sent with its present body;
 * `sent`: sent, without a response yet; `parked`, `dead`: not retried until the order is edited or the event is retried by
 * hand; `done`: delivered, or covered by another event.
 */
export const accountingOutbox = sqliteTable(
  'accounting_outbox',
  {
    id: integer().primaryKey(),
    company_id: companyId(),
    order_id: integer().notNull(),
    /** The operation of the change; once sent, that of the request body. */
    operation: oneOf('create', 'update', 'delete'),
    state: oneOf('pending', 'sent', 'parked', 'dead', 'done').default('pending'),
    /** Attempts, and those refused as stale or duplicate. */
    attempts: integer().notNull().default(0),
    stale_attempts: integer().notNull().default(0),
    next_attempt_at: integer().notNull(),
    /** The request id and body (JSON) as first sent: a retry repeats both exactly. Only of `sent` rows. */
    ...nullable('request_id', 'request_body', 'last_error'),
    ...times(),
    /** Its id in the database from which it was moved, since ids are shared by all companies; else null. */
    source_id: integer(),
    stored_bytes: stored('accounting_outbox'),
  },
  (t) => [
    belongsTo([t.company_id, t.order_id], [orders.company_id, orders.id]),
    // Of all events: a removed order looks for its own. Queries of others leave it by a comparison, such as `order_id > 0`.
    uniqueIndex('accounting_outbox_source').on(t.company_id, t.source_id),
    index('accounting_outbox_due')
      .on(t.company_id, t.next_attempt_at, t.id, t.order_id)
      .where(sql`${t.state} IN ('pending', 'sent')`),
    index('accounting_outbox_of_order').on(t.company_id, t.order_id, t.state, t.id).where(sql`${t.state} <> 'done'`),
    index('accounting_outbox_done').on(t.updated_at).where(sql`${t.state} = 'done'`),
    check('accounting_outbox_operation', sql`${t.operation} IN ('create', 'update', 'delete')`),
    check('accounting_outbox_state', sql`${t.state} IN ('pending', 'sent', 'parked', 'dead', 'done')`),
  ],
)

/** An order's invoice in the accounting system. Without an `external_id` a create was sent and may have been applied. */
export const accountingLinks = companyTable(
  'accounting_links',
  ['order_id'],
  {
    order_id: integer().notNull(),
    external_id: text(),
    sync_token: text(),
    /** The invoice's customer: identifies it together with its number and date. */
    customer_id: text(),
    synced_at: integer(),
    stored_bytes: stored('accounting_links'),
  },
  (t) => [belongsTo([t.company_id, t.order_id], [orders.company_id, orders.id])],
)

/** Who changed what, without values, for 90 days. Repetitions within a minute are not recorded. Ids ascend by 1. */
export const auditLog = idTable('audit_log', {
  token_id: integer().notNull(),
  request_id: text().notNull(),
  action: text().notNull(),
  entity_id: text().notNull(),
  at: integer().notNull(),
})

export const members = companyTable(
  'members',
  ['email'],
  {
    /** In lower case. */
    email: text().notNull(),
    role: oneOf('developer', 'owner'),
    created_at: integer().notNull(),
  },
  (t) => [index('members_email').on(t.email, t.company_id)],
)

/** Every change through the administration API, without values, for 400 days. */
export const adminLog = sqliteTable(
  'admin_log',
  {
    id: integer().primaryKey(),
    /** Null of a change of the whole deployment. */
    company_id: integer().references(() => companies.id),
    /** An email, or `operator` for the deployment's secret. */
    actor: text().notNull(),
    action: text().notNull(),
    entity_id: text().notNull(),
    address: text().notNull(),
    request_id: text().notNull(),
    at: integer().notNull(),
  },
  (t) => [index('admin_log_company').on(t.company_id, t.id), index('admin_log_at').on(t.at)],
)

/** How far the import of a seed file in several parts has come. */
export const imports = companyTable('imports', ['hash'], {
  /** SHA-256 of the file, hex. */
  hash: text().notNull(),
  /** The number of parts; those before `next_part`, from 1, are loaded. */
  parts: integer().notNull(),
  next_part: integer().notNull(),
  updated_at: integer().notNull(),
})

/** Changes of clients, orders and email threads in commit order, for 31 days. Triggers write them, also for a seed. */
export const changes = companyTable('changes', ['sequence'], {
  /** Ascends by 1 within the company. */
  sequence: integer().notNull(),
  type: oneOf('clients', 'orders', 'email_threads'),
  /** The number of a client or order, the UUID of an email thread. */
  entity_id: text().notNull(),
  /** A row that is deleted after the change has `delete`. */
  operation: oneOf('create', 'update', 'delete', 'status_changed'),
  version: integer().notNull(),
  at: integer().notNull(),
  /** The row's `updated_at` before the change; null of a created one. */
  previous_updated_at: integer(),
  /** The order's status before and after `status_changed`, which follows the order's change; null for none. */
  old_status_id: integer(),
  new_status_id: integer(),
})

/** The results of requests with an `Idempotency-Key`, for 24 hours; several of one request by position. */
export const idempotencyKeys = companyTable('idempotency_keys', ['token_id', 'key', 'position'], {
  token_id: integer().notNull(),
  key: text().notNull(),
  position: integer().notNull().default(0),
  /** SHA-256 of method, path, query and body, hex. */
  fingerprint: text().notNull(),
  result: text(),
  created_at: integer().notNull(),
  ...counted('idempotency_keys'),
})

export const webhookEndpoints = companyTable('webhook_endpoints', ['id'], {
  /** `we_` and 18 hexadecimal digits. */
  id: text().notNull(),
  url: text().notNull(),
  /** The signing secrets, encrypted with AES-GCM: see `delivery/webhooks/message.ts`. */
  secret: text().notNull(),
  event_types: text({ mode: 'json' }).$type<string[]>().notNull(),
  enabled: bool().notNull().default(true),
  disabled_reason: text(),
  /** Changes up to this `sequence` are delivered, or are in `webhook_deliveries`. */
  position: integer().notNull(),
  /** A replay: the changes after the one and up to the other are delivered again, before new ones. */
  replay_position: integer(),
  replay_end: integer(),
  /** Attempts at this address that failed before one succeeded; null once one has. */
  initial_failures: integer(),
  ...times(),
})

/** Changes whose delivery failed, and later ones of the same object, which wait behind them. */
export const webhookDeliveries = companyTable(
  'webhook_deliveries',
  ['endpoint_id', 'type', 'entity_id', 'sequence'],
  {
    endpoint_id: text().notNull(),
    /** The object, and the change, as in `changes`. */
    type: oneOf('clients', 'orders', 'email_threads'),
    entity_id: text().notNull(),
    sequence: integer().notNull(),
    attempts: integer().notNull().default(0),
    first_attempt_at: integer(),
    /** Null of a change that waits behind another. */
    next_attempt_at: integer(),
    last_error: text(),
    stored_bytes: stored('webhook_deliveries'),
  },
  (t) => [
    belongsTo([t.company_id, t.endpoint_id], [webhookEndpoints.company_id, webhookEndpoints.id]),
    index('webhook_deliveries_due')
      .on(t.company_id, t.endpoint_id, t.next_attempt_at)
      .where(sql`${t.next_attempt_at} IS NOT NULL`),
  ],
)

/** The moves of companies to other databases, in the directory. A row is removed when its move is complete. */
export const moves = sqliteTable('moves', {
  company_id: companyId().primaryKey(),
  /** Bindings. */
  source: text().notNull(),
  destination: text().notNull(),
  /** JSON: how far it has come. */
  state: text({ mode: 'json' }).$type<unknown>().notNull(),
  ...{ started_at: integer().notNull(), updated_at: integer().notNull() },
})

/**
 * The states of companies under move. In the source: `copying`, then `read_only`, and `moved` from the switch on. In the
 * destination: `moved` until the switch, then `writable` until the directory names it. The first statement of each write
 * refuses `read_only` and `moved`: see `placement.ts`.
 */
export const companyGuards = sqliteTable(
  'company_guards',
  {
    company_id: integer().primaryKey(),
    state: oneOf('copying', 'read_only', 'moved', 'writable'),
    /** Where the data is, or is copied to, and its slot there. */
    destination: text().notNull(),
    slot: integer().notNull(),
    read_only_at: integer(),
  },
  (t) => [check('company_guards_state', sql`${t.state} IN ('copying', 'read_only', 'moved', 'writable')`)],
)

type Listed = Record<'company_id' | 'id' | 'created_at' | 'updated_at' | 'deleted' | 'external_id', SQLiteColumn>

function byTime(table: 'clients' | 'orders', t: Listed) {
  return [
    index(`${table}_live_created`).on(t.company_id, t.created_at, t.id).where(sql`${t.deleted} = 0`),
    index(`${table}_live_updated`).on(t.company_id, t.updated_at, t.id).where(sql`${t.deleted} = 0`),
    index(`${table}_deleted_created`).on(t.company_id, t.created_at, t.id).where(sql`${t.deleted} = 1`),
    index(`${table}_deleted_updated`).on(t.company_id, t.updated_at, t.id).where(sql`${t.deleted} = 1`),
    uniqueIndex(`${table}_external_id`).on(t.company_id, t.external_id).where(sql`${t.external_id} IS NOT NULL`),
  ]
}

/** A composite foreign key without `ON DELETE`: nothing is deleted by cascade. */
function belongsTo(columns: [SQLiteColumn, SQLiteColumn], foreignColumns: [SQLiteColumn, SQLiteColumn]) {
  return foreignKey({ columns, foreignColumns })
}

import { sql } from 'drizzle-orm'
import {
  check,
  foreignKey,
  index,
  integer,
  primaryKey,
  real,
  type SQLiteColumn,
  sqliteTable,
  text,
  uniqueIndex,
} from 'drizzle-orm/sqlite-core'

/*
 * Every row belongs to a company, and every key begins with it: `(company_id, id)` is the primary key, and foreign keys
 * carry both columns, so that the database itself refuses a reference into another company. Ids are given out per
 * company and tell nothing of another; a seed may give any id up to 2^48 that is free in its company.
 *
 * No plan relies on statistics: every read finds its rows by a key or index whose first columns are all given. A partial
 * index is used only by a query that repeats its condition to the letter.
 *
 * Times are milliseconds since the epoch; dates are `YYYY-MM-DD`; money is integer cents. Full-text tables, counters
 * and the triggers that keep both are in the migrations: Drizzle has no words for them.
 */

const bool = (name: string) => integer(name, { mode: 'boolean' })
const flag = (name: string) => bool(name).notNull().default(false)
const companyId = () =>
  integer('company_id')
    .notNull()
    .references(() => companies.id)

export const companies = sqliteTable(
  'companies',
  {
    id: integer('id').primaryKey(),
    /** Small dense number: the high bits of this company's rowids in the full-text tables (`slot << 53 | id`). */
    slot: integer('slot').notNull().unique(),
    name: text('name').notNull(),
    accountingSyncEnabled: flag('accounting_sync_enabled'),
    suspended: flag('suspended'),
    /** Kept by triggers: rows that are not deleted, so that a list's total costs one row. */
    clientCount: integer('client_count').notNull().default(0),
    orderCount: integer('order_count').notNull().default(0),
    /** The highest ids so far, raised by triggers: those that a seed brings are skipped. */
    lastClientId: integer('last_client_id').notNull().default(0),
    lastOrderId: integer('last_order_id').notNull().default(0),
    lastInvoiceId: integer('last_invoice_id').notNull().default(0),
    lastInvoiceNumber: integer('last_invoice_number').notNull().default(1000),
    /** Stored bytes of email threads, counted by triggers, and how many they may be. */
    mailBytes: integer('mail_bytes').notNull().default(0),
    mailQuotaBytes: integer('mail_quota_bytes').notNull().default(2_147_483_648),
    /** `mail_bytes` when the quota was last checked: a write that does not raise it is never refused. */
    mailBytesChecked: integer('mail_bytes_checked').notNull().default(0),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
  },
  (t) => [check('companies_slot', sql`${t.slot} BETWEEN 0 AND 1023`)],
)

export const apiTokens = sqliteTable(
  'api_tokens',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    companyId: companyId(),
    /** SHA-256 of the token, lower-case hex. The token itself is nowhere. */
    tokenHash: text('token_hash').notNull().unique(),
    name: text('name').notNull(),
    /** JSON array of permissions. */
    permissions: text('permissions', { mode: 'json' }).$type<string[]>().notNull(),
    createdAt: integer('created_at').notNull(),
    lastUsedAt: integer('last_used_at'),
    expiresAt: integer('expires_at'),
    revokedAt: integer('revoked_at'),
  },
  (t) => [index('api_tokens_company').on(t.companyId, t.id)],
)

export const orderStatuses = sqliteTable(
  'order_statuses',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    title: text('title').notNull(),
    color: text('color'),
    workflowKey: text('workflow_key'),
    position: integer('position').notNull().default(0),
    isDefault: flag('is_default'),
    deleted: flag('deleted'),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.id] }),
    index('order_statuses_default')
      .on(t.companyId, t.position, t.id)
      .where(sql`${t.isDefault} = 1 AND ${t.deleted} = 0`),
  ],
)

export const taxes = sqliteTable(
  'taxes',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    name: text('name').notNull(),
    /** Percent, at most 4 decimals. */
    rate: real('rate').notNull(),
    /** The accounting system's tax code for it. */
    accountingTaxCodeId: text('accounting_tax_code_id'),
    deleted: flag('deleted'),
  },
  (t) => [primaryKey({ columns: [t.companyId, t.id] })],
)

export const clients = sqliteTable(
  'clients',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    companyName: text('company_name').notNull(),
    firstName: text('first_name'),
    lastName: text('last_name'),
    email: text('email'),
    website: text('website'),
    phone: text('phone'),
    /** The fields that a search or lookup reads, folded (see `db/search.ts`): one each, so that a partial update sets its own. */
    companyNameKey: text('company_name_key').notNull(),
    firstNameKey: text('first_name_key'),
    lastNameKey: text('last_name_key'),
    emailKey: text('email_key'),
    phoneKey: text('phone_key'),
    phoneDigits: text('phone_digits').notNull().default(''),
    /** Fields apart by U+001F, which no folded text holds: a match never crosses two of them. */
    searchText: text('search_text').generatedAlwaysAs(
      sql`company_name_key || coalesce(char(31) || coalesce(first_name_key || ' ' || last_name_key, first_name_key, last_name_key), '') || coalesce(char(31) || email_key, '') || coalesce(char(31) || phone_key, '')`,
    ),
    accountingSyncEnabled: flag('accounting_sync_enabled'),
    taxExempt: flag('tax_exempt'),
    taxExemptReason: text('tax_exempt_reason'),
    deleted: flag('deleted'),
    /** The customer's id in the accounting system, once known. */
    accountingCustomerId: text('accounting_customer_id'),
    /** Whether somebody chose it: then it is never replaced by another. */
    accountingCustomerLinked: flag('accounting_customer_linked'),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.id] }),
    index('clients_email').on(t.companyId, t.emailKey, t.deleted, t.id),
    index('clients_live').on(t.companyId, t.id).where(sql`${t.deleted} = 0`),
  ],
)

/**
 * Clients that are not deleted, by blocks of 4,096 ids (`id >> 12`), so that a later page is found without a walk over the
 * pages before it. `version` is raised by every change of what a search finds in the block. Kept by triggers.
 */
export const clientBlocks = sqliteTable(
  'client_blocks',
  {
    companyId: companyId(),
    block: integer('block').notNull(),
    live: integer('live').notNull(),
    version: integer('version').notNull(),
  },
  (t) => [primaryKey({ columns: [t.companyId, t.block] })],
)

/** Cached counts of searches with many hits: JSON `[[block, version, hits], …]`. A count of another version is not read. */
export const clientSearchCounts = sqliteTable(
  'client_search_counts',
  {
    companyId: companyId(),
    /** The folded search text. */
    search: text('search').notNull(),
    counts: text('counts').notNull(),
    countedAt: integer('counted_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.companyId, t.search] })],
)

export const orders = sqliteTable(
  'orders',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    title: text('title').notNull(),
    clientId: integer('client_id').notNull(),
    description: text('description'),
    startDate: text('start_date'),
    deadline: text('deadline'),
    orderStatusId: integer('order_status_id'),
    clientNotes: text('client_notes'),
    createdDate: text('created_date').notNull(),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
    deleted: flag('deleted'),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.id] }),
    belongsTo([t.companyId, t.clientId], [clients.companyId, clients.id]),
    belongsTo([t.companyId, t.orderStatusId], [orderStatuses.companyId, orderStatuses.id]),
    index('orders_live').on(t.companyId, t.createdDate, t.id).where(sql`${t.deleted} = 0`),
    index('orders_of_client').on(t.companyId, t.clientId, t.createdDate, t.id).where(sql`${t.deleted} = 0`),
    index('orders_of_client_status')
      .on(t.companyId, t.clientId, t.orderStatusId, t.createdDate, t.id)
      .where(sql`${t.deleted} = 0`),
    index('orders_of_status').on(t.companyId, t.orderStatusId, t.createdDate, t.id).where(sql`${t.deleted} = 0`),
  ],
)

/**
 * Orders that are not deleted, by status (0: none): of all clients (`clientId` 0) by day and on all days (`createdDate`
 * empty), and of each client on all days. Totals of lists come from them instead of from the orders.
 */
export const orderCounts = sqliteTable(
  'order_counts',
  {
    companyId: companyId(),
    clientId: integer('client_id').notNull(),
    statusId: integer('status_id').notNull(),
    createdDate: text('created_date').notNull(),
    count: integer('count').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.clientId, t.statusId, t.createdDate] }),
    index('order_counts_by_day').on(t.companyId, t.createdDate, t.count).where(sql`${t.createdDate} > ''`),
  ],
)

export const invoices = sqliteTable(
  'invoices',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    orderId: integer('order_id').notNull(),
    number: text('number').notNull(),
    dueDate: text('due_date'),
    taxId: integer('tax_id'),
    taxExempt: flag('tax_exempt'),
    taxExemptReason: text('tax_exempt_reason'),
    /** Percent or currency units as `discountAmountType` says, in hundredths. */
    discountHundredths: integer('discount_hundredths').notNull().default(0),
    discountAmountType: text('discount_amount_type', { enum: ['percentage', 'fixed_amount'] })
      .notNull()
      .default('percentage'),
    discountType: text('discount_type', { enum: ['before_tax', 'after_tax'] })
      .notNull()
      .default('before_tax'),
    deleted: flag('deleted'),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.id] }),
    belongsTo([t.companyId, t.orderId], [orders.companyId, orders.id]),
    belongsTo([t.companyId, t.taxId], [taxes.companyId, taxes.id]),
    uniqueIndex('invoices_of_order').on(t.companyId, t.orderId),
    uniqueIndex('invoices_number').on(t.companyId, t.number),
    check('invoices_discount', sql`${t.discountHundredths} >= 0`),
    check('invoices_discount_amount_type', sql`${t.discountAmountType} IN ('percentage', 'fixed_amount')`),
    check('invoices_discount_type', sql`${t.discountType} IN ('before_tax', 'after_tax')`),
  ],
)

export const invoiceItems = sqliteTable(
  'invoice_items',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    invoiceId: integer('invoice_id').notNull(),
    title: text('title').notNull(),
    description: text('description'),
    quantity: real('quantity').notNull(),
    unitPriceCents: integer('unit_price_cents').notNull(),
    taxable: bool('taxable').notNull().default(true),
    supplier: text('supplier'),
    style: text('style'),
    color: text('color'),
    size: text('size'),
    sku: text('sku'),
    position: integer('position').notNull().default(0),
    deleted: flag('deleted'),
    searchText: text('search_text').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.id] }),
    belongsTo([t.companyId, t.invoiceId], [invoices.companyId, invoices.id]),
    index('invoice_items_of_invoice').on(t.companyId, t.invoiceId, t.position, t.id),
  ],
)

export const payments = sqliteTable(
  'payments',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    invoiceId: integer('invoice_id').notNull(),
    amountCents: integer('amount_cents').notNull(),
    method: text('method'),
    paidAt: text('paid_at'),
    note: text('note'),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.invoiceId, t.id] }),
    belongsTo([t.companyId, t.invoiceId], [invoices.companyId, invoices.id]),
    uniqueIndex('payments_id').on(t.companyId, t.id),
  ],
)

export const artworks = sqliteTable(
  'artworks',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    orderId: integer('order_id').notNull(),
    name: text('name').notNull(),
    printMethod: text('print_method'),
    /** JSON arrays, as the seed gave them. */
    placements: text('placements').notNull().default('[]'),
    colors: text('colors').notNull().default('[]'),
    previewUrl: text('preview_url'),
    status: text('status'),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.id] }),
    belongsTo([t.companyId, t.orderId], [orders.companyId, orders.id]),
    index('artworks_of_order').on(t.companyId, t.orderId, t.id),
    check('artworks_json', sql`json_valid(${t.placements}) AND json_valid(${t.colors})`),
  ],
)

export const catalogItems = sqliteTable(
  'catalog_items',
  {
    companyId: companyId(),
    id: integer('id').notNull(),
    title: text('title').notNull(),
    description: text('description'),
    priceCents: integer('price_cents'),
    deleted: flag('deleted'),
    searchText: text('search_text').notNull(),
  },
  (t) => [primaryKey({ columns: [t.companyId, t.id] })],
)

/** Cached links between mail threads and the CRM. Only a seed writes them: they belong to its company. */
export const threadContexts = sqliteTable(
  'thread_contexts',
  {
    companyId: companyId(),
    threadId: text('thread_id').notNull(),
    legacyThreadId: text('legacy_thread_id'),
    senderEmail: text('sender_email'),
    clientId: text('client_id'),
    clientData: text('client_data'),
    clientsData: text('clients_data'),
    ordersData: text('orders_data'),
    selectedOrderId: text('selected_order_id'),
    participantEmails: text('participant_emails'),
    participantsData: text('participants_data'),
    fetchedAt: integer('fetched_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.threadId] }),
    index('thread_contexts_legacy').on(t.companyId, t.legacyThreadId, t.updatedAt),
    check(
      'thread_contexts_json',
      sql`json_valid(${t.clientData}) AND json_valid(${t.clientsData}) AND json_valid(${t.ordersData}) AND json_valid(${t.participantEmails}) AND json_valid(${t.participantsData}) AND json_type(${t.clientData}) = 'object'`,
    ),
  ],
)

/**
 * Whole mail threads. The four texts of a sender are kept as the JSON that was sent (`"…"`), since D1 changes lone
 * surrogates and cuts text at U+0000; one over 100,000 bytes is `@` here and stands in `email_thread_segments`.
 */
export const emailThreads = sqliteTable(
  'email_threads',
  {
    /** UUID. */
    id: text('id').primaryKey(),
    companyId: companyId(),
    accountEmail: text('account_email').notNull(),
    legacyThreadId: text('legacy_thread_id').notNull(),
    mailThreadId: text('mail_thread_id'),
    subject: text('subject'),
    snippet: text('snippet'),
    mailHistoryId: text('mail_history_id'),
    /** Bytes of the four texts in this row. */
    textBytes: integer('text_bytes').generatedAlwaysAs(
      sql`octet_length(coalesce(mail_thread_id, '')) + octet_length(coalesce(subject, '')) + octet_length(coalesce(snippet, '')) + octet_length(coalesce(mail_history_id, ''))`,
    ),
    messageCount: integer('message_count').notNull(),
    firstMessageAt: integer('first_message_at'),
    lastMessageAt: integer('last_message_at'),
    lastSyncedAt: integer('last_synced_at').notNull(),
    /** SHA-256 of the three arrays as they were sent, hex: equal content is not written again. */
    contentHash: text('content_hash').notNull(),
    /** Bytes of the three arrays as they were sent. */
    contentBytes: integer('content_bytes').notNull().default(0),
    /** Raised by every write; `contentRevision` is the one that wrote the content. */
    revision: integer('revision').notNull(),
    contentRevision: integer('content_revision').notNull(),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
    deleted: flag('deleted'),
  },
  (t) => [uniqueIndex('email_threads_identity').on(t.companyId, t.legacyThreadId, t.accountEmail)],
)

/**
 * What is too large for a row of `email_threads`, in segments: each is at most 1,400,000 bytes of JSON text, compressed
 * (Brotli) by itself and in base64, so that no value comes near D1's 2,000,000 bytes. Joined by `position` they are the
 * text again: the members `"participants":…,"labels":…,"messages":…` for the field `content`, else the field's value.
 */
export const emailThreadSegments = sqliteTable(
  'email_thread_segments',
  {
    threadId: text('thread_id')
      .notNull()
      .references(() => emailThreads.id),
    field: text('field').notNull(),
    position: integer('position').notNull(),
    data: text('data').notNull(),
  },
  (t) => [primaryKey({ columns: [t.threadId, t.field, t.position] })],
)

/** Segments of a large PUT on their way: its last batch moves them, the sweep removes what was left behind. */
export const emailThreadUploads = sqliteTable(
  'email_thread_uploads',
  {
    companyId: companyId(),
    id: text('id').notNull(),
    field: text('field').notNull(),
    position: integer('position').notNull(),
    data: text('data').notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.id, t.field, t.position] }),
    index('email_thread_uploads_created').on(t.createdAt),
  ],
)

export const integrations = sqliteTable(
  'integrations',
  {
    companyId: companyId(),
    kind: text('kind', { enum: ['supplier_a', 'supplier_b', 'accounting_sync', 'storage'] }).notNull(),
    enabled: flag('enabled'),
    /** Base address; the endpoint for `storage`. */
    baseUrl: text('base_url').notNull(),
    /** JSON object of what is not secret: bucket and region of `storage`. */
    settings: text('settings').notNull().default('{}'),
    /** AES-GCM, bound to company and kind: see `auth/credentials.ts`. */
    credentials: text('credentials').notNull(),
    updatedAt: integer('updated_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.kind] }),
    index('integrations_accounting')
      .on(t.companyId, t.updatedAt)
      .where(sql`${t.kind} = 'accounting_sync' AND ${t.enabled} = 1`),
    check('integrations_kind', sql`${t.kind} IN ('supplier_a', 'supplier_b', 'accounting_sync', 'storage')`),
  ],
)

/** How a company stands with its accounting system. Made by the first delivery. */
export const accountingConnections = sqliteTable('accounting_connections', {
  companyId: integer('company_id')
    .primaryKey()
    .references(() => companies.id),
  /** Address and realm that the links and customer ids belong to. */
  books: text('books').notNull(),
  /** The tokens of now, encrypted as credentials are; null before the first refresh. */
  tokens: text('tokens'),
  /** No call before. */
  pausedUntil: integer('paused_until').notNull().default(0),
  /** `updated_at` of the integration that cannot go on: a changed integration is tried again. */
  stoppedFor: integer('stopped_for'),
  /** Why it is paused or stopped. */
  reason: text('reason'),
})

/**
 * Notices for the accounting system, written in the transaction of the change that they tell of. `pending`: not sent
 * with its present body; `sent`: sent and not answered; `parked`, `dead`: given up until the order is edited or
 * somebody sends them again; `done`: delivered, or covered by another.
 */
export const accountingOutbox = sqliteTable(
  'accounting_outbox',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    companyId: companyId(),
    orderId: integer('order_id').notNull(),
    /** What the change asked; once it was sent, what its body asks. */
    operation: text('operation', { enum: ['create', 'update', 'delete'] }).notNull(),
    state: text('state', { enum: ['pending', 'sent', 'parked', 'dead', 'done'] })
      .notNull()
      .default('pending'),
    /** Tries so far, and those answered as stale. */
    attempts: integer('attempts').notNull().default(0),
    staleAttempts: integer('stale_attempts').notNull().default(0),
    nextAttemptAt: integer('next_attempt_at').notNull(),
    /** The id and the call (JSON) as they were first sent: a retry repeats both to the letter. Only of `sent` rows. */
    requestId: text('request_id'),
    requestBody: text('request_body'),
    lastError: text('last_error'),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
  },
  (t) => [
    belongsTo([t.companyId, t.orderId], [orders.companyId, orders.id]),
    index('accounting_outbox_due')
      .on(t.companyId, t.nextAttemptAt, t.id, t.orderId)
      .where(sql`${t.state} IN ('pending', 'sent')`),
    index('accounting_outbox_of_order').on(t.companyId, t.orderId, t.state, t.id).where(sql`${t.state} <> 'done'`),
    index('accounting_outbox_done').on(t.updatedAt).where(sql`${t.state} = 'done'`),
    check('accounting_outbox_operation', sql`${t.operation} IN ('create', 'update', 'delete')`),
    check('accounting_outbox_state', sql`${t.state} IN ('pending', 'sent', 'parked', 'dead', 'done')`),
  ],
)

/** What an order became in the accounting system. Without an `externalId` a create was sent, and may have been applied. */
export const accountingLinks = sqliteTable(
  'accounting_links',
  {
    companyId: companyId(),
    orderId: integer('order_id').notNull(),
    externalId: text('external_id'),
    syncToken: text('sync_token'),
    /** The customer it was made for: by this, its number and its date it is known again. */
    customerId: text('customer_id'),
    /** When a notice last arrived. */
    syncedAt: integer('synced_at'),
  },
  (t) => [
    primaryKey({ columns: [t.companyId, t.orderId] }),
    belongsTo([t.companyId, t.orderId], [orders.companyId, orders.id]),
  ],
)

/**
 * Who changed what, through which token; no values. One row a minute for the same change of the same thing. Rows older
 * than 90 days are removed by the cron trigger.
 */
export const auditLog = sqliteTable(
  'audit_log',
  {
    id: integer('id').primaryKey(),
    companyId: companyId(),
    tokenId: integer('token_id').notNull(),
    requestId: text('request_id').notNull(),
    action: text('action').notNull(),
    entityId: text('entity_id').notNull(),
    at: integer('at').notNull(),
  },
  (t) => [
    index('audit_log_of_entity').on(t.companyId, t.entityId, t.action, t.tokenId, t.at),
    index('audit_log_at').on(t.at),
  ],
)

/** A composite foreign key; without `ON DELETE`, so that nothing disappears by cascade. */
function belongsTo(columns: [SQLiteColumn, SQLiteColumn], foreignColumns: [SQLiteColumn, SQLiteColumn]) {
  return foreignKey({ columns, foreignColumns })
}

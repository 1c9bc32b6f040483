/*
 * The bytes of a row in its company's storage quota, as SQL: the row, its entries in indexes and full-text tables, and its
 * share of the rows written by triggers. Each is a generated column `stored_bytes`, the one definition for triggers, the
 * recount and tests. The numbers were measured with `dbstat` on rows of typical and of extreme lengths. Text without
 * repetition takes up to twice as much of the full-text tables.
 */

const octets = (...columns: string[]) => columns.map((name) => `coalesce(octet_length(${name}), 0)`).join(' + ')

/** A row of `text_bytes` in a table. Rows of more than a third of a page waste the rest of it. */
const IN_TABLE = `text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16))`

/** A row WITHOUT ROWID. Rows of more than a quarter of a page put all but 489 bytes on a page of their own. */
const inTree = (text: string) => `iif(${text} > 950, max(${text}, 4550), (${text}) * 9 / 8)`

/** Indexed as trigrams, and with a separator around each character. @param length in characters */
const trigrams = (length: string) => `17 * (${length}) / 2 + 5 * min(${length}, 60) / 2`

/** Lengths of texts, for {@link IN_TABLE} and for long expressions. */
export const TEXT_BYTES = {
  clients: octets(
    ...['company_name', 'first_name', 'last_name', 'email', 'website', 'phone', 'company_name_key', 'first_name_key'],
    ...['last_name_key', 'email_key', 'phone_key', 'phone_digits', 'tax_exempt_reason', 'external_id'],
    'accounting_customer_id',
  ),
  orders: octets(
    ...['title', 'description', 'start_date', 'deadline', 'client_notes', 'created_date', 'external_id', 'title_key'],
    'number_key',
  ),
  invoice_items: octets('title', 'description', 'supplier', 'style', 'color', 'size', 'sku', 'search_text'),
  catalog_items: octets('title', 'description', 'search_text'),
  thread_contexts: octets(
    ...['thread_id', 'legacy_thread_id', 'sender_email', 'client_id', 'client_data', 'clients_data', 'orders_data'],
    ...['selected_order_id', 'participant_emails', 'participants_data'],
  ),
  idempotency_keys: octets('key', 'fingerprint', 'result'),
}

/** A deleted client, line or item is not indexed. */
const unlessDeleted = (bytes: string) => `iif(deleted, 0, ${bytes})`

/** Counts entries of `thread_context_links`; an element without an id counts too. */
const elements = (column: string) => `json_array_length(iif(json_valid(${column}), ${column}, '[]'))`
const LINKS = `(max(${elements('clients_data')}, client_id IS NOT NULL) + ${elements('orders_data')})`

/** The indexed text of a client. Long texts repeat trigrams. */
const CLIENT_TEXT = 'length(search_text) + length(phone_digits)'

export const STORED_BYTES = {
  clients: `225 + ${inTree('text_bytes')} + (${octets('email_key', 'external_id')}) * 5 / 4 + ${trigrams('length(company_name_key)')} + ${unlessDeleted(`6 * (${CLIENT_TEXT}) + 4 * min(${CLIENT_TEXT}, 110)`)}`,
  orders: `225 + ${inTree('text_bytes')} + (${octets('external_id')}) * 5 / 4 + ${trigrams('length(title_key) + length(number_key)')}`,
  invoices: `100 + octet_length(number) + ${inTree(octets('number', 'tax_exempt_reason'))}`,
  invoice_items: `62 + ${IN_TABLE} + ${unlessDeleted(`48 + ${trigrams('min(length(search_text), length(title) + 201)')}`)}`,
  payments: `31 + ${inTree(octets('method', 'paid_at', 'note'))}`,
  artworks: `52 + (${octets('name', 'print_method', 'placements', 'colors', 'preview_url', 'status')}) * 17 / 16`,
  catalog_items: `32 + ${IN_TABLE} + ${unlessDeleted(`48 + ${trigrams('length(search_text)')}`)}`,
  thread_contexts: `70 + ${IN_TABLE} + ${octets('thread_id', 'legacy_thread_id')} + ${LINKS} * (36 + 11 * octet_length(thread_id) / 5)`,
  // The texts and the content are in `mail_bytes`; this has the row of an object in R2 too.
  email_threads: '410 + 16 * octet_length(account_email) / 5 + 21 * octet_length(legacy_thread_id) / 10',
  // A delivered event has no body, and is removed after 7 days.
  accounting_outbox: `iif(state = 'done', 0, 90 + (${octets('operation', 'state', 'request_id', 'request_body', 'last_error')}) * 17 / 16)`,
  accounting_links: `20 + (${octets('external_id', 'sync_token', 'customer_id')}) * 9 / 8`,
  webhook_deliveries: `54 + 2 * (${octets('endpoint_id', 'type', 'entity_id')}) + (${octets('last_error')}) * 9 / 8`,
  idempotency_keys: `58 + ${IN_TABLE} + octet_length(key)`,
}

/** A row of tables whose keys have no gaps: the rows are counted by their first and their last. */
export const BYTES_A_ROW = { changes: 60, audit_log: 95 }

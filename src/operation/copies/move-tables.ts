/** A table whose rows are copied from one database to another. */
export interface MovedTable {
  table: string
  /** Names a row within the company. */
  key: readonly string[]
  /** The order of pages, if it is not the key. */
  order?: readonly string[]
  /** A nullable unique column. */
  unique?: string
  /** The condition on rows, in SQL; all by default. */
  where?: string
}

/** Tables that a move copies row by row, referenced tables first. Triggers log concurrent changes. */
export const MOVED: readonly MovedTable[] = [
  { table: 'integrations', key: ['kind'] },
  { table: 'order_statuses', key: ['id'] },
  { table: 'taxes', key: ['id'] },
  { table: 'clients', key: ['id'], unique: 'external_id' },
  { table: 'orders', key: ['id'], unique: 'external_id' },
  { table: 'invoices', key: ['id'] },
  { table: 'invoice_items', key: ['id'] },
  { table: 'payments', key: ['invoice_id', 'id'] },
  { table: 'artworks', key: ['id'] },
  { table: 'accounting_connections', key: [] },
  { table: 'accounting_links', key: ['order_id'] },
  { table: 'email_threads', key: ['id'], order: ['legacy_thread_id', 'account_email'] },
  { table: 'email_thread_segments', key: ['thread_id', 'field', 'position'] },
  { table: 'email_thread_objects', key: ['id'], unique: 'thread_id' },
  { table: 'thread_contexts', key: ['thread_id'] },
  { table: 'catalog_items', key: ['id'] },
  { table: 'webhook_endpoints', key: ['id'] },
  { table: 'webhook_deliveries', key: ['endpoint_id', 'type', 'entity_id', 'sequence'] },
  { table: 'idempotency_keys', key: ['token_id', 'key', 'position'] },
  { table: 'imports', key: ['hash'] },
]

export const CHANGES: MovedTable = { table: 'changes', key: ['sequence'] }
export const AUDIT: MovedTable = { table: 'audit_log', key: ['id'] }
/** Delivered events are a history of 7 days, so a move leaves them behind. */
export const EVENTS: MovedTable = { table: 'accounting_outbox', key: ['id'], where: "state <> 'done'" }

/** Tables that a move skips, with the reason. */
export const NOT_MOVED = {
  companies: 'The row is copied at the end, with its counters and last ids.',
  api_tokens: 'In the directory.',
  members: 'In the directory.',
  admin_log: 'In the directory.',
  moves: 'In the directory.',
  thread_context_links: 'Written by triggers.',
  email_thread_uploads: 'Requests under way, which are refused and begin anew.',
  company_guards: 'Of each database.',
  move_log: 'Of each database.',
} as const

/** Tables from which a company's rows are removed, referring tables first. */
export const REMOVED: readonly MovedTable[] = [
  { table: 'email_thread_uploads', key: ['id', 'field', 'position'] },
  AUDIT,
  CHANGES,
  { ...EVENTS, where: '1' },
  ...MOVED.toReversed(),
  { table: 'thread_context_links', key: ['entity', 'entity_id', 'thread_id'] },
]

/** No trigger removes rows of full-text tables: they are found by the company's slot. */
export const FULL_TEXT = [
  'clients_fts',
  'client_names_fts',
  'orders_fts',
  'catalog_items_fts',
  'invoice_items_fts',
] as const

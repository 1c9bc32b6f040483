/** A table whose rows belong to a row of another, and are backed up whenever that one is. */
export interface PartPlan {
  table: string
  /** Names a row among those of its owner's company. */
  key: readonly string[]
  /** The column that refers to the owner, or to the owner's row in the table `through`. */
  owner: string
  through?: 'invoices'
  /** Which rows, in SQL; all by default. */
  where?: string
}

/** How the rows of one table are backed up and restored. */
export interface TablePlan {
  /** Of a part of a backup: that of the table unless it is another view of it. */
  name: string
  table: string
  /** Names a row within the company: pages ascend by it, so an index begins with the company and it. */
  key: readonly string[]
  /**
   * `all`: every backup has all rows, so that a row that is missing is a deleted one. `changed`: an increment has the rows
   * that the feed of changes names; they are never deleted. `appended`: an increment has the rows of higher ids.
   */
  rows: 'all' | 'changed' | 'appended'
  /** Which rows, in SQL; all by default. */
  where?: string
  /** The columns, or those that it is without. */
  columns?: readonly string[]
  without?: readonly string[]
  /** Restored by an update of rows that are there. */
  isUpdate?: true
  /** Of `changed` tables: the type in the feed, the column that every change raises, and what belongs to a row. */
  feed?: { type: string; version: string; parts: readonly PartPlan[] }
  /** Of ids that all companies share: restored as they were unless another company has one by now, or given out anew. */
  sharedId?: 'kept' | 'new'
  /** A unique column that can be empty: of two rows with one value, the one that was read later keeps it. */
  unique?: string
  /** Rows of one page at most; 500 by default. Fewer where much belongs to a row. */
  pageRows?: number
}

/** The columns of a client that deliveries set, which is no change of the client. */
const CUSTOMER = ['accounting_customer_id', 'accounting_customer_linked'] as const

const whole = (table: string, ...key: string[]): TablePlan => ({ name: table, table, key, rows: 'all' })

/**
 * What is backed up, in the order of restoring: each table behind those that it refers to. A backup reads them in reverse,
 * so that what a row refers to, which is never deleted, is read after it.
 */
export const TABLES: readonly TablePlan[] = [
  whole('members', 'email'),
  // With their hashes: integrators go on with their tokens.
  { ...whole('api_tokens', 'id'), sharedId: 'kept' },
  // Encrypted as stored: a restore needs the same CREDENTIALS_KEY.
  whole('integrations', 'kind'),
  whole('order_statuses', 'id'),
  whole('taxes', 'id'),
  {
    name: 'clients',
    table: 'clients',
    key: ['id'],
    rows: 'changed',
    without: CUSTOMER,
    unique: 'external_id',
    feed: { type: 'clients', version: 'version', parts: [] },
  },
  {
    name: 'client_customers',
    table: 'clients',
    key: ['id'],
    rows: 'all',
    where: 'accounting_customer_id IS NOT NULL OR accounting_customer_linked = 1',
    columns: ['id', ...CUSTOMER],
    isUpdate: true,
  },
  {
    name: 'orders',
    table: 'orders',
    key: ['id'],
    rows: 'changed',
    unique: 'external_id',
    pageRows: 100,
    feed: {
      type: 'orders',
      version: 'version',
      parts: [
        { table: 'invoices', key: ['id'], owner: 'project_id' },
        { table: 'invoice_items', key: ['id'], owner: 'invoice_id', through: 'invoices' },
        { table: 'payments', key: ['id'], owner: 'invoice_id', through: 'invoices' },
        { table: 'artworks', key: ['id'], owner: 'project_id' },
      ],
    },
  },
  whole('accounting_connections'),
  whole('accounting_links', 'order_id'),
  // Delivered events are a history of 7 days.
  { ...whole('accounting_outbox', 'id'), where: "state <> 'done'", sharedId: 'kept' },
  {
    name: 'email_threads',
    table: 'email_threads',
    key: ['legacy_thread_id', 'account_email'],
    rows: 'changed',
    pageRows: 50,
    feed: {
      type: 'email_threads',
      version: 'revision',
      // In this order: content that moves to R2 while it is read is in the second part, if not in the first.
      parts: [
        { table: 'email_thread_segments', key: ['thread_id', 'field', 'position'], owner: 'thread_id' },
        { table: 'email_thread_objects', key: ['id'], owner: 'thread_id', where: 'thread_id IS NOT NULL' },
      ],
    },
  },
  whole('thread_contexts', 'thread_id'),
  whole('catalog_items', 'id'),
  whole('webhook_endpoints', 'id'),
  whole('imports', 'hash'),
  { name: 'audit_log', table: 'audit_log', key: ['id'], rows: 'appended', sharedId: 'new' },
  { name: 'admin_log', table: 'admin_log', key: ['id'], rows: 'appended', sharedId: 'new' },
]

/** Tables of the directory, wherever the company's other tables are. */
export const DIRECTORY_TABLES: readonly string[] = ['members', 'api_tokens', 'admin_log']

/** Tables without a part of a backup, and what becomes of them. */
export const NOT_BACKED_UP = {
  companies: 'The row is in the manifest. Its counts come from the triggers, its last ids are raised.',
  thread_context_links: 'Written by triggers.',
  changes: 'The feed begins anew, so that every reader copies the lists again.',
  webhook_deliveries: 'They refer to the feed.',
  idempotency_keys: 'Results of requests whose effects may be lost.',
  email_thread_uploads: 'Requests under way.',
  company_guards: 'Of a move under way.',
  move_log: 'Of a move under way.',
  moves: 'Of a move under way.',
} as const

/** A company with rows in one of these is not empty. */
export const CONTENT = [
  'order_statuses',
  'taxes',
  'clients',
  'orders',
  'email_threads',
  'thread_contexts',
  'catalog_items',
]

/** One kind of line: a table, or a part of the rows of another. */
export interface Unit {
  name: string
  plan: TablePlan
  part: PartPlan | null
}

/** In the order of restoring. */
export const UNITS: readonly Unit[] = TABLES.flatMap((plan) => [
  { name: plan.name, plan, part: null },
  ...(plan.feed?.parts ?? []).map((part) => ({ name: part.table, plan, part })),
])

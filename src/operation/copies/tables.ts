/** A value as D1 returns it. */
export type Value = string | number | null
export type Row = Record<string, Value>
/** The key of a row within its table and company. */
export type Key = readonly Value[]

/** How the rows of one table are copied: by a backup and its restore, by a move, and by an export. */
export interface TablePlan {
  /** The name in a part of a backup: the table's unless it is another view of it. */
  name: string
  table: string
  /** Identifies a row within the company. Pages ascend by it, so an index begins with the company and it. */
  key: readonly string[]
  /** A log: its rows are only added, with higher ids. */
  isAppended?: true
  /** The condition on rows, in SQL; all by default. */
  where?: string
  /** The columns of existing rows that the copy updates. Other tables are copied whole, but for omitted columns. */
  columns?: readonly string[]
  without?: readonly string[]
  /** The feed names every changed row, and none is ever deleted. */
  isInFeed?: true
  /** Tables whose rows belong to a row of this one, and are copied with it. */
  children: readonly TablePlan[]
  /** For a child: the column that refers to its owner, or to its owner's invoice. */
  owner?: 'project_id' | 'invoice_id' | 'thread_id'
  /**
   * SQL whose value differs after each change of a row: a move finds changed rows by it. All columns by default. Only
   * rows with stamps are compared page by page.
   */
  stamp?: string
  /** A move and a restore give rows new ids: the source's are in this column. */
  sourceId?: 'source_id'
  /** The column that is read and written as `id`. */
  idColumn?: string
  /** For ids that all companies share: `kept` unless another token has it by now, `new` assigns others. */
  sharedId?: 'kept' | 'new'
  /** The condition, in SQL, on rows that a restore replaces; others stay. */
  replaced?: string
  /** A nullable unique column: of two rows with one value, the row read later keeps it. */
  unique?: string
  /** Limits the rows of a page; 500 by default. */
  pageRows?: number
}

/** Deliveries set these columns of a client, which does not count as its change. */
const CUSTOMER = ['accounting_customer_id', 'accounting_customer_linked'] as const

const planOf = (table: string, ...key: string[]): TablePlan => ({ name: table, table, key, children: [] })

const childOf = (owner: TablePlan['owner'] & string, table: string): TablePlan => ({ ...planOf(table, 'id'), owner })

/**
 * Tables of a backup in the order of restoring, referenced tables first. A backup reads them in reverse, so that
 * referenced rows, which are never deleted, are read later.
 */
export const TABLES: readonly TablePlan[] = [
  planOf('members', 'email'),
  // Token hashes are included, so that integrators keep their tokens.
  { ...planOf('api_tokens', 'id'), sharedId: 'kept' },
  // Values stay encrypted: a restore needs the same CREDENTIALS_KEY.
  planOf('integrations', 'kind'),
  planOf('order_statuses', 'id'),
  planOf('taxes', 'id'),
  { ...planOf('clients', 'id'), without: CUSTOMER, unique: 'external_id', isInFeed: true, stamp: 'version' },
  {
    ...planOf('clients', 'id'),
    name: 'client_customers',
    where: 'accounting_customer_id IS NOT NULL OR accounting_customer_linked = 1',
    columns: ['id', ...CUSTOMER],
  },
  {
    ...planOf('orders', 'id'),
    unique: 'external_id',
    isInFeed: true,
    stamp: 'version',
    children: [
      childOf('project_id', 'invoices'),
      childOf('invoice_id', 'invoice_items'),
      childOf('invoice_id', 'payments'),
      childOf('project_id', 'artworks'),
    ],
  },
  planOf('accounting_connections'),
  planOf('accounting_links', 'order_id'),
  // Delivered events are a history of 7 days, which a backup omits.
  {
    ...planOf('accounting_outbox', 'id'),
    where: "state <> 'done' AND order_id > 0",
    pageRows: 4_000,
    without: ['source_id'],
    stamp: `json_array(operation, state, attempts, stale_attempts, next_attempt_at, request_id, octet_length(request_body),
      octet_length(last_error), updated_at)`,
    sourceId: 'source_id',
  },
  {
    ...planOf('email_threads', 'legacy_thread_id', 'account_email'),
    pageRows: 50,
    stamp: `json_array(revision, content_revision, deleted, last_synced_at, updated_at)`,
    // A recovery before the restore schedules the removal of objects whose threads it does not know.
    children: [
      {
        ...childOf('thread_id', 'email_thread_objects'),
        where: 'thread_id IS NOT NULL',
        replaced: "state = 'replaced'",
      },
    ],
  },
  { ...planOf('thread_contexts', 'thread_id'), stamp: 'json_array(version, updated_at)' },
  { ...planOf('catalog_items', 'id'), stamp: 'version' },
  planOf('webhook_endpoints', 'id'),
  planOf('imports', 'hash'),
  { ...planOf('audit_log', 'id'), isAppended: true },
  { ...planOf('admin_log', 'id'), isAppended: true, sharedId: 'new' },
]

/** Tables of a backup with their children, in the order of restoring. */
export const UNITS: readonly TablePlan[] = TABLES.flatMap((plan) => [plan, ...plan.children])

export const DIRECTORY_TABLES: readonly string[] = ['members', 'api_tokens', 'admin_log']

/** The objects of mail content in R2, also those that no thread names. */
export const OBJECTS: TablePlan = { ...planOf('email_thread_objects', 'id'), unique: 'thread_id' }

/** Tables that a move copies and a backup does not, or not all rows of them. */
export const ONLY_MOVED: readonly TablePlan[] = [
  OBJECTS,
  // They refer to the feed.
  {
    ...planOf('webhook_deliveries', 'endpoint_id', 'type', 'entity_id', 'sequence'),
    stamp: 'json_array(attempts, first_attempt_at, next_attempt_at, octet_length(last_error))',
  },
  // Results of requests whose effects a restore may lose.
  {
    ...planOf('idempotency_keys', 'token_id', 'key', 'position'),
    stamp: 'json_array(created_at, fingerprint, text_bytes)',
  },
  // After a restore the feed begins again, so that every reader copies the lists again.
  { ...planOf('changes', 'sequence'), isAppended: true },
]

/** Tables of a move, referenced tables first. */
export const MOVED: readonly TablePlan[] = [
  ...TABLES.filter(({ table }) => !DIRECTORY_TABLES.includes(table)).map((plan) => {
    const children = plan.children.filter((child) => ONLY_MOVED.every(({ table }) => table !== child.table))
    return { ...plan, children }
  }),
  ...ONLY_MOVED,
]

/** Stored with positions among the tables: where a release has other tables, these mean nothing, and the work begins again. */
export const TABLE_NAMES = [...UNITS, ...ONLY_MOVED].map(({ name }) => name).join()

/** Tables from which a company's rows are removed, referring tables first, with what names a row. */
export const REMOVED: readonly Pick<TablePlan, 'table' | 'key'>[] = [
  ...MOVED.flatMap((plan) => (plan.columns ? [] : [plan, ...plan.children])).toReversed(),
  { table: 'thread_context_links', key: ['entity', 'entity_id', 'thread_id'] },
]

/** Rows of full-text tables are found by the company's slot, as most have no trigger that removes them. */
export const FULL_TEXT = ['clients_fts', 'client_names_fts', 'orders_fts', 'catalog_items_fts', 'invoice_items_fts']

/**
 * The lists of a seed file and an export. An export reads referenced rows later: clients are never removed, so those of
 * every exported order are included, even if rows are created meanwhile.
 */
export const LISTS = ['orders', 'clients', 'taxes', 'order_statuses', 'catalog_items', 'thread_contexts'] as const

/** Tables with content: an empty company has no rows in them. */
export const CONTENT = [...LISTS, 'email_threads'] as const

/** Columns of `companies` that a seed file and a restore set. */
export const SETTINGS = [
  'name',
  'currency',
  'accounting_sync_enabled',
  'suspended',
  'mail_quota_bytes',
  'storage_quota_bytes',
] as const

/** The company's highest ids and numbers: the next ones follow them. */
export const LAST_IDS = [
  'last_client_id',
  'last_order_id',
  'last_invoice_id',
  'last_invoice_number',
  'last_invoice_item_id',
  'last_payment_id',
] as const

/** {@link LAST_IDS} and the last change: none of these numbers is assigned twice. */
export const SEQUENCES = [...LAST_IDS, 'last_change'] as const

export type Sequences = Record<(typeof SEQUENCES)[number], number>

import type { ApiClient, Change, Client, ListedOrder } from '../../src/client/index.ts'

const TYPES = ['clients', 'orders'] as const
/** A change is committed a moment after the time that becomes its `updated_at`. */
const COMMIT_MS = 5_000

/** An integrator's copy of a company, deleted rows included, and where its sync continues. */
export interface Copy {
  clients: Map<number, Client>
  orders: Map<number, ListedOrder>
  cursor: string
}

export async function copyAll(api: ApiClient): Promise<Copy> {
  // Before the lists, so that no change falls between them and the feed.
  const cursor = await api.changes.latestCursor({ types: TYPES })
  const copy: Copy = { clients: new Map(), orders: new Map(), cursor }
  await takeLists(api, copy, {})
  return copy
}

/** Brings a copy up to date by the feed of changes: it says what has changed, and the lists how it is now. */
export async function followChanges(api: ApiClient, copy: Copy): Promise<void> {
  for await (const { data, pagination } of api.changes.pages({ cursor: copy.cursor, types: TYPES })) {
    const [first] = data.filter((change) => isBehind(copy, change))
    if (first) {
      await takeLists(api, copy, { updated_since: new Date(Date.parse(first.time) - COMMIT_MS).toISOString() })
    }
    const missing = data.filter((change) => isBehind(copy, change))
    if (missing.length > 0) throw new Error(`The lists lack changes of the feed: ${JSON.stringify(missing)}`)
    copy.cursor = pagination.next_cursor
  }
}

/** Whether the copy has an older version than a change made, or none. */
function isBehind(copy: Copy, { type, id, version }: Change): boolean {
  if (type === 'email_threads') return false
  return (copy[type].get(Number(id))?.version ?? 0) < version
}

async function takeLists(api: ApiClient, copy: Copy, query: { updated_since?: string }): Promise<void> {
  const whole = { ...query, deleted: 'include', sort: 'id', per_page: 100 } as const
  for await (const client of api.clients.all(whole)) take(copy.clients, client)
  for await (const order of api.orders.all(whole)) take(copy.orders, order)
}

function take<Row extends { id: number; version: number }>(rows: Map<number, Row>, row: Row): void {
  if (row.version >= (rows.get(row.id)?.version ?? 0)) rows.set(row.id, row)
}

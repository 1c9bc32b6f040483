import type { Operation } from './decisions.ts'

/** One outbox row of an order that is not done. */
export interface Notice {
  id: number
  /** What the change asked; of a `sent` row, what its body asks. */
  operation: Operation
  /**
   * - `pending`: never sent with its present body.
   * - `sent`: sent at least once, and nothing says whether it was applied. Its body and request id are fixed.
   * - `parked`, `dead`: given up until the order is edited, or somebody sends it again (which makes it `pending`).
   */
  state: 'pending' | 'sent' | 'parked' | 'dead'
}

/**
 * What we know of the order's invoice at the other side: `linked` (its id is stored), `absent` (nothing was ever
 * applied) or `unknown` (a create was given up without an answer).
 */
export type Remote = 'linked' | 'absent' | 'unknown'

export interface OrderPlan {
  /** The one call to make now, or null when there is none. */
  next: {
    id: number
    /** What to ask, which is not always what the row says: an edit of an order that was never told creates it. */
    operation: Operation
    /** Look for the invoice by `DocNumber` first, and take it over when it is ours. */
    findFirst: boolean
  } | null
  /** Rows that another row stands for, or that have nothing left to tell. They end without a call. */
  dropped: number[]
}

/**
 * Plans the next call of one order from its open rows, oldest first.
 *
 * The body is built from the order's state when a row is first sent, so one row stands for all that was not sent:
 * updates collapse into one, or into the create before them, and a delete cancels the rest. A row under way goes first
 * and unchanged. Rows that were given up rest until there is a pending one, and are then covered by it. Plan again
 * after every outcome and every new row.
 */
export function planOrder(rows: readonly Notice[], remote: Remote): OrderPlan {
  const sent = rows.find((row) => row.state === 'sent')
  const unsent = rows.filter((row) => row.state !== 'sent')
  const pending = unsent.find((row) => row.state === 'pending')
  const removal = pending && unsent.find((row) => row.operation === 'delete')
  const kept = removal ?? pending
  const dropped = kept ? unsent.filter((row) => row !== kept).map((row) => row.id) : []

  if (sent) return { next: { id: sent.id, operation: sent.operation, findFirst: false }, dropped }
  if (!kept) return { next: null, dropped }
  if (removal && remote === 'absent') return { next: null, dropped: [...dropped, removal.id] }
  const operation = removal ? 'delete' : remote === 'linked' ? 'update' : 'create'
  return { next: { id: kept.id, operation, findFirst: remote === 'unknown' }, dropped }
}

import type { accountingOutbox } from '../../kernel/db/schema.ts'

export type OutboxRow = typeof accountingOutbox.$inferSelect

export type Operation = OutboxRow['operation']

export type OpenEvent = Pick<OutboxRow, 'id' | 'operation' | 'state'>

/**
 * The known state of the order's invoice at the accounting system: `linked` (its id is stored), `absent` (nothing was
 * ever applied) or `unknown` (a create may have been applied, its id is not stored).
 */
export type Remote = 'linked' | 'absent' | 'unknown'

export interface OrderPlan {
  /**
   * The one call to make now, or null. Its operation may differ from the row's: an edit creates a missing invoice.
   * `findFirst`: look for the invoice by `DocNumber`, and adopt it when it is ours.
   */
  next: { id: number; operation: Operation; findFirst: boolean } | null
  /** Rows covered by another row, or with nothing left to deliver. They end without a call. */
  dropped: number[]
}

/**
 * Plans the next call of one order from its open rows, oldest first; plan again after every outcome and new row. An
 * unsent row takes the order's current state, so updates collapse into it; the newest row tells whether a deletion is
 * delivered, unless the order was restored or deleted without a row. A row in flight goes first, unchanged; parked and
 * dead rows wait until a pending one covers them.
 */
export function planOrder(rows: readonly OpenEvent[], remote: Remote, isDeleted?: boolean): OrderPlan {
  const sent = rows.find((row) => row.state === 'sent')
  const unsent = rows.filter((row) => row.state !== 'sent')
  const pending = unsent.find((row) => row.state === 'pending')
  const newest = rows.at(-1)
  const isRemoval = newest?.operation === 'delete' && newest.state !== 'sent' && isDeleted !== false
  const removal = pending && isRemoval ? newest : undefined
  const chosen = removal ?? pending
  const dropped = chosen ? unsent.filter((row) => row !== chosen).map((row) => row.id) : []

  if (sent) return { next: { id: sent.id, operation: sent.operation, findFirst: false }, dropped }
  if (!chosen) return { next: null, dropped }
  // A deleted order gets no invoice.
  const isMoot = removal ? remote === 'absent' : isDeleted && remote !== 'linked'
  if (isMoot) return { next: null, dropped: [...dropped, chosen.id] }
  const operation = removal ? 'delete' : remote === 'linked' ? 'update' : 'create'
  return { next: { id: chosen.id, operation, findFirst: remote === 'unknown' }, dropped }
}

/** A response of an error. `codes` are fault codes in the order of the response, without leading zeros. */
export type FailedResponse = { endpoint: 'api' | 'token'; status: number; codes: string[]; oauthError: string | null }

/** Classes by fault code, in order of precedence within one response. */
const CLASS_BY_CODE = [
  ['throttle', ['3001']],
  ['grant_lost', ['3100']],
  ['token', ['3200']],
  ['stale', ['5010']],
  ['gone', ['610']],
  ['duplicate', ['6140']],
  ['closed_period', ['6190', '6210', '6540']],
  ['data', ['2020', '2040', '2050', '2500', '6000', '6070', '6090', '6240']],
  ['transient', ['10000']],
] as const

/** `names_taken`: every possible name of the customer belongs to something else. */
export type FailureClass = (typeof CLASS_BY_CODE)[number][0] | 'no_token_endpoint' | 'names_taken'

/** The errors of a token endpoint (RFC 6749, section 5.2). A refusal without one may be a proxy's. */
const TOKEN_REFUSAL = /^(invalid|unauthorized|unsupported)_/

const REFUSED_CONTENT: readonly number[] = [400, 409, 413, 415, 422]

/**
 * Classifies a failed response. A known fault code overrides the status, since faults come with 200 and throttling with
 * 403. An unknown code concerns the data, so a retry cannot help; a response outside the protocol (a proxy's page, a
 * redirect) may be temporary.
 */
export function classify({ endpoint, status, codes, oauthError }: FailedResponse): FailureClass {
  const [known] = CLASS_BY_CODE.find(([, listed]) => listed.some((code) => codes.includes(code))) ?? []
  // The refresh token is the only way to a token: its refusal ends the grant.
  if (known) return known === 'token' && endpoint === 'token' ? 'grant_lost' : known
  if (status === 429) return 'throttle'
  if (endpoint === 'token') {
    return status < 500 && TOKEN_REFUSAL.test(oauthError ?? '') ? 'grant_lost' : 'transient'
  }
  if (oauthError === 'invalid_grant') return 'grant_lost'
  if (status >= 500) return 'transient'
  if (status === 401) return 'token'
  // Without a code it may be a proxy's page.
  if (status === 403 && codes.length > 0) return 'grant_lost'
  return codes.length > 0 || REFUSED_CONTENT.includes(status) ? 'data' : 'transient'
}

const PAUSE_MS = 60_000
export const MAX_ATTEMPTS = 16
const MAX_STALE_ATTEMPTS = 5
const MIN_BACKOFF_MS = 1_000
const MAX_BACKOFF_MS = 3_600_000

export type Decision =
  | { action: 'done' } // There is nothing left to change.
  | { action: 'retry'; atMs: number } // Send the same body under the same request id. The attempt counts.
  | { action: 'pause_company'; untilMs: number } // Stop its calls, then retry. The attempt does not count.
  | { action: 'stop_company' } // Stop its calls until its integration is changed. Every row stays.
  | { action: 'merge' } // Read or find the invoice, build the body again on it, send it under a new request id.
  | { action: 'park' } // Wait until a person looks at it or the order is edited again.
  | { action: 'dead' } // Dead-letter: like `park`, for a change that cannot succeed unchanged.

/**
 * Both counts include this attempt: those of this request id, and those that failed as stale or duplicate. `random` is
 * from 0 up to 1.
 */
export type Situation = { operation: Operation; attempts: number; staleAttempts: number; nowMs: number; random: number }

/** Decides how the outbox reacts to a failed call. A refused access token was already renewed within the call. */
export function decide(failure: FailureClass, situation: Situation): Decision {
  const { operation, attempts, staleAttempts, nowMs, random } = situation
  switch (failure) {
    case 'throttle':
      return { action: 'pause_company', untilMs: nowMs + PAUSE_MS }
    case 'grant_lost':
    case 'no_token_endpoint':
      return { action: 'stop_company' }
    case 'token':
    case 'transient':
      if (attempts >= MAX_ATTEMPTS) return { action: 'dead' }
      return { action: 'retry', atMs: nowMs + getBackoffMs(attempts, random) }
    case 'stale':
      return { action: staleAttempts < MAX_STALE_ATTEMPTS ? 'merge' : 'dead' }
    case 'gone':
      return { action: operation === 'delete' ? 'done' : 'park' }
    case 'duplicate':
      // The next attempt finds our invoice, whose response was lost. The number of another one stays taken.
      return { action: operation === 'create' && staleAttempts <= 1 ? 'merge' : 'park' }
    case 'closed_period':
    case 'names_taken':
      return { action: 'park' }
    case 'data':
      return { action: 'dead' }
  }
}

/** 1 s, 2 s, 4 s … at most an hour, the second half of each with full jitter. Sixteen attempts take 2 to 5 hours. */
export function getBackoffMs(attempts: number, random: number): number {
  const wholeMs = Math.min(MIN_BACKOFF_MS * 2 ** Math.max(attempts - 1, 0), MAX_BACKOFF_MS)
  return Math.round(wholeMs * (0.5 + random / 2))
}

interface InvoiceIdentity {
  DocNumber?: string | undefined
  TxnDate?: string | undefined
  CustomerRef?: { value: string } | undefined
}

/** Whether a found invoice is the one we sent before: one made by hand may have its number, not its customer and date. */
export function isOurInvoice(found: InvoiceIdentity, sent: InvoiceIdentity): boolean {
  return (
    found.DocNumber === sent.DocNumber &&
    found.CustomerRef?.value === sent.CustomerRef?.value &&
    (found.TxnDate === undefined || found.TxnDate === sent.TxnDate)
  )
}

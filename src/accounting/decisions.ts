/** What an order change asks of the accounting system. */
export type Operation = 'create' | 'update' | 'delete'

/** How one call went wrong. Built by the adapter; holds nothing secret. */
export type Failure =
  | { kind: 'no_answer'; reason: 'timeout' | 'network' | 'cut' | 'too_large' | 'malformed' }
  | {
      kind: 'answered'
      endpoint: 'api' | 'token'
      status: number
      /** Fault codes in the order of the answer, without leading zeros. */
      codes: string[]
      /** `error` of an OAuth answer, such as `invalid_grant`. */
      oauthError: string | null
    }
  /** What is at the token address gives no tokens. */
  | { kind: 'no_token_endpoint' }
  /** Every name that a customer could have is taken by something else. */
  | { kind: 'names_taken' }

export type FailureClass =
  | 'transient'
  | 'throttle'
  | 'token'
  | 'grant_lost'
  | 'stale'
  | 'gone'
  | 'duplicate'
  | 'data'
  | 'closed_period'
  | 'no_token_endpoint'
  | 'names_taken'

/** The classes by fault code, the one that decides first where an answer carries several. */
const CLASS_BY_CODE: readonly (readonly [FailureClass, readonly string[]])[] = [
  ['throttle', ['3001']],
  ['grant_lost', ['3100']],
  ['token', ['3200']],
  ['stale', ['5010']],
  ['gone', ['610']],
  ['duplicate', ['6140']],
  ['closed_period', ['6190', '6210', '6540']],
  ['data', ['2020', '2040', '2050', '2500', '6000', '6070', '6090', '6240']],
  ['transient', ['10000']],
]

/** Statuses that say by themselves that the content of the call was refused. */
const REFUSED_CONTENT: readonly number[] = [400, 409, 413, 415, 422]

/**
 * Names the class of a failed call.
 *
 * A known fault code wins over the HTTP status, since faults come with 200 and throttling with 403 as well. An unknown
 * code is a matter of the data, because sending the same again cannot help; an answer that is no fault of the protocol
 * (a proxy's page, a redirect) may be gone in a minute.
 */
export function classify(failure: Failure): FailureClass {
  if (failure.kind === 'no_answer') return 'transient'
  if (failure.kind !== 'answered') return failure.kind
  const { status, codes } = failure

  const [known] = CLASS_BY_CODE.find(([, listed]) => codes.some((code) => listed.includes(code))) ?? []
  // Where tokens are given there is no older consent to fall back on.
  if (known) return known === 'token' && failure.endpoint === 'token' ? 'grant_lost' : known
  if (status === 429) return 'throttle'
  if (failure.endpoint === 'token') {
    const refused = failure.oauthError !== null || status === 401 || status === 403
    return refused && status < 500 ? 'grant_lost' : 'transient'
  }
  if (failure.oauthError === 'invalid_grant') return 'grant_lost'
  if (status >= 500) return 'transient'
  if (status === 401) return 'token'
  if (status === 403) return 'grant_lost'
  return codes.length > 0 || REFUSED_CONTENT.includes(status) ? 'data' : 'transient'
}

const PAUSE_MS = 60_000
export const MAX_ATTEMPTS = 16
export const MAX_STALE_ATTEMPTS = 5
const BACKOFF_FIRST_MS = 1_000
const BACKOFF_LONGEST_MS = 3_600_000

/** What the outbox does with a notice. Times are milliseconds since the epoch. */
export type Decision =
  /** There is nothing left to change. */
  | { action: 'done' }
  /** The same body under the same request id, not before `atMs`. The attempt counts. */
  | { action: 'retry'; atMs: number }
  /** No call of this company before `untilMs`; then as `retry`. The attempt does not count. */
  | { action: 'pause_company'; untilMs: number }
  /** No call of this company until its integration is changed. Every row stays. */
  | { action: 'stop_company' }
  /** Read the invoice, build the body anew on its `SyncToken`, send it under a new request id. The stale try counts. */
  | { action: 'merge' }
  /** Find by `DocNumber`; take over its id when {@link isOurInvoice}, else park. */
  | { action: 'adopt' }
  /** Out of the queue until a person looks at it or the order is edited again. */
  | { action: 'park' }
  /** As `park`, for what cannot succeed as it is. */
  | { action: 'dead' }

export interface Situation {
  operation: Operation
  /** Counted tries of this request id so far, this one included. */
  attempts: number
  /** Tries that were answered as stale so far, this one included. */
  staleAttempts: number
  nowMs: number
  /** 0 (inclusive) to 1 (exclusive). */
  random: number
}

/** Decides what the outbox does after a call that failed. A refused access token was renewed within the call. */
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
      return retryOrDie(attempts, nowMs, random)
    case 'stale':
      return { action: staleAttempts < MAX_STALE_ATTEMPTS ? 'merge' : 'dead' }
    case 'gone':
      return { action: operation === 'delete' ? 'done' : 'park' }
    case 'duplicate':
      return { action: operation === 'create' ? 'adopt' : 'park' }
    case 'closed_period':
    case 'names_taken':
      return { action: 'park' }
    case 'data':
      return { action: 'dead' }
  }
}

function retryOrDie(attempts: number, nowMs: number, random: number): Decision {
  if (attempts >= MAX_ATTEMPTS) return { action: 'dead' }
  return { action: 'retry', atMs: nowMs + getBackoffMs(attempts, random) }
}

/** 1 s, 2 s, 4 s … at most an hour, of which the second half is spread at random. Sixteen tries take 2 to 5 hours. */
export function getBackoffMs(attempts: number, random: number): number {
  const wholeMs = Math.min(BACKOFF_FIRST_MS * 2 ** Math.max(attempts - 1, 0), BACKOFF_LONGEST_MS)
  return Math.round(wholeMs * (0.5 + random / 2))
}

interface Identity {
  DocNumber?: string | undefined
  TxnDate?: string | undefined
  CustomerRef?: { value: string } | undefined
}

/**
 * Whether a found invoice is the one that we sent before without hearing the answer.
 *
 * The number alone does not prove it, since people make invoices by hand and may use the same number: customer and
 * date must be ours too.
 */
export function isOurInvoice(found: Identity, sent: Identity): boolean {
  return (
    found.DocNumber === sent.DocNumber &&
    found.CustomerRef?.value === sent.CustomerRef?.value &&
    (found.TxnDate === undefined || found.TxnDate === sent.TxnDate)
  )
}

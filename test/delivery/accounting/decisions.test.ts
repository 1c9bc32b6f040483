import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  classify,
  decide,
  type FailedResponse,
  type FailureClass,
  getBackoffMs,
  isOurInvoice,
  MAX_ATTEMPTS,
  type OpenEvent,
  type Operation,
  planOrder,
  type Remote,
  type Situation,
} from '../../../src/delivery/accounting/decisions.ts'

const NOW_MS = 1_800_000_000_000

function response(status: number, codes: string[] = [], more: Partial<FailedResponse> = {}): FailedResponse {
  return { endpoint: 'api', status, codes, oauthError: null, ...more }
}

function situation(more: Partial<Situation> = {}): Situation {
  return {
    operation: 'update',
    attempts: 1,
    staleAttempts: 0,
    nowMs: NOW_MS,
    random: 0,
    ...more,
  }
}

const RETRY = { action: 'retry', atMs: NOW_MS + 500 }
const PAUSE = { action: 'pause_company', untilMs: NOW_MS + 60_000 }
const STOP = { action: 'stop_company' }
/** A failure of the token endpoint. */
const ofTokens = (status: number, oauthError: string | null = null, codes: string[] = []) =>
  response(status, codes, { endpoint: 'token', oauthError })

type Row = [signal: string, FailedResponse | FailureClass, Operation, object]

/** The protocol's table, row by row: signal, operation, what happens. */
const TABLE: Row[] = [
  ['no response', 'transient', 'create', RETRY],
  ['no response', 'transient', 'update', RETRY],
  ['no response', 'transient', 'delete', RETRY],
  ['500', response(500), 'create', RETRY],
  ['503', response(503), 'update', RETRY],
  ['500/10000', response(500, ['10000']), 'update', RETRY],
  ['200/10000', response(200, ['10000']), 'update', RETRY],
  ['429', response(429), 'update', PAUSE],
  ['3001 as 429', response(429, ['3001']), 'create', PAUSE],
  ['3001 as 403', response(403, ['3001']), 'create', PAUSE],
  ['401 with a new token', response(401), 'update', RETRY],
  ['401/3200 with a new token', response(401, ['3200']), 'create', RETRY],
  ['invalid_grant', ofTokens(400, 'invalid_grant'), 'update', STOP],
  ['invalid_client', ofTokens(401, 'invalid_client'), 'update', STOP],
  ['403/120', response(403, ['120']), 'create', STOP],
  ['403/3100', response(403, ['3100']), 'create', STOP],
  ['5010', response(400, ['5010']), 'update', { action: 'merge' }],
  ['5010', response(400, ['5010']), 'delete', { action: 'merge' }],
  ['610', response(400, ['610']), 'delete', { action: 'done' }],
  ['610', response(400, ['610']), 'update', { action: 'park' }],
  ['6140', response(400, ['6140']), 'create', { action: 'merge' }],
  ['6140', response(400, ['6140']), 'update', { action: 'park' }],
  ...['2020', '2040', '2050', '2500', '6000', '6070', '6090', '6240'].map(
    (code): Row => [code, response(400, [code]), 'create', { action: 'dead' }],
  ),
  ['6000 with 200', response(200, ['6000']), 'update', { action: 'dead' }],
  ...['6190', '6210', '6540'].map((code): Row => [code, response(400, [code]), 'update', { action: 'park' }]),
  ['an unknown code', response(400, ['9999']), 'update', { action: 'dead' }],
  ['400 without a fault', response(400), 'update', { action: 'dead' }],
  ['a redirect', response(302), 'update', RETRY],
  ['403 of a proxy', response(403), 'update', RETRY],
  ['404 of a proxy', response(404), 'update', RETRY],
  ['503 of tokens', ofTokens(503), 'update', RETRY],
  ['429 of tokens', ofTokens(429), 'update', PAUSE],
  ['400 of tokens, a page', ofTokens(400), 'update', RETRY],
  ['401 of tokens without an error', ofTokens(401), 'update', RETRY],
  ['403 of tokens without an error', ofTokens(403), 'update', RETRY],
  ['403 of a gateway', ofTokens(403, 'Forbidden'), 'update', RETRY],
  ['no token endpoint', 'no_token_endpoint', 'update', STOP],
  ['every name taken', 'names_taken', 'create', { action: 'park' }],
  ['401/3200 of tokens', ofTokens(401, null, ['3200']), 'update', STOP],
]

describe('decide', () => {
  it.each(TABLE)('handles %s as the protocol says: %o, %s', (_signal, failure, operation, expected) => {
    const kind = typeof failure === 'string' ? failure : classify(failure)
    expect(decide(kind, situation({ operation }))).toEqual(expected)
  })

  it('merges a create with a taken number once', () => {
    expect(decide('duplicate', situation({ operation: 'create', staleAttempts: 1 }))).toEqual({ action: 'merge' })
    expect(decide('duplicate', situation({ operation: 'create', staleAttempts: 2 }))).toEqual({ action: 'park' })
  })

  it('gives up with a refused token at the last attempt, and still pauses, since a pause does not count', () => {
    expect(decide('token', situation({ attempts: MAX_ATTEMPTS }))).toEqual({ action: 'dead' })
    expect(decide('throttle', situation({ attempts: 99 })).action).toBe('pause_company')
  })
})

describe('backoff', () => {
  it('doubles from a second to an hour', () => {
    expect([1, 2, 3, 12, 13, 20].map((attempts) => getBackoffMs(attempts, 0.999_999_999))).toEqual([
      1_000, 2_000, 4_000, 2_048_000, 3_600_000, 3_600_000,
    ])
  })

  it('waits at least half, never longer than the whole', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (attempts, random) => {
          const wholeMs = Math.min(1_000 * 2 ** Math.max(attempts - 1, 0), 3_600_000)
          const waitMs = getBackoffMs(attempts, random)
          expect(waitMs).toBeGreaterThanOrEqual(wholeMs / 2)
          expect(waitMs).toBeLessThanOrEqual(wholeMs)
        },
      ),
    )
  })
})

describe('isOurInvoice', () => {
  const sent = { DocNumber: '1001', TxnDate: '2026-01-31', CustomerRef: { value: '7' } }
  it.each([
    ['the same identity', sent, true],
    ['no date', { DocNumber: '1001', CustomerRef: { value: '7' } }, true],
    ['another customer', { ...sent, CustomerRef: { value: '8' } }, false],
    ['another date', { ...sent, TxnDate: '2026-02-01' }, false],
    ['another number', { ...sent, DocNumber: '1002' }, false],
    ['no customer', { DocNumber: '1001', TxnDate: '2026-01-31' }, false],
  ])('compares a found invoice with %s', (_name, found, expected) => {
    expect(isOurInvoice(found, sent)).toBe(expected)
  })
})

/** `c`, `u`, `d` for the operation; then nothing for pending, `!` sent, `p` parked, `x` dead. Ids count from 1. */
function read(rows: string): OpenEvent[] {
  const operations: Record<string, Operation> = { c: 'create', u: 'update', d: 'delete' }
  const states: Record<string, OpenEvent['state']> = { '': 'pending', '!': 'sent', p: 'parked', x: 'dead' }
  return [...rows.matchAll(/([cud])([!px]?)/g)].map(([, operation = '', state = ''], index) => ({
    id: index + 1,
    operation: operations[operation] ?? 'update',
    state: states[state] ?? 'pending',
  }))
}

describe('planOrder', () => {
  it.each<[string, Remote, string, number[], isDeleted?: boolean]>([
    ['', 'absent', 'nothing', []],
    ['c', 'absent', '1 create', []],
    ['u', 'linked', '1 update', []],
    ['u', 'absent', '1 create', []],
    ['c', 'linked', '1 update', []],
    ['c u u', 'absent', '1 create', [2, 3]],
    ['u u u', 'linked', '1 update', [2, 3]],
    ['c u d', 'absent', 'nothing', [1, 2, 3]],
    ['d', 'absent', 'nothing', [1]],
    ['d', 'linked', '1 delete', []],
    ['d', 'unknown', '1 delete, find first', []],
    ['u d', 'linked', '2 delete', [1]],
    ['c! u u', 'absent', '1 create', [3]],
    ['c! u d', 'absent', '1 create', [2]],
    ['u! u d', 'linked', '1 update', [2]],
    ['cx', 'absent', 'nothing', []],
    ['cx u', 'absent', '2 create', [1]],
    ['cx u', 'unknown', '2 create, find first', [1]],
    ['up u', 'linked', '2 update', [1]],
    ['u up', 'linked', '1 update', [2]],
    ['cx d', 'absent', 'nothing', [1, 2]],
    ['ux d', 'linked', '2 delete', [1]],
    ['u dx', 'linked', '2 delete', [1]],
    ['dx', 'linked', 'nothing', []],
    ['d!', 'linked', '1 delete', []],
    ['d u', 'linked', '1 update', [2]],
    ['d u', 'absent', '1 create', [2]],
    ['d! u', 'linked', '1 delete', []],
    ['dx u', 'linked', '2 update', [1]],
    ['d u d', 'linked', '3 delete', [1, 2]],
    // Deleted or restored without a row, since the accounting system was to be left as it is.
    ['c u', 'absent', 'nothing', [1, 2], true],
    ['cx u', 'unknown', 'nothing', [1, 2], true],
    ['u', 'linked', '1 update', [], true],
    ['d', 'linked', '1 update', [], false],
    ['u d', 'linked', '1 update', [2], false],
    ['u! d', 'linked', '1 update', [], false],
  ])('plans the rows `%s` of a remote that is %s as: %s, drops %o', (rows, remote, expected, dropped, isDeleted) => {
    const plan = planOrder(read(rows), remote, isDeleted)
    const next = plan.next
      ? `${plan.next.id} ${plan.next.operation}${plan.next.findFirst ? ', find first' : ''}`
      : 'nothing'
    expect(next).toBe(expected)
    expect(plan.dropped.toSorted()).toEqual(dropped)
  })

  const row = fc.record({
    operation: fc.constantFrom<Operation>('create', 'update', 'delete'),
    state: fc.constantFrom<OpenEvent['state']>('pending', 'sent', 'parked', 'dead'),
  })
  const rowsOf = fc.array(row, { maxLength: 12 }).map((rows) => rows.map((each, index) => ({ id: index + 1, ...each })))
  const remotes = fc.constantFrom<Remote>('linked', 'absent', 'unknown')
  const forAnyQueue = (check: (rows: OpenEvent[], remote: Remote) => void) =>
    fc.assert(fc.property(rowsOf, remotes, check))

  it('never drops or changes a row that is under way, and sends none before it', () => {
    forAnyQueue((rows, remote) => {
      const { next, dropped } = planOrder(rows, remote)
      const sent = rows.filter((each) => each.state === 'sent')
      for (const each of sent) expect(dropped).not.toContain(each.id)
      if (sent[0]) expect(next).toEqual({ id: sent[0].id, operation: sent[0].operation, findFirst: false })
    })
  })

  it('never creates an invoice that exists, and never updates or removes one that does not', () => {
    forAnyQueue((rows, remote) => {
      const { next } = planOrder(
        rows.filter((each) => each.state !== 'sent'),
        remote,
      )
      if (remote === 'linked') expect(next?.operation).not.toBe('create')
      if (remote === 'absent' && next) expect(next.operation).toBe('create')
    })
  })

  it('leaves nothing pending behind', () => {
    forAnyQueue((rows, remote) => {
      let open = rows.filter((each) => each.state !== 'sent')
      const { next, dropped } = planOrder(open, remote)
      open = open.filter((each) => !dropped.includes(each.id) && each.id !== next?.id)
      expect(open.filter((each) => each.state === 'pending')).toEqual([])
    })
  })
})

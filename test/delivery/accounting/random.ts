import { expect } from 'vitest'
import { SPOILT } from '../../../src/simulators/accounting-data.ts'
import { createRandom } from '../../support/random.ts'
import { type Account, INVOICE_POST } from './support.ts'

/** What may go wrong at the other side while orders change at random. */
export const FAULTS = [
  { match: INVOICE_POST, apply: true, destroy: true },
  { match: INVOICE_POST, apply: true, cutAfterBytes: 15 },
  { match: INVOICE_POST, apply: true, ...SPOILT.broken },
  { match: '^(GET|POST) /v3', destroy: true },
  { match: '^(GET|POST) /v3', ...SPOILT.unavailable },
  { match: '^(GET|POST) /v3', ...SPOILT.faultInside },
  { match: '^(GET|POST) /v3', ...SPOILT.throttled },
  { match: '^(GET|POST) /v3', ...SPOILT.throttledXml },
  { match: '^(GET|POST) /v3', ...SPOILT.tokenExpired },
  { match: '^POST /oauth2', ...SPOILT.unavailable },
  { match: '^POST /v3/company/\\d+/customer', apply: true, destroy: true },
]

/** Numbers from 0 to 1 that are the same for the same seed. */
export function seeded(seed: number): () => number {
  const random = createRandom(seed)
  return () => random.between(0, 2 ** 32 - 1) / 2 ** 32
}

/** Whatever went wrong: every living order has its one invoice, a deleted one at most a voided one, and no more. */
export function expectConsistentAccount(account: Account, orders: { number: string; deleted: boolean }[]): void {
  expect(account.misused).toEqual([])
  const applied = account.changes.map((change) => change.requestId)
  expect(new Set(applied).size).toBe(applied.length)

  const invoices = Object.values(account.invoices)
  let removed = 0
  for (const order of orders) {
    const own = invoices.filter((invoice) => invoice.DocNumber === order.number)
    if (order.deleted) {
      expect(own.length).toBeLessThanOrEqual(1)
      for (const invoice of own) expect(account.voided).toContain(invoice.Id)
      removed += own.length
    } else {
      expect(own).toHaveLength(1)
    }
  }
  const count = (operation: string) => account.changes.filter((change) => change.operation === operation).length
  expect(count('create')).toBe(invoices.length)
  expect(count('void')).toBe(removed)
  // The run has met what it is for.
  expect(count('update')).toBeGreaterThan(30)
  expect(count('void')).toBeGreaterThan(5)
}

import {
  buildCreateCall,
  buildUpdateCall,
  type InvoiceCall,
  type InvoiceReferences,
} from '../../../src/delivery/accounting/invoice-payload.ts'
import { AccountingError } from '../../../src/delivery/accounting/transport.ts'
import { makeOrder, World } from './support.ts'

export const ACME = ['Acme', 'ann@acme.test'] as const

export async function fail(work: Promise<unknown>): Promise<AccountingError> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof AccountingError)) throw new Error(`Expected an AccountingError, got ${String(error)}`)
  return error
}

/** A company with its customer, ready to send invoices. */
export async function openAccount(order: Parameters<typeof makeOrder>[0] = {}) {
  const world = new World()
  const adapter = world.connect()
  const customerId = await adapter.findOrCreateCustomer(...ACME, 'customer')
  const references = { customerId, itemId: '1', taxCodeId: null }
  const create = buildCreateCall(makeOrder(order), references)
  return { world, adapter, references, create }
}

export function makeUpdate(order: Parameters<typeof makeOrder>[0], references: InvoiceReferences, Id: string) {
  return (SyncToken: string): InvoiceCall => buildUpdateCall(makeOrder(order), references, { Id, SyncToken })
}

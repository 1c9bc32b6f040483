import type { clientColumns, RowOf } from '../db/columns.ts'
import { isoTime } from '../http/contract.ts'

/** What a query of a client brings. */
export type ClientRow = RowOf<typeof clientColumns>

/** The client object of the contract. */
export function presentClient(row: ClientRow) {
  return {
    id: row.id,
    company_name: row.company_name,
    first_name: row.first_name,
    last_name: row.last_name,
    email: row.email,
    website: row.website,
    phone: row.phone,
    accounting_sync_enabled: row.accounting_sync_enabled,
    tax_exempt: row.tax_exempt,
    tax_exempt_reason: row.tax_exempt_reason,
    deleted: row.deleted,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
  }
}

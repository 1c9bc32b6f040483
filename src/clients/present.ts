import type { clientColumns, RowOf } from '../db/columns.ts'
import { isoTime } from '../http/time.ts'

/** What a query of a client brings. */
export type ClientRow = RowOf<typeof clientColumns>

/** The client object of the contract. */
export function presentClient(row: ClientRow) {
  return {
    id: row.id,
    company_name: row.companyName,
    first_name: row.firstName,
    last_name: row.lastName,
    email: row.email,
    website: row.website,
    phone: row.phone,
    accounting_sync_enabled: row.accountingSyncEnabled,
    tax_exempt: row.taxExempt,
    tax_exempt_reason: row.taxExemptReason,
    deleted: row.deleted,
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  }
}

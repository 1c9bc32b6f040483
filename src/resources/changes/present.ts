import { isoTime } from '../../kernel/api/contract.ts'
import type { changes } from '../../kernel/db/schema.ts'
import type { Change } from './contract.ts'

export type ChangeRow = Omit<typeof changes.$inferSelect, 'company_id' | 'previous_updated_at'> &
  Record<'account_email' | 'legacy_thread_id', string | null>

export function presentChange({ type, entity_id, operation, version, at, ...more }: ChangeRow): Change {
  const { account_email, legacy_thread_id, old_status_id, new_status_id } = more
  const fields = { version, time: isoTime(at) }
  const id = Number(entity_id)
  if (operation === 'status_changed') return { type: 'orders', id, operation, ...fields, old_status_id, new_status_id }
  if (type !== 'email_threads') return { type, id, operation, ...fields }
  const thread = { account_email: account_email ?? '', legacy_thread_id: legacy_thread_id ?? '' }
  return { type, id: entity_id, ...thread, operation, ...fields }
}

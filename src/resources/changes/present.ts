import { isoTime } from '../../kernel/api/contract.ts'
import type { changes } from '../../kernel/db/schema.ts'
import type { Change } from './contract.ts'

/** A row of the feed, with the identity of an email thread. */
export type ChangeRow = Pick<typeof changes.$inferSelect, 'type' | 'entity_id' | 'operation' | 'version' | 'at'> & {
  account_email: string | null
  legacy_thread_id: string | null
}

/** Presents a change for the feed and webhooks. */
export function presentChange({ type, entity_id, operation, version, at, ...thread }: ChangeRow): Change {
  const fields = { operation, version, time: isoTime(at) }
  if (type !== 'email_threads') return { type, id: Number(entity_id), ...fields }
  const { account_email, legacy_thread_id } = thread
  return {
    type,
    id: entity_id,
    account_email: account_email ?? '',
    legacy_thread_id: legacy_thread_id ?? '',
    ...fields,
  }
}

import { isoTime } from '../../http/contract.ts'
import { jsonAnswer, objectText } from '../raw-json.ts'
import type { ThreadContextRow } from './queries.ts'

/** The thread context of the contract; what is stored as JSON is sent as it stands. */
export function presentThreadContext(row: ThreadContextRow): Response {
  const text = objectText({
    thread_id: JSON.stringify(row.thread_id),
    legacy_thread_id: JSON.stringify(row.legacy_thread_id),
    sender_email: JSON.stringify(row.sender_email),
    client_id: JSON.stringify(row.clientId),
    client_data: row.clientData ?? 'null',
    clients_data: row.clientsData ?? 'null',
    orders_data: row.ordersData ?? 'null',
    selected_order_id: JSON.stringify(row.selectedOrderId),
    participant_emails: row.participant_emails ?? 'null',
    participants_data: row.participants_data ?? 'null',
    fetched_at: JSON.stringify(isoTime(row.fetched_at)),
    updated_at: JSON.stringify(isoTime(row.updated_at)),
  })
  return jsonAnswer([text])
}

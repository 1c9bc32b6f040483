import type { Documentation } from '../../http/contract.ts'

/** What the published description says of these endpoints, by operation. */
export const documentation = {
  readThreadContext: {
    summary: 'Read what links a mail thread to clients and orders',
    description:
      'A context belongs to the company whose data holds it: no other company ever sees it. Responds with 404 unless it is tied to the company: through its client, through an order in `orders_data`, or through the company id in its JSON. Of several contexts with this id, the newest that is tied. Elements of `clients_data` and `orders_data` that name another company, or whose id is no client or order of the company, are left out; `client_id`, `client_data` and `selected_order_id` are then null. Elements without an id stay. The forms inside the JSON depend on what wrote it.',
    example: {
      params: { legacyThreadId: '18c2f0a9b7d3e411' },
      response: {
        thread_id: 'thread-f:1784215093462262801',
        legacy_thread_id: '18c2f0a9b7d3e411',
        sender_email: 'ines@harbor-rowing.example',
        client_id: '42',
        client_data: { id: 42, company_name: 'Harbor Rowing Club' },
        clients_data: [{ id: 42, company_name: 'Harbor Rowing Club' }],
        orders_data: [{ id: 87, title: 'Regatta shirts' }],
        selected_order_id: '87',
        participant_emails: ['ines@harbor-rowing.example', 'sales@shop.example'],
        participants_data: [{ name: 'Ines Duarte', email: 'ines@harbor-rowing.example' }],
        fetched_at: '2026-03-02T09:31:00.000Z',
        updated_at: '2026-03-02T09:31:00.000Z',
      },
    },
  },
} satisfies Record<string, Documentation>

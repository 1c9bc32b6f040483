import type { Documentation } from '../../kernel/api/contract.ts'

/** The published description of these endpoints, by operation. */
export const documentation = {
  listChanges: {
    summary: 'Follow every change',
    description:
      'Every create, update and delete of the company’s clients, orders and email threads in the order in which they were committed, whoever made them. Changes are kept for 31 days. To copy a company and follow it: take a cursor with `start=latest`, read the lists with their own cursors, then ask for the changes after that cursor again and again, and read each object that they name. Without `cursor` the feed begins with the oldest change that is kept. With `wait` the response comes with the next change, or empty after so many seconds. 410 when changes after the cursor are no longer kept: copy the lists again. A sync of an email thread that changes nothing but `last_synced_at` is no change. Needs the permission to read each of the `types`.',
    example: {
      query: { types: 'clients', per_page: 1 },
      response: {
        data: [{ type: 'clients', id: 1, operation: 'create', version: 1, time: '2026-03-02T09:30:00.000Z' }],
        pagination: { next_cursor: 'q83vEjRWeJq83vEjRWeJqltbMV0sMTc3MjQ0MzgwMF0', has_more: true },
      },
    },
  },
} satisfies Record<string, Documentation>

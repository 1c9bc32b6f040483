import type { Documentation } from '../../../kernel/api/contract.ts'

export const documentation = {
  listAudit: {
    summary: 'List the audit trail',
    description:
      'Who changed what and when, newest first: changes by administrators of 400 days, or by tokens of 90 days.',
    example: {
      params: { company_id: '1' },
      response: {
        data: [
          {
            time: '2026-03-02T09:00:00.000Z',
            actor: 'owner@ridgeline.example',
            token_id: null,
            action: 'members.put',
            entity_id: 'dev@ridgeline.example',
            address: '203.0.113.7',
            request_id: '3f1c2a9e-7d54-4a39-9d0e-2b1f6f6f1a10',
          },
        ],
        pagination: { per_page: 50, next_cursor: null, has_more: false },
      },
    },
  },
} satisfies Record<string, Documentation>

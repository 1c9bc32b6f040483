import type { Documentation } from '../../kernel/api/contract.ts'
import { PERMISSIONS } from '../../kernel/gate/permissions.ts'

/** The published description of these endpoints, by operation. */
export const documentation = {
  readAccount: {
    summary: 'Read the company, the token and its limits',
    description: 'What the token of the request stands for. A first request that needs nothing but a valid token.',
    example: {
      response: {
        company: { id: 1, name: 'Ridgeline Custom Apparel' },
        token: {
          id: 1,
          name: 'sample (dev)',
          permissions: PERMISSIONS.toSorted(),
          created_at: '2026-03-02T09:00:00.000Z',
          expires_at: null,
        },
        limits: {
          requests_per_minute: 300,
          database_ms_per_minute: 15_000,
          per_page_max: 100,
          batch_operations_max: 100,
          body_bytes_max: 1_048_576,
          file_bytes_max: 157_286_400,
          mail_bytes: 0,
          mail_quota_bytes: 2_147_483_648,
          stored_bytes: 412_500,
          storage_quota_bytes: 2_147_483_648,
        },
      },
    },
  },
} satisfies Record<string, Documentation>

import type { Documentation } from '../../../kernel/api/contract.ts'

const integration = {
  kind: 'supplier_b',
  enabled: true,
  base_url: 'https://api.supplier.example/v2',
  settings: {},
  state: 'connected',
  reason: null,
  paused_until: null,
  updated_at: '2026-03-02T09:00:00.000Z',
}
const params = { company_id: '1', kind: 'supplier_b' }

export const documentation = {
  listIntegrations: {
    summary: 'List integrations',
    description: 'Those of the company with their state, without credentials.',
    example: { params: { company_id: '1' }, response: { data: [integration] } },
  },
  putIntegration: {
    summary: 'Save an integration',
    description:
      'Creates or replaces it. What was stopped for lost consent or rejected credentials is tried again. A disabled one may have no credentials.',
    example: {
      params,
      body: {
        enabled: true,
        base_url: 'https://api.supplier.example/v2',
        credentials: { account_number: '12345', api_key: 'secret' },
      },
      response: integration,
    },
  },
  testIntegration: {
    summary: 'Test the connection',
    description: 'Makes one call that changes nothing, with the stored credentials.',
    example: { params, response: { ok: true, message: 'The supplier accepts the credentials.' } },
  },
} satisfies Record<string, Documentation>

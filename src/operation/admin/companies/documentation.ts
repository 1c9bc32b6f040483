import type { Documentation } from '../../../kernel/api/contract.ts'

const company = {
  id: 1,
  name: 'Ridgeline Custom Apparel',
  database: 'DB',
  suspended: false,
  accounting_sync_enabled: true,
  deliveries_paused: false,
  client_count: 60,
  order_count: 80,
  mail_bytes: 0,
  mail_quota_bytes: 2_147_483_648,
  stored_bytes: 412_500,
  storage_quota_bytes: 2_147_483_648,
  created_at: '2026-03-02T09:00:00.000Z',
  updated_at: '2026-03-02T09:00:00.000Z',
}
const params = { company_id: '1' }
const used = { requests: 412, refused: 0, database_ms: 903 }

export const documentation = {
  listCompanies: {
    summary: 'List companies',
    description: 'In ascending order of ids.',
    example: { response: { data: [company], pagination: { per_page: 50, next_cursor: null, has_more: false } } },
  },
  readCompany: {
    summary: 'Read a company',
    description: 'With how much it stores.',
    example: { params, response: company },
  },
  updateCompany: {
    summary: 'Change, suspend or resume a company',
    description:
      'A suspended company’s tokens get 403 within 30 seconds, and nothing of it is delivered. `deliveries_paused` holds back accounting events and webhooks alone; what waited is delivered when it ends.',
    example: { params, body: { suspended: true }, response: { ...company, suspended: true } },
  },
  readUsage: {
    summary: 'Read the usage of a company',
    description:
      'Requests, refusals and database time of the last hours. Refusals are counted with the next request of the token that is allowed; a request may count a few more that were allowed ahead.',
    example: {
      params,
      query: { hours: 1 },
      response: { data: [{ hour: '2026-03-02T09:00:00.000Z', ...used }], totals: used, incomplete: false },
    },
  },
} satisfies Record<string, Documentation>

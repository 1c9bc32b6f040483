import * as z from 'zod/mini'
import { component, dateTime, id, type Published } from '../../../kernel/api/contract.ts'
import { adminContracts, adminPage, adminPageOf, onePage } from '../fields.ts'

const entry = component('AuditEntry', 'A change, without its values.', {
  time: dateTime,
  actor: z.string().check(z.describe('An email, `operator`, or `token` for a request of the API.')),
  token_id: z.nullable(id).check(z.describe('The token of a request of the API.')),
  action: z.string(),
  entity_id: z.string(),
  address: z.nullable(z.string()).check(z.describe('The IP address of an administrator.')),
  request_id: z.string(),
})

const define = adminContracts('Audit', 'developer')

export const listAudit = define('listAudit', 'GET /companies/{company_id}/audit', {
  query: z.strictObject({
    ...adminPage,
    source: z
      ._default(z.enum(['administration', 'api']), 'administration')
      .check(z.meta({ default: 'administration' }), z.describe('Changes by people and operators, or by tokens.')),
  }),
  response: adminPageOf(entry),
})

export const published: Published = {
  tag: 'Who changed what.',
  endpoints: [listAudit],
  document: () => ({
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
          pagination: onePage,
        },
      },
    },
  }),
}

import * as z from 'zod/mini'
import { component, dateTime, defineContract, id, idText } from '../../../kernel/api/contract.ts'
import { adminPage, adminPageOf } from '../paging.ts'

const entry = component('AuditEntry', 'A change, without its values.', {
  time: dateTime,
  actor: z.string().check(z.describe('An email, `operator`, or `token` for a request of the API.')),
  token_id: z.nullable(id).check(z.describe('The token of a request of the API.')),
  action: z.string(),
  entity_id: z.string(),
  address: z.nullable(z.string()).check(z.describe('The IP address of an administrator.')),
  request_id: z.string(),
})

export const listAudit = defineContract({
  method: 'GET',
  path: '/companies/{company_id}/audit',
  operationId: 'listAudit',
  tag: 'Audit',
  permission: null,
  role: 'developer',
  params: z.strictObject({ company_id: idText.check(z.describe('The company.')) }),
  query: z.strictObject({
    ...adminPage,
    source: z
      ._default(z.enum(['administration', 'api']), 'administration')
      .check(z.meta({ default: 'administration' }), z.describe('Changes by people and operators, or by tokens.')),
  }),
  response: adminPageOf(entry),
  errors: [],
})

export const endpoints = [listAudit]

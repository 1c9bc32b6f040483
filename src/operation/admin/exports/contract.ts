import * as z from 'zod/mini'
import { cursorText, defineContract, idText } from '../../../kernel/api/contract.ts'

export const exportCompany = defineContract({
  tag: 'Exports',
  permission: null,
  role: 'owner',
  method: 'GET',
  path: '/companies/{company_id}/export',
  operationId: 'exportCompany',
  params: z.strictObject({ company_id: idText.check(z.describe('The company.')) }),
  query: z.strictObject({
    cursor: z
      .optional(cursorText)
      .check(z.describe('The `cursor` of the last line of a response: the part of the export behind it.')),
  }),
  response: z.string().check(z.describe('Lines of JSON, each `{"type": …, "data": …}`.')),
  mediaType: 'application/x-ndjson',
  errors: [],
})

export const endpoints = [exportCompany]

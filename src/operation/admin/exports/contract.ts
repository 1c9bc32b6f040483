import * as z from 'zod/mini'
import { cursorText, defineContract, type Published } from '../../../kernel/api/contract.ts'
import { ofCompany } from '../fields.ts'

export const exportCompany = defineContract({
  tag: 'Exports',
  permission: null,
  role: 'owner',
  method: 'GET',
  path: '/companies/{company_id}/export',
  operationId: 'exportCompany',
  params: ofCompany,
  query: z.strictObject({
    cursor: z
      .optional(cursorText)
      .check(z.describe('The `cursor` of the last line of a response: the part of the export behind it.')),
  }),
  response: z.string().check(z.describe('Lines of JSON, each `{"type": …, "data": …}`.')),
  mediaType: 'application/x-ndjson',
  errors: [],
})

export const published: Published = {
  tag: 'The data of one company as lines.',
  endpoints: [exportCompany],
  document: () => {
    const lines = [
      { type: 'company', data: { id: 1, name: 'Ridgeline Apparel' } },
      { type: 'clients', data: { id: 1, company_name: 'Harbor Rowing Club' } },
      { type: 'end', data: {} },
    ]

    return {
      exportCompany: {
        summary: 'Export a company',
        description: `Everything of the company as lines of JSON: \`company\`, \`integrations\`, \`orders\`, \`clients\`, \`taxes\`,
\`order_statuses\`, \`catalog_items\` and \`thread_contexts\` in the form of a seed file, and \`email_threads\` with the texts and
arrays as they were sent. Deleted rows are there too. The credentials of integrations are left out; tokens, webhook endpoints
and accounting events are not part of it.

The last line is \`end\`, or \`next\` with the \`cursor\` of the request that continues. A response without either was cut
off: request it again. Rows that change during an export are exported before or after the change.`,
        example: {
          params: { company_id: '1' },
          response: lines.map((each) => `${JSON.stringify(each)}\n`).join(''),
        },
      },
    }
  },
}

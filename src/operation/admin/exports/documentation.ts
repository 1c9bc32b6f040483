import type { Documentation } from '../../../kernel/api/contract.ts'

const lines = [
  { type: 'company', data: { id: 1, name: 'Ridgeline Apparel' } },
  { type: 'clients', data: { id: 1, company_name: 'Harbor Rowing Club' } },
  { type: 'end', data: {} },
]

export const documentation = {
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
} satisfies Record<string, Documentation>

import type { Documentation } from '../../../kernel/api/contract.ts'

const hash = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'

export const documentation = {
  createImport: {
    summary: 'Load a part of a seed file',
    description: `Loads one part of the seed file of a company, which is created when there is none. Each part is one transaction
of at most 1,000 rows, and can be sent again. Send the parts in ascending order: what others refer to first, and orders whose
invoices have numbers before those that are to get one.

To change nothing where the file is invalid, first send every part with \`check: true\`. After an interruption continue at the
\`next_part\` of \`GET …/imports/{hash}\`. The same file again changes nothing: of clients and orders only the absent ones
are loaded, all other rows become those of the file. Credentials are encrypted with the key of the deployment.`,
    example: {
      params: { company_id: '1' },
      body: {
        hash,
        part: 1,
        parts: 2,
        check: false,
        file: {
          company: { id: 1, name: 'Ridgeline Apparel' },
          clients: [{ id: 1, company_name: 'Harbor Rowing Club', email: 'crew@harbor.example' }],
        },
      },
      response: {
        hash,
        part: 1,
        parts: 2,
        next_part: 2,
        counts: { clients: 1 },
        differences: [{ type: 'client', id: 1, fields: ['email'] }],
      },
    },
  },
  readImport: {
    summary: 'Read how far an import has come',
    description: 'For 30 days after its last part.',
    example: {
      params: { company_id: '1', hash },
      response: { hash, parts: 2, next_part: 2, updated_at: '2026-03-02T09:00:00.000Z' },
    },
  },
} satisfies Record<string, Documentation>

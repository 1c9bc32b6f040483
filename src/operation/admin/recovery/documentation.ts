import type { Documentation } from '../../../kernel/api/contract.ts'

const at = '2026-11-22T03:05:00.000Z'

export const documentation = {
  listBackups: {
    summary: 'List the backups of a company',
    description:
      'The company may be gone. Backups are made daily and kept for 35 days, and as long as a newer one continues them.',
    example: { params: { company_id: '1' }, response: { data: [{ at, kind: 'full' }] } },
  },
  restoreCompany: {
    summary: 'Restore a company from its backups',
    description:
      'Into a company that does not exist or is empty. Each request does some steps, for about 5 s: repeat it with the same body until `done`. Meanwhile the company is suspended. Its ids and invoice numbers are raised past those that were given out after the backup, its feed of changes begins anew, so that every reader copies the lists again, tokens that were revoked since stay revoked, and its deliveries stay paused until `PATCH /companies/{company_id}` resumes them.',
    example: {
      params: { company_id: '1' },
      body: { from: '2026-11-22' },
      response: { done: true, backup: at, step: 'done', rows: 4821, differences: [], accounting: 'read' },
    },
  },
  recoverDeployment: {
    summary: 'Recover from a restore of the whole database',
    description:
      'After D1 Time Travel has set the database back: pauses the deliveries of all companies, revokes again what was revoked since, then raises the ids and invoice numbers of each company past what its backups, the marks that are kept every 5 minutes, its files and its accounting system have, and begins its feed of changes anew. Each request does one step: repeat it with `next_cursor` until that is null. Deliveries stay paused until `PATCH /companies/{company_id}` resumes them.',
    example: {
      body: {},
      response: { companies_paused: 3, tokens_revoked: 1, company: null, next_cursor: 'Wy4uLl0' },
    },
  },
} satisfies Record<string, Documentation>

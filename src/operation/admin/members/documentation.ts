import type { Documentation } from '../../../kernel/api/contract.ts'

const member = { email: 'dev@ridgeline.example', role: 'developer', created_at: '2026-03-02T09:00:00.000Z' }
const params = { company_id: '1', email: 'dev@ridgeline.example' }

export const documentation = {
  listMembers: {
    summary: 'List members',
    description: 'Who administers the company, by email.',
    example: {
      params: { company_id: '1' },
      response: { data: [member], pagination: { per_page: 50, next_cursor: null, has_more: false } },
    },
  },
  putMember: {
    summary: 'Add a member or change their role',
    description: 'Takes effect with the next request of that person. The last owner cannot become a developer.',
    example: { params, body: { role: 'developer' }, response: member },
  },
  deleteMember: {
    summary: 'Remove a member',
    description: 'The last owner cannot be removed.',
    example: { params, response: { email: 'dev@ridgeline.example', deleted: true } },
  },
} satisfies Record<string, Documentation>

import type { Documentation } from '../../../kernel/api/contract.ts'

export const documentation = {
  readSession: {
    summary: 'Read who is signed in',
    description: 'The caller, and the companies that they may administer.',
    example: {
      response: {
        actor: 'owner@ridgeline.example',
        operator: false,
        companies: [{ id: 1, name: 'Ridgeline Custom Apparel', role: 'owner' }],
      },
    },
  },
} satisfies Record<string, Documentation>

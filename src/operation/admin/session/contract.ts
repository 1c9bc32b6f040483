import * as z from 'zod/mini'
import { component, id, type Published } from '../../../kernel/api/contract.ts'
import { adminContracts } from '../fields.ts'

const define = adminContracts('Session', 'member')

export const readSession = define('readSession', 'GET /me', {
  response: component('Session', 'Who is signed in.', {
    actor: z.string().check(z.describe('An email, or `operator` for the secret of the deployment.')),
    operator: z.boolean(),
    companies: z
      .array(z.strictObject({ id, name: z.string(), role: z.enum(['developer', 'owner', 'operator']) }))
      .check(z.describe('The companies that the caller may administer, the first 1,000.')),
  }),
})

export const published: Published = {
  tag: 'Who is signed in.',
  endpoints: [readSession],
  document: () => ({
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
  }),
}

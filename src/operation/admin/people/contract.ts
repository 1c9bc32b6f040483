import * as z from 'zod/mini'
import { component, type Documentation, dateTime, emailAddress, id } from '../../../kernel/api/contract.ts'
import { adminContracts, listOf } from '../fields.ts'

const email = emailAddress().check(z.maxLength(254))
const role = z.enum(['developer', 'owner'])

const member = component('Member', 'Somebody who administers a company.', {
  email,
  role: role.check(
    z.describe('A developer manages tokens, webhooks and events; an owner integrations and members too.'),
  ),
  created_at: dateTime,
})

const define = adminContracts('Members', 'owner', {
  email: z
    .pipe(z.string().check(z.trim(), z.toLowerCase()), email)
    .check(z.meta({ format: 'email' }), z.describe('The email of the person, in any case.')),
})

export const listMembers = define('listMembers', 'GET /companies/{company_id}/members', listOf(member, {}))

export const putMember = define('putMember', 'PUT /companies/{company_id}/members/{email}', {
  body: component('MemberInput', 'The role of a member.', { role }),
  response: member,
  errors: ['conflict'],
})

export const deleteMember = define('deleteMember', 'DELETE /companies/{company_id}/members/{email}', {
  response: component('DeletedMember', 'The member that was removed.', { email, deleted: z.literal(true) }),
  errors: ['not_found', 'conflict'],
})

export const readSession = adminContracts('Session', 'member')('readSession', 'GET /me', {
  response: component('Session', 'Who is signed in.', {
    actor: z.string().check(z.describe('An email, or `operator` for the secret of the deployment.')),
    operator: z.boolean(),
    companies: z
      .array(z.strictObject({ id, name: z.string(), role: z.enum(['developer', 'owner', 'operator']) }))
      .check(z.describe('The companies that the caller may administer, the first 1,000.')),
  }),
})

const entry = component('AuditEntry', 'A change, without its values.', {
  time: dateTime,
  actor: z.string().check(z.describe('An email, `operator`, or `token` for a request of the API.')),
  token_id: z.nullable(id).check(z.describe('The token of a request of the API.')),
  action: z.string(),
  entity_id: z.string(),
  address: z.nullable(z.string()).check(z.describe('The IP address of an administrator.')),
  request_id: z.string(),
})

export const listAudit = adminContracts('Audit', 'developer')(
  'listAudit',
  'GET /companies/{company_id}/audit',
  listOf(entry, {
    source: z
      ._default(z.enum(['administration', 'api']), 'administration')
      .check(z.meta({ default: 'administration' }), z.describe('Changes by people and operators, or by tokens.')),
  }),
)

export const published = {
  tags: {
    Session: 'Who is signed in.',
    Members: 'The people who administer a company.',
    Audit: 'Who changed what.',
  },
  document: (): Record<string, Documentation> => ({
    readSession: {
      summary: 'Read who is signed in',
      description: 'The caller, and the companies that they may administer.',
    },
    listMembers: {
      summary: 'List members',
      description: 'Who administers the company, by email.',
    },
    putMember: {
      summary: 'Add a member or change their role',
      description:
        'Takes effect with the next request of that person. The last owner cannot become a developer: 409, as for more than 1,000 members.',
      example: { params: { email: 'dev@ridgeline.example' }, body: { role: 'developer' } },
    },
    deleteMember: {
      summary: 'Remove a member',
      description: 'The last owner cannot be removed: 409.',
      example: { params: { email: 'dev@ridgeline.example' } },
    },
    listAudit: {
      summary: 'List the audit trail',
      description:
        'Who changed what and when, newest first: changes by administrators of 400 days, or by tokens of 90 days. A token that does the same to an object again within a minute has one entry.',
    },
  }),
}

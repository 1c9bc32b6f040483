import * as z from 'zod/mini'
import { component, dateTime, defineContract, idText } from '../../../kernel/api/contract.ts'
import { adminPage, adminPageOf } from '../paging.ts'

const company_id = idText.check(z.describe('The company.'))
const email = z.email().check(z.maxLength(254))
const role = z.enum(['developer', 'owner'])

const member = component('Member', 'Somebody who administers a company.', {
  email,
  role: role.check(
    z.describe('A developer manages tokens, webhooks and events; an owner integrations and members too.'),
  ),
  created_at: dateTime,
})

const params = z.strictObject({
  company_id,
  email: z
    .pipe(z.string().check(z.trim(), z.toLowerCase()), email)
    .check(z.meta({ format: 'email' }), z.describe('The email of the person, in any case.')),
})

const common = { tag: 'Members', permission: null, role: 'owner', errors: [] } as const

export const listMembers = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}/members',
  operationId: 'listMembers',
  params: z.strictObject({ company_id }),
  query: z.strictObject(adminPage),
  response: adminPageOf(member),
})

export const putMember = defineContract({
  ...common,
  method: 'PUT',
  path: '/companies/{company_id}/members/{email}',
  operationId: 'putMember',
  params,
  body: component('MemberInput', 'The role of a member.', { role }),
  response: member,
  errors: ['conflict'],
})

export const deleteMember = defineContract({
  ...common,
  method: 'DELETE',
  path: '/companies/{company_id}/members/{email}',
  operationId: 'deleteMember',
  params,
  response: component('DeletedMember', 'The member that was removed.', { email, deleted: z.literal(true) }),
  errors: ['not_found', 'conflict'],
})

export const endpoints = [listMembers, putMember, deleteMember]

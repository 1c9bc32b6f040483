import { isoTime } from '../../../kernel/api/contract.ts'
import { conflict, found } from '../../../kernel/http/errors.ts'
import { adminList, adminRoute, withTimes } from '../endpoint.ts'
import * as contract from './contract.ts'
import { deleteMember, listEntries, listMembers, listOwnCompanies, putMember } from './queries.ts'

export const routes = [
  adminRoute(contract.readSession, async (_input, context) => {
    const { actor, isOperator } = context.caller
    return { actor, operator: isOperator, companies: await listOwnCompanies(context) }
  }),

  adminList(contract.listMembers, listMembers, withTimes, ({ email }) => [email]),

  adminRoute(contract.putMember, async ({ params, body }, context) => {
    const member = await putMember(context, params.email, body.role)
    if (!member) throw conflict('The company has 1,000 members: remove one first')
    if (member === 'last_owner') {
      throw conflict('The last owner cannot become a developer: make another member an owner first')
    }
    return withTimes(member)
  }),

  adminRoute(contract.deleteMember, async ({ params: { email } }, context) => {
    const removed = found(await deleteMember(context, email), 'Member')
    if (removed === 'last_owner') throw conflict('The last owner cannot be removed: make another member an owner first')
    return { email, deleted: true as const }
  }),

  adminList(
    contract.listAudit,
    listEntries,
    ({ at, actor, token_id, action, entity_id, address, request_id }) => {
      return { time: isoTime(at), actor, token_id, action, entity_id, address, request_id }
    },
    ({ id }) => [id],
  ),
]

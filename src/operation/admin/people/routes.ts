import { isoTime } from '../../../kernel/api/contract.ts'
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
    return withTimes(await putMember(context, params.email, body.role))
  }),

  adminRoute(contract.deleteMember, async ({ params: { email } }, context) => {
    await deleteMember(context, email)
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

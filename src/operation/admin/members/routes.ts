import { adminRoute, conflict, found, withTimes } from '../endpoint.ts'
import { openAdminPage } from '../paging.ts'
import * as contract from './contract.ts'
import { deleteMember, listMembers, putMember } from './queries.ts'

export const routes = [
  adminRoute(contract.listMembers, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listMembers, query, context)
    const rows = await listMembers(context, String(after?.[0] ?? ''), limit)
    return page(rows, withTimes, ({ email }) => [email])
  }),

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
]

import { isoTime } from '../../../kernel/api/contract.ts'
import { ApiError, notFound } from '../../../kernel/http/errors.ts'
import { adminRoute } from '../endpoint.ts'
import { openAdminPage } from '../paging.ts'
import * as contract from './contract.ts'
import { deleteMember, listMembers, putMember } from './queries.ts'

const present = <T extends { created_at: number }>(row: T) => ({ ...row, created_at: isoTime(row.created_at) })

export const routes = [
  adminRoute(contract.listMembers, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listMembers, query, context)
    const rows = await listMembers(context, String(after?.[0] ?? ''), limit)
    return page(rows, present, ({ email }) => [email])
  }),

  adminRoute(contract.putMember, async ({ params, body }, context) => {
    const member = await putMember(context, params.email, body.role)
    if (!member) throw new ApiError('conflict', { message: 'The company has 1,000 members: remove one first' })
    if (member === 'last_owner') {
      throw new ApiError('conflict', {
        message: 'The last owner cannot become a developer: make another member an owner first',
      })
    }
    return present(member)
  }),

  adminRoute(contract.deleteMember, async ({ params: { email } }, context) => {
    const removed = await deleteMember(context, email)
    if (removed === false) throw notFound('Member')
    if (removed === 'last_owner') {
      throw new ApiError('conflict', {
        message: 'The last owner cannot be removed: make another member an owner first',
      })
    }
    return { email, deleted: true as const }
  }),
]

import { isoTime } from '../../../kernel/api/contract.ts'
import { adminList } from '../endpoint.ts'
import * as contract from './contract.ts'
import { type AuditRow, listAdminEntries, listApiEntries } from './queries.ts'

export const routes = [
  adminList(
    contract.listAudit,
    (context, { query, after, limit }): Promise<AuditRow[]> => {
      const list = query.source === 'api' ? listApiEntries : listAdminEntries
      return list(context, Number(after?.[0] ?? Number.MAX_SAFE_INTEGER), limit)
    },
    ({ id: _, at, ...row }) => ({ time: isoTime(at), ...row }),
    ({ id }) => [id],
  ),
]

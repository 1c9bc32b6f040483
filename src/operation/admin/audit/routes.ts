import { isoTime } from '../../../kernel/api/contract.ts'
import { adminRoute } from '../endpoint.ts'
import { openAdminPage } from '../paging.ts'
import * as contract from './contract.ts'
import { type AuditRow, listAdminEntries, listApiEntries } from './queries.ts'

const present = ({ id: _, at, ...row }: AuditRow) => ({ time: isoTime(at), ...row })

export const routes = [
  adminRoute(contract.listAudit, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listAudit, query, context)
    const list = query.source === 'api' ? listApiEntries : listAdminEntries
    const rows: AuditRow[] = await list(context, Number(after?.[0] ?? Number.MAX_SAFE_INTEGER), limit)
    return page(rows, present, ({ id }) => [id])
  }),
]

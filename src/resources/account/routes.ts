import { BODY_LIMIT_BYTES, isoTime, isoTimeOrNull, PER_PAGE_MAX } from '../../kernel/api/contract.ts'
import { route } from '../../kernel/api/endpoint.ts'
import { DATABASE_LIMIT_MS, LIMIT } from '../../kernel/gate/limits.ts'
import { OPERATIONS_MAX } from '../batch/contract.ts'
import { MAX_FILE_BYTES } from '../files/contract.ts'
import * as contract from './contract.ts'
import { findAccount } from './queries.ts'

export const routes = [
  route(contract.readAccount, async (_input, context) => {
    const { name, currency, ...stored } = await findAccount(context)
    const { token } = context
    return {
      company: { id: context.companyId, name, currency },
      token: {
        id: token.id,
        name: token.name,
        permissions: [...token.permissions].sort(),
        created_at: isoTime(token.createdAt),
        expires_at: isoTimeOrNull(token.expiresAt),
      },
      limits: {
        requests_per_minute: LIMIT,
        database_ms_per_minute: DATABASE_LIMIT_MS,
        per_page_max: PER_PAGE_MAX,
        batch_operations_max: OPERATIONS_MAX,
        body_bytes_max: BODY_LIMIT_BYTES,
        file_bytes_max: MAX_FILE_BYTES,
        ...stored,
      },
    }
  }),
]

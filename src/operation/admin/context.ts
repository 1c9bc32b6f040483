import type { Env } from '../../env.ts'
import type { RequestContext } from '../../kernel/api/context.ts'
import type { Administrator } from '../../kernel/db/audit.ts'
import type { PlacedContext } from '../../kernel/db/placement.ts'

export interface Caller {
  /** A person's email in lower case, or `operator` for the deployment's secret. */
  actor: string
  isOperator: boolean
}

type Shared = Pick<RequestContext, 'credentialsKey' | 'addresses' | 'waitUntil' | 'deliverAccounting'>

/** The context of a handler. `companyId` is the path's; 0 where it has none. */
export interface AdminContext extends PlacedContext, Administrator, Shared {
  /** When the request's body had arrived, in milliseconds since the epoch. */
  now: number
  caller: Caller
  env: Env
  isHead: boolean
  deliverWebhooks: () => void
}

/** Picks the caller's part of an audit entry to send to an object, which cannot get a whole context. */
export function toAdministrator({ companyId, caller, address, requestId, now }: AdminContext): Administrator {
  return { companyId, caller, address, requestId, now }
}

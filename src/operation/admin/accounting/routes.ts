import { startDelivery } from '../../../delivery/accounting/delivery.ts'
import { isoTime, withIsoTimes } from '../../../kernel/api/contract.ts'
import { notFound } from '../../../kernel/http/errors.ts'
import type { AdminContext } from '../context.ts'
import { adminRoute } from '../endpoint.ts'
import { openAdminPage } from '../paging.ts'
import { listFromEach } from '../queries.ts'
import * as contract from './contract.ts'
import { type EventRow, linkCustomer, listEvents, retryEvent, retryEvents } from './queries.ts'

export const routes = [
  adminRoute(contract.listAllEvents, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listAllEvents, query, context)
    const { company_id = 0, state, id } = query
    const rows = await listFromEach(context, after, limit, (each, place, rest) =>
      listEvents(each, { company_id, state, id, after: Number(place?.[0] ?? 0), limit: rest }),
    )
    return page(
      rows,
      ({ row }) => present(row),
      ({ row, database }) => [row.id, database],
    )
  }),

  adminRoute(contract.listEvents, async ({ params, query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listEvents, query, context)
    const { state } = query
    const rows = await listEvents(context, { ...params, state, after: Number(after?.[0] ?? 0), limit })
    return page(rows, present, ({ id }) => [id])
  }),

  adminRoute(contract.retryEvent, async ({ params: { event_id } }, context) => {
    if (!(await retryEvent(context, event_id))) throw notFound('Undelivered event')
    deliver(context)
    return { retried: 1 }
  }),

  adminRoute(contract.retryEvents, async ({ body }, context) => {
    const retried = await retryEvents(context, body.states)
    if (retried > 0) deliver(context)
    return { retried }
  }),

  adminRoute(contract.linkCustomer, async ({ params: { client_id }, body }, context) => {
    const linked = await linkCustomer(context, client_id, body.customer_id)
    if (!linked) throw notFound('Client')
    if (linked.retried > 0) deliver(context)
    return linked
  }),
]

function deliver({ companyId, db, env, waitUntil }: AdminContext): void {
  waitUntil(startDelivery(env, companyId, db.primaryRegion()))
}

function present(row: EventRow) {
  const { id, company_id, order_id, operation, state, attempts, next_attempt_at, last_error } = row
  const isRetried = state === 'pending' || state === 'sent'
  const { created_at, updated_at } = withIsoTimes(row)
  return {
    id,
    company_id,
    order_id,
    operation,
    state: state === 'parked' || state === 'dead' ? state : ('pending' as const),
    attempts,
    next_attempt_at: isRetried ? isoTime(next_attempt_at) : null,
    last_error,
    created_at,
    updated_at,
  }
}

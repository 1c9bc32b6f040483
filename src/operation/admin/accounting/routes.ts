import { startDelivery } from '../../../delivery/accounting/delivery.ts'
import { found, notFound } from '../../../kernel/http/errors.ts'
import type { AdminContext } from '../context.ts'
import { adminListOfEach, adminRoute, withTimes } from '../endpoint.ts'
import * as contract from './contract.ts'
import { type EventRow, linkCustomer, listEvents, retryEvent, retryEvents } from './queries.ts'

export const routes = [
  ...[contract.listAllEvents, contract.listEvents].map((list) =>
    adminListOfEach(list, listEvents, present, ({ id }) => [id]),
  ),

  adminRoute(contract.retryEvent, async ({ params: { event_id } }, context) => {
    const retried = await retryEvent(context, event_id)
    if (retried === 0) throw notFound('Undelivered event')
    deliver(context)
    return { retried }
  }),

  adminRoute(contract.retryEvents, async ({ body }, context) => {
    const retried = await retryEvents(context, body.states)
    if (retried > 0) deliver(context)
    return { retried }
  }),

  adminRoute(contract.linkCustomer, async ({ params: { client_id }, body }, context) => {
    const linked = found(await linkCustomer(context, client_id, body.customer_id), 'Client')
    if (linked.retried > 0) deliver(context)
    return linked
  }),
]

function deliver({ companyId, db, env, waitUntil }: AdminContext): void {
  waitUntil(startDelivery(env, companyId, db.primaryRegion()))
}

function present({ state, next_attempt_at, ...row }: EventRow) {
  if (state === 'parked' || state === 'dead') return withTimes({ ...row, state, next_attempt_at: null })
  return withTimes({ ...row, state: 'pending' as const, next_attempt_at })
}

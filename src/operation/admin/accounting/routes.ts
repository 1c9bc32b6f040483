import { found, notFound } from '../../../kernel/http/errors.ts'
import { adminList, adminRoute, withTimes } from '../endpoint.ts'
import { listFromEach } from '../queries.ts'
import * as contract from './contract.ts'
import { type EventRow, linkCustomer, listEvents, retryEvents } from './queries.ts'

export const routes = [
  ...[contract.listAllEvents, contract.listEvents].map((list) =>
    adminList(list, listEvents, present, ({ id }) => [id], listFromEach),
  ),

  adminRoute(contract.retryEvent, async ({ params: { event_id } }, context) => {
    const retried = await retryEvents(context, 'id', [event_id])
    if (retried === 0) throw notFound('Undelivered event')
    context.deliverAccounting()
    return { retried }
  }),

  adminRoute(contract.retryEvents, async ({ body }, context) => {
    const retried = await retryEvents(context, 'state', body.states)
    if (retried > 0) context.deliverAccounting()
    return { retried }
  }),

  adminRoute(contract.linkCustomer, async ({ params: { client_id }, body }, context) => {
    const linked = found(await linkCustomer(context, client_id, body.customer_id), 'Client')
    context.deliverAccounting()
    return linked
  }),
]

function present({ state, next_attempt_at, ...row }: EventRow) {
  if (state === 'parked' || state === 'dead') return withTimes({ ...row, state, next_attempt_at: null })
  return withTimes({ ...row, state: 'pending' as const, next_attempt_at })
}

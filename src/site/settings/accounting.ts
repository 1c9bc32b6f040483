import type { ItemOf } from './api.ts'
import { ago, count, time } from './dom.ts'
import type { Action } from './form.ts'
import { type Item, listView, type Scope } from './view.ts'

const STATES: Record<ItemOf<'GET /accounting-events'>['state'], readonly [state: Item['state'], meaning: string]> = {
  parked: [['warn', 'Parked'], 'Waits for a person, or for an edit of the order'],
  dead: [['bad', 'Dead'], 'Was rejected, or has failed too often'],
  pending: [['quiet', 'Pending'], 'Is retried automatically'],
}
const CONDITION = 'the integration is used or connected again, and deliveries are not paused'
export const accounting = listView({
  id: 'accounting',
  title: 'Accounting events',
  lead: 'Changes of orders that have not reached the accounting system.',
  // After an outage many are pending: those that need a person come first.
  read: ({ listByState }) => listByState('GET /accounting-events', STATES, 'pending'),
  head: (scope, events) => [events.some(({ state }) => state !== 'pending') && retryAll(scope)],
  empty: 'All events were delivered.',
  item(event, scope) {
    const { id, order_id, operation, attempts, next_attempt_at, last_error, created_at } = event
    const [state, meaning] = STATES[event.state]
    return {
      title: `Order ${order_id}, ${operation}`,
      state,
      problems: [last_error],
      facts: [
        event.state === 'pending' && next_attempt_at === null ? `Waits until ${CONDITION}` : meaning,
        count(attempts, 'attempt'),
        ['Since ', time(created_at)],
        next_attempt_at !== null && ['Next attempt ', ago(next_attempt_at)],
      ],
      actions: [
        {
          label: 'Retry',
          title: `Retry the event of order ${order_id}?`,
          content: () => ['Sends it again now. It fails in the same way unless its cause has been corrected.'],
          async send() {
            await scope.call('POST /accounting-events/{event_id}/retry', { params: { event_id: id } })
            return (await isHeld(scope)) && `It is sent once ${CONDITION}.`
          },
          done: 'The event is sent again.',
        },
      ],
    }
  },
})

/** Whether pending events are not sent for now. */
async function isHeld({ call }: Scope): Promise<boolean> {
  const { data } = await call('GET /accounting-events', { query: { state: 'pending', per_page: 1 } })
  return data.some(({ next_attempt_at }) => next_attempt_at === null)
}

const retryAll = (scope: Scope): Action => ({
  label: 'Retry all',
  title: 'Retry all events?',
  content: () => ['Sends every parked and dead event again.'],
  async send() {
    await scope.call('POST /accounting-events/retry', { body: { states: ['parked', 'dead'] } })
    return (await isHeld(scope)) && `They are sent once ${CONDITION}.`
  },
  done: 'The events are sent again.',
})

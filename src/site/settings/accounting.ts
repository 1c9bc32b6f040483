import { call, type ItemOf, listAll } from './api.ts'
import { openForm } from './dialog.ts'
import { ago, button, count, el, type Tone, time } from './dom.ts'
import { fold, item, list } from './list.ts'
import type { Scope, View } from './view.ts'

type AccountingEvent = ItemOf<'GET /companies/{company_id}/accounting-events'>

/** Explains each state to a person. */
const STATES: Record<AccountingEvent['state'], readonly [tone: Tone, title: string, meaning: string]> = {
  parked: ['warn', 'Parked', 'Waits for a person, or for an edit of the order'],
  dead: ['bad', 'Dead', 'Was rejected, or has failed too often'],
  pending: ['quiet', 'Pending', 'Is retried automatically'],
}

export const accounting: View = {
  id: 'accounting',
  title: 'Accounting events',
  lead: 'Changes of orders that have not reached the accounting system.',
  async load(scope) {
    const events = await listAll('GET /companies/{company_id}/accounting-events', { params: scope.params })
    const rows = (isPending: boolean) =>
      events.filter(({ state }) => (state === 'pending') === isPending).map((event) => show(scope, event))
    const [pending, needing] = [rows(true), rows(false)]
    return [
      needing.length > 0 && button('Retry all', () => retryAll(scope, needing.length)),
      list('Events that need a person', needing, 'No event needs a person.'),
      pending.length > 0 && fold(`Retried automatically (${pending.length})`, list('Pending events', pending)),
    ]
  },
}

function show(scope: Scope, event: AccountingEvent): HTMLElement {
  const { order_id, operation, state, attempts, next_attempt_at, last_error, created_at } = event
  const [tone, title, meaning] = STATES[state]
  const of = `order ${order_id}`
  return item({
    title: `Order ${order_id}, ${operation}`,
    state: [tone, title],
    problems: [last_error],
    facts: [
      meaning,
      count(attempts, 'attempt'),
      ['Since ', time(created_at)],
      state === 'pending' && next_attempt_at !== null && ['Next attempt ', ago(next_attempt_at)],
    ],
    actions: [button('Retry', () => retry(scope, event), { of })],
  })
}

function retry(scope: Scope, { id, order_id }: AccountingEvent): void {
  openForm({
    title: `Retry the event of order ${order_id}?`,
    submit: 'Retry',
    content: [el('p', {}, 'Sends it again now. It fails in the same way unless its cause has been corrected.')],
    async send() {
      const params = { ...scope.params, event_id: id }
      await call('POST /companies/{company_id}/accounting-events/{event_id}/retry', { params })
      return null
    },
    done: () => scope.refresh('The event is sent again.'),
  })
}

function retryAll(scope: Scope, number: number): void {
  openForm({
    title: `Retry ${count(number, 'event')}?`,
    submit: 'Retry all',
    content: [el('p', {}, 'Sends every parked and dead event again.')],
    async send() {
      await call('POST /companies/{company_id}/accounting-events/retry', {
        params: scope.params,
        body: { states: ['parked', 'dead'] },
      })
      return null
    },
    done: () => scope.refresh('The events are sent again.'),
  })
}

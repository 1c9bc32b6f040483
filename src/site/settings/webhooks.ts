import { EVENT_TYPES } from '../../delivery/webhooks/event-types.ts'
import { call, type ItemOf, listAll, showError } from './api.ts'
import { checkbox, checkboxes, checked, field, openForm, secret } from './dialog.ts'
import { ago, button, type Child, count, el, type Tone, time } from './dom.ts'
import { chips, item, lazyFold, list } from './list.ts'
import type { Scope, View } from './view.ts'

type Endpoint = ItemOf<'GET /companies/{company_id}/webhooks'>
type Delivery = ItemOf<'GET /companies/{company_id}/webhooks/{endpoint_id}/deliveries'>

const DAY_MS = 86_400_000

export const webhooks: View = {
  id: 'webhooks',
  title: 'Webhooks',
  lead: 'Addresses to which the changes of the company are sent, signed by the Standard Webhooks convention.',
  async load(scope) {
    const endpoints = await listAll('GET /companies/{company_id}/webhooks', { params: scope.params })
    const rows = endpoints.map((endpoint) => show(scope, endpoint))
    return [
      button('Add webhook', () => add(scope), { look: 'primary' }),
      list('Webhooks', rows, 'There is no webhook yet.'),
    ]
  },
}

const paramsOf = ({ params }: Scope, { id }: Endpoint) => ({ ...params, endpoint_id: id })

function stateOf({ enabled, replaying }: Endpoint): readonly [Tone, string] {
  if (!enabled) return ['bad', 'Disabled']
  return replaying ? ['quiet', 'Replaying'] : ['good', 'Enabled']
}

function show(scope: Scope, endpoint: Endpoint): HTMLElement {
  const { id, url, event_types, disabled_reason, behind, removed_changes, created_at } = endpoint
  const isAll = event_types.length === EVENT_TYPES.length
  const loadDeliveries = () => listDeliveries(paramsOf(scope, endpoint)).catch(showError)
  return item({
    title: url,
    state: stateOf(endpoint),
    problems: [
      disabled_reason,
      removed_changes > 0 && `${count(removed_changes, 'change')} will not be delivered: read the lists again.`,
    ],
    facts: [
      behind === 0 ? 'Up to date' : `${count(behind, 'change')} behind`,
      isAll && 'All events',
      ['Added ', time(created_at)],
      el('code', {}, id),
    ],
    more: [!isAll && chips(event_types), lazyFold('Failed deliveries', loadDeliveries)],
    actions: [
      button('Edit', () => edit(scope, endpoint), { of: url }),
      button('Replay', () => replay(scope, endpoint), { of: url }),
      button('New secret', () => rotate(scope, endpoint), { of: url }),
      button('Delete', () => remove(scope, endpoint), { of: url, look: 'danger' }),
    ],
  })
}

/** Lists the failed changes and those queued behind them. */
async function listDeliveries(params: ReturnType<typeof paramsOf>): Promise<Child> {
  const path = 'GET /companies/{company_id}/webhooks/{endpoint_id}/deliveries'
  const { data } = await call(path, { params, query: { per_page: 20 } })
  if (data.length === 0) return el('p', { class: 'quiet' }, 'None has failed.')
  const row = ({ sequence, event_type, entity_id, attempts, next_attempt_at, last_error }: Delivery) =>
    el(
      'li',
      {},
      el('code', {}, event_type ?? `change ${sequence}`),
      ` of ${entity_id}: `,
      next_attempt_at === null
        ? 'waits for the one before it'
        : [`failed ${count(attempts, 'time')}, next attempt `, ago(next_attempt_at)],
      last_error !== null && el('p', { class: 'problem' }, last_error),
    )
  return el('ul', { class: 'deliveries' }, data.map(row))
}

function fields(url: string, chosen: readonly string[]): Child {
  const input = el('input', {
    name: 'url',
    type: 'url',
    required: true,
    maxlength: 2048,
    value: url,
    placeholder: 'https://',
  })
  return [
    field('Address', input, 'An https address that is reachable from the internet.'),
    el('fieldset', {}, el('legend', {}, 'Events'), checkboxes('event_types', EVENT_TYPES, chosen)),
  ]
}

const readFields = (data: FormData) => ({
  url: String(data.get('url')),
  event_types: checked(data, 'event_types', EVENT_TYPES),
})

function add(scope: Scope): void {
  openForm({
    title: 'Add webhook',
    submit: 'Add webhook',
    content: fields('', EVENT_TYPES),
    async send(data) {
      const body = readFields(data)
      return reveal(await call('POST /companies/{company_id}/webhooks', { params: scope.params, body }))
    },
    done: () => scope.refresh('The webhook was added.'),
  })
}

function edit(scope: Scope, endpoint: Endpoint): void {
  const { url, event_types, enabled } = endpoint
  openForm({
    title: 'Edit webhook',
    submit: 'Save',
    content: [fields(url, event_types), checkbox('enabled', 'yes', 'Deliver changes', enabled)],
    async send(data) {
      const body = { ...readFields(data), enabled: data.has('enabled') }
      await call('PATCH /companies/{company_id}/webhooks/{endpoint_id}', { params: paramsOf(scope, endpoint), body })
      return null
    },
    done: () => scope.refresh('The webhook was changed.'),
  })
}

function rotate(scope: Scope, endpoint: Endpoint): void {
  const { url } = endpoint
  const params = paramsOf(scope, endpoint)
  openForm({
    title: 'Create a new signing secret?',
    submit: 'Create secret',
    content: [el('p', {}, url), el('p', {}, 'For 24 hours every message is signed with the previous secret too.')],
    send: async () =>
      reveal(await call('POST /companies/{company_id}/webhooks/{endpoint_id}/rotate-secret', { params })),
    done: () => scope.refresh('The webhook has a new secret.'),
  })
}

function reveal({ secret: text }: { secret: string }): Child {
  return [
    el('p', {}, el('strong', {}, 'Copy the signing secret now.'), ' It is not shown again.'),
    secret('Signing secret', text),
  ]
}

function replay(scope: Scope, endpoint: Endpoint): void {
  const { url } = endpoint
  // The field takes a time in the reader's zone.
  const local = (ms: number) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
  const input = (ms: number) => el('input', { type: 'datetime-local', required: true, value: local(ms) })
  const [from, to] = [input(Date.now() - DAY_MS), input(Date.now())]
  openForm({
    title: 'Replay changes',
    submit: 'Replay',
    content: [
      el('p', {}, url),
      el('p', {}, 'Sends the changes of a time span again, before new ones.'),
      field('From', from),
      field('To', to),
    ],
    async send() {
      const utc = ({ value }: HTMLInputElement) => new Date(value).toISOString()
      await call('POST /companies/{company_id}/webhooks/{endpoint_id}/replay', {
        params: paramsOf(scope, endpoint),
        body: { from: utc(from), to: utc(to) },
      })
      return null
    },
    done: () => scope.refresh('The changes are sent again.'),
  })
}

function remove(scope: Scope, endpoint: Endpoint): void {
  const { url } = endpoint
  openForm({
    title: 'Delete the webhook?',
    submit: 'Delete webhook',
    isDangerous: true,
    content: [el('p', {}, url), el('p', {}, 'No change is sent there any more. What waits is discarded.')],
    async send() {
      await call('DELETE /companies/{company_id}/webhooks/{endpoint_id}', { params: paramsOf(scope, endpoint) })
      return null
    },
    done: () => scope.refresh('The webhook was deleted.'),
  })
}

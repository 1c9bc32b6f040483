import { EVENT_TYPES } from '../../delivery/webhooks/event-types.ts'
import { type ItemOf, showLoaded } from './api.ts'
import { ago, type Child, chips, count, DAY_MS, el, time } from './dom.ts'
import { type Action, checkbox, checkboxes, checked, fieldset, input, secret, text } from './form.ts'
import { type Item, listView, type Scope } from './view.ts'

type Endpoint = ItemOf<'GET /webhooks'>
type Delivery = ItemOf<'GET /webhooks/{endpoint_id}/deliveries'>

export const webhooks = listView({
  id: 'webhooks',
  title: 'Webhooks',
  lead: 'Addresses to which the changes of the company are sent, signed by the Standard Webhooks convention.',
  read: ({ list }) => list('GET /webhooks'),
  head: (scope) => [add(scope)],
  empty: 'There is no webhook yet.',
  item(endpoint, scope) {
    const { id, url, event_types, disabled_reason, behind, waiting, removed_changes, created_at } = endpoint
    const isAll = event_types.length === EVENT_TYPES.length
    return {
      title: url,
      state: stateOf(endpoint),
      problems: [
        disabled_reason,
        removed_changes > 0 && `${count(removed_changes, 'change')} will not be delivered: read the lists again.`,
      ],
      facts: [
        behind > 0 && `${count(behind, 'change')} behind`,
        waiting > 0 && `${count(waiting, 'change')} ${waiting === 1 ? 'waits' : 'wait'} for a retry`,
        behind + waiting === 0 && 'Up to date',
        isAll && 'All events',
        ['Added ', time(created_at)],
        el('code', id),
      ],
      more: [!isAll && chips(event_types), foldDeliveries(scope, endpoint)],
      actions: [edit(scope, endpoint), replay(scope, endpoint), rotate(scope, endpoint), remove(scope, endpoint)],
    }
  },
})

function stateOf({ enabled, replaying }: Endpoint): Item['state'] {
  if (!enabled) return ['bad', 'Disabled']
  return replaying ? ['quiet', 'Replaying'] : ['good', 'Enabled']
}

function foldDeliveries(scope: Scope, endpoint: Endpoint): HTMLElement {
  const content = el('div')
  const toggle = () => details.open && showLoaded(content, listDeliveries(scope, endpoint))
  const details: HTMLDetailsElement = el('details', { toggle }, el('summary', 'Failed deliveries'), content)
  return details
}

async function listDeliveries({ call }: Scope, { id, enabled }: Endpoint): Promise<Child> {
  const request = { params: { endpoint_id: id }, query: { per_page: 20 } }
  const { data, pagination } = await call('GET /webhooks/{endpoint_id}/deliveries', request)
  const shown = data.map((delivery) => showDelivery(delivery, enabled))
  return data.length === 0
    ? el('p', { class: 'quiet' }, 'None has failed.')
    : el('ul', { class: 'deliveries' }, shown, pagination.has_more && el('li', 'There are more.'))
}

function showDelivery(delivery: Delivery, isRetried: boolean): HTMLElement {
  const { sequence, event_type, entity_id, attempts, next_attempt_at, last_error } = delivery
  const what = el('code', event_type ?? `change ${sequence}`)
  const state =
    next_attempt_at === null
      ? 'waits for the one before it'
      : [`failed ${count(attempts, 'time')}`, isRetried && [', next attempt ', ago(next_attempt_at)]]
  return el('li', what, ` of ${entity_id}: `, state, last_error !== null && el('p', { class: 'problem' }, last_error))
}

function fields(value: string, chosen: readonly string[]): Child {
  const attributes = { name: 'url', type: 'url', required: true, maxlength: 2048, value, placeholder: 'https://' }
  return [
    input('Address', attributes, 'An https address that is reachable from the internet.'),
    fieldset('Events', checkboxes('event_types', EVENT_TYPES, chosen)),
  ]
}

const readFields = (data: FormData) => ({
  url: text(data, 'url'),
  event_types: checked(data, 'event_types', EVENT_TYPES),
})

const add = ({ call }: Scope): Action => ({
  label: 'Add webhook',
  look: 'primary',
  content: () => [fields('', EVENT_TYPES)],
  send: async (data, reveal) => reveal(show(await call('POST /webhooks', { body: readFields(data) }))),
  done: 'The webhook was added.',
})

const edit = ({ call }: Scope, { id, url, event_types, enabled }: Endpoint): Action => ({
  label: 'Edit',
  title: 'Edit webhook',
  submit: 'Save',
  content: () => [fields(url, event_types), checkbox('enabled', 'yes', 'Deliver changes', enabled)],
  send(data) {
    const { url: address, event_types: chosen } = readFields(data)
    const isEnabled = data.has('enabled')
    // Another caller may have changed them since they were read, and an address is refused while it does not resolve.
    const body = {
      ...(address !== url && { url: address }),
      ...(chosen.join() !== event_types.join() && { event_types: chosen }),
      ...(isEnabled !== enabled && { enabled: isEnabled }),
    }
    if (Object.keys(body).length === 0) return Promise.resolve('Nothing was changed.')
    return call('PATCH /webhooks/{endpoint_id}', { params: { endpoint_id: id }, body })
  },
  done: 'The webhook was changed.',
})

const rotate = ({ call }: Scope, { id, url }: Endpoint): Action => ({
  label: 'New secret',
  title: 'Create a new signing secret?',
  submit: 'Create secret',
  content: () => [url, 'For 24 hours every message is signed with the previous secret too.'],
  send: async (_, reveal) =>
    reveal(show(await call('POST /webhooks/{endpoint_id}/rotate-secret', { params: { endpoint_id: id } }))),
  done: 'The webhook has a new secret.',
})

const show = (created: { secret: string }) => secret('signing secret', 'Signing secret', created.secret)

function replay({ call }: Scope, { id, url, enabled }: Endpoint): Action {
  // The fields have times in the reader's zone.
  const local = (ms: number) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
  const attributes = (name: string, ms: number) => ({
    name,
    type: 'datetime-local',
    required: true,
    max: '9999-12-31T23:59',
    value: local(ms),
  })
  const utc = (data: FormData, name: string) => new Date(text(data, name)).toISOString()
  return {
    label: 'Replay',
    title: 'Replay changes',
    content: () => [
      url,
      'Sends the changes of a time span again, before new ones.',
      input('From', attributes('from', Date.now() - DAY_MS)),
      // The changes of the present minute are meant too.
      input('To', attributes('to', Date.now() + 60_000)),
    ],
    send(data) {
      const body = { from: utc(data, 'from'), to: utc(data, 'to') }
      return call('POST /webhooks/{endpoint_id}/replay', { params: { endpoint_id: id }, body })
    },
    done: enabled ? 'The changes are sent again.' : 'They are sent once the webhook is enabled.',
  }
}

const remove = ({ call }: Scope, { id, url }: Endpoint): Action => ({
  label: 'Delete',
  look: 'danger',
  title: 'Delete the webhook?',
  submit: 'Delete webhook',
  content: () => [url, 'No change is sent there any more. What waits is discarded.'],
  send: () => call('DELETE /webhooks/{endpoint_id}', { params: { endpoint_id: id } }),
  done: 'The webhook was deleted.',
})

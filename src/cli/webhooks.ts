import { EVENT_TYPES } from '../delivery/webhooks/event-types.ts'
import { idText } from '../kernel/api/contract.ts'
import * as api from '../operation/admin/webhooks/contract.ts'
import { type Argument, onlyOne, optional, required, runCommand, someOf, TEXT } from './command.ts'
import { listing, request, shortTime, time } from './operator.ts'

const HELP = `Manages the addresses to which a company's changes are delivered, signed by the Standard Webhooks convention.

'create' prints the id and the signing secret, which is shown once; delivered is what changes from then on. 'list'
shows how many changes an endpoint is behind, and why the service disabled it: a delivery failed for three days or was
answered with 410, or the first 20 attempts at the address failed. 'update --enable' goes on where it stopped.
It also retries at once what an enabled endpoint failed to take.
'rotate-secret' prints a new secret; the previous one also signs for 24 hours. 'replay' delivers the changes of a time
span again, before new ones. 'deliveries' lists the changes that failed, and those that wait behind them.

  --company ID  of the company, as in its seed file
  --url URL     https, of a host with public addresses only; locally also http on a loopback address
  --events a,b  some of those below; by default all
  --from TIME   a date (2027-01-31, UTC) or a date-time with an offset
  --to TIME     the same; a date is included

Events:
  ${EVENT_TYPES.slice(0, 6).join(', ')},
  ${EVENT_TYPES.slice(6).join(', ')}

The delivery to a new endpoint starts within a minute where 'dev' runs on the data, within 5 minutes where the service
is deployed; from then on with each change.`

const ID = { ...required('ID', api.readWebhook.params.shape.endpoint_id), find: api.listAllWebhooks }
const ENABLED: Argument<boolean | undefined> = {
  usage: '[--enable | --disable]',
  read: (given) => onlyOne(given) && given[0]?.name === '--enable',
}
const EVENTS = optional('--events a,b', someOf(EVENT_TYPES))
const FROM = required('--from TIME', time('start'))
const TO = required('--to TIME', time('end'))

await runCommand('webhooks', HELP, {
  create: request({
    contract: api.createWebhook,
    arguments: { company_id: required('--company ID', idText), url: required('--url URL', TEXT), event_types: EVENTS },
    print: ({ id, secret }) => `Id      ${id}\nSecret  ${secret}`,
  }),
  list: listing({
    contract: api.listAllWebhooks,
    arguments: { company_id: optional('--company ID', idText) },
    columns: {
      ID: 'id',
      COMPANY: 'company_id',
      STATE: ({ enabled, replaying }) => (enabled ? (replaying ? 'replaying' : 'enabled') : 'disabled'),
      BEHIND: 'behind',
      CREATED: 'created_at',
      URL: 'url',
      EVENTS: ({ event_types }) => (event_types.length === EVENT_TYPES.length ? 'all' : event_types),
      REASON: 'disabled_reason',
    },
    empty: 'No endpoints.',
  }),
  update: request({
    contract: api.updateWebhook,
    arguments: { endpoint_id: ID, url: optional('--url URL', TEXT), event_types: EVENTS, enabled: ENABLED },
    print: ({ id, removed_changes: removed, ...endpoint }, { enabled, url }, { deliveries }) => {
      const lost = enabled && removed > 0 ? ` ${removed} older changes are no longer kept: read the lists again.` : ''
      const isDue = endpoint.enabled && (enabled || url !== undefined)
      return `Updated ${id}.${lost}${isDue ? ` Waiting changes are delivered ${deliveries}` : ''}`
    },
  }),
  'rotate-secret': request({
    contract: api.rotateWebhookSecret,
    arguments: { endpoint_id: ID },
    print: ({ secret }) => `Secret  ${secret}`,
  }),
  delete: request({
    contract: api.deleteWebhook,
    arguments: { endpoint_id: ID },
    print: ({ id, url }) => `Deleted ${id} (${url}).`,
  }),
  replay: request({
    contract: api.replayWebhook,
    arguments: { endpoint_id: ID, from: FROM, to: TO },
    print: ({ id, enabled }, { from, to }, { deliveries }) => {
      const when = enabled ? deliveries : 'once the endpoint is enabled.'
      return `The changes from ${shortTime(from)} to ${shortTime(to)} are delivered to ${id} again ${when}`
    },
  }),
  deliveries: listing({
    contract: api.listWebhookDeliveries,
    arguments: { endpoint_id: ID },
    columns: {
      CHANGE: 'sequence',
      EVENT: 'event_type',
      OBJECT: 'entity_id',
      FAILED: 'attempts',
      'NEXT TRY': ({ next_attempt_at }) => next_attempt_at ?? 'waits',
      'LAST ERROR': 'last_error',
    },
    limit: 500,
    empty: 'No deliveries wait.',
  }),
})

import * as z from 'zod/mini'
import { EVENT_TYPES } from '../delivery/webhooks/message.ts'
import { idText, isoTime } from '../kernel/api/contract.ts'
import * as api from '../operation/admin/webhooks/contract.ts'
import { type AdminApi, AdminError, whenMissing } from './admin-api.ts'
import {
  CommandError,
  FLAG,
  formatTable,
  print,
  readCommandLine,
  readValue,
  runActions,
  shortTime,
  TEXT,
  toLine,
} from './command.ts'
import { connect, PLACE, readPlace } from './place.ts'

const PREFIX = 'npm run webhooks --'
const USAGE = {
  create: `${PREFIX} create --company ID --url URL [--events a,b] ${PLACE.usage}`,
  list: `${PREFIX} list [--company ID] ${PLACE.usage}`,
  update: `${PREFIX} update ID [--url URL] [--events a,b] [--enable | --disable] ${PLACE.usage}`,
  'rotate-secret': `${PREFIX} rotate-secret ID ${PLACE.usage}`,
  delete: `${PREFIX} delete ID ${PLACE.usage}`,
  replay: `${PREFIX} replay ID --from TIME --to TIME ${PLACE.usage}`,
  deliveries: `${PREFIX} deliveries ID ${PLACE.usage}`,
}
const HELP = `${Object.values(USAGE).join('\n')}

Manages the addresses to which a company's changes are delivered, signed by the Standard Webhooks convention.

'create' prints the id and the signing secret, which is shown once; delivered is what changes from then on. 'list'
shows how many changes an endpoint is behind, and why the service disabled it: a delivery failed for three days, or was
answered with 410. 'update --enable' goes on where it stopped. 'rotate-secret' prints a new secret; the previous one
also signs for 24 hours. 'replay' delivers the changes of a time span again, before new ones. 'deliveries' lists the
changes that failed, and those that wait behind them.

  --company ID  of the company, as in its seed file
  --url URL     https, of a host with public addresses only; locally also http on a loopback address
  --events a,b  some of those below; by default all
  --from TIME   a date (2026-01-31, UTC) or a date-time with an offset
  --to TIME     the same; a date is included

${PLACE.help}

Events:
  ${EVENT_TYPES.slice(0, 6).join(', ')},
  ${EVENT_TYPES.slice(6).join(', ')}

The delivery to a new endpoint starts within a minute where 'dev' runs on the data, within 5 minutes where the service
is deployed; from then on with each change.`

const DAY_MS = 86_400_000
const LIST_LIMIT = 500
const ID = /^we_[0-9a-f]{18}$/
const ONE = { min: 1, max: 1 }
const SECONDS = '2026-01-31T12:00:00'.length

const ACTIONS = `${PREFIX} create | list | update ID | rotate-secret ID | delete ID | replay ID | deliveries ID`
await runActions(ACTIONS, HELP, {
  create,
  list,
  update,
  'rotate-secret': rotate,
  delete: remove,
  replay,
  deliveries: listDeliveries,
})

async function create(args: string[]): Promise<void> {
  const options = { ...PLACE.options, company: TEXT, url: TEXT, events: TEXT }
  const { values } = readCommandLine(args, USAGE.create, options)
  const { company, url, events } = values
  if (company === undefined) throw new CommandError(`Option '--company' is required. Usage: ${USAGE.create}`)
  if (url === undefined) throw new CommandError(`Option '--url' is required. Usage: ${USAGE.create}`)
  const company_id = readValue(idText, company, '--company')
  const body = { url, event_types: readEvents(events) }
  await using service = await connect(readPlace(values))
  const { id, secret } = await service
    .call(api.createWebhook, { params: { company_id }, body })
    .catch(whenMissing(`There is no company ${company}.`))
    .catch(explainUrl)
  print(`Id      ${id}\nSecret  ${secret}`)
}

/** Prints a table of endpoints, without their secrets. */
async function list(args: string[]): Promise<void> {
  const { values } = readCommandLine(args, USAGE.list, { ...PLACE.options, company: TEXT })
  const company_id = values.company === undefined ? undefined : readValue(idText, values.company, '--company')
  await using service = await connect(readPlace(values))
  const headings = ['ID', 'COMPANY', 'STATE', 'BEHIND', 'CREATED', 'URL', 'EVENTS', 'REASON']
  const rows: (string | number)[][] = []
  for await (const endpoint of service.list(api.listAllWebhooks, { query: { company_id } })) {
    rows.push([
      endpoint.id,
      endpoint.company_id,
      endpoint.enabled ? (endpoint.replaying ? 'replaying' : 'enabled') : 'disabled',
      endpoint.behind,
      shortTime(endpoint.created_at, SECONDS),
      endpoint.url,
      endpoint.event_types.length === EVENT_TYPES.length ? 'all' : endpoint.event_types.join(),
      toLine(endpoint.disabled_reason ?? '-'),
    ])
  }
  print(rows.length === 0 ? 'No endpoints.' : formatTable(headings, rows))
}

/** Changes an endpoint. What waits for a retry is delivered at once when it is enabled or has a new address. */
async function update(args: string[]): Promise<void> {
  const options = { ...PLACE.options, url: TEXT, events: TEXT, enable: FLAG, disable: FLAG }
  const { values, positionals } = readCommandLine(args, USAGE.update, options, ONE)
  const { url, events, enable = false, disable = false } = values
  if (enable && disable) throw new CommandError("Options '--enable' and '--disable' cannot be used together.")
  if (url === undefined && events === undefined && !enable && !disable) {
    throw new CommandError(`There is nothing to change. Usage: ${USAGE.update}`)
  }
  const body = {
    url,
    event_types: events === undefined ? undefined : readEvents(events),
    enabled: enable || disable ? enable : undefined,
  }
  await using service = await connect(readPlace(values))
  const { params } = await findEndpoint(service, positionals[0])
  const { removed_changes } = await service.call(api.updateWebhook, { params, body }).catch(explainUrl)
  const gap =
    enable && removed_changes > 0 ? ` ${removed_changes} older changes are no longer kept: read the lists again.` : ''
  const isDue = enable || url !== undefined
  print(`Updated ${params.endpoint_id}.${gap}${isDue ? ` What waits is delivered ${service.deliveries}` : ''}`)
}

/** Prints a new secret. */
async function rotate(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE['rotate-secret'], PLACE.options, ONE)
  await using service = await connect(readPlace(values))
  const { params } = await findEndpoint(service, positionals[0])
  const { secret } = await service.call(api.rotateWebhookSecret, { params })
  print(`Secret  ${secret}`)
}

async function remove(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.delete, PLACE.options, ONE)
  await using service = await connect(readPlace(values))
  const { params, url } = await findEndpoint(service, positionals[0])
  await service.call(api.deleteWebhook, { params })
  print(`Deleted ${params.endpoint_id} (${url}).`)
}

/** Delivers the changes of a time span again. */
async function replay(args: string[]): Promise<void> {
  const options = { ...PLACE.options, from: TEXT, to: TEXT }
  const { values, positionals } = readCommandLine(args, USAGE.replay, options, ONE)
  if (values.from === undefined) throw new CommandError(`Option '--from' is required. Usage: ${USAGE.replay}`)
  if (values.to === undefined) throw new CommandError(`Option '--to' is required. Usage: ${USAGE.replay}`)
  const from = readValue(time(0), values.from, '--from')
  const to = readValue(time(DAY_MS), values.to, '--to')
  if (from >= to) throw new CommandError('--from must be before --to.')
  await using service = await connect(readPlace(values))
  const { params, enabled } = await findEndpoint(service, positionals[0])
  const body = { from: isoTime(from), to: isoTime(to) }
  await service.call(api.replayWebhook, { params, body })
  const when = enabled ? service.deliveries : 'once the endpoint is enabled.'
  const span = `from ${shortTime(body.from, SECONDS)} to ${shortTime(body.to, SECONDS)}`
  print(`The changes ${span} are delivered to ${params.endpoint_id} again ${when}`)
}

/** Prints the changes that failed and those that wait behind them, at most 500. */
async function listDeliveries(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.deliveries, PLACE.options, ONE)
  await using service = await connect(readPlace(values))
  const { params } = await findEndpoint(service, positionals[0])
  const rows: (string | number)[][] = []
  for await (const delivery of service.list(api.listWebhookDeliveries, { params })) {
    if (rows.length === LIST_LIMIT) break
    const { sequence, event_type, entity_id, attempts, next_attempt_at, last_error } = delivery
    const next = next_attempt_at === null ? 'waits' : shortTime(next_attempt_at, SECONDS)
    rows.push([sequence, event_type ?? '-', entity_id, attempts, next, toLine(last_error ?? '-')])
  }
  const headings = ['CHANGE', 'EVENT', 'OBJECT', 'FAILED', 'NEXT TRY', 'LAST ERROR']
  print(rows.length === 0 ? 'No deliveries wait.' : formatTable(headings, rows))
  if (rows.length === LIST_LIMIT) print('… and possibly more.')
}

/** The path of an endpoint of whichever company, and what else is printed of it. */
async function findEndpoint(service: AdminApi, id = '') {
  const { data } = ID.test(id) ? await service.call(api.listAllWebhooks, { query: { id } }) : { data: [] }
  const [endpoint] = data
  if (!endpoint) throw new CommandError(`There is no endpoint '${id}'.`)
  const { company_id, url, enabled } = endpoint
  return { params: { company_id, endpoint_id: id }, url, enabled }
}

/** For `catch`: an address that is refused, in the words of the option. */
function explainUrl(error: unknown): never {
  const issue = error instanceof AdminError && error.issues.find(({ path }) => path === 'url')
  throw issue ? new CommandError(`--url ${issue.message}.`) : error
}

function readEvents(text = EVENT_TYPES.join()): (typeof EVENT_TYPES)[number][] {
  const names = text.split(',').map((part) => part.trim())
  const unknown = names.find((name) => !EVENT_TYPES.some((type) => type === name))
  if (unknown === undefined) return EVENT_TYPES.filter((type) => names.includes(type))
  throw new CommandError(`--events: '${unknown}' is none of ${EVENT_TYPES.join(', ')}.`)
}

/** A date-time, or a date: its beginning in UTC and `dateMs` later. */
function time(dateMs: number) {
  const start = (date: string) => Date.parse(date) + dateMs
  return z.union(
    [z.pipe(z.iso.date(), z.transform(start)), z.pipe(z.iso.datetime({ offset: true }), z.transform(Date.parse))],
    'must be a date (2026-01-31) or a date-time with an offset',
  )
}

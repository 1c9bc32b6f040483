import { existsSync } from 'node:fs'
import { idText, type ResponseBody } from '../kernel/api/contract.ts'
import * as api from '../operation/admin/accounting/contract.ts'
import { listCompanies, readCompany } from '../operation/admin/companies/contract.ts'
import { listIntegrations } from '../operation/admin/integrations/contract.ts'
import { accountingId } from '../operation/copies/seed/integrations-file.ts'
import { type AdminApi, AdminError, whenMissing } from './admin-api.ts'
import {
  CommandError,
  FLAG,
  formatTable,
  print,
  readCommandLine,
  readValue,
  resolvePath,
  runActions,
  shortTime,
  TEXT,
  toLine,
} from './command.ts'
import { connect, PLACE, readPlace } from './place.ts'

/** An event that is being sent is listed as `pending`. */
const STATES = ['pending', 'parked', 'dead'] as const
const PREFIX = 'npm run accounting --'
const USAGE = {
  list: `${PREFIX} list [--state ${STATES.join('|')}] [--company ID] ${PLACE.usage}`,
  retry: `${PREFIX} retry ID | --dead [--company ID] ${PLACE.usage}`,
  'link-customer': `${PREFIX} link-customer CLIENT_ID CUSTOMER_ID [--company ID] ${PLACE.usage}`,
}
const HELP = `${Object.values(USAGE).join('\n')}

Lists and retries undelivered accounting events: 'pending' ones are retried automatically, 'parked' ones wait for a
person or an edit of the order, 'dead' ones were rejected or have failed too often. 'retry' sends one of them again, or
all dead ones, and ends a stop or pause of their company.

'link-customer' assigns a client's invoices to the customer with that id in the accounting system, instead of one found
or created by the client's name, and sends the client's parked and dead events again. The company may be left out where
there is only one.

--state takes either a state of events (${STATES.join(', ')}) or the directory that holds the data; give it twice for
both. A directory of such a name is written with a path: ./dead.
A service sends the events at once. Without one, 'npm run dev' on the data sends them when it runs.

${PLACE.help}`

const OPTIONS = { state: { type: 'string', multiple: true }, remote: TEXT, company: TEXT, dead: FLAG } as const
const HEADINGS = ['ID', 'COMPANY', 'ORDER', 'CHANGE', 'STATE', 'TRIES', 'NEXT TRY', 'LAST ERROR']
const LIST_LIMIT = 500
const SECONDS = '2026-01-31T12:00:00'.length

const ACTIONS = `${PREFIX} list | retry ID | retry --dead | link-customer CLIENT_ID CUSTOMER_ID`
await runActions(ACTIONS, HELP, { list, retry, 'link-customer': linkCustomer })

type Integration = ResponseBody<typeof listIntegrations>['data'][number]

/** Prints the undelivered events, oldest first, at most 500, and which of their companies are stopped or paused. */
async function list(args: string[]): Promise<void> {
  const { place, state, companyId } = readAction('list', args)
  await using service = await connect(place)
  const events: ResponseBody<typeof api.listAllEvents>['data'] = []
  for await (const event of service.list(api.listAllEvents, { query: { state, company_id: companyId } })) {
    events.push(event)
    if (events.length > LIST_LIMIT) break
  }
  const shown = events.slice(0, LIST_LIMIT)
  const companyIds = new Set([...shown.map(({ company_id }) => company_id), ...(companyId ? [companyId] : [])])
  const blocked = new Map<number, Integration>()
  for (const id of companyIds) {
    const integration = await findBlocked(service, id)
    if (integration) blocked.set(id, integration)
  }
  const now = new Date().toISOString()
  const rows = shown.map(({ id, company_id, order_id, operation, state, attempts, next_attempt_at, last_error }) => {
    const company = blocked.get(company_id)
    const at = [next_attempt_at, company?.paused_until ?? ''].sort().at(-1) ?? ''
    const due = at <= now ? 'now' : shortTime(at, SECONDS)
    const next = company?.state === 'reconnect_needed' ? 'stopped' : due
    const progress = next_attempt_at === null ? [state, attempts, '-'] : [state, attempts, next]
    return [id, company_id, order_id, operation, ...progress, toLine(last_error ?? '-')]
  })
  print(rows.length === 0 ? 'No events.' : formatTable(HEADINGS, rows))
  if (events.length > shown.length) print('… and more.')
  for (const [id, { state, paused_until, reason }] of blocked) {
    const status =
      state === 'paused'
        ? `paused until ${shortTime(paused_until, SECONDS)}`
        : 'stopped until its integration is changed (with npm run seed)'
    print(`Company ${id} is ${status}: ${toLine(reason ?? 'unknown reason')}`)
  }
}

/** A company's accounting system, where it is not called now: stopped until its integration is changed, or paused. */
async function findBlocked(service: AdminApi, company_id: number): Promise<Integration | undefined> {
  const missing = (error: unknown) => {
    if (error instanceof AdminError && error.status === 404) return { data: [] }
    throw error
  }
  const { data } = await service.call(listIntegrations, { params: { company_id } }).catch(missing)
  return data.find(({ kind, state }) => kind === 'accounting_sync' && /^(paused|reconnect_needed)$/.test(state))
}

/** Sends one undelivered event, or all dead ones, again. */
async function retry(args: string[]): Promise<void> {
  const { place, companyId, dead, positionals } = readAction('retry', args, { min: 0, max: 1 })
  const [word] = positionals
  if (dead === (word !== undefined)) throw new CommandError(`Usage: ${USAGE.retry}`)
  const id = word === undefined ? null : readValue(idText, word, 'ID')
  await using service = await connect(place)
  if (id === null) {
    const count = await retryDead(service, companyId)
    if (count === 0) return print('No dead events.')
    return print(`${count} dead ${count === 1 ? 'event is' : 'events are'} sent again ${service.deliveries}`)
  }
  const missing = `There is no undelivered event ${id}.`
  const { data } = await service.call(api.listAllEvents, { query: { id, company_id: companyId } })
  const [event, another] = data
  if (!event) throw new CommandError(missing)
  if (another) throw new CommandError(`Event ${id} is there in several databases: say which one with --company ID.`)
  const { company_id, order_id } = event
  await service.call(api.retryEvent, { params: { company_id, event_id: id } }).catch(whenMissing(missing))
  print(`Event ${id} (order ${order_id} of company ${company_id}) is sent again ${service.deliveries}`)
}

/** @returns how many events */
async function retryDead(service: AdminApi, companyId: number | undefined): Promise<number> {
  const companyIds = new Set<number>()
  const query = { state: 'dead', company_id: companyId }
  for await (const { company_id } of service.list(api.listAllEvents, { query })) companyIds.add(company_id)
  let count = 0
  for (const company_id of companyIds) {
    const { retried } = await service.call(api.retryEvents, { params: { company_id }, body: { states: ['dead'] } })
    count += retried
  }
  return count
}

/** Links a client to a customer of the accounting system and sends the client's parked and dead events again. */
async function linkCustomer(args: string[]): Promise<void> {
  const { place, companyId: given, positionals } = readAction('link-customer', args, { min: 2, max: 2 })
  const [client = '', customer = ''] = positionals
  const client_id = readValue(idText, client, 'CLIENT_ID')
  const customer_id = readValue(accountingId, customer, 'CUSTOMER_ID')
  await using service = await connect(place)
  const company_id = await findCompany(service, given)
  const { company_name, retried } = await service
    .call(api.linkCustomer, { params: { company_id, client_id }, body: { customer_id } })
    .catch(whenMissing(`Company ${company_id} has no client ${client_id}.`))
  const linked = `Client ${client_id} (${toLine(company_name)}) of company ${company_id} is linked to customer ${customer}.`
  if (retried === 0) return print(linked)
  print(`${linked} ${retried} ${retried === 1 ? 'event is' : 'events are'} sent again ${service.deliveries}`)
}

/** The given company, else the only one. */
async function findCompany(service: AdminApi, given: number | undefined): Promise<number> {
  if (given !== undefined) {
    const request = { params: { company_id: given } }
    const { id } = await service.call(readCompany, request).catch(whenMissing(`There is no company ${given}.`))
    return id
  }
  const { data } = await service.call(listCompanies, { query: { per_page: 2 } })
  const [company, another] = data
  if (!company) throw new CommandError('There is no company.')
  if (another) throw new CommandError('There are several companies: say which one with --company ID.')
  return company.id
}

/**
 * Reads what the actions have in common. `--state` is a state of events, for `list` only, or else a directory, which must
 * exist: a word that is neither is a mistake.
 */
function readAction(action: keyof typeof USAGE, args: string[], count?: { min: number; max: number }) {
  const usage = USAGE[action]
  const { values, positionals } = readCommandLine(args, usage, OPTIONS, count)
  const { state: given = [], remote, company, dead = false } = values
  const state = STATES.findLast((each) => given.includes(each))
  const directory = given.findLast((text) => !STATES.some((each) => each === text))
  if (state !== undefined && action !== 'list') {
    throw new CommandError(`Option '--state ${state}' is only one of list. Usage: ${usage}`)
  }
  if (dead && action !== 'retry') throw new CommandError(`Option '--dead' is only one of retry. Usage: ${usage}`)
  if (directory !== undefined && !existsSync(resolvePath(directory))) {
    throw new CommandError(`--state '${directory}' is none of ${STATES.join(', ')}, and no directory.`)
  }
  const companyId = company === undefined ? undefined : readValue(idText, company, '--company')
  return { place: readPlace({ state: directory, remote }), state, companyId, dead, positionals }
}

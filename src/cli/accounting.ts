import { idText, type ResponseBody } from '../kernel/api/contract.ts'
import * as api from '../operation/admin/accounting/contract.ts'
import { listCompanies, readCompany } from '../operation/admin/companies/contract.ts'
import { listIntegrations } from '../operation/admin/integrations/contract.ts'
import { type AdminApi, AdminError, whenMissing } from './admin-api.ts'
import { type Argument, CommandError, optional, print, required, runActions } from './command.ts'
import { collect, formatTable, operation, plural, shortTime, toLine } from './operator.ts'
import { TARGET_HELP, target } from './target.ts'

/** An event that is being sent is listed as `pending`. */
const STATES = ['pending', 'parked', 'dead'] as const
const HELP = `Lists and retries undelivered accounting events: 'pending' ones are retried automatically, 'parked' ones wait for a
person or an edit of the order, 'dead' ones were rejected or have failed too often. 'retry' sends one of them again, or
all dead ones, and ends a stop or pause of their company.

'link-customer' assigns a client's invoices to the customer with that id in the accounting system, instead of one found
or created by the client's name, and sends the client's parked and dead events again. The company may be left out where
there is only one.

'list --state' takes either a state of events (${STATES.join(', ')}) or the directory that holds the data; give it
twice for both. A directory of such a name is written with a path: ./dead.
A service sends the events at once. Without one, 'npm run dev' on the data sends them when it runs.

${TARGET_HELP}`

const LIST_LIMIT = 500
const HEADINGS = ['ID', 'COMPANY', 'ORDER', 'CHANGE', 'STATE', 'TRIES', 'NEXT TRY', 'LAST ERROR']
const ID = required('ID', idText)
const COMPANY = optional('--company ID', idText)
const STATE: Argument<(typeof STATES)[number] | undefined> = {
  usage: `[--state ${STATES.join('|')}]`,
  read: (given) => STATES.findLast((state) => given.some(({ text }) => text === state)),
}
/** The id of one, or all dead ones. */
const EVENT: Argument<number | 'dead'> = {
  usage: 'ID | --dead',
  read: ([given, another]) => {
    if (another) throw new CommandError('Give either the ID of an event or --dead.')
    return given?.name === '--dead' ? 'dead' : ID.read(given ? [given] : [])
  },
}

await runActions('accounting', HELP, {
  list: operation(
    { state: STATE, company_id: COMPANY, target: target({ words: STATES }) },
    async (service, { state, company_id }) => {
      const events = service.list(api.listAllEvents, { query: { state, company_id } })
      const { shown, hasMore } = await collect(events, LIST_LIMIT)
      const companyIds = new Set([...shown.map((event) => event.company_id), ...(company_id ? [company_id] : [])])
      const blocked = new Map<number, Integration>()
      for (const id of companyIds) {
        const integration = await findBlocked(service, id)
        if (integration) blocked.set(id, integration)
      }
      const rows = shown.map((event) => {
        const { id, company_id, order_id, operation, state, attempts, last_error } = event
        return [
          id,
          company_id,
          order_id,
          operation,
          state,
          attempts,
          nextTry(event, blocked.get(company_id)),
          last_error,
        ]
      })
      print(rows.length === 0 ? 'No events.' : formatTable(HEADINGS, rows))
      if (hasMore) print('… and more.')
      for (const [id, { state, paused_until, reason }] of blocked) {
        const isPaused = state === 'paused' && paused_until !== null
        const stop = 'stopped until its integration is changed (with npm run seed)'
        const status = isPaused ? `paused until ${shortTime(paused_until)}` : stop
        print(`Company ${id} is ${status}: ${toLine(reason ?? 'unknown reason')}`)
      }
    },
  ),
  retry: operation({ event: EVENT, company_id: COMPANY }, async (service, { event, company_id }) => {
    if (event !== 'dead') return retryOne(service, event, company_id)
    const count = await retryDead(service, company_id)
    if (count === 0) return print('No dead events.')
    print(`${plural(count, 'dead event is', 'dead events are')} sent again ${service.deliveries}`)
  }),
  'link-customer': operation(
    {
      client_id: required('CLIENT_ID', idText),
      customer_id: required('CUSTOMER_ID', api.linkCustomer.body.shape.customer_id),
      company_id: COMPANY,
    },
    async (service, { client_id, customer_id, company_id: given }) => {
      const company_id = await findCompany(service, given)
      const { company_name, retried } = await service
        .call(api.linkCustomer, { params: { company_id, client_id }, body: { customer_id } })
        .catch(whenMissing(`Company ${company_id} has no client ${client_id}.`))
      const client = `Client ${client_id} (${toLine(company_name)}) of company ${company_id}`
      const sent = `${plural(retried, 'event is', 'events are')} sent again ${service.deliveries}`
      print(`${client} is linked to customer ${customer_id}.${retried === 0 ? '' : ` ${sent}`}`)
    },
  ),
})

type Integration = ResponseBody<typeof listIntegrations>['data'][number]
type Event = ResponseBody<typeof api.listAllEvents>['data'][number]

function nextTry({ next_attempt_at }: Event, blocked: Integration | undefined): string | null {
  if (next_attempt_at === null) return null
  if (blocked?.state === 'reconnect_needed') return 'stopped'
  const at = [next_attempt_at, blocked?.paused_until ?? ''].sort().at(-1) ?? ''
  return at <= new Date().toISOString() ? 'now' : at
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

async function retryOne(service: AdminApi & { deliveries: string }, id: number, given: number | undefined) {
  const missing = `There is no undelivered event ${id}.`
  const { data } = await service.call(api.listAllEvents, { query: { id, company_id: given } })
  const [event, another] = data
  if (!event) throw new CommandError(missing)
  if (another) throw new CommandError(`Event ${id} is there in several databases: say which one with --company ID.`)
  const { company_id, order_id } = event
  await service.call(api.retryEvent, { params: { company_id, event_id: id } }).catch(whenMissing(missing))
  print(`Event ${id} (order ${order_id} of company ${company_id}) is sent again ${service.deliveries}`)
}

/** @returns how many events */
async function retryDead(service: AdminApi, given: number | undefined): Promise<number> {
  const companyIds = new Set<number>()
  const query = { state: 'dead', company_id: given }
  for await (const { company_id } of service.list(api.listAllEvents, { query })) companyIds.add(company_id)
  let count = 0
  for (const company_id of companyIds) {
    const { retried } = await service.call(api.retryEvents, { params: { company_id }, body: { states: ['dead'] } })
    count += retried
  }
  return count
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

import { existsSync } from 'node:fs'
import { idText } from '../kernel/api/contract.ts'
import { listCompanies } from '../operation/admin/companies/contract.ts'
import * as api from '../operation/admin/integrations/contract.ts'
import { type Argument, CommandError, onlyOne, optional, required, resolvePath, runCommand } from './command.ts'
import { listing, operation, plural, requireCompany, toLine } from './operator.ts'
import { target } from './target.ts'

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
A service sends the events at once. Without one, 'npm run dev' on the data sends them when it runs.`

const CUSTOMER = required('CUSTOMER_ID', api.linkCustomer.body.shape.customer_id)
const COMPANY = optional('--company ID', idText)
const STATE: Argument<(typeof STATES)[number] | undefined> = {
  usage: `[--state ${STATES.join('|')}]`,
  read: (given) => {
    const other = given.find(({ text }) => !STATES.some((state) => state === text) && !existsSync(resolvePath(text)))
    if (other) throw new CommandError(`--state must be ${STATES.join(', ')} or a directory, not '${other.text}'.`)
    return STATES.findLast((state) => given.some(({ text }) => text === state))
  },
}
const ID = required('ID', idText)
const EVENT: Argument<number | 'dead'> = {
  usage: 'ID | --dead',
  read: (given) => (onlyOne(given)?.name === '--dead' ? 'dead' : ID.read(given)),
}

await runCommand('accounting', HELP, {
  list: listing({
    contract: api.listAllEvents,
    arguments: { state: STATE, company_id: COMPANY, target: target({ words: STATES }) },
    columns: {
      ID: 'id',
      COMPANY: 'company_id',
      ORDER: 'order_id',
      CHANGE: 'operation',
      STATE: 'state',
      TRIES: 'attempts',
      'NEXT TRY': 'next_attempt_at',
      'LAST ERROR': 'last_error',
    },
    limit: 500,
    empty: 'No events.',
  }),
  retry: operation({ event: EVENT, company_id: COMPANY }, async (service, { event: given, company_id }) => {
    const query = given === 'dead' ? { state: given, company_id } : { id: given, company_id }
    const events = await Array.fromAsync(service.list(api.listAllEvents, { query }))
    if (given === 'dead') {
      let count = 0
      for (const company_id of new Set(events.map((event) => event.company_id))) {
        const { retried } = await service.call(api.retryEvents, { params: { company_id }, body: { states: ['dead'] } })
        count += retried
      }
      if (count === 0) await requireCompany(service, { company_id })
      if (count === 0) return console.log('No dead events.')
      return console.log(`${plural(count, 'dead event is', 'dead events are')} sent again ${service.deliveries}`)
    }
    const [event, another] = events
    if (another) throw new CommandError(`Event ${given} is in several databases: say which one with --company ID.`)
    if (!event) throw new CommandError(`There is no undelivered event ${given}.`)
    await service.call(api.retryEvent, { params: { company_id: event.company_id, event_id: given } })
    const named = `Event ${given} (order ${event.order_id} of company ${event.company_id})`
    console.log(`${named} is sent again ${service.deliveries}`)
  }),
  'link-customer': operation(
    { client_id: required('CLIENT_ID', idText), customer_id: CUSTOMER, company_id: COMPANY },
    async (service, { client_id, customer_id, company_id: given }) => {
      const listFirst = async () => (await service.call(listCompanies, { query: { per_page: 2 } })).data
      const [company, another] = given === undefined ? await listFirst() : [{ id: given }]
      if (!company) throw new CommandError('There is no company.')
      if (another) throw new CommandError('There are several companies: say which one with --company ID.')
      const request = { params: { company_id: company.id, client_id }, body: { customer_id } }
      const { company_name, retried } = await service.call(api.linkCustomer, request)
      const client = `Client ${client_id} (${toLine(company_name)}) of company ${company.id}`
      const sent = `${plural(retried, 'event is', 'events are')} sent again ${service.deliveries}`
      console.log(`${client} is linked to customer ${customer_id}.${retried === 0 ? '' : ` ${sent}`}`)
    },
  ),
})

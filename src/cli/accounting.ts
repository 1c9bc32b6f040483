import { existsSync } from 'node:fs'
import {
  listHeldCompanies,
  listNotices,
  NOTICE_STATES,
  type NoticeFilter,
  retryDead,
  retryNotice,
} from './accounting-notices.ts'
import { formatNotices } from './accounting-table.ts'
import { CommandError, readCommandLine, resolvePath, runCommand } from './command.ts'
import { type CommandDatabase, openDatabase, type Place, readPlace } from './database.ts'
import { readDevRecord } from './dev-record.ts'
import { linkCustomer, readCustomerId } from './link-customer.ts'

const PREFIX = 'npm run accounting -- '
const PLACE_USAGE = '[--state DIR] [--remote]'
const USAGES = {
  list: `${PREFIX}list [--state ${NOTICE_STATES.join('|')}] [--company ID] ${PLACE_USAGE}`,
  retry: `${PREFIX}retry ID | --dead [--company ID] ${PLACE_USAGE}`,
  'link-customer': `${PREFIX}link-customer CLIENT_ID CUSTOMER_ID [--company ID] ${PLACE_USAGE}`,
}
const ANY_USAGE = `${PREFIX}list | retry ID | retry --dead | link-customer CLIENT_ID CUSTOMER_ID`
const HELP = `${USAGES.list}
${USAGES.retry}
${USAGES['link-customer']}

Notices for the companies' accounting systems that are not delivered yet: 'pending' ones are sent by
themselves, 'parked' ones wait for a person or an edit of the order, 'dead' ones were refused or tried too
often. 'retry' sends one again, or all dead ones, and ends a stop or pause of their company.

'link-customer' books a client's invoices on the customer of that id in the accounting system, instead of one
found or made by the client's name, and sends the client's parked and dead notices again. The company may be
left out where there is only one.

--state takes either a state of notices (${NOTICE_STATES.join(', ')}) or the directory that holds the data; give it
twice for both. A directory of such a name is written with a path: ./dead.
A running 'dev' on the data sends again at once, a deployed service within 5 minutes.
`

await runCommand(async (args) => {
  const line = readCommandLine(separateStates(args), ANY_USAGE, {
    options: ['notice-state', 'state', 'company'],
    flags: ['remote', 'dead', 'help'],
    positionals: [0, 3],
  })
  const { values, flags } = line
  if (flags.has('help')) return void process.stdout.write(HELP)
  const [action, word, lastWord] = line.positionals
  if (action !== 'list' && action !== 'retry' && action !== 'link-customer') {
    throw new CommandError(
      action === undefined ? `Usage: ${ANY_USAGE}` : `Unknown action '${action}'. Usage: ${ANY_USAGE}`,
    )
  }
  const place = findPlace(values.state, flags.has('remote'))
  const companyId = values.company === undefined ? null : readId(values.company, '--company')
  const now = Date.now()

  if (lastWord !== undefined && action !== 'link-customer') {
    throw new CommandError(`Unexpected argument '${lastWord}'. Usage: ${USAGES[action]}`)
  }
  if (action === 'list') {
    if (word !== undefined) throw new CommandError(`Unexpected argument '${word}'. Usage: ${USAGES.list}`)
    if (flags.has('dead')) throw new CommandError(`Option '--dead' is not one of list. Usage: ${USAGES.list}`)
    const state = NOTICE_STATES.find((each) => each === values['notice-state']) ?? null
    return withDatabase(place, (database) => list(database, { state, companyId }, now))
  }
  if (values['notice-state'] !== undefined) {
    const option = `--state ${values['notice-state']}`
    throw new CommandError(`Option '${option}' is not one of ${action}. Usage: ${USAGES[action]}`)
  }
  if (action === 'link-customer') {
    if (word === undefined || lastWord === undefined || flags.has('dead')) {
      throw new CommandError(`Usage: ${USAGES['link-customer']}`)
    }
    const link = { clientId: readId(word, 'CLIENT_ID'), customerId: readCustomerId(lastWord), companyId }
    return withDatabase(place, async (database) => {
      const { text, count } = await linkCustomer(database, link, now)
      if (count === 0) return `${text}\n`
      return `${text} ${count} ${count === 1 ? 'notice is' : 'notices are'} sent again ${await wakeService(place)}\n`
    })
  }
  if ((word === undefined) === !flags.has('dead') || (word !== undefined && companyId !== null)) {
    throw new CommandError(`Usage: ${USAGES.retry}`)
  }
  const id = word === undefined ? null : readId(word, 'ID')
  return withDatabase(place, async (database) => {
    const told = id === null ? await sendDead(database, companyId, now) : await sendOne(database, id, now)
    return told.startsWith('No ') ? `${told}\n` : `${told} ${await wakeService(place)}\n`
  })
})

async function list(database: CommandDatabase, filter: NoticeFilter, now: number): Promise<string> {
  const { rows, total } = await listNotices(database, filter)
  return formatNotices(rows, total, await listHeldCompanies(database, filter.companyId, now), now)
}

async function sendOne(database: CommandDatabase, id: number, now: number): Promise<string> {
  const { order_id: orderId, company_id: companyId } = await retryNotice(database, id, now)
  return `Notice ${id} (order ${orderId} of company ${companyId}) is sent again`
}

async function sendDead(database: CommandDatabase, companyId: number | null, now: number): Promise<string> {
  const count = await retryDead(database, companyId, now)
  return count === 0 ? 'No dead notices.' : `${count} dead ${count === 1 ? 'notice is' : 'notices are'} sent again`
}

/** Runs the sweep of a `dev` on the same data; elsewhere the cron trigger comes by itself. */
async function wakeService(place: Place): Promise<string> {
  if (place === 'remote') return 'within 5 minutes.'
  const dev = readDevRecord(place.state)
  if (!dev) return `when 'npm run dev' runs on this data.`
  const answer = await fetch(`${dev.url}/cdn-cgi/local/scheduled`).catch(() => null)
  await answer?.body?.cancel()
  return answer?.ok ? 'at once.' : 'with the next change of an order.'
}

/** `--state` means two things: a state of notices by its name, else the place of the data. */
function separateStates(args: string[]): string[] {
  const isState = (text: string | undefined) => NOTICE_STATES.some((state) => state === text)
  return args.map((arg, index) => {
    if (arg === '--state' && isState(args[index + 1])) return '--notice-state'
    return arg.startsWith('--state=') && isState(arg.slice('--state='.length)) ? `--notice-state${arg.slice(7)}` : arg
  })
}

/** Of notices there are none where there is no data yet: a word that is neither is a mistake. */
function findPlace(state: string | undefined, remote: boolean): Place {
  if (state !== undefined && !existsSync(resolvePath(state))) {
    throw new CommandError(`--state '${state}' is none of ${NOTICE_STATES.join(', ')}, and no directory.`)
  }
  return readPlace(state, remote)
}

function readId(text: string, what: string): number {
  const id = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(id)) throw new CommandError(`${what} must be a positive whole number, not '${text}'.`)
  return id
}

async function withDatabase(place: Place, work: (database: CommandDatabase) => Promise<string>): Promise<void> {
  const database = await openDatabase(place)
  try {
    process.stdout.write(await work(database))
  } finally {
    await database.close()
  }
}

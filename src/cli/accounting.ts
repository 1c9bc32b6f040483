import { existsSync } from 'node:fs'
import { and, asc, eq, type SQL, sql } from 'drizzle-orm'
import { accountingConnections, accountingOutbox, clients, companies, integrations } from '../db/schema.ts'
import { idText, isoTime } from '../http/contract.ts'
import { accountingId } from '../seed/integrations-file.ts'
import {
  CommandError,
  FLAG,
  formatTable,
  print,
  readCommandLine,
  readValue,
  resolvePath,
  runActions,
  TEXT,
} from './command.ts'
import { type CommandDatabase, openDatabase, PLACE, readPlace, startDeliveries } from './database.ts'

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
A running 'dev' on the data sends the events at once, a deployed service within 5 minutes.`

const OPTIONS = { state: { type: 'string', multiple: true }, remote: FLAG, company: TEXT, dead: FLAG } as const
const HEADINGS = ['ID', 'COMPANY', 'ORDER', 'CHANGE', 'STATE', 'TRIES', 'NEXT TRY', 'LAST ERROR']
const LIST_LIMIT = 500
const toLine = (text: string) => text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()
const formatTime = (ms: number) => `${isoTime(ms).slice(0, 19)}Z`

const ACTIONS = `${PREFIX} list | retry ID | retry --dead | link-customer CLIENT_ID CUSTOMER_ID`
await runActions(ACTIONS, HELP, { list, retry, 'link-customer': linkCustomer })

/** Prints the undelivered events, oldest first, at most 500, and which companies are stopped or paused. */
async function list(args: string[]): Promise<void> {
  const { place, state, companyId } = readAction('list', args)
  const now = Date.now()
  const isOfCompany = eq(accountingOutbox.company_id, companyId ?? accountingOutbox.company_id)
  const isInState = state && sql`iif(state = 'sent', 'pending', state) = ${state}`
  const isListed = and(sql`state <> 'done'`, isInState, isOfCompany)
  await using database = await openDatabase(place)
  const { orm } = database
  const oldestFirst = asc(accountingOutbox.id)
  const events = await orm.select().from(accountingOutbox).where(isListed).orderBy(oldestFirst).limit(LIST_LIMIT)
  const total = await orm.$count(accountingOutbox, isListed)
  // Companies whose accounting system is not called now: stopped until its integration is changed, or paused.
  const { company_id, paused_until, reason, stopped_for } = accountingConnections
  const isStopped = sql<number>`coalesce(${stopped_for} = ${integrations.updated_at}, 0)`
  const isIntegration = and(eq(integrations.company_id, company_id), eq(integrations.kind, 'accounting_sync'))
  const isBlocked = sql`(${isStopped} OR ${paused_until} > ${now}) AND ${company_id} = ${companyId ?? company_id}`
  const blocked = await orm
    .select({ company_id, isStopped, paused_until, reason })
    .from(accountingConnections)
    .innerJoin(integrations, isIntegration)
    .where(isBlocked)
    .orderBy(asc(company_id))

  const rows = events.map(({ id, company_id, order_id, operation, state, attempts, next_attempt_at, last_error }) => {
    const company = blocked.find((each) => each.company_id === company_id)
    const at = Math.max(next_attempt_at, company?.paused_until ?? 0)
    const due = at <= now ? 'now' : formatTime(at)
    const next = company?.isStopped ? 'stopped' : due
    const isDue = state === 'pending' || state === 'sent'
    const progress = isDue ? ['pending', attempts, next] : [state, attempts, '-']
    return [id, company_id, order_id, operation, ...progress, toLine(last_error ?? '-')]
  })
  print(rows.length === 0 ? 'No events.' : formatTable(HEADINGS, rows))
  if (total > rows.length) print(`… and ${total - rows.length} more.`)
  for (const { company_id, isStopped, paused_until, reason } of blocked) {
    const status = isStopped
      ? 'stopped until its integration is changed (with npm run seed)'
      : `paused until ${formatTime(paused_until)}`
    print(`Company ${company_id} is ${status}: ${toLine(reason ?? 'unknown reason')}`)
  }
}

/** Sends one undelivered event, or all dead ones, again. */
async function retry(args: string[]): Promise<void> {
  const { place, companyId, dead, positionals } = readAction('retry', args, { min: 0, max: 1 })
  const [word] = positionals
  if (dead === (word !== undefined) || (word && companyId)) throw new CommandError(`Usage: ${USAGE.retry}`)
  const id = word === undefined ? null : readValue(idText, word, 'ID')
  await using database = await openDatabase(place)
  if (id === null) {
    const count = await retryEvents(database, sql`state = 'dead' AND company_id = ${companyId ?? sql`company_id`}`)
    if (count === 0) return print('No dead events.')
    return print(`${count} dead ${count === 1 ? 'event is' : 'events are'} sent again ${await startDeliveries(place)}`)
  }
  const [event] = await database.orm.select().from(accountingOutbox).where(eq(accountingOutbox.id, id))
  if (!event) throw new CommandError(`There is no event ${id}.`)
  if (event.state === 'done') throw new CommandError(`Event ${id} is done: delivered, or covered by a later one.`)
  await retryEvents(database, sql`id = ${id} AND state <> 'done'`)
  print(
    `Event ${id} (order ${event.order_id} of company ${event.company_id}) is sent again ${await startDeliveries(place)}`,
  )
}

/** Links a client to a customer of the accounting system and sends the client's parked and dead events again. */
async function linkCustomer(args: string[]): Promise<void> {
  const { place, companyId: given, positionals } = readAction('link-customer', args, { min: 2, max: 2 })
  const [client = '', customer = ''] = positionals
  const clientId = readValue(idText, client, 'CLIENT_ID')
  const accounting_customer_id = readValue(accountingId, customer, 'CUSTOMER_ID')
  await using database = await openDatabase(place)
  const { orm, write } = database
  const isMeant = eq(companies.id, given ?? companies.id)
  const [company, another] = await orm.select({ id: companies.id }).from(companies).where(isMeant).limit(2)
  if (!company) throw new CommandError(`There is no company${given ? ` ${given}` : ''}.`)
  if (another) throw new CommandError('There are several companies: say which one with --company ID.')
  const companyId = company.id
  const isClient = and(eq(clients.company_id, companyId), eq(clients.id, clientId))
  const [row] = await orm.select({ name: clients.company_name }).from(clients).where(isClient)
  if (!row) throw new CommandError(`Company ${companyId} has no client ${clientId}.`)
  await write([orm.update(clients).set({ accounting_customer_id, accounting_customer_linked: true }).where(isClient)])
  const ofClient = sql`SELECT id FROM orders WHERE company_id = ${companyId} AND client_id = ${clientId}`
  const isGivenUp = sql`company_id = ${companyId} AND order_id IN (${ofClient}) AND state IN ('parked', 'dead')`
  const count = await retryEvents(database, isGivenUp)
  const linked = `Client ${clientId} (${toLine(row.name)}) of company ${companyId} is linked to customer ${customer}.`
  if (count === 0) return print(linked)
  print(`${linked} ${count} ${count === 1 ? 'event is' : 'events are'} sent again ${await startDeliveries(place)}`)
}

/**
 * Makes events due and ends the stop or pause of their companies. An event that is being sent keeps its request, which
 * may have been applied.
 *
 * @returns how many events
 */
async function retryEvents({ orm, write }: CommandDatabase, condition: SQL): Promise<number> {
  const now = Date.now()
  const count = await orm.$count(accountingOutbox, condition)
  if (count === 0) return 0
  const state = sql`iif(state = 'sent', 'sent', 'pending')`
  const due = { state, attempts: 0, stale_attempts: 0, next_attempt_at: now, updated_at: now }
  const isTheirs = sql`company_id IN (SELECT company_id FROM accounting_outbox WHERE ${condition})`
  await write([
    orm.update(accountingConnections).set({ stopped_for: null, paused_until: 0, reason: null }).where(isTheirs),
    orm.update(accountingOutbox).set(due).where(condition),
  ])
  return count
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

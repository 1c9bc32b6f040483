import * as z from 'zod/mini'
import { type Contract, idText, type ResponseBody, wholeNumber } from '../kernel/api/contract.ts'
import * as api from '../operation/admin/companies/contract.ts'
import * as membership from '../operation/admin/members/contract.ts'
import { whenMissing } from './admin-api.ts'
import {
  CommandError,
  formatTable,
  print,
  readCommandLine,
  readValue,
  runActions,
  shortTime,
  TEXT,
  warn,
} from './command.ts'
import { DATA_USAGE, PREFIX, recover, restore, writeExport } from './company-data.ts'
import { create, listDatabases, move, PLACEMENT_USAGE } from './company-databases.ts'
import { type Connection, connect, PLACE, readPlace } from './place.ts'

const USAGE = {
  list: `${PREFIX} list ${PLACE.usage}`,
  show: `${PREFIX} show ID ${PLACE.usage}`,
  suspend: `${PREFIX} suspend ID ${PLACE.usage}`,
  resume: `${PREFIX} resume ID ${PLACE.usage}`,
  usage: `${PREFIX} usage ID [--hours N] ${PLACE.usage}`,
  members: `${PREFIX} members ID ${PLACE.usage}`,
  'add-member': `${PREFIX} add-member ID EMAIL --role owner|developer ${PLACE.usage}`,
  'remove-member': `${PREFIX} remove-member ID EMAIL ${PLACE.usage}`,
  ...PLACEMENT_USAGE,
  ...DATA_USAGE,
  'resume-deliveries': `${PREFIX} resume-deliveries [ID] ${PLACE.usage}`,
}
const HELP = `${Object.values(USAGE).join('\n')}

'list' shows the companies, and what each database holds. 'create' makes a company without data. 'move' takes a company
to another database while it is used, and goes on where it was interrupted; with the present database it takes a move
back.
'suspend' refuses every request of a company's tokens with 403 until 'resume'. 'usage' shows requests, refused ones and
database time by hour, and what the company stores. 'members' are the people who may open the company's settings: a
developer manages tokens, webhooks and events, an owner integrations and members too.

'export' prints all data of a company as lines of JSON. 'restore' loads the backup of a day into an empty company.

'recover' is for after a restore of the whole database with Time Travel: it raises the numbers of invoices and ids past
those that were given out before, revokes again what was revoked since, and pauses all deliveries.
'resume-deliveries' lets those of one company, or of all, continue.

  --hours N        the last hours, 24 by default and at most
  --database NAME  the binding of a database: DB, or DB_ and capital letters
  --to NAME        the same
  --role ROLE      owner or developer
  --output FILE    a new file for the export, by default standard output
  --from DATE      the newest backup of this day (2026-01-31, UTC), or before this time (2026-01-31T12:00:00Z)

${PLACE.help}`

const ONE = { min: 1, max: 1 }
const TWO = { min: 2, max: 2 }
const role = z.enum(['owner', 'developer'], 'must be owner or developer')

await runActions(`${PREFIX} ${Object.keys(USAGE).join(' | ')}`, HELP, {
  list,
  create,
  move,
  show,
  suspend: (args) => setSuspended('suspend', args),
  resume: (args) => setSuspended('resume', args),
  usage: showUsage,
  members: listMembers,
  'add-member': addMember,
  'remove-member': removeMember,
  export: writeExport,
  restore,
  recover,
  'resume-deliveries': resumeDeliveries,
})

type Company = ResponseBody<typeof api.readCompany>

/** Sends a request of a contract about one company. */
async function callFor<C extends Contract>(service: Connection, contract: C, company_id: number, rest = {}) {
  const request = { params: { company_id }, ...rest }
  return service.call(contract, request).catch(whenMissing(`There is no company ${company_id}.`))
}

function readCompanyId([id = '']: string[]): number {
  return readValue(idText, id, 'ID')
}

function stateOf({ suspended, deliveries_paused }: Company): string {
  const paused = deliveries_paused ? 'deliveries paused' : ''
  return [suspended ? 'suspended' : '', paused].filter(Boolean).join(', ') || 'active'
}

async function list(args: string[]): Promise<void> {
  const { values } = readCommandLine(args, USAGE.list, PLACE.options)
  await using service = await connect(readPlace(values))
  const rows: (string | number)[][] = []
  for await (const company of service.list(api.listCompanies)) {
    const { id, name, database, client_count, order_count } = company
    rows.push([id, name, database, stateOf(company), client_count, order_count])
  }
  print(
    rows.length === 0 ? 'No companies.' : formatTable(['ID', 'NAME', 'DATABASE', 'STATE', 'CLIENTS', 'ORDERS'], rows),
  )
  await listDatabases(service)
}

async function show(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.show, PLACE.options, ONE)
  const id = readCompanyId(positionals)
  await using service = await connect(readPlace(values))
  const company: Company = await callFor(service, api.readCompany, id)
  print(
    formatTable(
      ['FIELD', 'VALUE'],
      Object.entries(company).map(([name, value]) => [name, String(value)]),
    ),
  )
}

async function setSuspended(action: 'suspend' | 'resume', args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE[action], PLACE.options, ONE)
  const id = readCompanyId(positionals)
  await using service = await connect(readPlace(values))
  const suspended = action === 'suspend'
  const { name } = await callFor(service, api.updateCompany, id, { body: { suspended } })
  const effect = suspended ? 'suspended: its tokens are refused' : 'active: its tokens are accepted'
  print(`Company ${id} (${name}) is ${effect} within 30 seconds.`)
}

async function showUsage(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.usage, { ...PLACE.options, hours: TEXT }, ONE)
  const id = readCompanyId(positionals)
  const hours = readValue(wholeNumber(1, 24), values.hours ?? '24', '--hours')
  await using service = await connect(readPlace(values))
  const { data, totals, incomplete } = await callFor(service, api.readUsage, id, { query: { hours } })
  const stored = await callFor(service, api.readCompany, id)
  const rows = data.map(({ hour, ...used }) => [shortTime(hour), used.requests, used.refused, used.database_ms])
  rows.push(['total', totals.requests, totals.refused, totals.database_ms])
  print(formatTable(['HOUR', 'REQUESTS', 'REFUSED', 'DATABASE MS'], rows))
  const { mail_bytes, mail_quota_bytes, stored_bytes, storage_quota_bytes } = stored
  const sizes = [mail_bytes, mail_quota_bytes, stored_bytes, storage_quota_bytes].map((n) => (n / 1e6).toFixed(1))
  print(`Stored: ${sizes[0]} of ${sizes[1]} MB of mail, and ${sizes[2]} of ${sizes[3]} MB of all else.`)
  if (incomplete) warn('Some tokens could not be counted.')
}

async function listMembers(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.members, PLACE.options, ONE)
  const company_id = readCompanyId(positionals)
  await using service = await connect(readPlace(values))
  const rows: string[][] = []
  const members = service.list(membership.listMembers, { params: { company_id } })
  try {
    for await (const { email, role, created_at } of members) rows.push([email, role, shortTime(created_at)])
  } catch (error) {
    whenMissing(`There is no company ${company_id}.`)(error)
  }
  print(rows.length === 0 ? 'No members.' : formatTable(['EMAIL', 'ROLE', 'SINCE'], rows))
}

async function addMember(args: string[]): Promise<void> {
  const options = { ...PLACE.options, role: TEXT }
  const { values, positionals } = readCommandLine(args, USAGE['add-member'], options, TWO)
  if (values.role === undefined) throw new CommandError(`Option '--role' is required. Usage: ${USAGE['add-member']}`)
  const [id, email] = [readCompanyId(positionals), readEmail(positionals[1])]
  const body = { role: readValue(role, values.role, '--role') }
  await using service = await connect(readPlace(values))
  await callFor(service, membership.putMember, id, { params: { company_id: id, email }, body })
  print(`${email} is ${body.role === 'owner' ? 'an owner' : 'a developer'} of company ${id}.`)
}

async function removeMember(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE['remove-member'], PLACE.options, TWO)
  const [company_id, email] = [readCompanyId(positionals), readEmail(positionals[1])]
  await using service = await connect(readPlace(values))
  await service
    .call(membership.deleteMember, { params: { company_id, email } })
    .catch(whenMissing(`${email} is not a member of company ${company_id}.`))
  print(`${email} is no longer a member of company ${company_id}.`)
}

function readEmail(text = ''): string {
  return readValue(z.email('must be an email address'), text.trim().toLowerCase(), 'EMAIL')
}

async function resumeDeliveries(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE['resume-deliveries'], PLACE.options, { min: 0, max: 1 })
  const only = positionals.length > 0 ? readCompanyId(positionals) : null
  await using service = await connect(readPlace(values))
  const paused: number[] = only === null ? [] : [only]
  if (only === null) {
    for await (const { id, deliveries_paused } of service.list(api.listCompanies))
      if (deliveries_paused) paused.push(id)
  }
  for (const id of paused) {
    const { name } = await callFor(service, api.updateCompany, id, { body: { deliveries_paused: false } })
    print(`Company ${id} (${name}): what waits is delivered ${service.deliveries}`)
  }
  if (paused.length === 0) print('No company is paused.')
}

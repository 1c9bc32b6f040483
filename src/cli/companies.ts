import * as z from 'zod/mini'
import { idText, type ResponseBody } from '../kernel/api/contract.ts'
import * as api from '../operation/admin/companies/contract.ts'
import * as databases from '../operation/admin/databases/contract.ts'
import * as membership from '../operation/admin/members/contract.ts'
import { whenMissing } from './admin-api.ts'
import { always, optional, print, required, runActions, TEXT, warn } from './command.ts'
import { exportLines, move, recover, restore } from './company-data.ts'
import { formatTable, listing, operation, request } from './operator.ts'
import { type Connection, TARGET_HELP, target } from './target.ts'

const HELP = `'list' shows the companies, and what each database holds. 'create' makes a company without data. 'move' takes a company
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

${TARGET_HELP}`

const ID = required('ID', idText)
const EMAIL = required('EMAIL', z.email('must be an email address').check(z.trim(), z.toLowerCase()))
const ROLE = z.enum(['owner', 'developer'], 'must be owner or developer')
const DATABASE = databases.moveCompany.body.shape.database
const missing = 'There is no company {company_id}.'

await runActions('companies', HELP, {
  list: operation({}, async (service) => {
    const rows: (string | number)[][] = []
    for await (const company of service.list(api.listCompanies)) {
      const { id, name, database, client_count, order_count } = company
      rows.push([id, name, database, stateOf(company), client_count, order_count])
    }
    const headings = ['ID', 'NAME', 'DATABASE', 'STATE', 'CLIENTS', 'ORDERS']
    print(rows.length === 0 ? 'No companies.' : formatTable(headings, rows))
    await listDatabases(service)
  }),
  show: request({
    contract: api.readCompany,
    arguments: { company_id: ID },
    missing,
    print: (company) => formatTable(['FIELD', 'VALUE'], Object.entries(company)),
  }),
  suspend: request({
    contract: api.updateCompany,
    arguments: { company_id: ID, suspended: always(true) },
    missing,
    print: ({ id, name }) => `Company ${id} (${name}) is suspended: its tokens are refused within 30 seconds.`,
  }),
  resume: request({
    contract: api.updateCompany,
    arguments: { company_id: ID, suspended: always(false) },
    missing,
    print: ({ id, name }) => `Company ${id} (${name}) is active: its tokens are accepted within 30 seconds.`,
  }),
  usage: operation(
    { company_id: ID, hours: optional('--hours N', api.readUsage.query.shape.hours) },
    async (service, { company_id, hours }) => {
      const params = { company_id }
      const stored = await service
        .call(api.readCompany, { params })
        .catch(whenMissing(`There is no company ${company_id}.`))
      const { data, totals, incomplete } = await service.call(api.readUsage, { params, query: { hours } })
      const rows = [...data, { hour: 'total', ...totals }]
      print(
        formatTable(
          ['HOUR', 'REQUESTS', 'REFUSED', 'DATABASE MS'],
          rows.map(({ hour, requests, refused, database_ms }) => [hour, requests, refused, database_ms]),
        ),
      )
      const { mail_bytes, mail_quota_bytes, stored_bytes, storage_quota_bytes } = stored
      const sizes = [mail_bytes, mail_quota_bytes, stored_bytes, storage_quota_bytes].map((n) => (n / 1e6).toFixed(1))
      print(`Stored: ${sizes[0]} of ${sizes[1]} MB of mail, and ${sizes[2]} of ${sizes[3]} MB of all else.`)
      if (incomplete) warn('Some tokens could not be counted.')
    },
  ),
  members: listing({
    contract: membership.listMembers,
    arguments: { company_id: ID },
    missing,
    columns: { EMAIL: 'email', ROLE: 'role', SINCE: 'created_at' },
    empty: 'No members.',
  }),
  'add-member': request({
    contract: membership.putMember,
    arguments: { company_id: ID, email: EMAIL, role: required('--role ROLE', ROLE) },
    missing,
    print: ({ email, role }, { company_id }) =>
      `${email} is ${role === 'owner' ? 'an owner' : 'a developer'} of company ${company_id}.`,
  }),
  'remove-member': request({
    contract: membership.deleteMember,
    arguments: { company_id: ID, email: EMAIL },
    missing: '{email} is not a member of company {company_id}.',
    print: ({ email }, { company_id }) => `${email} is no longer a member of company ${company_id}.`,
  }),
  create: request({
    contract: databases.createCompany,
    arguments: {
      id: ID,
      name: optional('--name NAME', api.updateCompany.body.shape.name),
      database: optional('--database NAME', DATABASE),
      target: target({ mayBeNew: true }),
    },
    print: ({ id, name, database }) => `Created company ${id} (${name}) in ${database}.`,
  }),
  move: operation({ company_id: ID, database: required('--to NAME', DATABASE) }, move),
  export: operation({ company_id: ID, output: optional('--output FILE', TEXT) }, exportLines),
  restore: operation({ company_id: ID, from: required('--from DATE', TEXT) }, restore),
  recover: operation({}, recover),
  'resume-deliveries': operation({ company_id: optional('ID', idText) }, async (service, { company_id }) => {
    const paused: number[] = company_id === undefined ? [] : [company_id]
    if (company_id === undefined) {
      for await (const company of service.list(api.listCompanies))
        if (company.deliveries_paused) paused.push(company.id)
    }
    for (const id of paused) {
      const { name } = await service
        .call(api.updateCompany, { params: { company_id: id }, body: { deliveries_paused: false } })
        .catch(whenMissing(`There is no company ${id}.`))
      print(`Company ${id} (${name}): what waits is delivered ${service.deliveries}`)
    }
    if (paused.length === 0) print('No company is paused.')
  }),
})

function stateOf({ suspended, deliveries_paused }: ResponseBody<typeof api.readCompany>): string {
  return [suspended && 'suspended', deliveries_paused && 'deliveries paused'].filter(Boolean).join(', ') || 'active'
}

/** What each database holds, and the moves that are not complete. */
async function listDatabases(service: Connection): Promise<void> {
  const { data, moves } = await service.call(databases.listDatabases)
  const rows = data.map(({ name, companies, rows, size_bytes, size_max_bytes, error }) => {
    const share = `${((100 * size_bytes) / size_max_bytes).toFixed(2)} %`
    return error === null
      ? [name, companies, rows, `${(size_bytes / 1e6).toFixed(1)} MB`, share]
      : [name, null, null, null, `does not respond (${error})`]
  })
  print(`\n${formatTable(['DATABASE', 'COMPANIES', 'CLIENTS AND ORDERS', 'SIZE', 'SHARE OF 10 GB'], rows)}`)
  for (const { company_id, source, destination, step } of moves) {
    const way = `from ${source} to ${destination} (${step})`
    warn(`Company ${company_id} is on its way ${way}: repeat the move, or take it back.`)
  }
}

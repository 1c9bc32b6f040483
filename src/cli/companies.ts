import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import * as z from 'zod/mini'
import { parseJson } from '../client/transport.ts'
import { idText } from '../kernel/api/contract.ts'
import * as api from '../operation/admin/companies/contract.ts'
import * as databases from '../operation/admin/databases/contract.ts'
import { exportCompany } from '../operation/admin/transfers/contract.ts'
import { CommandError, optional, required, resolvePath, runCommand, TEXT } from './command.ts'
import { formatTable, listing, operation, request, shortTime } from './operator.ts'
import { type Connection, target } from './target.ts'

const HELP = `'list' shows the companies, and what each database holds. 'create' makes a company without data; with --adopt it takes
back one that the directory has lost, in the database that has its data. 'move' takes a company to another database
while it is used, and continues after an interruption; with the present database it takes a move back.
'show' has what a company stores. 'suspend' refuses every request of its tokens with 403 until 'resume'. 'usage' shows
requests, refused ones and database time by hour. 'members' are the people who may open the company's settings: a
developer manages tokens, webhooks and events, an owner integrations and members too.

'export' prints all data of a company as lines of JSON. 'import' loads them into an empty company, and continues
after an interruption. 'backups' lists the backups of a company. 'restore' loads the one of a day into an empty company.

'recover' is for after a restore of the whole database with Time Travel: it raises the numbers of invoices and ids past
those that were assigned before, revokes again what was revoked since, and pauses all deliveries.
'resume-deliveries' lets those of one company, or of all, continue.

  --hours N        the last hours, 24 by default and at most
  --database NAME  the binding of a database: DB, or DB_ and capital letters
  --to NAME        the same
  --role ROLE      owner or developer
  --output FILE    a new file for the export, by default standard output: then use 'npm run -s'
  --from DATE      the newest backup with data until this day (2026-01-31, UTC), or this time (2026-01-31T12:00:00Z)`

const ID = required('ID', idText)
const EMAIL = required('EMAIL', api.putMember.params.shape.email)
const DATABASE = databases.moveCompany.body.shape.database
const lastLine = z.object({ type: z.enum(['end', 'next']), data: z.object({ cursor: z.optional(z.string()) }) })

await runCommand('companies', HELP, {
  list: listing({
    contract: api.listCompanies,
    arguments: {},
    columns: {
      ID: 'id',
      NAME: 'name',
      DATABASE: 'database',
      STATE: ({ suspended, deliveries_paused }) =>
        [suspended && 'suspended', deliveries_paused && 'deliveries paused'].filter(Boolean).join(', ') || 'active',
      CLIENTS: 'client_count',
      ORDERS: 'order_count',
    },
    empty: 'No companies.',
    after: async (_companies, _values, service) => {
      const { data, moves } = await service.call(databases.listDatabases)
      const rows = data.map(({ name, companies, rows, size_bytes: bytes, size_max_bytes: max, error }) => {
        if (error !== null) return [name, null, null, null, `does not respond (${error})`]
        return [name, companies, rows, `${(bytes / 1e6).toFixed(1)} MB`, `${((100 * bytes) / max).toFixed(2)} %`]
      })
      console.log(`\n${formatTable(['DATABASE', 'COMPANIES', 'CLIENTS AND ORDERS', 'SIZE', 'SHARE OF 10 GB'], rows)}`)
      for (const { company_id, source, destination, step } of moves) {
        const move = `Company ${company_id} is on its way from ${source} to ${destination} (${step})`
        console.error(`${move}: repeat the move, or take it back.`)
      }
    },
  }),
  show: request({
    contract: api.readCompany,
    arguments: { company_id: ID },
    print: (company) => formatTable(['FIELD', 'VALUE'], Object.entries(company)),
  }),
  suspend: suspension(true, 'is suspended: its tokens are refused'),
  resume: suspension(false, 'is active: its tokens are accepted'),
  usage: request({
    contract: api.readUsage,
    arguments: { company_id: ID, hours: optional('--hours N', api.readUsage.query.shape.hours) },
    print: ({ data, totals, incomplete }) => {
      const hours = [...data, { hour: 'total', ...totals }]
      const rows = hours.map((each) => [each.hour, each.requests, each.refused, each.database_ms])
      const table = formatTable(['HOUR', 'REQUESTS', 'REFUSED', 'DATABASE MS'], rows)
      return incomplete ? `${table}\nSome tokens could not be counted.` : table
    },
  }),
  members: listing({
    contract: api.listMembers,
    arguments: { company_id: ID },
    columns: { EMAIL: 'email', ROLE: 'role', SINCE: 'created_at' },
    empty: 'No members.',
  }),
  'add-member': request({
    contract: api.putMember,
    arguments: { company_id: ID, email: EMAIL, role: required('--role ROLE', api.putMember.body.shape.role) },
    print: ({ email, role }, { company_id }) =>
      `${email} is ${role === 'owner' ? 'an owner' : 'a developer'} of company ${company_id}.`,
  }),
  'remove-member': request({
    contract: api.deleteMember,
    arguments: { company_id: ID, email: EMAIL },
    print: ({ email }, { company_id }) => `${email} is no longer a member of company ${company_id}.`,
  }),
  create: request({
    contract: databases.createCompany,
    arguments: {
      id: ID,
      name: optional('--name NAME', api.updateCompany.body.shape.name),
      database: optional('--database NAME', DATABASE),
      adopt: optional('--adopt', z.stringbool()),
      target: target({ mayBeNew: true }),
    },
    print: ({ id, name, database }, { adopt }) =>
      `${adopt ? 'Adopted' : 'Created'} company ${id} (${name}) in ${database}.`,
  }),
  move: operation({ company_id: ID, database: required('--to NAME', DATABASE) }, async (service, values) => {
    const { company_id, database } = values
    const request = { params: { company_id }, body: { database }, isRepeatable: true } as const
    for (let last = ''; ; ) {
      const { done, step, source, destination, rows, frozen_ms } = await service.call(databases.moveCompany, request)
      if (done) {
        const refused = frozen_ms > 0 ? ` Writes were refused for ${frozen_ms} ms.` : ''
        const moved = `is in ${database}: ${rows} rows copied.${refused}`
        const outcome = destination === database ? moved : `stays in ${database}: the move is taken back.`
        return console.log(`Company ${company_id} ${outcome}`)
      }
      if (step !== last) console.error(`${source} to ${destination}: ${step}, ${rows} rows copied.`)
      last = step
    }
  }),
  export: operation({ company_id: ID, output: optional('--output FILE', TEXT) }, async (service, values) => {
    const { company_id, output } = values
    await service.call(api.readCompany, { params: { company_id } })
    const lines = exportLines(service, company_id)
    if (output === undefined) return pipeline(lines, process.stdout, { end: false })
    const path = resolvePath(output)
    // It may hold personal data.
    await pipeline(lines, createWriteStream(path, { flags: 'wx', mode: 0o600 })).catch(async (error) => {
      if (error.code === 'EEXIST') throw new CommandError(`--output '${output}' exists.`)
      if (error.syscall === 'open') throw new CommandError(`--output '${output}' cannot be written (${error.code}).`)
      await rm(path, { force: true })
      throw error
    })
  }),
  import: operation({ company_id: ID, file: required('FILE.ndjson', TEXT) }, async (service, { company_id, file }) => {
    // Its modules take half a second to load, which no other action needs.
    const { importCompany } = await import('./seed-file.ts')
    await importCompany(service, company_id, file)
  }),
  backups: request({
    contract: databases.listBackups,
    arguments: { company_id: ID },
    // To the millisecond: a time without its fraction, given to `restore`, is before the backup.
    print: ({ data }) => data.map(({ at }) => at).join('\n') || 'No backups.',
  }),
  restore: operation({ company_id: ID, from: required('--from DATE', TEXT) }, async (service, { company_id, from }) => {
    const request = { params: { company_id }, body: { from }, isRepeatable: true } as const
    let progress = await service.call(databases.restoreCompany, request)
    while (!progress.done) progress = await service.call(databases.restoreCompany, request)
    const { backup, rows, differences, accounting } = progress
    console.log(`Restored company ${company_id} from the backup of ${shortTime(backup)}: ${rows} rows.`)
    const resume = `npm run companies -- resume-deliveries ${company_id} ${service.options}`
    console.log(`Its deliveries are paused. When all is right: ${resume}`)
    for (const { table, expected, found } of differences) {
      console.error(`${table} has ${found} rows, and had ${expected} when the backup ended.`)
    }
    if (accounting === 'failed') await warnOfNumbers(service, company_id)
  }),
  recover: operation({}, async (service) => {
    let [paused, revoked, companies] = [0, 0, 0]
    let cursor: string | undefined
    do {
      const step = await service.call(databases.recoverDeployment, { body: { cursor }, isRepeatable: true })
      paused += step.companies_paused
      revoked += step.tokens_revoked
      if (step.company) {
        companies += 1
        const { id, last_order_id, last_invoice_number, accounting } = step.company
        console.log(`Company ${id}: orders go on after ${last_order_id}, invoices after number ${last_invoice_number}.`)
        if (accounting === 'failed') await warnOfNumbers(service, id)
      }
      if (step.missing) {
        const { id, database } = step.missing
        const remedy = 'add its binding if it has none, else set all databases back to the same minute'
        console.error(`Company ${id} is not in ${database}: ${remedy}, and repeat this.`)
      }
      cursor = step.next_cursor ?? undefined
    } while (cursor !== undefined)
    const summary = `Recovered: ${companies}. Tokens revoked again: ${revoked}.`
    console.log(`${summary} Companies whose deliveries this paused: ${paused}.`)
    console.log(`When all is right: npm run companies -- resume-deliveries ${service.options}`)
  }),
  'resume-deliveries': operation({ company_id: optional('ID', idText) }, async (service, { company_id: given }) => {
    const all = given === undefined ? await Array.fromAsync(service.list(api.listCompanies)) : []
    const paused = given === undefined ? all.filter((each) => each.deliveries_paused).map(({ id }) => id) : [given]
    for (const id of paused) {
      const request = { params: { company_id: id }, body: { deliveries_paused: false } }
      const { name } = await service.call(api.updateCompany, request)
      console.log(`Company ${id} (${name}): waiting events are delivered ${service.deliveries}`)
    }
    // The list does not know what is paused in a database that fails.
    const { data } = given === undefined ? await service.call(databases.listDatabases) : { data: [] }
    const failed = data.flatMap(({ name, error }) => (error === null ? [] : name)).join(', ')
    if (failed) throw new CommandError(`No response from ${failed}, whose companies are left out: repeat this.`)
    if (paused.length === 0) console.log('No company is paused.')
  }),
})

function suspension(suspended: boolean, outcome: string) {
  return operation({ company_id: ID }, async (service, { company_id }) => {
    const { id, name } = await service.call(api.updateCompany, { params: { company_id }, body: { suspended } })
    console.log(`Company ${id} (${name}) ${outcome} within 30 seconds.`)
  })
}

/** Each line of an export, response after response. @throws CommandError where one was cut off */
async function* exportLines(service: Connection, company_id: number): AsyncGenerator<string> {
  let cursor: string | undefined
  do {
    const lines = await service.open(exportCompany, { params: { company_id }, query: { cursor } })
    let last = ''
    try {
      for await (const line of lines) {
        if (!line.startsWith('{"type":"next"')) yield `${line}\n`
        last = line
      }
      cursor = lastLine.parse(parseJson(last)).data.cursor
    } catch {
      throw new CommandError('The export was cut off: run it again.')
    }
  } while (cursor !== undefined)
}

async function warnOfNumbers(service: Connection, company_id: number) {
  const { name } = await service.call(api.readCompany, { params: { company_id } })
  console.error(`The last invoice number of company ${company_id} could not be read from its accounting system. Look it up there,
and load it with npm run seed -- FILE.json ${service.options} before the next order is created:
{"company":{"id":${company_id},"name":${JSON.stringify(name)},"last_invoice_number":NUMBER}}`)
}

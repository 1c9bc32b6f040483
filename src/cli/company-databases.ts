import { idText, trimmed } from '../kernel/api/contract.ts'
import * as api from '../operation/admin/databases/contract.ts'
import { AdminError, whenMissing } from './admin-api.ts'
import { CommandError, formatTable, print, readCommandLine, readValue, TEXT, warn } from './command.ts'
import { PREFIX } from './company-data.ts'
import { type Connection, connect, PLACE, readPlace } from './place.ts'

/** The actions of `npm run companies` that place companies in databases. */
export const PLACEMENT_USAGE = {
  create: `${PREFIX} create ID [--name NAME] [--database NAME] ${PLACE.usage}`,
  move: `${PREFIX} move ID --to NAME ${PLACE.usage}`,
}

const ONE = { min: 1, max: 1 }
const NAME = api.moveCompany.body.shape.database

/** What each database holds, and the moves that are not complete. */
export async function listDatabases(service: Connection): Promise<void> {
  const { data, moves } = await service.call(api.listDatabases)
  const rows = data.map(({ name, companies, rows, size_bytes, size_max_bytes, error }) => {
    const share = `${((100 * size_bytes) / size_max_bytes).toFixed(2)} %`
    return error === null
      ? [name, companies, rows, `${(size_bytes / 1e6).toFixed(1)} MB`, share]
      : [name, '-', '-', '-', `does not respond (${error})`]
  })
  print(`\n${formatTable(['DATABASE', 'COMPANIES', 'CLIENTS AND ORDERS', 'SIZE', 'SHARE OF 10 GB'], rows)}`)
  for (const { company_id, source, destination, step } of moves) {
    warn(
      `Company ${company_id} is on its way from ${source} to ${destination} (${step}): repeat the move, or take it back.`,
    )
  }
}

/** Makes a company without data. */
export async function create(args: string[]): Promise<void> {
  const options = { ...PLACE.options, name: TEXT, database: TEXT }
  const { values, positionals } = readCommandLine(args, PLACEMENT_USAGE.create, options, ONE)
  const id = readValue(idText, positionals[0] ?? '', 'ID')
  const database = readValue(NAME, values.database ?? 'DB', '--database')
  const name = values.name === undefined ? undefined : readValue(trimmed(255), values.name, '--name')
  await using service = await connect(readPlace(values, true))
  const body = { id, database, ...(name !== undefined && { name }) }
  const created = await service.call(api.createCompany, { body })
  print(`Created company ${id} (${created.name}) in ${created.database}.`)
}

/** Moves a company, step after step. */
export async function move(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, PLACEMENT_USAGE.move, { ...PLACE.options, to: TEXT }, ONE)
  const company_id = readValue(idText, positionals[0] ?? '', 'ID')
  if (values.to === undefined) throw new CommandError(`Option '--to' is required. Usage: ${PLACEMENT_USAGE.move}`)
  const body = { database: readValue(NAME, values.to, '--to') }
  await using service = await connect(readPlace(values))
  const request = { params: { company_id }, body, isRepeatable: true } as const
  for (let step = ''; ; ) {
    const progress = await service
      .call(api.moveCompany, request)
      .catch((error: unknown) => explain(error, company_id, body.database))
    if (!progress.done) {
      if (progress.step !== step)
        warn(`${progress.source} to ${progress.destination}: ${progress.step}, ${progress.rows} rows copied.`)
      step = progress.step
      continue
    }
    const { rows, frozen_ms, destination } = progress
    if (destination !== body.database)
      return print(`Company ${company_id} stays in ${body.database}: the move is taken back.`)
    const writes = frozen_ms > 0 ? ` Writes were refused for ${frozen_ms} ms.` : ''
    return print(`Company ${company_id} is in ${body.database}: ${rows} rows copied.${writes}`)
  }
}

function explain(error: unknown, companyId: number, database: string): never {
  if (error instanceof AdminError && error.status === 404) whenMissing(`There is no company ${companyId}.`)(error)
  const [issue] = error instanceof AdminError ? error.issues : []
  throw issue?.path === 'database' ? new CommandError(`--to ${issue.message}, not '${database}'.`) : error
}

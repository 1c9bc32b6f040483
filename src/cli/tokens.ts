import * as z from 'zod/mini'
import { idText, isoTime, trimmed } from '../kernel/api/contract.ts'
import { isPermission, PERMISSIONS, type Permission } from '../kernel/gate/permissions.ts'
import * as api from '../operation/admin/tokens/contract.ts'
import { type AdminApi, whenMissing } from './admin-api.ts'
import { CommandError, formatTable, print, readCommandLine, readValue, runActions, shortTime, TEXT } from './command.ts'
import { connect, PLACE, readPlace } from './place.ts'

const PREFIX = 'npm run tokens --'
const USAGE = {
  create: `${PREFIX} create --company ID --name NAME [--permissions a,b] [--expires DATE] ${PLACE.usage}`,
  list: `${PREFIX} list [--company ID] ${PLACE.usage}`,
  rotate: `${PREFIX} rotate ID [--overlap TIME] ${PLACE.usage}`,
  revoke: `${PREFIX} revoke ID ${PLACE.usage}`,
}
const HELP = `${Object.values(USAGE).join('\n')}

'create' prints a new token once, alone on standard output. 'list' shows names, permissions and times. 'rotate' prints
the successor of one in the same way, and ends the old one. 'revoke' ends one, everywhere within 30 seconds.
A company has at most ${api.ACTIVE_TOKENS_MAX} active tokens; 'list --company ID' counts them. Both tokens of a rotation count until the old
one ends: with ${api.ACTIVE_TOKENS_MAX} of them use '--overlap 0s'.

  --company ID       of the company, as in its seed file
  --name NAME        what the token is for
  --permissions a,b  some of those below; by default all
  --expires DATE     the last day (2027-01-31, UTC), or a date-time with an offset; by default never
  --overlap TIME     how long the old token stays valid, such as 15m, 24h or 7d, the most; by default 24h

${PLACE.help}

Permissions:
  ${PERMISSIONS.join(', ')}`
const HEADINGS = ['ID', 'COMPANY', 'NAME', 'STATE', 'CREATED', 'LAST USED', 'EXPIRES', 'PERMISSIONS']
const DAY_MS = 86_400_000
const ONE = { min: 1, max: 1 }

/** A date lasts until its end in UTC. */
const endOfDay = (date: string) => Date.parse(date) + DAY_MS
const expiryTime = z.union(
  [z.pipe(z.iso.date(), z.transform(endOfDay)), z.pipe(z.iso.datetime({ offset: true }), z.transform(Date.parse))],
  'must be a date (2027-01-31) or a date-time with an offset',
)
const expiry = expiryTime.check(z.refine((end) => end > Date.now(), 'must be in the future'))

const UNITS = { s: 1, m: 60, h: 3600, d: 86_400 }
const OVERLAP_MAX_SECONDS = 7 * UNITS.d
const overlap = z
  .pipe(
    z.string().check(z.regex(/^\d{1,6}[smhd]$/, 'must be a time such as 15m, 24h or 7d')),
    z.transform((text) => Number(text.slice(0, -1)) * UNITS[text.slice(-1) as keyof typeof UNITS]),
  )
  .check(z.refine((seconds) => seconds <= OVERLAP_MAX_SECONDS, 'must be at most 7d'))

await runActions(`${PREFIX} create | list | rotate ID | revoke ID`, HELP, { create, list, rotate, revoke })

async function create(args: string[]): Promise<void> {
  const options = { ...PLACE.options, company: TEXT, name: TEXT, permissions: TEXT, expires: TEXT }
  const { values } = readCommandLine(args, USAGE.create, options)
  const { company, name, permissions, expires } = values
  if (company === undefined) throw new CommandError(`Option '--company' is required. Usage: ${USAGE.create}`)
  if (name === undefined) throw new CommandError(`Option '--name' is required. Usage: ${USAGE.create}`)
  const company_id = readValue(idText, company, '--company')
  const body = {
    name: readValue(trimmed(255), name, '--name'),
    permissions: readPermissions(permissions),
    expires_at: expires === undefined ? null : isoTime(readValue(expiry, expires, '--expires')),
  }
  await using service = await connect(readPlace(values))
  const request = { params: { company_id }, body }
  const { token } = await service.call(api.createToken, request).catch(whenMissing(`There is no company ${company}.`))
  print(token)
}

function readPermissions(text = PERMISSIONS.join()): Permission[] {
  const names = text.split(',').map((part) => part.trim())
  const unknown = names.find((name) => !isPermission(name))
  if (unknown === undefined) return PERMISSIONS.filter((permission) => names.includes(permission))
  throw new CommandError(`--permissions: '${unknown}' is none of ${PERMISSIONS.join(', ')}.`)
}

/** Prints a table of tokens, without the tokens themselves and their hashes. */
async function list(args: string[]): Promise<void> {
  const { values } = readCommandLine(args, USAGE.list, { ...PLACE.options, company: TEXT })
  const { company } = values
  const company_id = company === undefined ? undefined : readValue(idText, company, '--company')
  await using service = await connect(readPlace(values))
  const rows: (string | number)[][] = []
  let active = 0
  for await (const token of service.list(api.listAllTokens, { query: { company_id } })) {
    const times = [token.created_at, token.last_used_at, token.expires_at].map((time) => shortTime(time))
    const allowed = token.permissions.length === PERMISSIONS.length ? 'all' : token.permissions.join()
    if (token.state === 'active') active++
    rows.push([token.id, token.company_id, token.name, token.state, ...times, allowed])
  }
  print(formatTable(HEADINGS, rows))
  if (company !== undefined) print(`${active} of at most ${api.ACTIVE_TOKENS_MAX} active tokens.`)
}

/** Prints the successor of a token. */
async function rotate(args: string[]): Promise<void> {
  const options = { ...PLACE.options, overlap: TEXT }
  const { values, positionals } = readCommandLine(args, USAGE.rotate, options, ONE)
  const id = readValue(idText, positionals[0] ?? '', 'ID')
  const overlap_seconds = readValue(overlap, values.overlap ?? '24h', '--overlap')
  await using service = await connect(readPlace(values))
  const { company_id } = await findToken(service, id)
  const request = { params: { company_id, token_id: id }, body: { overlap_seconds } }
  const { token } = await service.call(api.rotateToken, request)
  print(token)
}

async function revoke(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.revoke, PLACE.options, ONE)
  const id = readValue(idText, positionals[0] ?? '', 'ID')
  await using service = await connect(readPlace(values))
  const { company_id, name, revoked_at } = await findToken(service, id)
  if (revoked_at !== null) return print(`Token ${id} (${name}) was revoked at ${revoked_at} already.`)
  await service.call(api.revokeToken, { params: { company_id, token_id: id } })
  print(`Revoked token ${id} (${name}).`)
}

/** A token of whichever company. */
async function findToken(service: AdminApi, id: number) {
  for await (const token of service.list(api.listAllTokens, { query: { id } })) return token
  throw new CommandError(`There is no token ${id}.`)
}

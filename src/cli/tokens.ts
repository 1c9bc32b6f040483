import { randomBytes } from 'node:crypto'
import { and, asc, eq, isNull } from 'drizzle-orm'
import * as z from 'zod/mini'
import { isPermission, PERMISSIONS } from '../auth/permissions.ts'
import { hashToken } from '../auth/tokens.ts'
import { apiTokens, companies } from '../db/schema.ts'
import { idText, isoTime, trimmed } from '../http/contract.ts'
import { CommandError, formatTable, print, readCommandLine, readValue, runActions, TEXT } from './command.ts'
import { type CommandDatabase, openDatabase, PLACE, readPlace } from './database.ts'

const PREFIX = 'npm run tokens --'
const USAGE = {
  create: `${PREFIX} create --company ID --name NAME [--permissions a,b] [--expires DATE] ${PLACE.usage}`,
  list: `${PREFIX} list [--company ID] ${PLACE.usage}`,
  revoke: `${PREFIX} revoke ID ${PLACE.usage}`,
}
const HELP = `${Object.values(USAGE).join('\n')}

'create' prints a new token once, alone on standard output. 'list' shows names, permissions and times.
'revoke' ends one, everywhere within 30 seconds.

  --company ID       of the company, as in its seed file
  --name NAME        what the token is for
  --permissions a,b  some of those below; by default all
  --expires DATE     the last day (2027-01-31, UTC), or a date-time with an offset; by default never

${PLACE.help}

Permissions:
  ${PERMISSIONS.join(', ')}`
const HEADINGS = ['ID', 'COMPANY', 'NAME', 'STATE', 'CREATED', 'LAST USED', 'EXPIRES', 'PERMISSIONS']
const TOKEN_BYTES = 32
const DAY_MS = 86_400_000
const formatTime = (ms: number | null) => (ms === null ? '-' : `${isoTime(ms).slice(0, 16)}Z`)

/** A date lasts until its end in UTC. */
const endOfDay = (date: string) => Date.parse(date) + DAY_MS
const expiryTime = z.union(
  [z.pipe(z.iso.date(), z.transform(endOfDay)), z.pipe(z.iso.datetime({ offset: true }), z.transform(Date.parse))],
  'must be a date (2027-01-31) or a date-time with an offset',
)
const expiry = expiryTime.check(z.refine((end) => end > Date.now(), 'must be in the future'))

if (import.meta.main) {
  await runActions(`${PREFIX} create | list | revoke ID`, HELP, { create, list, revoke })
}

async function create(args: string[]): Promise<void> {
  const options = { ...PLACE.options, company: TEXT, name: TEXT, permissions: TEXT, expires: TEXT }
  const { values } = readCommandLine(args, USAGE.create, options)
  const { company, name, permissions, expires } = values
  if (company === undefined) throw new CommandError(`Option '--company' is required. Usage: ${USAGE.create}`)
  if (name === undefined) throw new CommandError(`Option '--name' is required. Usage: ${USAGE.create}`)
  const newToken = {
    companyId: readValue(idText, company, '--company'),
    name: readValue(trimmed(255), name, '--name'),
    permissions: readPermissions(permissions),
    expiresAt: expires === undefined ? null : readValue(expiry, expires, '--expires'),
  }
  await using database = await openDatabase(readPlace(values))
  print(await createToken(database, newToken, Date.now()))
}

function readPermissions(text = PERMISSIONS.join()): string[] {
  const names = text.split(',').map((part) => part.trim())
  const unknown = names.find((name) => !isPermission(name))
  if (unknown === undefined) return PERMISSIONS.filter((permission) => names.includes(permission))
  throw new CommandError(`--permissions: '${unknown}' is none of ${PERMISSIONS.join(', ')}.`)
}

/** Prints a table of tokens, without the tokens themselves and their hashes. */
async function list(args: string[]): Promise<void> {
  const { values } = readCommandLine(args, USAGE.list, { ...PLACE.options, company: TEXT })
  const { company } = values
  const isShown = company === undefined ? undefined : eq(apiTokens.company_id, readValue(idText, company, '--company'))
  await using database = await openDatabase(readPlace(values))
  const tokens = await database.orm.select().from(apiTokens).where(isShown).orderBy(asc(apiTokens.id))
  const rows = tokens.map(({ id, company_id, name, permissions, created_at, last_used_at, expires_at, revoked_at }) => {
    const isExpired = expires_at !== null && expires_at <= Date.now()
    const validity = isExpired ? 'expired' : 'active'
    const state = revoked_at === null ? validity : 'revoked'
    const times = [created_at, last_used_at, expires_at].map(formatTime)
    const allowed = permissions.length === PERMISSIONS.length ? 'all' : permissions.join()
    return [id, company_id, name, state, ...times, allowed]
  })
  print(formatTable(HEADINGS, rows))
}

async function revoke(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.revoke, PLACE.options, { min: 1, max: 1 })
  const id = readValue(idText, positionals[0] ?? '', 'ID')
  await using database = await openDatabase(readPlace(values))
  const { orm, write } = database
  const [token] = await orm.select().from(apiTokens).where(eq(apiTokens.id, id))
  if (!token) throw new CommandError(`There is no token ${id}.`)
  const { name, revoked_at } = token
  if (revoked_at !== null) return print(`Token ${id} (${name}) was revoked at ${isoTime(revoked_at)} already.`)
  const isActive = and(eq(apiTokens.id, id), isNull(apiTokens.revoked_at))
  await write([orm.update(apiTokens).set({ revoked_at: Date.now() }).where(isActive)])
  print(`Revoked token ${id} (${name}).`)
}

/**
 * Creates a token, of which only the SHA-256 is stored.
 *
 * @param newToken `expiresAt` in milliseconds since the epoch; null: never
 * @returns the token, 64 lower-case hex characters
 * @throws CommandError when the company does not exist
 */
export async function createToken(
  { orm, write }: CommandDatabase,
  newToken: { companyId: number; name: string; permissions: string[]; expiresAt: number | null },
  now: number,
): Promise<string> {
  const { companyId: company_id, name, permissions, expiresAt: expires_at } = newToken
  const [company] = await orm.select({ id: companies.id }).from(companies).where(eq(companies.id, company_id))
  if (!company) throw new CommandError(`There is no company ${company_id}.`)
  const token = randomBytes(TOKEN_BYTES).toString('hex')
  const row = { company_id, name, permissions, expires_at, token_hash: hashToken(token), created_at: now }
  // The write may run twice.
  await write([orm.insert(apiTokens).values(row).onConflictDoNothing()])
  return token
}

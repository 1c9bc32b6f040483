import { randomBytes } from 'node:crypto'
import { and, asc, eq, getTableColumns, isNull, lt } from 'drizzle-orm'
import { isPermission, PERMISSIONS } from '../auth/permissions.ts'
import { hashToken } from '../auth/tokens.ts'
import { apiTokens, companies } from '../db/schema.ts'
import { isoTime } from '../http/contract.ts'
import { CommandError, formatTable, print, readCommandLine, readId, runAction, runCommand, TEXT } from './command.ts'
import { type CommandDatabase, PLACE_OPTIONS, PLACE_USAGE, readPlace, withDatabase } from './database.ts'

const PREFIX = 'npm run tokens --'
const USAGE = {
  create: `${PREFIX} create --company ID --name NAME [--permissions a,b] [--expires DATE] ${PLACE_USAGE}`,
  list: `${PREFIX} list [--company ID] ${PLACE_USAGE}`,
  revoke: `${PREFIX} revoke ID ${PLACE_USAGE}`,
}
const HEADINGS = ['ID', 'COMPANY', 'NAME', 'STATE', 'CREATED', 'LAST USED', 'EXPIRES', 'PERMISSIONS']
const TOKEN_BYTES = 32
const NAME_MAX = 255
const DAY_MS = 86_400_000

if (import.meta.main) {
  await runCommand((args) => runAction(args, `${PREFIX} create | list | revoke ID`, { create, list, revoke }))
}

async function create(args: string[]): Promise<void> {
  const options = { ...PLACE_OPTIONS, company: TEXT, name: TEXT, permissions: TEXT, expires: TEXT }
  const { values } = readCommandLine(args, USAGE.create, options)
  const { company, name } = values
  if (company === undefined || name === undefined) {
    throw new CommandError(
      `Option '--${company === undefined ? 'company' : 'name'}' is required. Usage: ${USAGE.create}`,
    )
  }
  const now = Date.now()
  const newToken = {
    companyId: readId(company, '--company'),
    name: readName(name),
    permissions: readPermissions(values.permissions),
    expiresAt: values.expires === undefined ? null : readExpiry(values.expires, now),
  }
  print(await withDatabase(readPlace(values), (database) => createToken(database, newToken, now)))
}

/** Prints a table of tokens, without the tokens themselves and their hashes. */
async function list(args: string[]): Promise<void> {
  const { values } = readCommandLine(args, USAGE.list, { ...PLACE_OPTIONS, company: TEXT })
  const isShown =
    values.company === undefined ? undefined : eq(apiTokens.company_id, readId(values.company, '--company'))
  const { token_hash: _, ...columns } = getTableColumns(apiTokens)
  const tokens = await withDatabase(readPlace(values), ({ orm }) =>
    orm.select(columns).from(apiTokens).where(isShown).orderBy(asc(apiTokens.id)),
  )
  const now = Date.now()
  const rows = tokens.map((token) => [
    String(token.id),
    String(token.company_id),
    token.name,
    describeState(token, now),
    formatTime(token.created_at),
    formatTime(token.last_used_at),
    formatTime(token.expires_at),
    token.permissions.length === PERMISSIONS.length ? 'all' : token.permissions.join(','),
  ])
  print(formatTable([HEADINGS, ...rows]))
}

async function revoke(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.revoke, PLACE_OPTIONS, { min: 1, max: 1 })
  const id = readId(positionals[0] ?? '', 'ID')
  await withDatabase(readPlace(values), async (database) => {
    const [token] = await database.orm.select().from(apiTokens).where(eq(apiTokens.id, id))
    if (!token) throw new CommandError(`There is no token ${id}.`)
    if (token.revoked_at !== null) {
      return print(`Token ${id} (${token.name}) was revoked at ${isoTime(token.revoked_at)} already.`)
    }
    const isActive = and(eq(apiTokens.id, id), isNull(apiTokens.revoked_at))
    await database.write([database.orm.update(apiTokens).set({ revoked_at: Date.now() }).where(isActive)])
    print(`Revoked token ${id} (${token.name}).`)
  })
}

export interface NewToken {
  companyId: number
  name: string
  permissions: string[]
  /** Milliseconds since the epoch; null: never. */
  expiresAt: number | null
}

/**
 * Creates a token, of which only the SHA-256 is stored.
 *
 * @returns the token, 64 lower-case hex characters
 * @throws CommandError when there is no such company
 */
export async function createToken({ orm, write }: CommandDatabase, newToken: NewToken, now: number): Promise<string> {
  const { companyId: company_id, name, permissions, expiresAt: expires_at } = newToken
  const [company] = await orm.select({ id: companies.id }).from(companies).where(eq(companies.id, company_id))
  if (!company) throw new CommandError(`There is no company ${company_id}.`)
  const token = randomBytes(TOKEN_BYTES).toString('hex')
  const row = { company_id, name, permissions, expires_at, token_hash: hashToken(token), created_at: now }
  // The write may run twice.
  await write([orm.insert(apiTokens).values(row).onConflictDoNothing()])
  return token
}

/** Removes the tokens of a name that were created before a time. */
export async function removeTokens(
  { orm, write }: CommandDatabase,
  name: string,
  createdBefore: number,
): Promise<void> {
  await write([orm.delete(apiTokens).where(and(eq(apiTokens.name, name), lt(apiTokens.created_at, createdBefore)))])
}

function describeState(token: { revoked_at: number | null; expires_at: number | null }, now: number): string {
  if (token.revoked_at !== null) return 'revoked'
  return token.expires_at !== null && token.expires_at <= now ? 'expired' : 'active'
}

function formatTime(ms: number | null): string {
  return ms === null ? '-' : `${isoTime(ms).slice(0, 16)}Z`
}

function readName(text: string): string {
  const name = text.trim()
  if (name.length <= NAME_MAX && !/\p{Cc}/u.test(name)) return name
  throw new CommandError(`--name must be one line of at most ${NAME_MAX} characters.`)
}

function readPermissions(text: string | undefined): string[] {
  if (text === undefined) return [...PERMISSIONS]
  const names = text.split(',').map((part) => part.trim())
  const unknown = names.find((name) => !isPermission(name))
  if (unknown === undefined) return PERMISSIONS.filter((permission) => names.includes(permission))
  throw new CommandError(`--permissions: '${unknown}' is none of ${PERMISSIONS.join(', ')}.`)
}

/** A date lasts until its end in UTC; a date-time requires an offset. */
function readExpiry(text: string, now: number): number {
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(text)
  const start = Date.parse(isDate ? `${text}T00:00:00Z` : text)
  const isKnown = isDate || /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/.test(text)
  const isReal = isKnown && !Number.isNaN(start) && (!isDate || isoTime(start).startsWith(text))
  if (!isReal) {
    throw new CommandError(`--expires must be a date (2027-01-31) or a date-time with an offset, not '${text}'.`)
  }
  const end = isDate ? start + DAY_MS : start
  if (end <= now) throw new CommandError(`--expires must be in the future, not '${text}'.`)
  return end
}

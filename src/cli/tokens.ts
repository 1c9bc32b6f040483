import { isPermission, PERMISSIONS } from '../auth/permissions.ts'
import { CommandError, readCommandLine, runCommand } from './command.ts'
import { type CommandDatabase, openDatabase, readPlace } from './database.ts'
import { createToken, listTokens, revokeToken } from './token-store.ts'
import { formatTokens } from './token-table.ts'

const PREFIX = 'npm run tokens -- '
const PLACE_USAGE = '[--state DIR] [--remote]'
const LONGEST_NAME = 255
const DAY_MS = 86_400_000

const OPTIONS = ['company', 'name', 'permissions', 'expires', 'state'] as const

interface Action {
  usage: string
  options: readonly (typeof OPTIONS)[number][]
  /** Words behind the action. */
  words: number
}

const ACTIONS = new Map<string, Action>([
  [
    'create',
    {
      usage: `${PREFIX}create --company ID --name NAME [--permissions a,b] [--expires DATE] ${PLACE_USAGE}`,
      options: OPTIONS,
      words: 0,
    },
  ],
  ['list', { usage: `${PREFIX}list [--company ID] ${PLACE_USAGE}`, options: ['company', 'state'], words: 0 }],
  ['revoke', { usage: `${PREFIX}revoke ID ${PLACE_USAGE}`, options: ['state'], words: 1 }],
])

await runCommand(async (args) => {
  const { usage, name: action, values, flags, positionals } = readAction(args)
  const place = readPlace(values.state, flags.has('remote'))
  const companyId = values.company === undefined ? null : readId(values.company, '--company')

  if (action === 'create') {
    if (companyId === null || values.name === undefined) {
      throw new CommandError(`Option '--${companyId === null ? 'company' : 'name'}' is required. Usage: ${usage}`)
    }
    const wanted = {
      companyId,
      name: readName(values.name),
      permissions: readPermissions(values.permissions),
      expiresAt: readExpiry(values.expires, Date.now()),
    }
    return withDatabase(async (database) => `${await createToken(database, wanted, Date.now())}\n`)
  }
  if (action === 'list') {
    return withDatabase(async (database) => formatTokens(await listTokens(database, companyId), Date.now()))
  }
  const tokenId = readId(positionals[1] ?? '', 'ID')
  return withDatabase(async (database) => `${await revokeToken(database, tokenId, Date.now())}\n`)

  async function withDatabase(work: (database: CommandDatabase) => Promise<string>): Promise<void> {
    const database = await openDatabase(place)
    try {
      process.stdout.write(await work(database))
    } finally {
      await database.close()
    }
  }
})

function readAction(args: string[]) {
  const anyUsage = `${PREFIX}create | list | revoke ID`
  const line = readCommandLine(args, anyUsage, { options: OPTIONS, flags: ['remote'], positionals: [1, 2] })
  const [name = '', ...words] = line.positionals
  const action = ACTIONS.get(name)
  if (!action) throw new CommandError(`Unknown action '${name}'. Usage: ${anyUsage}`)
  const { usage, options } = action
  const strange = OPTIONS.find((option) => line.values[option] !== undefined && !options.includes(option))
  if (strange !== undefined) throw new CommandError(`Option '--${strange}' is not one of ${name}. Usage: ${usage}`)
  if (words.length > action.words)
    throw new CommandError(`Unexpected argument '${words[action.words]}'. Usage: ${usage}`)
  if (words.length < action.words) throw new CommandError(`Usage: ${usage}`)
  return { ...line, usage, name }
}

function readId(text: string, what: string): number {
  const id = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(id)) throw new CommandError(`${what} must be a positive whole number, not '${text}'.`)
  return id
}

function readName(text: string): string {
  const name = text.trim()
  if (name.length > LONGEST_NAME || /\p{Cc}/u.test(name)) {
    throw new CommandError(`--name must be one line of at most ${LONGEST_NAME} characters.`)
  }
  return name
}

function readPermissions(text: string | undefined): string[] {
  if (text === undefined) return [...PERMISSIONS]
  const named = text.split(',').map((part) => part.trim())
  const unknown = named.find((part) => !isPermission(part))
  if (unknown === undefined) return PERMISSIONS.filter((permission) => named.includes(permission))
  throw new CommandError(`--permissions: '${unknown}' is none of ${PERMISSIONS.join(', ')}.`)
}

/** A date counts to its end in UTC; a date-time needs an offset. */
function readExpiry(text: string | undefined, now: number): number | null {
  if (text === undefined) return null
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(text)
  const start = Date.parse(isDate ? `${text}T00:00:00Z` : text)
  const isKnown = isDate || /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/.test(text)
  const isReal = isKnown && !Number.isNaN(start) && (!isDate || new Date(start).toISOString().startsWith(text))
  if (!isReal)
    throw new CommandError(`--expires must be a date (2027-01-31) or a date-time with an offset, not '${text}'.`)
  const end = isDate ? start + DAY_MS : start
  if (end <= now) throw new CommandError(`--expires must be in the future, not '${text}'.`)
  return end
}

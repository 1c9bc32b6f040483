import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import * as z from 'zod/mini'
import { type Argument, CommandError, command, parseJson, required, resolvePath, runCommand } from './command.ts'
import { CONFIG, type ConfigKey, readEnvironment, writeConfig } from './setup-config.ts'
import { runWrangler } from './wrangler.ts'

// Hints are preferences. Jurisdictions are guarantees, and can never be changed; D1, R2 and KV take the same:
// https://developers.cloudflare.com/d1/configuration/data-location/
const LOCATIONS = ['weur', 'eeur', 'enam', 'wnam', 'apac', 'oc']
const JURISDICTIONS = ['eu', 'us', 'fedramp']
const PERMISSIONS = 'D1 Edit, Workers KV Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit'

const HELP = `Makes the database, the KV namespace and the buckets that an environment of wrangler.toml names, writes their ids there,
and puts the secrets that its Worker lacks. A second run changes nothing, and completes an interrupted one.

  --env NAME           staging or production
  --location HINT      where the data should be: ${LOCATIONS.join(', ')}
  --jurisdiction NAME  where the data must be, and stays: ${JURISDICTIONS.join(', ')}
  --domain HOST        a custom domain, in a zone of the account; may be given several times, then replaces all
  --secrets FILE       lines NAME=value, by default from the environment: STORAGE_ACCESS_KEY_ID and
                       STORAGE_SECRET_ACCESS_KEY of an R2 API token; CREDENTIALS_KEY and ADMIN_TOKEN if they are not to
                       be generated
  --config FILE        another wrangler.toml

CLOUDFLARE_ACCOUNT_ID names the account. CLOUDFLARE_API_TOKEN is a token with the permissions D1 Edit, Workers KV
Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit.`

const host = z.string().check(z.regex(/^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,}$/, 'must be a host name'))
const DOMAIN = required('--domain HOST', host)
const readDomains: Argument<string[]>['read'] = (given) => given.map((each) => DOMAIN.read([each]))
const EITHER = 'Give either --location or --jurisdiction'
const PLACE: Argument<{ location?: string; jurisdiction: string | null }> = {
  usage: '--location HINT | --jurisdiction NAME',
  missing: EITHER,
  read: ([given, another]) => {
    if (!given || another) throw new CommandError(`${EITHER}.`)
    const isHint = given.name === '--location'
    const names = isHint ? LOCATIONS : JURISDICTIONS
    const name = required(given.name, z.enum(names, `must be one of ${names.join(', ')}`)).read([given])
    return isHint ? { location: name, jurisdiction: null } : { jurisdiction: name }
  },
}

const FILE: Argument<NodeJS.Dict<string>> = {
  usage: '[--secrets FILE]',
  read: (given) => readSecrets(given.map(({ text }) => resolvePath(text)).at(-1)),
}
export const ARGUMENTS = {
  env: { ...required('--env NAME', z.string()), missing: '--env is missing' },
  place: PLACE,
  domains: { usage: '[--domain HOST]', read: readDomains },
  secrets: FILE,
  config: CONFIG,
}

/** The Worker's secrets and what each must be. */
const SECRETS = {
  CREDENTIALS_KEY: /^[A-Za-z0-9+/]{43}=?(,[A-Za-z0-9+/]{43}=?)*$/,
  ADMIN_TOKEN: /^[0-9a-f]{64}$/,
  STORAGE_ENDPOINT: /^https:\/\/\S+$/,
  STORAGE_BUCKET: /^\S+$/,
  STORAGE_REGION: /^\S+$/,
  STORAGE_ACCESS_KEY_ID: /^\S+$/,
  STORAGE_SECRET_ACCESS_KEY: /^\S+$/,
}

/** Secrets of a file of lines `NAME=value`, else of the environment. @throws CommandError without any value */
export function readSecrets(file: string | undefined, env = process.env): NodeJS.Dict<string> {
  let given: NodeJS.Dict<string> = {}
  try {
    if (file !== undefined) given = parseEnv(readFileSync(file, 'utf8'))
  } catch {
    throw new CommandError(`--secrets: '${file}' cannot be read.`)
  }
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(SECRETS, name))
  if (unknown) throw new CommandError(`--secrets: ${unknown} is none of ${Object.keys(SECRETS).join(', ')}.`)
  const secrets: NodeJS.Dict<string> = {}
  for (const [name, pattern] of Object.entries(SECRETS)) {
    const value = given[name] ?? env[name]
    if (!value) continue
    if (!pattern.test(value)) throw new CommandError(`${name} is malformed: see src/site/guides/secrets.md.`)
    secrets[name] = value
  }
  if (!secrets.STORAGE_ACCESS_KEY_ID === !secrets.STORAGE_SECRET_ACCESS_KEY) return secrets
  throw new CommandError('STORAGE_ACCESS_KEY_ID and STORAGE_SECRET_ACCESS_KEY are a pair: give both.')
}

/** Messages of wrangler for a missing bucket, missing CORS rules and a missing Worker. */
const ABSENT = /\[code: (10006|10059)\]|Worker "\S+" not found\.|no CORS configuration/
const REFUSED = /\b403\b|\[code: (9109|10000|10001)\]/

function fail(problem: string): never {
  const hint = REFUSED.test(problem) ? ` CLOUDFLARE_API_TOKEN needs ${PERMISSIONS}.` : ''
  throw new CommandError(`${problem}${hint} Run the command again: it continues where it stopped.`)
}

type Account = ReturnType<typeof openAccount>

/** The account that the environment names, as wrangler works on it. */
export function openAccount(env = process.env, wrangler = runWrangler) {
  const { CLOUDFLARE_ACCOUNT_ID: id, CLOUDFLARE_API_TOKEN: token } = env
  if (!id || !token) {
    throw new CommandError(`Set CLOUDFLARE_ACCOUNT_ID, and CLOUDFLARE_API_TOKEN to a token with ${PERMISSIONS}.`)
  }
  if (!/^[0-9a-f]{32}$/.test(id)) throw new CommandError('CLOUDFLARE_ACCOUNT_ID must be 32 hexadecimal digits.')
  /** The output of a command that reads; null if that is missing. */
  const find = async (args: string[]) => {
    const output = await wrangler(args).catch(({ message }: Error) => (ABSENT.test(message) ? message : fail(message)))
    return ABSENT.test(output) ? null : output
  }
  return {
    id,
    find,
    /** The same of a command that prints JSON. */
    async read<T>(schema: z.ZodMiniType<T>, args: string[]): Promise<T | null> {
      const output = await find(args)
      if (output === null) return null
      const { success, data } = z.safeParse(schema, parseJson(output))
      return success ? data : fail(`wrangler ${args.join(' ')}: unexpected output.`)
    },
    async change(args: string[], input?: Record<string, unknown>) {
      await wrangler(args, input && JSON.stringify(input)).catch(({ message }: Error) => fail(message))
    },
    /** wrangler has no command for this: https://developers.cloudflare.com/d1/best-practices/read-replication/ */
    async replicate(database: string) {
      const { CLOUDFLARE_API_BASE_URL: baseUrl = 'https://api.cloudflare.com/client/v4' } = env
      const path = `accounts/${id}/d1/database/${database}`
      const response = await fetch(`${baseUrl}/${path}`, {
        method: 'PATCH',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ read_replication: { mode: 'auto' } }),
        redirect: 'error',
        signal: AbortSignal.timeout(30_000),
      }).catch(({ message }: Error) => fail(`PATCH ${path}: no response (${message}).`))
      if (!response.ok) fail(`PATCH ${path}: ${response.status} ${(await response.text()).slice(0, 500)}`)
    },
  }
}

export type SetupOptions = { [K in keyof typeof ARGUMENTS]: ReturnType<(typeof ARGUMENTS)[K]['read']> }

/**
 * Makes what an environment of wrangler.toml names and the account lacks, and writes its ids there. It changes nothing
 * that exists: a second run completes an interrupted one.
 */
export async function setUp(account: Account, { config, env, place, domains, secrets }: SetupOptions) {
  const { location, jurisdiction } = place
  const named = readEnvironment(config, env)
  const moved = named.r2_buckets.find((bucket) => bucket.jurisdiction !== null && bucket.jurisdiction !== jurisdiction)
  if (moved) throw new CommandError(`wrangler.toml: ${moved.bucket_name} is in jurisdiction ${moved.jurisdiction}.`)
  const write = (where: ConfigKey, value: string) => {
    if (writeConfig(config, where, value))
      console.log(`wrangler.toml: wrote ${where.key} of ${where.binding ?? where.table}`)
  }
  const within = jurisdiction === null ? [] : ['--jurisdiction', jurisdiction]
  const at = location === undefined ? within : ['--location', location]

  if (domains.length > 0) {
    const routes = domains.map((domain) => `{ pattern = "${domain}", custom_domain = true }`)
    write({ table: `env.${env}`, key: 'routes' }, `[${routes.join(', ')}]`)
  }
  let hasData = false
  for (const { binding, database_name: name, database_id } of named.d1_databases) {
    // Further databases may be in a jurisdiction of their own.
    const required = binding === 'DB' ? jurisdiction : undefined
    const database = { ...DATABASE, name, id: database_id, create: ['d1', 'create', name, ...at] }
    const { id, found } = await ensure(account, database, required)
    const details = found && (await account.read(d1Details, ['d1', 'info', id, '--json']))
    hasData ||= (details?.num_tables ?? 0) > 0
    // Whether replicas stay in a jurisdiction is not documented.
    const isFree = (found ? found.jurisdiction : jurisdiction) === null
    if (isFree && details?.read_replication?.mode !== 'auto') {
      await account.replicate(id)
      console.log(`D1 database ${name}: turned read replication on`)
    }
    write({ table: `env.${env}.d1_databases`, binding, key: 'database_id' }, `"${id}"`)
  }
  for (const { binding, id } of named.kv_namespaces) {
    const name = `${named.name}-${binding.toLowerCase()}`
    const create = ['kv', 'namespace', 'create', name, ...within]
    const made = await ensure(account, { ...NAMESPACE, name, id, create }, jurisdiction)
    write({ table: `env.${env}.kv_namespaces`, binding, key: 'id' }, `"${made.id}"`)
  }
  for (const { binding, bucket_name: name } of named.r2_buckets) {
    const bucket = (...args: string[]) => ['r2', 'bucket', ...args, ...within]
    const ensureOf = async (thing: string, read: string[], create: string[]) => {
      const isThere = (await account.find(read)) !== null
      if (!isThere) await account.change(create)
      console.log(`${thing} ${name}: ${isThere ? 'exists' : 'created'}`)
    }
    await ensureOf('R2 bucket', bucket('info', name, '--json'), ['r2', 'bucket', 'create', name, ...at])
    if (binding === 'FILES') {
      // Browsers upload straight to the bucket. Rules that it has stay: they may be narrower.
      const set = bucket('cors', 'set', name, '--file', 'src/resources/files/cors-rules.json', '--force')
      await ensureOf('CORS rules of', bucket('cors', 'list', name), set)
    }
    if (jurisdiction !== null) {
      write({ table: `env.${env}.r2_buckets`, binding, key: 'jurisdiction' }, `"${jurisdiction}"`)
    }
  }
  const files = named.r2_buckets.find(({ binding }) => binding === 'FILES')
  const host = [account.id, jurisdiction, 'r2.cloudflarestorage.com'].filter(Boolean).join('.')
  const storage = files && { STORAGE_ENDPOINT: `https://${host}`, STORAGE_BUCKET: files.bucket_name }
  const given = secrets.STORAGE_ACCESS_KEY_ID ? { ...storage, ...secrets } : secrets
  await putSecrets(account, named.name, given, hasData)
}

/** https://developers.cloudflare.com/api/resources/d1/subresources/database/ */
const DATABASE = { type: 'D1 database', key: 'database_id', list: ['d1', 'list', '--json'] }
/** https://developers.cloudflare.com/api/resources/kv/subresources/namespaces/ */
const NAMESPACE = { type: 'KV namespace', key: 'id', list: ['kv', 'namespace', 'list'] }
/** The API leaves it out, or has null or `default`, where there is no jurisdiction. */
const jurisdiction = z.pipe(
  z.optional(z.nullable(z.string())),
  z.transform((name) => (name && name !== 'default' ? name : null)),
)
const namespace = z.object({ id: z.string(), title: z.string(), jurisdiction })
const listed = z.array(
  z.union([
    z.object({ uuid: z.string(), name: z.string(), jurisdiction }),
    z.pipe(
      namespace,
      z.transform(({ id: uuid, title: name, jurisdiction }) => ({ uuid, name, jurisdiction })),
    ),
  ]),
)
const d1Details = z.object({
  num_tables: z.optional(z.nullable(z.number())),
  read_replication: z.optional(z.nullable(z.object({ mode: z.string() }))),
})

/**
 * Creates a database or namespace that the account lacks. Without a `jurisdiction` it may be in any.
 * @throws CommandError when it exists in another one, or wrangler.toml has an unknown id
 */
async function ensure(
  account: Account,
  wanted: typeof DATABASE & { name: string; id: string | null; create: string[] },
  jurisdiction: string | null | undefined,
) {
  const { type, key, list, name, id, create } = wanted
  const all = async () => (await account.read(listed, list)) ?? []
  const found = (await all()).find((each) => (id === null ? each.name === name : each.uuid === id))
  if (id !== null && (!found || (type === DATABASE.type && found.name !== name))) {
    throw new CommandError(`wrangler.toml: ${key} ${id} is ${found ? found.name : `no ${type}`}, not ${name}.`)
  }
  if (found && jurisdiction !== undefined && found.jurisdiction !== jurisdiction) {
    const where = found.jurisdiction === null ? 'in no jurisdiction' : `in jurisdiction ${found.jurisdiction}`
    throw new CommandError(`The ${type} ${name} exists ${where}, which cannot be changed. Nothing more was done.`)
  }
  if (!found) await account.change(create)
  const made = found ?? (await all()).find((each) => each.name === name)
  if (!made) throw new CommandError(`The new ${type} ${name} is not listed yet: run this again.`)
  console.log(`${type} ${name}: ${found ? 'exists' : 'created'}`)
  return { id: made.uuid, found }
}

/** Secrets of 32 random bytes, and how they are written. */
const GENERATED = { CREDENTIALS_KEY: 'base64', ADMIN_TOKEN: 'hex' } as const
const NEEDS_KEY =
  'The database has tables, but the Worker has no CREDENTIALS_KEY: give the one that encrypted them, or a new one (`openssl rand -base64 32`) if no integration was ever saved.'
const NEEDS_STORAGE =
  'Uploads need STORAGE_ACCESS_KEY_ID and STORAGE_SECRET_ACCESS_KEY: make an R2 API token (Object Read & Write on the bucket of FILES) and run this command again with both.'

/**
 * Puts the secrets that the Worker lacks in one call; wrangler creates a Worker that was never deployed. A database
 * that has data may hold credentials of an earlier key: then none is generated.
 */
async function putSecrets(account: Account, worker: string, given: NodeJS.Dict<string>, hasData: boolean) {
  const present = await account.read(z.array(z.object({ name: z.string() })), ['secret', 'list', '--name', worker])
  const has = (name: string) => present?.some((secret) => secret.name === name) ?? false
  const wanted = { ...given }
  for (const [name, encoding] of Object.entries(GENERATED)) {
    if (wanted[name] || has(name)) continue
    if (name === 'CREDENTIALS_KEY' && hasData) throw new CommandError(NEEDS_KEY)
    wanted[name] = randomBytes(32).toString(encoding)
    // Before the call: if its response is lost, the value is not.
    console.log(`${name}=${wanted[name]}   (new: store it safely, it is not shown again)`)
  }
  const missing = Object.entries(wanted).filter(([name]) => !has(name))
  const kept = Object.keys(wanted).filter(has)
  if (kept.length > 0) console.log(`secrets ${kept.join(', ')}: present, not changed`)
  if (missing.length > 0) {
    await account.change(['secret', 'bulk', '--name', worker], Object.fromEntries(missing))
    console.log(`secrets ${missing.map(([name]) => name).join(', ')}: put`)
  }
  if (!given.STORAGE_ACCESS_KEY_ID && !has('STORAGE_ACCESS_KEY_ID')) console.error(NEEDS_STORAGE)
}

if (import.meta.main) {
  const setup = command(ARGUMENTS, async (values) => {
    await setUp(openAccount(), values)
    console.log(`Next: npm run migrate -- --env ${values.env}, npx wrangler deploy --env ${values.env}`)
  })
  await runCommand('setup', HELP, setup)
}

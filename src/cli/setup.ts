import { randomBytes } from 'node:crypto'
import * as z from 'zod/mini'
import { type Argument, CommandError, command, oneOf, onlyOne, optional, required, runCommand } from './command.ts'
import { type Account, CONFIG, openAccount, readEnvironment, writeConfig } from './wrangler.ts'

// Hints are preferences. Jurisdictions are guarantees, replace a hint, and can never be changed; D1, R2 and KV take the same:
// https://developers.cloudflare.com/d1/configuration/data-location/
const LOCATIONS = ['weur', 'eeur', 'enam', 'wnam', 'apac', 'oc']
const JURISDICTIONS = ['eu', 'us', 'fedramp']

const HELP = `Makes the database, the KV namespace and the buckets that an environment of wrangler.toml names, writes their ids there,
and puts the secrets that its Worker lacks. A second run completes an interrupted one. Of what exists it changes only
read replication that is off.

  --env NAME           staging or production
  --location HINT      where the data should be: ${LOCATIONS.join(', ')}
  --jurisdiction NAME  where the data must be, and stays: ${JURISDICTIONS.join(', ')}
  --dry-run            prints each call and changes nothing; without credentials, the calls for an empty account
  --config FILE        another wrangler.toml

CLOUDFLARE_ACCOUNT_ID names the account. CLOUDFLARE_API_TOKEN is a token with the permissions D1 Edit, Workers KV
Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit. Secrets are those of the environment:
STORAGE_ACCESS_KEY_ID and STORAGE_SECRET_ACCESS_KEY of an R2 API token; CREDENTIALS_KEY and ADMIN_TOKEN if they are not
to be generated.`

const HINT = required('--location HINT', oneOf(LOCATIONS))
const JURISDICTION = required('--jurisdiction NAME', oneOf(JURISDICTIONS))
const LOCATION: Argument<{ location: string | null; jurisdiction: string | null }> = {
  usage: `${HINT.usage} | ${JURISDICTION.usage}`,
  read: (given) =>
    onlyOne(given)?.name === '--location'
      ? { location: HINT.read(given), jurisdiction: null }
      : { location: null, jurisdiction: JURISDICTION.read(given) },
}
const SECRETS = {
  CREDENTIALS_KEY: /^[A-Za-z0-9+/]{43}=?(,[A-Za-z0-9+/]{43}=?)*$/,
  ADMIN_TOKEN: /^[0-9a-f]{64}$/,
  STORAGE_ENDPOINT: /^https:\/\/\S+$/,
  STORAGE_BUCKET: /^\S+$/,
  STORAGE_REGION: /^\S+$/,
  STORAGE_ACCESS_KEY_ID: /^\S+$/,
  STORAGE_SECRET_ACCESS_KEY: /^\S+$/,
}

/** The secrets of an environment. @throws CommandError for a malformed one */
export function readSecrets(env = process.env): NodeJS.Dict<string> {
  const given = Object.entries(SECRETS).filter(([name]) => env[name])
  const malformed = given.find(([name, pattern]) => !pattern.test(env[name] ?? ''))
  if (malformed) throw new CommandError(`${malformed[0]} is malformed: see src/site/guides/secrets.md.`)
  if (!env.STORAGE_ACCESS_KEY_ID !== !env.STORAGE_SECRET_ACCESS_KEY) {
    throw new CommandError('STORAGE_ACCESS_KEY_ID and STORAGE_SECRET_ACCESS_KEY are a pair: give both.')
  }
  return Object.fromEntries(given.map(([name]) => [name, env[name]]))
}

export const ARGUMENTS = {
  env: required('--env NAME', z.string()),
  at: LOCATION,
  isDryRun: optional('--dry-run', z.stringbool()),
  config: CONFIG,
}

type Options = { env: string; config: string; at: ReturnType<typeof LOCATION.read> }

const CORS_FILE = 'src/resources/files/cors-rules.json'

/** Changes nothing that exists: a second run completes an interrupted one. */
export async function setUp(account: Account, { config, env, at }: Options, given: NodeJS.Dict<string>) {
  const { location, jurisdiction } = at
  const secrets = { ...given }
  const named = readEnvironment(config, env)
  const moved = named.r2_buckets.find((bucket) => (bucket.jurisdiction ?? jurisdiction) !== jurisdiction)
  if (moved) throw new CommandError(`wrangler.toml: ${moved.bucket_name} is in jurisdiction ${moved.jurisdiction}.`)
  const write = (kind: string, binding: string, key: string, value: string) => {
    const where = { table: `env.${env}.${kind}`, binding, key }
    if (account.isDryRun) return console.log(`wrangler.toml [[${where.table}]] ${binding} ${key} = "${value}"`)
    if (writeConfig(config, where, `"${value}"`)) console.log(`wrangler.toml: wrote ${key} of ${binding}`)
  }
  const within = jurisdiction === null ? [] : ['--jurisdiction', jurisdiction]
  const place = location === null ? within : ['--location', location]

  let hasData = false
  for (const { binding, database_name: name, database_id } of named.d1_databases) {
    // Further databases may be in a jurisdiction of their own.
    const required = binding === 'DB' ? jurisdiction : undefined
    const database = { ...DATABASE, name, id: database_id, create: ['d1', 'create', name, ...place] }
    const { id, found } = await ensure(account, database, required)
    const details = found && (await account.read(d1Details, ['d1', 'info', id, '--json']))
    hasData ||= (details?.num_tables ?? 0) > 0
    // Whether replicas stay in a jurisdiction is not documented.
    const isFree = (found ?? { jurisdiction }).jurisdiction === null
    if (isFree && details?.read_replication?.mode !== 'auto') {
      await account.replicate(id)
      account.report(`D1 database ${name}`, 'turned read replication on')
    }
    write('d1_databases', binding, 'database_id', id)
  }
  for (const { binding, id } of named.kv_namespaces) {
    const name = `${named.name}-${binding.toLowerCase()}`
    const create = ['kv', 'namespace', 'create', name, ...within]
    const made = await ensure(account, { ...NAMESPACE, name, id, create }, jurisdiction)
    write('kv_namespaces', binding, 'id', made.id)
  }
  for (const { binding, bucket_name: name } of named.r2_buckets) {
    const found = await account.find(['r2', 'bucket', 'info', name, '--json', ...within])
    if (found === null) await account.change(['r2', 'bucket', 'create', name, ...place])
    account.report(`R2 bucket ${name}`, found === null ? 'created' : 'exists')
    if (binding === 'FILES') {
      // Browsers upload straight to the bucket. Rules that it has stay: they may be narrower.
      const rules = await account.find(['r2', 'bucket', 'cors', 'list', name, ...within])
      const set = ['r2', 'bucket', 'cors', 'set', name, '--file', CORS_FILE, '--force', ...within]
      if (rules === null) await account.change(set)
      account.report(`CORS rules of ${name}`, rules === null ? 'created' : 'exists')
      if (secrets.STORAGE_ACCESS_KEY_ID) {
        const host = [account.id, jurisdiction, 'r2.cloudflarestorage.com'].filter(Boolean).join('.')
        secrets.STORAGE_ENDPOINT ??= `https://${host}`
        secrets.STORAGE_BUCKET ??= name
      }
    }
    if (jurisdiction !== null) write('r2_buckets', binding, 'jurisdiction', jurisdiction)
  }
  await putSecrets(account, named.name, secrets, hasData)
}

/** Null where there is no jurisdiction, for which the API has null, `default` or no field. */
const jurisdiction = z.pipe(
  z.nullish(z.string()),
  z.transform((name) => (name && name !== 'default' ? name : null)),
)

/** https://developers.cloudflare.com/api/resources/d1/subresources/database/ */
const DATABASE = { type: 'D1 database', key: 'database_id', list: ['d1', 'list', '--json'], isNamed: true }
const d1Details = z.object({
  num_tables: z.nullish(z.number()),
  read_replication: z.nullish(z.object({ mode: z.string() })),
})
/** https://developers.cloudflare.com/api/resources/kv/subresources/namespaces/ */
const NAMESPACE = { type: 'KV namespace', key: 'id', list: ['kv', 'namespace', 'list'], isNamed: false }

const database = z.object({ uuid: z.string(), name: z.string(), jurisdiction })
const namespace = z.pipe(
  z.object({ id: z.string(), title: z.string(), jurisdiction }),
  z.transform(({ id, title, ...rest }) => ({ uuid: id, name: title, ...rest })),
)
const listed = z.array(z.union([database, namespace]))

/**
 * Creates a database or namespace that the account lacks. Without a `jurisdiction` it may be in any.
 * @throws CommandError when it exists in another one, or wrangler.toml has an unknown id
 */
async function ensure(
  account: Account,
  wanted: typeof DATABASE & { name: string; id: string; create: string[] },
  jurisdiction: string | null | undefined,
) {
  const { type, key, list, isNamed, name, create } = wanted
  // An id is nothing but zeros until its resource is made.
  const id = /^[0-]+$/.test(wanted.id) ? null : wanted.id
  const all = (await account.read(listed, list)) ?? []
  const found = all.find((each) => (id === null ? each.name === name : each.uuid === id))
  if (id !== null && (!found || (isNamed && found.name !== name))) {
    throw new CommandError(`wrangler.toml: ${key} ${id} is ${found ? found.name : `no ${type}`}, not ${name}.`)
  }
  if (found && jurisdiction !== undefined && found.jurisdiction !== jurisdiction) {
    const where = `in ${found.jurisdiction === null ? 'no jurisdiction' : `jurisdiction ${found.jurisdiction}`}`
    throw new CommandError(`The ${type} ${name} exists ${where}, which cannot be changed. Nothing more was done.`)
  }
  if (!found) await account.change(create)
  const made = found ?? (await account.read(listed, list))?.find((each) => each.name === name)
  if (!made && !account.isDryRun) throw new CommandError(`The new ${type} ${name} is not listed yet: run this again.`)
  account.report(`${type} ${name}`, found ? 'exists' : 'created')
  return { id: made?.uuid ?? 'ID', found }
}

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
    if (!account.isDryRun) console.log(`${name}=${wanted[name]}   (new: store it safely, it is not shown again)`)
  }

  const missing = Object.entries(wanted).filter(([name]) => !has(name))
  const kept = Object.keys(wanted).filter(has)
  if (kept.length > 0) console.log(`secrets ${kept.join(', ')}: present, not changed`)
  if (missing.length > 0) {
    await account.change(['secret', 'bulk', '--name', worker], Object.fromEntries(missing))
    account.report(`secrets ${missing.map(([name]) => name).join(', ')}`, 'put')
  }
  if (!given.STORAGE_ACCESS_KEY_ID && !has('STORAGE_ACCESS_KEY_ID')) console.error(NEEDS_STORAGE)
}

const setup = command(ARGUMENTS, async ({ isDryRun = false, ...options }) => {
  await setUp(openAccount(isDryRun), options, readSecrets())
  const next = `npm run migrate -- --env ${options.env}, npx wrangler deploy --env ${options.env}`
  console.log(isDryRun ? `Nothing was changed. After the setup: ${next}` : `Next: ${next}`)
})

if (import.meta.main) await runCommand('setup', HELP, { '': setup })

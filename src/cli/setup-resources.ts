import { randomBytes } from 'node:crypto'
import * as z from 'zod/mini'
import { CommandError, parseJson } from './command.ts'
import { type ConfigKey, readEnvironment, runWrangler, writeConfig } from './wrangler.ts'

export interface SetupOptions {
  env: string
  config: string
  location: string | null
  jurisdiction: string | null
  secrets: NodeJS.Dict<string>
}

const TIMEOUT_MS = 30_000
const PERMISSIONS = 'D1 Edit, Workers KV Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit'
/** Messages of wrangler for a missing bucket, missing CORS rules and a missing Worker. */
const ABSENT = /\[code: (10006|10059)\]|Worker "\S+" not found\.|no CORS configuration/
const REFUSED = /\b403\b|\[code: (9109|10000|10001)\]/
const CORS_FILE = 'src/resources/files/cors-rules.json'

export type Account = ReturnType<typeof openAccount>

/** A dry run prints each call, and makes only those that read: without credentials none, as in an empty account. */
export function openAccount(isDryRun: boolean, env = process.env, wrangler = runWrangler) {
  const { CLOUDFLARE_ACCOUNT_ID: id = '', CLOUDFLARE_API_TOKEN: token = '' } = env
  const hasCredentials = id !== '' && token !== ''
  if (!hasCredentials && !isDryRun) {
    throw new CommandError(`Set CLOUDFLARE_ACCOUNT_ID, and CLOUDFLARE_API_TOKEN to a token with ${PERMISSIONS}.`)
  }
  if (id && !/^[0-9a-f]{32}$/.test(id)) throw new CommandError('CLOUDFLARE_ACCOUNT_ID must be 32 hexadecimal digits.')
  if (!hasCredentials) console.error('CLOUDFLARE_ACCOUNT_ID or …_API_TOKEN is not set: the calls for an empty account.')

  const fail = (problem: string): never => {
    const hint = REFUSED.test(problem) ? ` CLOUDFLARE_API_TOKEN needs ${PERMISSIONS}.` : ''
    throw new CommandError(`${problem}${hint} Run the command again: it continues where it stopped.`)
  }
  const find = async (args: string[]) => {
    if (isDryRun) console.log(`npx wrangler ${args.join(' ')}`)
    if (!hasCredentials) return null
    const output = await wrangler(args).catch(({ message }: Error) => (ABSENT.test(message) ? message : fail(message)))
    return ABSENT.test(output) ? null : output
  }

  return {
    id: id || 'ACCOUNT_ID',
    isDryRun,
    /** The output of a command that reads; null if that is missing. */
    find,
    async read<T>(schema: z.ZodMiniType<T>, args: string[]): Promise<T | null> {
      const output = await find(args)
      if (output === null) return null
      const { success, data } = z.safeParse(schema, parseJson(output))
      return success ? data : fail(`wrangler ${args.join(' ')}: unexpected output.`)
    },
    /** A dry run prints only the names of what `input`, its standard input, contains. */
    async change(args: string[], input?: Record<string, unknown>) {
      const names = input ? `   # reads ${Object.keys(input).join(', ')}` : ''
      if (isDryRun) return console.log(`npx wrangler ${args.join(' ')}${names}`)
      await wrangler(args, input && JSON.stringify(input)).catch(({ message }: Error) => fail(message))
    },
    /** wrangler has no command for this: https://developers.cloudflare.com/d1/best-practices/read-replication/ */
    async replicate(database: string) {
      const { CLOUDFLARE_API_BASE_URL: baseUrl = 'https://api.cloudflare.com/client/v4' } = env
      const path = `accounts/${id || 'ACCOUNT_ID'}/d1/database/${database}`
      const body = JSON.stringify({ read_replication: { mode: 'auto' } })
      if (isDryRun) return console.log(`PATCH ${path} ${body}`)
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
      const signal = AbortSignal.timeout(TIMEOUT_MS)
      const request = { method: 'PATCH', headers, body, redirect: 'error', signal } as const
      const response = await fetch(`${baseUrl}/${path}`, request).catch(({ message }: Error) =>
        fail(`PATCH ${path}: no response (${message}).`),
      )
      if (!response.ok) fail(`PATCH ${path}: ${response.status} ${(await response.text()).slice(0, 500)}`)
    },
    /** Prints what became of a resource. A dry run has printed its calls instead. */
    report(resource: string, outcome: string) {
      if (outcome === 'exists' || !isDryRun) console.log(`${resource}: ${outcome}`)
    },
  }
}

/** Changes nothing that exists: a second run completes an interrupted one. */
export async function setUp(account: Account, options: SetupOptions): Promise<void> {
  const { config, env, location, jurisdiction } = options
  const named = readEnvironment(config, env)
  const moved = named.r2_buckets.find(
    (bucket) => bucket.jurisdiction !== undefined && bucket.jurisdiction !== jurisdiction,
  )
  if (moved) throw new CommandError(`wrangler.toml: ${moved.bucket_name} is in jurisdiction ${moved.jurisdiction}.`)
  const write = (where: ConfigKey, value: string) => {
    const { table, binding, key } = where
    if (account.isDryRun) return console.log(`wrangler.toml [[${table}]] ${binding} ${key} = ${value}`)
    if (writeConfig(config, where, value)) console.log(`wrangler.toml: wrote ${key} of ${binding}`)
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
    write({ table: `env.${env}.d1_databases`, binding, key: 'database_id' }, `"${id}"`)
  }
  for (const { binding, id } of named.kv_namespaces) {
    const name = `${named.name}-${binding.toLowerCase()}`
    const create = ['kv', 'namespace', 'create', name, ...within]
    const made = await ensure(account, { ...NAMESPACE, name, id, create }, jurisdiction)
    write({ table: `env.${env}.kv_namespaces`, binding, key: 'id' }, `"${made.id}"`)
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
    }
    if (jurisdiction === null) continue
    write({ table: `env.${env}.r2_buckets`, binding, key: 'jurisdiction' }, `"${jurisdiction}"`)
  }
  const files = named.r2_buckets.find(({ binding }) => binding === 'FILES')
  const host = [account.id, jurisdiction, 'r2.cloudflarestorage.com'].filter(Boolean).join('.')
  const storage = files ? { endpoint: `https://${host}`, bucket: files.bucket_name } : null
  await putSecrets(account, named.name, options.secrets, storage, hasData)
}

/** Null where there is no jurisdiction, for which the API has null, `default` or no field. */
const jurisdiction = z.pipe(
  z.optional(z.nullable(z.string())),
  z.transform((name) => (name && name !== 'default' ? name : null)),
)

/** https://developers.cloudflare.com/api/resources/d1/subresources/database/ */
const DATABASE = { type: 'D1 database', key: 'database_id', list: ['d1', 'list', '--json'], isNamed: true }
const d1Details = z.object({
  num_tables: z.optional(z.nullable(z.number())),
  read_replication: z.optional(z.nullable(z.object({ mode: z.string() }))),
})
/** https://developers.cloudflare.com/api/resources/kv/subresources/namespaces/ */
const NAMESPACE = { type: 'KV namespace', key: 'id', list: ['kv', 'namespace', 'list'], isNamed: false }

const listed = z.array(
  z.union([
    z.object({ uuid: z.string(), name: z.string(), jurisdiction }),
    z.pipe(
      z.object({ id: z.string(), title: z.string(), jurisdiction }),
      z.transform(({ id: uuid, title: name, jurisdiction }) => ({ uuid, name, jurisdiction })),
    ),
  ]),
)

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
async function putSecrets(
  account: Account,
  worker: string,
  given: NodeJS.Dict<string>,
  storage: { endpoint: string; bucket: string } | null,
  hasData: boolean,
): Promise<void> {
  const present = await account.read(z.array(z.object({ name: z.string() })), ['secret', 'list', '--name', worker])
  const has = (name: string) => present?.some((secret) => secret.name === name) ?? false

  const wanted = { ...given }
  if (given.STORAGE_ACCESS_KEY_ID && storage) {
    wanted.STORAGE_ENDPOINT ??= storage.endpoint
    wanted.STORAGE_BUCKET ??= storage.bucket
  }
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

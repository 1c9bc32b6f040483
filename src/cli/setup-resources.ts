import * as z from 'zod/mini'
import corsRules from '../resources/files/cors-rules.json' with { type: 'json' }
import { CommandError, print } from './command.ts'
import type { Account } from './setup-account.ts'
import { type ConfigKey, readEnvironment, writeConfig } from './setup-config.ts'
import { putSecrets, type Secrets } from './setup-secrets.ts'

/** What the command line asks for. */
export interface SetupOptions {
  env: string
  config: string
  location: string | null
  jurisdiction: string | null
  domains: string[]
  secrets: Secrets
}

/** Where the resources are to be. */
type Location = Pick<SetupOptions, 'location' | 'jurisdiction'>

/**
 * Makes what an environment of wrangler.toml names and the account lacks, and writes its ids there. What exists is not
 * changed, so that a second run changes nothing and completes an interrupted one.
 *
 * @throws CommandError when what exists is not where it should be, or the account refuses a call
 */
export async function setUp(account: Account, options: SetupOptions): Promise<void> {
  const { config, env, jurisdiction, domains } = options
  const named = readEnvironment(config, env)
  const moved = named.r2_buckets.find((bucket) => bucket.jurisdiction !== null && bucket.jurisdiction !== jurisdiction)
  if (moved) throw new CommandError(`wrangler.toml: ${moved.bucket_name} is in jurisdiction ${moved.jurisdiction}.`)
  const write = (where: ConfigKey, value: string) => {
    if (account.isDryRun) return print(`wrangler.toml [${where.table}] ${where.binding ?? ''} ${where.key} = ${value}`)
    if (writeConfig(config, where, value)) print(`wrangler.toml: wrote ${where.key} of ${where.binding ?? where.table}`)
  }

  if (domains.length > 0) {
    const routes = domains.map((domain) => `{ pattern = "${domain}", custom_domain = true }`)
    write({ table: `env.${env}`, key: 'routes' }, `[${routes.join(', ')}]`)
  }
  let hasData = false
  for (const { binding, database_name: name, database_id } of named.d1_databases) {
    // Further databases may be in a jurisdiction of their own.
    const mayDiffer = binding !== 'DB'
    const { id, tables } = await ensureDatabase(account, { name, id: database_id }, options, mayDiffer)
    hasData ||= tables > 0
    write({ table: `env.${env}.d1_databases`, binding, key: 'database_id' }, `"${id}"`)
  }
  for (const { binding, id } of named.kv_namespaces) {
    const made = await ensureNamespace(account, { name: `${named.name}-${binding.toLowerCase()}`, id }, options)
    write({ table: `env.${env}.kv_namespaces`, binding, key: 'id' }, `"${made}"`)
  }
  for (const { binding, bucket_name: name } of named.r2_buckets) {
    await ensureBucket(account, name, options)
    if (binding === 'FILES') await ensureCorsRules(account, name, options)
    const where = { table: `env.${env}.r2_buckets`, binding, key: 'jurisdiction' }
    if (jurisdiction !== null) write(where, `"${jurisdiction}"`)
  }
  const files = named.r2_buckets.find(({ binding }) => binding === 'FILES')
  const host = [account.id, jurisdiction, 'r2.cloudflarestorage.com'].filter(Boolean).join('.')
  const storage = files ? { endpoint: `https://${host}`, bucket: files.bucket_name } : null
  await putSecrets(account, named.name, options.secrets, storage, hasData)
}

/** The API leaves a field out, or has null or `default`, where there is no jurisdiction. */
const jurisdictionField = z.optional(z.nullable(z.string()))

/** @throws CommandError when something exists, but in another jurisdiction, which cannot be changed */
function checkJurisdiction(what: string, found: string | null | undefined, { jurisdiction }: Location): void {
  const actual = found && found !== 'default' ? found : null
  if (actual === jurisdiction) return
  const where = actual === null ? 'in no jurisdiction' : `in jurisdiction ${actual}`
  throw new CommandError(`The ${what} exists ${where}, which cannot be changed. Nothing more was done.`)
}

/** What wrangler.toml knows of a resource. */
interface Known {
  name: string
  id: string | null
}

/** https://developers.cloudflare.com/api/resources/d1/subresources/database/ */
const d1Database = z.object({
  uuid: z.string(),
  name: z.string(),
  jurisdiction: jurisdictionField,
  num_tables: z.optional(z.nullable(z.number())),
  read_replication: z.optional(z.nullable(z.object({ mode: z.string() }))),
})

/** @param mayDiffer whether it may be in a jurisdiction of its own */
async function ensureDatabase(account: Account, { name, id }: Known, at: Location, mayDiffer: boolean) {
  const what = `D1 database ${name}`
  const listed = id === null ? await account.list(d1Database, 'd1/database') : []
  const known = id ?? listed.find((database) => database.name === name)?.uuid
  const found = known === undefined ? null : await account.find(d1Database, `d1/database/${known}`)
  if (id !== null && found?.name !== name) {
    throw new CommandError(`wrangler.toml: database_id ${id} is ${found ? found.name : 'no database'}, not ${name}.`)
  }
  if (found && !mayDiffer) checkJurisdiction(what, found.jurisdiction, at)
  const { location, jurisdiction } = at
  const body = { name, ...(jurisdiction === null ? { primary_location_hint: location } : { jurisdiction }) }
  const database = found ?? (await account.change(d1Database, 'POST', 'd1/database', { body }))
  const uuid = database?.uuid ?? 'DATABASE_ID'
  account.report(what, found ? 'exists' : 'created')
  // Whether replicas stay in a jurisdiction is not documented.
  const isFree = (found?.jurisdiction ?? jurisdiction) === null
  if (isFree && database?.read_replication?.mode !== 'auto') {
    const replication = { body: { read_replication: { mode: 'auto' } } }
    await account.change(z.unknown(), 'PATCH', `d1/database/${uuid}`, replication)
    account.report(what, 'turned read replication on')
  }
  return { id: uuid, tables: found?.num_tables ?? 0 }
}

/** https://developers.cloudflare.com/api/resources/kv/subresources/namespaces/ */
const kvNamespace = z.object({ id: z.string(), title: z.string(), jurisdiction: jurisdictionField })

async function ensureNamespace(account: Account, { name: title, id }: Known, at: Location) {
  const what = `KV namespace ${title}`
  const path = 'storage/kv/namespaces'
  const listed = id === null ? await account.list(kvNamespace, path) : []
  const known = id ?? listed.find((namespace) => namespace.title === title)?.id
  const found = known === undefined ? null : await account.find(kvNamespace, `${path}/${known}`)
  if (id !== null && !found) throw new CommandError(`wrangler.toml: id ${id} is no KV namespace of this account.`)
  if (found) checkJurisdiction(what, found.jurisdiction, at)
  const { jurisdiction } = at
  const body = { title, ...(jurisdiction !== null && { jurisdiction }) }
  const namespace = found ?? (await account.change(kvNamespace, 'POST', path, { body }))
  account.report(what, found ? 'exists' : 'created')
  return namespace?.id ?? 'NAMESPACE_ID'
}

/** A bucket's name is its own in each jurisdiction, which this header names. */
const jurisdictionHeader = ({ jurisdiction }: Pick<Location, 'jurisdiction'>): Record<string, string> =>
  jurisdiction === null ? {} : { 'cf-r2-jurisdiction': jurisdiction }

/** https://developers.cloudflare.com/api/resources/r2/subresources/buckets/ */
async function ensureBucket(account: Account, name: string, at: Location): Promise<void> {
  const headers = jurisdictionHeader(at)
  const found = await account.find(z.object({ name: z.string() }), `r2/buckets/${name}`, headers)
  const body = { name, ...(at.jurisdiction === null && { locationHint: at.location }) }
  if (!found) await account.change(z.unknown(), 'POST', 'r2/buckets', { body, headers })
  account.report(`R2 bucket ${name}`, found ? 'exists' : 'created')
}

/** Browsers upload straight to the bucket. Rules that it has stay: they may be narrower. */
async function ensureCorsRules(account: Account, bucket: string, at: Location): Promise<void> {
  const headers = jurisdictionHeader(at)
  const path = `r2/buckets/${bucket}/cors`
  const found = await account.find(z.object({ rules: z.optional(z.array(z.unknown())) }), path, headers)
  const hasRules = (found?.rules ?? []).length > 0
  if (!hasRules) await account.change(z.unknown(), 'PUT', path, { body: corsRules, headers })
  account.report(`CORS rules of ${bucket}`, hasRules ? 'exists' : 'created')
}

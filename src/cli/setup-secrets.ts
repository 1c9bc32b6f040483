import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import * as z from 'zod/mini'
import { CommandError, print, warn } from './command.ts'
import type { Account } from './setup-account.ts'

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
export type Secrets = Partial<Record<keyof typeof SECRETS, string>>

const GENERATED = {
  CREDENTIALS_KEY: () => randomBytes(32).toString('base64'),
  ADMIN_TOKEN: () => randomBytes(32).toString('hex'),
}

const isSecret = (name: string): name is keyof typeof SECRETS => Object.hasOwn(SECRETS, name)

/**
 * The secrets of a file of lines `NAME=value`, and of the environment those that the file leaves out.
 *
 * @throws CommandError for a name or value that the Worker does not take; its message has no value
 */
export function readSecrets(file: string | undefined, env = process.env): Secrets {
  const given = file === undefined ? {} : readLines(file)
  const unknown = Object.keys(given).find((name) => !isSecret(name))
  if (unknown !== undefined)
    throw new CommandError(`--secrets: ${unknown} is none of ${Object.keys(SECRETS).join(', ')}.`)
  const secrets: Secrets = {}
  for (const [name, pattern] of Object.entries(SECRETS)) {
    const value = given[name] ?? env[name]
    if (!value || !isSecret(name)) continue
    if (!pattern.test(value)) throw new CommandError(`${name} is malformed: see "Configuration" in README.md.`)
    secrets[name] = value
  }
  if (!secrets.STORAGE_ACCESS_KEY_ID !== !secrets.STORAGE_SECRET_ACCESS_KEY) {
    throw new CommandError('STORAGE_ACCESS_KEY_ID and STORAGE_SECRET_ACCESS_KEY are a pair: give both.')
  }
  return secrets
}

function readLines(file: string): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(file, 'utf8'))
  } catch {
    throw new CommandError(`--secrets: '${file}' cannot be read.`)
  }
}

/**
 * Puts the secrets that the Worker lacks, all in one call; no secret that it has is changed. A Worker that was never
 * deployed is created empty to take them, as `wrangler secret bulk` does, so that none is ever served without its key.
 *
 * @param storage where the deployment's own storage is, for the keys to it
 * @param hasData whether the database may hold credentials that an earlier key encrypted: then none is generated
 * @throws CommandError when that key is needed
 */
export async function putSecrets(
  account: Account,
  worker: string,
  given: Secrets,
  storage: { endpoint: string; bucket: string } | null,
  hasData: boolean,
): Promise<void> {
  const path = `workers/scripts/${worker}`
  const present = await account.find(z.array(z.object({ name: z.string() })), `${path}/secrets`)
  const has = (name: string) => present?.some((secret) => secret.name === name) ?? false

  const wanted = { ...given }
  if (given.STORAGE_ACCESS_KEY_ID && storage) {
    wanted.STORAGE_ENDPOINT ??= storage.endpoint
    wanted.STORAGE_BUCKET ??= storage.bucket
  }
  for (const [name, generate] of Object.entries(GENERATED)) {
    if (!isSecret(name) || wanted[name] || has(name)) continue
    if (name === 'CREDENTIALS_KEY' && hasData) {
      throw new CommandError(
        'The database has tables, but the Worker has no CREDENTIALS_KEY: give the one that encrypted them, or a new one (`openssl rand -base64 32`) if no integration was ever saved.',
      )
    }
    wanted[name] = generate()
    // Before the call: if its response is lost, the value is not.
    if (!account.isDryRun) print(`${name}=${wanted[name]}   (new: store it safely, it is not shown again)`)
  }

  const missing = Object.entries(wanted).filter(([name]) => !has(name))
  const kept = Object.keys(wanted).filter(has)
  if (kept.length > 0) print(`secrets ${kept.join(', ')}: present, not changed`)
  if (!present) await createWorker(account, path)
  if (missing.length > 0) {
    const secrets = Object.fromEntries(missing.map(([name, text]) => [name, { name, text, type: 'secret_text' }]))
    // https://developers.cloudflare.com/changelog/post/2026-06-03-bulk-secrets-api/
    const headers = { 'content-type': 'application/merge-patch+json' }
    await account.change(z.unknown(), 'PATCH', `${path}/secrets-bulk`, { body: { secrets }, headers })
    account.report(`secrets ${missing.map(([name]) => name).join(', ')}`, 'put')
  }
  if (!given.STORAGE_ACCESS_KEY_ID && !has('STORAGE_ACCESS_KEY_ID')) {
    warn(
      'Uploads need STORAGE_ACCESS_KEY_ID and STORAGE_SECRET_ACCESS_KEY: make an R2 API token (Object Read & Write on the bucket of FILES) and run this command again with both.',
    )
  }
}

/** https://developers.cloudflare.com/api/resources/workers/subresources/scripts/methods/update/ */
async function createWorker(account: Account, path: string): Promise<void> {
  const body = new FormData()
  body.set('metadata', JSON.stringify({ main_module: 'worker.js', compatibility_date: '2026-10-20' }))
  const module = new Blob(['export default { fetch() {} }'], { type: 'application/javascript+module' })
  body.set('worker.js', module, 'worker.js')
  await account.change(z.unknown(), 'PUT', path, { body })
  account.report(`Worker ${path.split('/').at(-1)}`, 'created empty')
}

import { appendFileSync, cpSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import * as z from 'zod/mini'
import { CommandError } from '../../src/cli/command.ts'
import { setUp } from '../../src/cli/setup.ts'
import { openAccount } from '../../src/cli/wrangler.ts'
import { type AccountApi, startAccountApi } from './account-api.ts'
import { temporaryFolder } from './cli-support.ts'
import { startCommand } from './servers.ts'

/** Makes an empty account and a copy of wrangler.toml: `setUp` fills them in this process, `run` by a command. */
export async function freshAccount() {
  const api = await startAccountApi()
  onTestFinished(api.close)
  const folder = await temporaryFolder()
  const config = join(folder, 'wrangler.toml')
  cpSync('wrangler.toml', config)
  for (const name of ['drizzle', 'src', 'node_modules']) symlinkSync(join(process.cwd(), name), join(folder, name))
  return {
    api,
    config,
    readConfig: () => readFileSync(config, 'utf8'),
    setUp: (options: SetupOptions = {}) => setUpHere(api, config, options),
    /** Runs a command with an environment that has no other credentials. */
    run(command: 'setup' | 'migrate', args: string[], env: Record<string, string> = {}) {
      const { PATH = '', HOME = '' } = process.env
      return startCommand(command, args, { PATH, HOME, ...api.env, ...env }, { inherited: {} }).ended
    },
  }
}

/** What an account has, without what differs from run to run. */
export function summarize({ databases, namespaces, buckets, workers }: AccountApi) {
  return {
    databases: databases.map(({ uuid: _, sqlite: __, ...database }) => database),
    namespaces: namespaces.map(({ id: _, ...namespace }) => namespace),
    buckets: buckets.map((bucket) => ({ ...bucket })),
    secrets: [...workers].map(([name, { secrets }]) => [name, ...[...secrets.keys()].sort()]),
  }
}

/** Adds a further database to production, in a copy of wrangler.toml. */
export function addDatabase(config: string): { binding: string; name: string } {
  const [binding, name] = ['DB_APAC', 'crm-integration-api-production-apac']
  const id = '00000000-0000-0000-0000-000000000000'
  const keys = [`binding = "${binding}"`, `database_name = "${name}"`, `database_id = "${id}"`]
  appendFileSync(config, ['', '[[env.production.d1_databases]]', ...keys, 'migrations_dir = "drizzle"', ''].join('\n'))
  return { binding, name }
}

/**
 * A stand-in of wrangler, of whose start each call would take a second: it makes the calls that wrangler 4.155 makes, and
 * prints what that prints. `wrangler.slow.test.ts` holds both against each other.
 */
function fakeWrangler(api: AccountApi) {
  const call = async (method: string, path: string, body?: object | FormData, headers = {}) => {
    const { CLOUDFLARE_API_BASE_URL: base, CLOUDFLARE_ACCOUNT_ID: account, CLOUDFLARE_API_TOKEN: token } = api.env
    const response = await fetch(`${base}/accounts/${account}/${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...headers },
      ...(body && { body: body instanceof FormData ? body : JSON.stringify(body) }),
    })
    const { success, errors, result } = replyOf.parse(await response.json())
    if (success) return result
    const lines = errors.map(({ message, code }) => `${message} [code: ${code}]`)
    throw new CommandError(`wrangler: A request to the Cloudflare API (${path}) failed. ${lines.join(' ')}`)
  }
  const run = (args: string[], input: string) => {
    const option = (name: string) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined)
    const [location, jurisdiction, worker] = ['--location', '--jurisdiction', '--name'].map(option)
    const r2 = jurisdiction === undefined ? {} : { 'cf-r2-jurisdiction': jurisdiction }
    const [kind, action, third, name, bucket] = args
    switch (kind === 'd1' || kind === 'secret' ? `${kind} ${action}` : `${kind} ${action} ${third}`) {
      case 'd1 list':
        return call('GET', 'd1/database')
      case 'd1 info':
        return call('GET', `d1/database/${third}`)
      case 'd1 create':
        return call('POST', 'd1/database', { name: third, primary_location_hint: location, jurisdiction })
      case 'kv namespace list':
        return call('GET', 'storage/kv/namespaces')
      case 'kv namespace create':
        return call('POST', 'storage/kv/namespaces', { title: name, jurisdiction })
      case 'r2 bucket info':
        return call('GET', `r2/buckets/${name}`, undefined, r2)
      case 'r2 bucket create':
        return call('POST', 'r2/buckets', { name, locationHint: location }, r2)
      case 'r2 bucket cors': {
        const rules = name === 'set' ? JSON.parse(readFileSync(option('--file') ?? '', 'utf8')) : undefined
        return call(rules ? 'PUT' : 'GET', `r2/buckets/${bucket}/cors`, rules, r2)
      }
      case 'secret list':
        return call('GET', `workers/scripts/${worker}/secrets`).catch(({ message }) => {
          throw new CommandError(message.replace(/.*\[code: 10007]/, `Worker "${worker}" not found.`))
        })
      case 'secret bulk': {
        const entries = Object.entries(JSON.parse(input)).map(([name, text]) => [name, { name, text }])
        const body = { secrets: Object.fromEntries(entries) }
        const headers = { 'content-type': 'application/merge-patch+json' }
        const put = () => call('PATCH', `workers/scripts/${worker}/secrets-bulk`, body, headers)
        return put().catch(async (error: Error) => {
          if (!error.message.includes('[code: 10007]')) throw error
          await call('PUT', `workers/scripts/${worker}`, new FormData())
          return put()
        })
      }
    }
    throw new Error(`Unknown command: ${args.join(' ')}`)
  }
  return async (args: string[], input = '') => {
    api.commands.push(`npx wrangler ${args.join(' ')}`)
    return JSON.stringify(await run(args, input))
  }
}

const replyOf = z.object({
  success: z.boolean(),
  errors: z.array(z.object({ code: z.number(), message: z.string() })),
  result: z.optional(z.unknown()),
})

export interface SetupOptions {
  env?: string
  location?: string | null
  jurisdiction?: string
  secrets?: NodeJS.Dict<string>
  isDryRun?: boolean
}

/** Runs setup in this process, and returns what it printed; an error has that too. */
async function setUpHere(api: AccountApi, config: string, given: SetupOptions) {
  const { env = 'production', location = 'weur', jurisdiction = null, secrets = {}, isDryRun = false } = given
  const options = { config, env, at: { location, jurisdiction } }
  const lines: string[] = []
  const log = vi.spyOn(console, 'log').mockImplementation((text) => void lines.push(`${text}\n`))
  const silent = vi.spyOn(console, 'error').mockReturnValue()
  try {
    await setUp(openAccount(isDryRun, api.env, fakeWrangler(api)), options, secrets)
  } catch (error) {
    throw Object.assign(error instanceof Error ? error : new Error(), { printed: lines.join('') })
  } finally {
    log.mockRestore()
    silent.mockRestore()
  }
  return lines.join('')
}

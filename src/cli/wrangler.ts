import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { text as readText } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { parse } from 'smol-toml'
import * as z from 'zod/mini'
import { parseJson } from '../client/transport.ts'
import { type Argument, CommandError, resolvePath } from './command.ts'

/** With a slash at its end. */
export const PROJECT_ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** Preloaded into wrangler's processes, so that they end when their parent has ended, in whatever way. */
const END_WITH_PARENT = `data:text/javascript,${encodeURIComponent(`
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  process.channel?.unref()
`)}`

const SETTINGS = { WRANGLER_SEND_METRICS: 'false', WRANGLER_HIDE_BANNER: 'true', FORCE_COLOR: '0' }

/** Starts wrangler with piped input and output. It ends when this process ends. `wrangler dev` sends a message when it serves. */
export function spawnWrangler(args: string[]): ChildProcess {
  const script = `${PROJECT_ROOT}node_modules/wrangler/bin/wrangler.js`
  return spawn(process.execPath, ['--import', END_WITH_PARENT, script, ...args], {
    cwd: PROJECT_ROOT,
    stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
    // CLOUDFLARE_ENV would choose an environment where no argument does.
    env: { ...process.env, ...SETTINGS, CLOUDFLARE_ENV: undefined },
  })
}

/** Runs wrangler and returns its output. @throws CommandError with its message and those of the account's API */
export async function runWrangler(args: string[], input?: string): Promise<string> {
  const child = spawnWrangler(args)
  // A wrangler that fails may not read it.
  child.stdin?.on('error', () => undefined).end(input)
  const outputs = [child.stdout, child.stderr].map((output) => (output ? readText(output) : ''))
  const [[code], stdout = '', stderr] = await Promise.all([once(child, 'close'), ...outputs])
  // It colours its errors wherever it runs, and may end with 0 after one.
  const text = stripVTControlCharacters(`${stdout}\n${stderr}`)
  if (code === 0 && !text.includes('[ERROR]')) return stdout
  const lines = text.trim().split('\n')
  const errors = lines.filter((line) => /\[ERROR\]|\[code: \d+\]/.test(line))
  const shown = errors.length > 0 ? errors : lines.slice(-1)
  const message = shown.map((line) => line.replace(/^.*\[ERROR\]\s*/, '').trim()).join(' ')
  throw new CommandError(`wrangler ${args.slice(0, 3).join(' ')}: ${message}`)
}

const resources = {
  d1_databases: z.array(z.object({ binding: z.string(), database_name: z.string(), database_id: z.string() })),
  kv_namespaces: z.array(z.object({ binding: z.string(), id: z.string() })),
  r2_buckets: z.array(z.object({ binding: z.string(), bucket_name: z.string(), jurisdiction: z.optional(z.string()) })),
}
const simple = z.object({ limit: z.number(), period: z.literal([10, 60]) })
/** A `wrangler.toml`, whose top level is for development. */
const configuration = z.object({
  name: z.string(),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
  vars: z._default(z.record(z.string(), z.string()), {}),
  ...resources,
  durable_objects: z.object({ bindings: z.array(z.object({ name: z.string(), class_name: z.string() })) }),
  ratelimits: z.array(z.object({ name: z.string(), namespace_id: z.string(), simple })),
  env: z.record(z.string(), z.object({ name: z.optional(z.string()), ...resources })),
})

export const CONFIG: Argument<string> = {
  usage: '[--config FILE]',
  read: (given) => resolvePath(given.at(-1)?.text ?? `${PROJECT_ROOT}wrangler.toml`),
}

/** @throws CommandError when the file is absent, or a binding lacks its name or id */
export function readConfiguration(file = `${PROJECT_ROOT}wrangler.toml`) {
  if (!existsSync(file)) throw new CommandError(`There is no file '${file}'.`)
  const { success, data, error } = configuration.safeParse(parse(readFileSync(file, 'utf8')))
  if (!success) throw new CommandError(`${file}: ${z.prettifyError(error)}`)
  return data
}

/** @throws CommandError as {@link readConfiguration}, and for an environment that is absent */
export function readEnvironment(file: string, env: string) {
  const { name, env: environments } = readConfiguration(file)
  const found = Object.hasOwn(environments, env) && environments[env]
  if (found) return { ...found, name: found.name ?? `${name}-${env}` }
  throw new CommandError(`--env must be one of ${Object.keys(environments).join(', ')}, not '${env}'.`)
}

/** A key of a wrangler.toml: `[[env.production.d1_databases]]` with `binding = "DB"`. */
type ConfigKey = Record<'table' | 'binding' | 'key', string>

/** Sets a key in a file at once, so that it is never half written. Returns whether that changed it. */
export function writeConfig(file: string, where: ConfigKey, value: string): boolean {
  const text = readFileSync(file, 'utf8')
  const changed = setKey(text, where, value)
  if (changed === text) return false
  writeFileSync(`${file}.new`, changed)
  renameSync(`${file}.new`, file)
  return true
}

/** Sets a key to a TOML value and keeps all else, comments too. @throws CommandError for a table of another form */
export function setKey(text: string, { table, binding, key }: ConfigKey, value: string): string {
  const line = `${key} = ${value}`
  const marker = new RegExp(`^binding *= *"${binding}".*\n`, 'm')
  const present = new RegExp(`^${key} *= *"[^"\n]*"`, 'm')
  const sections = text.split(/^(?=\[)/m)
  const at = sections.findIndex((section) => section.startsWith(`[[${table}]]\n`) && marker.test(section))
  const section = sections[at]
  if (section === undefined) {
    const where = `[[${table}]] with binding = "${binding}"`
    throw new CommandError(`wrangler.toml has no ${where} that can be changed: write ${line} there yourself.`)
  }
  const changed = present.test(section) ? section.replace(present, line) : section.replace(marker, `$&${line}\n`)
  return sections.with(at, changed).join('')
}

const TIMEOUT_MS = 30_000
const PERMISSIONS = 'D1 Edit, Workers KV Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit'
/** Messages of wrangler for a missing bucket, missing CORS rules and a missing Worker. */
const ABSENT = /\[code: (10006|10059)\]|Worker "\S+" not found\.|no CORS configuration/
const REFUSED = /\b403\b|\[code: (9109|10000|10001)\]/

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

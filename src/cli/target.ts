import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod/mini'
import { parseJson } from '../client/transport.ts'
import { isLoopback } from '../kernel/http/outbound.ts'
import { type AdminApi, openAdminApi, type Service } from './admin-api.ts'
import { type Argument, CommandError, onlyOne, resolvePath } from './command.ts'
import { readDevVars, startRuntime } from './local-runtime.ts'
import { PROJECT_ROOT } from './wrangler.ts'

export type Target = { state: string } | Service

const HELP = `  --state DIR   the local data in this directory, by default .wrangler/state
  --remote URL  the service at this address, by default CRM_API_URL of the environment, where it is set;
                CRM_ADMIN_TOKEN is the service's ADMIN_TOKEN`

/** How a command line names its target. `--state` may be absent, or one of `words`, which are no directory. */
export function target({ mayBeNew = false, words = [] as readonly string[] } = {}): Argument<Target> {
  return {
    usage: '[--state DIR | --remote URL]',
    help: HELP,
    read: (given) => {
      const chosen = onlyOne(given.filter(({ text }) => !words.includes(text)))
      if (chosen?.name === '--state') return { state: readState(chosen.text, mayBeNew) }
      const { name, text } = chosen ?? { name: 'CRM_API_URL', text: process.env.CRM_API_URL }
      return text ? readService(name, text) : { state: readState(undefined, mayBeNew) }
    },
  }
}

/** @throws CommandError when the address is mistyped, or the environment has no token */
function readService(name: string, address: string): Service {
  const url = URL.parse(address)
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
  if (!url || !isSafe || url.username !== '' || url.pathname !== '/' || url.search !== '' || url.hash !== '') {
    // The address may hold a password.
    throw new CommandError(`${name} must be the https address of a service, without a path or a user name.`)
  }
  const { CRM_ADMIN_TOKEN: token = '', CF_ACCESS_CLIENT_ID: id, CF_ACCESS_CLIENT_SECRET: secret } = process.env
  if (!/^[0-9a-f]{64}$/i.test(token)) {
    throw new CommandError(`Set CRM_ADMIN_TOKEN to the ADMIN_TOKEN of ${url.origin}: 64 hexadecimal digits.`)
  }
  const headers = id && secret ? { 'cf-access-client-id': id, 'cf-access-client-secret': secret } : {}
  return { url: url.origin, token, headers }
}

export interface Connection extends AdminApi, AsyncDisposable {
  /** When the service delivers what a command has made due, as the end of a sentence. */
  deliveries: string
  /** Its target as the options of another command. */
  options: string
}

const AT_ONCE = 'at once if the company is active.'

/** Connects to a service: of a state directory that is a running `dev`, else a runtime of this process. */
export async function connect(to: Target): Promise<Connection> {
  const options = 'url' in to ? `--remote ${to.url}` : `--state ${to.state}`
  const connection = (service: Service, deliveries = AT_ONCE, close = async () => {}): Connection => {
    return { ...openAdminApi(service), deliveries, options, [Symbol.asyncDispose]: close }
  }
  if ('url' in to) return connection(to)
  const { ADMIN_TOKEN: token } = readDevVars()
  const claim = await claimState(to.state)
  if ('url' in claim) return connection({ url: claim.url, token })
  const runtime = await startRuntime(to.state).catch((error) => {
    claim.release()
    throw error
  })
  const close = () => runtime.close().finally(claim.release)
  return connection({ url: runtime.url, token }, "when 'npm run dev' runs on this data.", close)
}

/** The directory of `--state`. A mistyped one is refused, so that nothing is made. @throws CommandError */
export function readState(directory?: string, mayBeNew = false): string {
  if (directory === undefined) return `${PROJECT_ROOT}.wrangler/state`
  const state = resolvePath(directory)
  const needed = mayBeNew ? dirname(state) : state
  if (existsSync(needed)) return state
  throw new CommandError(`--state: there is no directory '${mayBeNew ? needed : directory}'.`)
}

/** The process that uses a state directory, in its `dev.json`: `dev` with its address once it serves, or a command. */
const record = z.object({ pid: z.int(), url: z.optional(z.url()) })

/** The lock of a state directory, whose files only one runtime may open. */
export type Claim = NonNullable<ReturnType<typeof tryToClaim>>

/** How long to wait for a process that uses the directory, such as a `dev` that reloads. */
const PATIENCE_MS = 60_000
const PAUSE_MS = 50
const SQLITE_BUSY = 5

/**
 * Claims a state directory, or returns the address of a `dev` that serves it. Waits while another command uses it.
 * @throws CommandError when it cannot be written, or its user neither ends nor responds
 */
export async function claimState(state: string): Promise<Claim | { url: string }> {
  const file = join(state, 'dev.json')
  const start = Date.now()
  for (;;) {
    const claim = tryToClaim(state, file)
    if (claim) return claim
    // It may have been removed, or is just being written.
    const { data: user } = record.safeParse(parseJson(await readFile(file, 'utf8').catch(() => '')))
    if (user?.url !== undefined) {
      const request = { method: 'HEAD', signal: AbortSignal.timeout(5_000) }
      if (await fetch(`${user.url}/health/live`, request).catch(() => null)) return { url: user.url }
    }
    if (Date.now() - start > PATIENCE_MS) {
      const name = user?.url === undefined ? 'Another process' : `${user.url}, which does not respond,`
      throw new CommandError(`${name} uses '${state}': stop it${user ? ` (process ${user.pid})` : ''}.`)
    }
    await sleep(PAUSE_MS * (1 + Math.random()))
  }
}

/** The lock is a transaction of SQLite, which ends with its process, or when the claim is no longer referenced. */
function tryToClaim(state: string, file: string) {
  /** Tells other commands where to find the service. */
  const publish = (url?: string) => writeFileSync(file, JSON.stringify({ pid: process.pid, url }))
  let lock: DatabaseSync | undefined
  try {
    mkdirSync(join(state, 'v3'), { recursive: true })
    lock = new DatabaseSync(join(state, 'dev.lock'), { timeout: 0 })
    lock.exec('BEGIN EXCLUSIVE')
    publish()
  } catch (error) {
    lock?.close()
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return null
    throw new CommandError(`Cannot store data in '${state}': it is not a writable directory.`)
  }
  const release = () => {
    rmSync(file, { force: true })
    lock.close()
  }
  return { publish, release }
}

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod/mini'
import { CommandError, resolvePath } from './command.ts'
import { PROJECT_ROOT } from './wrangler.ts'

/** What may lie in a directory that becomes a state directory: hidden files, and seed files. */
const HARMLESS = /^\.|\.json$/

/**
 * The state directory of `--state`, by default that of this folder. A mistyped one is refused, so that nothing is made.
 *
 * @param mayBeNew whether the directory may be absent, below one that exists
 * @throws CommandError when it is absent, no directory, or one of other files
 */
export function readState(directory?: string, mayBeNew = false): string {
  if (directory === undefined) return `${PROJECT_ROOT}.wrangler/state`
  const state = resolvePath(directory)
  if (!existsSync(state)) {
    if (!mayBeNew) throw new CommandError(`--state: there is no directory '${directory}'.`)
    if (!existsSync(dirname(state))) throw new CommandError(`--state: there is no directory '${dirname(state)}'.`)
    return state
  }
  const names = listNames(state)
  if (names.includes('v3') || names.every((name) => HARMLESS.test(name))) return state
  throw new CommandError(
    `--state: '${directory}' has other files and no data of this service: choose another directory.`,
  )
}

function listNames(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    throw notWritable(directory)
  }
}

function notWritable(directory: string): CommandError {
  return new CommandError(`Cannot store data in '${directory}': it is not a writable directory.`)
}

/** The process that uses a state directory, in its `dev.json`: `dev` with its address once it serves, or a command. */
const record = z.object({ pid: z.int().check(z.positive()), url: z.optional(z.url()) })

/** Of one state directory, whose files only one runtime may open. */
export interface Claim {
  /** Tells other commands where to find the service. */
  publish: (url: string) => void
  release: () => void
}

const HEARTBEAT_MS = 2_000
/** After this long without a heartbeat the process of a record has ended, and another may have got its id. */
const STALE_MS = 10_000
/** How long to wait for a process that uses the directory, such as a `dev` that reloads. */
const PATIENCE_MS = 60_000
const PAUSE_MS = 50

/**
 * Claims a state directory, which is created where it is absent. Waits while another command uses it.
 *
 * @returns the claim, or the address of a `dev` that serves the directory
 * @throws CommandError when the directory cannot be written, or its user neither ends nor responds
 */
export async function claimState(state: string): Promise<Claim | { url: string }> {
  const file = join(state, 'dev.json')
  const start = Date.now()
  for (;;) {
    const claim = tryToClaim(state, file)
    if (claim) return claim
    const user = readRecord(file)
    if (user?.url !== undefined && (await responds(user.url))) return { url: user.url }
    removeStale(file)
    if (Date.now() - start > PATIENCE_MS) {
      const name = user?.url === undefined ? 'Another process' : `${user.url}, which does not respond,`
      throw new CommandError(`${name} uses '${state}': stop it${user ? ` (process ${user.pid})` : ''}.`)
    }
    await sleep(PAUSE_MS * (1 + Math.random()))
  }
}

function tryToClaim(state: string, file: string): Claim | null {
  const write = (url: string | undefined, flag: 'w' | 'wx') =>
    writeFileSync(file, JSON.stringify({ pid: process.pid, url }), { flag })
  try {
    mkdirSync(join(state, 'v3'), { recursive: true })
    write(undefined, 'wx')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST' && existsSync(file)) return null
    throw notWritable(state)
  }
  const timer = setInterval(() => {
    const now = new Date()
    // Another process may have taken the directory while this one was suspended.
    if (isOwn(file)) utimesSync(file, now, now)
  }, HEARTBEAT_MS).unref()
  return {
    publish: (url) => write(url, 'w'),
    release: () => {
      clearInterval(timer)
      if (isOwn(file)) rmSync(file, { force: true })
    },
  }
}

function isOwn(file: string): boolean {
  return readRecord(file)?.pid === process.pid
}

function readRecord(file: string): z.output<typeof record> | null {
  try {
    return record.parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    // It has been removed, or is just being written.
    return null
  }
}

/** Removes the record of a process that has ended. */
function removeStale(file: string): void {
  const user = readRecord(file)
  const { mtimeMs = Date.now() } = statSync(file, { throwIfNoEntry: false }) ?? {}
  const isStale = Date.now() - mtimeMs > STALE_MS || (user && !isRunning(user.pid))
  if (isStale) rmSync(file, { force: true })
}

export function isRunning(pid: number): boolean {
  try {
    // Signal 0 only tests for the process.
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function responds(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/health/live`, { signal: AbortSignal.timeout(5_000) })
    await response.body?.cancel()
    return true
  } catch {
    return false
  }
}

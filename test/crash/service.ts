import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const DEV = fileURLToPath(new URL('../../src/cli/dev.ts', import.meta.url))
const READY_MS = 60_000
const PAUSE_MS = 50
const ASK_MS = 2_000
const STOP_MS = 10_000

/** Which processes a crash ends: the one that holds the database, or all that `npm run dev` started, itself included. */
export type Victim = 'workerd' | 'group'

/** The service as people run it locally, in a process group of its own. */
export interface Service {
  /** What stands before `/api/v1`. */
  url: string
  kill: (victim: Victim) => void
  /** Once it answers, after a start or after a crash of the runtime, which is started anew by itself. */
  waitUntilServing: (token: string) => Promise<void>
  /** Ends it in the usual way. */
  stop: () => Promise<void>
}

/** Starts `npm run dev` on a state directory and a free port. */
export async function startService(state: string): Promise<Service> {
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const child = spawn(process.execPath, [DEV, '--port', String(port), '--state', state], {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    // As npm tells it: then it ends by itself when this process does.
    env: { ...process.env, npm_lifecycle_event: 'dev' },
  })
  let complaints = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-2_000)
  })
  const group = child.pid
  if (group === undefined) throw new Error('The service did not start.')
  return {
    url,
    kill: (victim) => process.kill(victim === 'group' ? -group : findDatabaseHolder(group, state), 'SIGKILL'),
    waitUntilServing: (token) => waitUntilServing(url, token, child, () => complaints),
    stop: () => stop(child, group),
  }
}

async function waitUntilServing(url: string, token: string, child: ChildProcess, complaints: () => string) {
  const end = Date.now() + READY_MS
  let seen = ''
  while (Date.now() < end && child.exitCode === null && child.signalCode === null) {
    try {
      const response = await fetch(`${url}/api/v1/clients?per_page=1`, {
        headers: { authorization: `Bearer ${token}` },
        signal: AbortSignal.timeout(ASK_MS),
      })
      seen = `${response.status} ${await response.text()}`.slice(0, 300)
      if (response.status === 200) return
    } catch (error) {
      // It is being started.
      seen = String(error)
    }
    await sleep(PAUSE_MS)
  }
  throw new Error(`The service did not get ready (${seen}): ${complaints().trim()}`)
}

/** The process of a group that has the database open; the other runtime processes only pass requests on. */
function findDatabaseHolder(group: number, state: string): number {
  const holder = membersOf(group).find((pid) => openFilesOf(pid).some((file) => file.startsWith(`${state}/v3/d1/`)))
  if (holder === undefined) throw new Error('No process of the service has the database open.')
  return holder
}

function membersOf(group: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => groupOf(pid) === group)
}

function groupOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return Number(group)
  } catch {
    // It has ended.
    return undefined
  }
}

function openFilesOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${fd}`)]
      } catch {
        // Closed in the meantime.
        return []
      }
    })
  } catch {
    return []
  }
}

async function stop(child: ChildProcess, group: number): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const closed = once(child, 'close')
    child.kill('SIGTERM')
    await Promise.race([closed, sleep(STOP_MS)])
  }
  // Whatever was left behind.
  for (const pid of membersOf(group)) process.kill(pid, 'SIGKILL')
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

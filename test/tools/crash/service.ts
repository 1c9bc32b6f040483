import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RunningDev, startDev } from '../../node/start-dev.ts'
import { type Answer, ask } from '../harness/ask.ts'

const READY_MS = 240_000
const PAUSE_MS = 50
const REQUEST_MS = 2_000

/** Which processes a crash ends: the one that holds the database, or all that `npm run dev` started, itself included. */
export type Victim = 'workerd' | 'group'

export type Service = Awaited<ReturnType<typeof startService>>

/** Starts `npm run dev` on a state directory and a free port, in a process group of its own. */
export async function startService(state: string) {
  const dev = await startDev({ state, detached: true })
  return {
    /** The URL up to `/api/v1`. */
    url: dev.url,
    kill: (victim: Victim) =>
      process.kill(victim === 'group' ? -dev.pid : findDatabaseHolder(dev.pid, state), 'SIGKILL'),
    /** Resolves once it responds, after a start or after a crash of the runtime, which restarts by itself. */
    waitUntilServing: (token: string) => waitUntilServing(dev, token),
    stop: () => stop(dev),
  }
}

async function waitUntilServing({ url, output, ended }: RunningDev, token: string) {
  let isRunning = true
  ended.then(() => {
    isRunning = false
  })
  const end = Date.now() + READY_MS
  let seen: Answer | undefined
  // Without a response it is being restarted.
  while (Date.now() < end && isRunning) {
    seen = await ask({ url }, token, 'GET', '/api/v1/clients?per_page=1', { timeoutMs: REQUEST_MS })
    if (seen.status === 200) return
    await sleep(PAUSE_MS)
  }
  throw new Error(
    `The service did not get ready (${seen?.status} ${JSON.stringify(seen?.body)}): ${output.stderr.slice(-2_000).trim()}`,
  )
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

async function stop(dev: RunningDev): Promise<void> {
  await dev.stop()
  // Processes that outlived a kill.
  for (const pid of membersOf(dev.pid)) process.kill(pid, 'SIGKILL')
}

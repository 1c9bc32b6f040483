import { execFileSync } from 'node:child_process'
import { expect, onTestFinished } from 'vitest'
import { ask as askFor } from '../tools/harness/ask.ts'
import { type RunningDev, startDev } from './start-dev.ts'

const STOP_MS = 90_000
const RESPONSE_MS = 10_000

export interface DevServer extends RunningDev {
  /** Kills all of its processes, and waits for the end. */
  kill: () => Promise<unknown>
  /** Kills only the process that serves. `dev` starts another one. */
  killWorker: () => void
}

/** Starts `npm run dev` on a state directory until the end of the test, if not stopped before. */
export async function serveState(state: string, port?: number): Promise<DevServer> {
  const dev = await startDev({ state, ...(port !== undefined && { port }) })
  const kill = () => {
    const pids = dev.isRunning() ? [dev.pid, ...listDescendants(dev.pid).map((one) => one.pid)] : []
    pids.forEach(killProcess)
    return dev.ended
  }
  onTestFinished(async () => {
    const timer = setTimeout(kill, STOP_MS)
    await dev.stop()
    clearTimeout(timer)
  }, STOP_MS + 5_000)
  return { ...dev, kill, killWorker: () => killProcess(findWorker(dev.pid)) }
}

/** One request to the API with the server's token, as {@link askFor} sends it. @param path after `/api/v1` */
export const ask = (server: { url: string; token: string }, method: string, path: string, body?: object) =>
  askFor(server, server.token, method, `/api/v1${path}`, { body, timeoutMs: RESPONSE_MS })

export function listProcesses(): { pid: number; parent: number; name: string }[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,comm='], { encoding: 'utf8' }).trim().split('\n')
  return lines.map((line) => {
    const [own, parent, ...name] = line.trim().split(/\s+/)
    return { pid: Number(own), parent: Number(parent), name: name.join(' ') }
  })
}

/** The processes that a process started, and theirs. */
export function listDescendants(pid: number): { pid: number; name: string }[] {
  const all = listProcesses()
  const listBelow = (id: number): typeof all =>
    all.filter((each) => each.parent === id).flatMap((each) => [each, ...listBelow(each.pid)])
  return listBelow(pid)
}

/** The process that runs the service: the last that was started, since the first only proxies requests. */
function findWorker(pid: number): number {
  const workers = listDescendants(pid).filter((each) => each.name.includes('workerd'))
  expect(workers, 'the processes of workerd').not.toEqual([])
  return Math.max(...workers.map((each) => each.pid))
}

export function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    // It has just ended by itself.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

import { onTestFinished } from 'vitest'
import { ask as askFor } from '../tools/harness/http.ts'
import { findWorker, killProcess, listDescendants } from '../tools/harness/processes.ts'
import { type RunningDev, startDev } from './servers.ts'

const STOP_MS = 90_000
const RESPONSE_MS = 60_000

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

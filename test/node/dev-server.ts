import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import { findFreePort, type Outcome, startCommand } from './cli-support.ts'

const READY_MS = 60_000
const STOP_MS = 15_000
const ANSWER_MS = 10_000

export interface DevServer {
  /** What stands before `/api/v1`. */
  url: string
  /** A token of the sample company, with every permission. */
  token: string
  pid: number
  /** What it has written so far. */
  output: Outcome
  /** Sends the signal, SIGTERM unless another is named, and waits for the end; after 15 s everything is killed. */
  stop: (signal?: 'SIGTERM' | 'SIGINT') => Promise<Outcome>
  /** Kills every process of it outright, and waits for the end. */
  kill: () => Promise<Outcome>
  /** Kills only the process that serves. `dev` starts another one. */
  killWorker: () => void
}

/** Starts `npm run dev` on a state directory and waits for its announcement. It ends with the test, if not before. */
export async function startDev(state: string, port?: number): Promise<DevServer> {
  const usedPort = port ?? (await findFreePort())
  const { child, outcome, ended } = startCommand('dev', ['--port', String(usedPort), '--state', state])
  const pid = child.pid ?? 0
  const isRunning = () => child.exitCode === null && child.signalCode === null
  const kill = () => {
    if (isRunning()) for (const each of [pid, ...listDescendants(pid).map((one) => one.pid)]) killProcess(each)
    return ended
  }
  const stop = async (signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM') => {
    const stillRuns = setTimeout(kill, STOP_MS)
    child.kill(signal)
    const end = await ended
    clearTimeout(stillRuns)
    return end
  }
  onTestFinished(() => stop().then(() => {}), STOP_MS + 5_000)

  const latest = Date.now() + READY_MS
  while (!outcome.stdout.includes('curl') && isRunning() && Date.now() < latest) await sleep(50)
  const [, token = ''] = /Token +([0-9a-f]{64})/.exec(outcome.stdout) ?? []
  expect(token, outcome.stderr).not.toBe('')
  const killWorker = () => killProcess(findWorker(pid))
  return { url: `http://127.0.0.1:${usedPort}`, token, pid, output: outcome, stop, kill, killWorker }
}

/**
 * Sends one request to the API with the server's token, and reads the JSON of the answer.
 *
 * @param path what stands behind `/api/v1`
 * @throws after 10 s: a request that came while the service was killed may never be answered
 */
export async function ask(server: { url: string; token: string }, method: string, path: string, body?: object) {
  const response = await fetch(`${server.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${server.token}`, 'content-type': 'application/json' },
    signal: AbortSignal.timeout(ANSWER_MS),
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: JSON.parse(await response.text()) }
}

/** The processes that a process started, and theirs. */
function listDescendants(pid: number): { pid: number; name: string }[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,comm='], { encoding: 'utf8' }).trim().split('\n')
  const all = lines.map((line) => {
    const [own, parent, ...name] = line.trim().split(/\s+/)
    return { pid: Number(own), parent: Number(parent), name: name.join(' ') }
  })
  const listBelow = (id: number): typeof all =>
    all.filter((each) => each.parent === id).flatMap((each) => [each, ...listBelow(each.pid)])
  return listBelow(pid)
}

/** The process that runs the service: the last that was started, for the first only passes requests on. */
function findWorker(pid: number): number {
  const workers = listDescendants(pid).filter((each) => each.name.includes('workerd'))
  expect(workers, 'the processes of workerd').not.toEqual([])
  return Math.max(...workers.map((each) => each.pid))
}

function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    // It ended by itself just now.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const DEV = fileURLToPath(new URL('./dev.ts', import.meta.url))
const ADDRESS = /Address\s+(http:\S+?)\/api\/v1/
const TOKEN = /Token\s+([0-9a-f]{64})/
const READY_MS = 120_000
const STOP_MS = 15_000

export interface DevOptions {
  /** Where it keeps its data. Default: a temporary folder, removed when it is stopped. */
  state?: string
  /** Default: a free one. */
  port?: number
  /** Starts it in a process group of its own. */
  detached?: boolean
}

export interface RunningDev {
  /** The URL up to `/api/v1`. */
  url: string
  /** A token of the sample company, with every permission. */
  token: string
  state: string
  pid: number
  /** What it has written so far. */
  output: { stdout: string; stderr: string }
  /** Its exit code, null after a signal, once it has ended. */
  ended: Promise<number | null>
  /** Sends a signal, SIGTERM by default, and waits for the end; after 15 s it is killed. */
  stop: (signal?: 'SIGTERM' | 'SIGINT') => Promise<number | null>
}

/**
 * Starts `npm run dev` and waits for its announcement. It ends with this process, in whatever way that ends.
 *
 * @throws Error with its output, when it ends or is not ready within two minutes
 */
export async function startDev(options: DevOptions = {}): Promise<RunningDev> {
  const state = options.state ?? (await mkdtemp(join(tmpdir(), 'crm-api-')))
  const port = options.port ?? (await findFreePort())
  const child = spawn(process.execPath, [DEV, '--port', String(port), '--state', state], {
    detached: options.detached ?? false,
    // It ends when the channel is closed.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const output = collectOutput(child)
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve).once('error', () => resolve(null)))
  const stop = async (signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM') => {
    child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    const code = await ended
    clearTimeout(timer)
    if (options.state === undefined) await rm(state, { recursive: true, force: true })
    return code
  }
  try {
    const [url, token] = await waitForAnnouncement(child, output, ended)
    return { url, token, state, pid: child.pid ?? 0, output, ended, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** A port of this machine that was free a moment ago. */
export async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (typeof address !== 'object' || address === null) throw new Error('The server has no port.')
  return address.port
}

function collectOutput(child: ChildProcess): RunningDev['output'] {
  const output = { stdout: '', stderr: '' }
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output.stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output.stderr += text
  })
  return output
}

/** Whether the last line of the announcement, an example, has come to its end. */
function isWhole(announcement: string): boolean {
  return announcement.lastIndexOf('\n') > announcement.lastIndexOf('curl') && announcement.includes('curl')
}

function waitForAnnouncement(
  child: ChildProcess,
  output: RunningDev['output'],
  ended: Promise<unknown>,
): Promise<[url: string, token: string]> {
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => {
      clearTimeout(timer)
      reject(new Error(`The dev server ${reason}: ${`${output.stdout}${output.stderr}`.trim()}`))
    }
    const timer = setTimeout(() => fail('did not get ready'), READY_MS)
    const read = () => {
      const [, url] = ADDRESS.exec(output.stdout) ?? []
      const [, token] = TOKEN.exec(output.stdout) ?? []
      if (url === undefined || token === undefined || !isWhole(output.stdout)) return
      clearTimeout(timer)
      child.stdout?.off('data', read)
      resolve([url, token])
    }
    child.stdout?.on('data', read)
    child.once('error', (error) => fail(`did not start (${error.message})`))
    ended.then(() => fail('ended'))
  })
}

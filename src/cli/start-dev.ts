import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const DEV = fileURLToPath(new URL('./dev.ts', import.meta.url))
const ADDRESS = /Address\s+(http:\S+?)\/api\/v1/
const TOKEN = /Token\s+([0-9a-f]{64})/
const READY_MS = 120_000
const STOP_MS = 10_000

export interface RunningDev {
  /** What stands before `/api/v1`. */
  url: string
  /** A token of the sample company, with every permission. */
  token: string
  /** Where it keeps its data. */
  state: string
  pid: number
  /** Ends it and removes its data. */
  stop: () => Promise<void>
}

/**
 * Starts `npm run dev` on a free port, with data of its own in a temporary folder.
 *
 * @throws Error with what it wrote, when it ends or says nothing for two minutes
 */
export async function startDev(): Promise<RunningDev> {
  const state = await mkdtemp(join(tmpdir(), 'crm-api-'))
  const child = spawn(process.execPath, [DEV, '--port', String(await findFreePort()), '--state', state], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const stop = async () => {
    await end(child)
    await rm(state, { recursive: true, force: true })
  }
  try {
    const [url, token] = await readAnnouncement(child)
    return { url, token, state, pid: child.pid ?? 0, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

function readAnnouncement(child: ChildProcess): Promise<[url: string, token: string]> {
  return new Promise((resolve, reject) => {
    let output = ''
    const fail = (why: string) => reject(new Error(`The dev server ${why}: ${output.trim()}`))
    const timer = setTimeout(() => fail('did not get ready'), READY_MS)
    const read = (text: string) => {
      // Beyond the announcement its output is read on, so that it never blocks, and dropped.
      if (output.length < 100_000) output += text
      const [, url] = ADDRESS.exec(output) ?? []
      const [, token] = TOKEN.exec(output) ?? []
      if (url === undefined || token === undefined) return
      clearTimeout(timer)
      resolve([url, token])
    }
    child.stdout?.setEncoding('utf8').on('data', read)
    child.stderr?.setEncoding('utf8').on('data', read)
    child.once('error', (error) => fail(`did not start (${error.message})`))
    child.once('close', () => fail('ended'))
  })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const closed = once(child, 'close')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
  await closed
  clearTimeout(timer)
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

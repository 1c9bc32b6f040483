import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod/mini'
import { CommandError } from './command.ts'
import { collectOutput } from './wrangler.ts'

const READY_MS = 120_000
const STOP_MS = 15_000

export type RunningDev = Awaited<ReturnType<typeof startDev>>

/**
 * Starts `npm run dev`, by default on a free port and temporary data, and waits until it serves. It ends with this
 * process. `ended` gives its exit code; `stop` kills it after 15 s. @throws CommandError with its output
 */
export async function startDev(options: { state?: string; port?: number; detached?: boolean } = {}) {
  const state = options.state ?? (await mkdtemp(join(tmpdir(), 'crm-api-')))
  const port = options.port ?? (await findFreePort())
  const args = [join(import.meta.dirname, 'dev.ts'), '--port', String(port), '--state', state]
  const { detached = false } = options
  // `dev` ends when the channel is closed.
  const child = spawn(process.execPath, args, { detached, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
  const output = collectOutput(child)
  const ended = once(child, 'close').then(([code]): number | null => code)
  const stop = async (signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM') => {
    child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    const code = await ended
    clearTimeout(timer)
    if (options.state === undefined) await rm(state, { recursive: true, force: true })
    return code
  }
  const outcome = await Promise.race([once(child, 'message'), ended, sleep(READY_MS, 'late', { ref: false })])
  if (!Array.isArray(outcome)) {
    await stop()
    const problem = outcome === 'late' ? 'is not ready after two minutes' : 'has ended'
    throw new CommandError(`The dev server ${problem}: ${`${output.stdout}${output.stderr}`.trim()}`)
  }
  const { url, token } = z.object({ url: z.string(), token: z.string() }).parse(outcome[0])
  return { url, token, state, pid: child.pid ?? 0, output, ended, stop }
}

/** A port of this machine that was free a moment ago: the given one, else any. @throws the error of another */
export async function findFreePort(port?: number): Promise<number> {
  // Systems assign higher ones, so that no other server or connection gets it before it is used.
  const tried = port ?? randomInt(16_384, 32_768)
  const server = createServer().listen(tried, '127.0.0.1')
  const failure = await once(server, 'listening').then(
    () => null,
    (error: NodeJS.ErrnoException) => error,
  )
  if (failure?.code === 'EADDRINUSE' && port === undefined) return findFreePort()
  if (failure) throw failure
  server.close()
  await once(server, 'close')
  return tried
}

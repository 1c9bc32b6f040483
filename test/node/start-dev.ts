import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkPort } from '../../src/cli/local-runtime.ts'
import { PROJECT_ROOT } from '../../src/cli/wrangler.ts'

// For what hangs: a busy machine is slower by far than a quiet one.
const READY_MS = 240_000
const STOP_MS = 60_000
const PAUSE_MS = 50

export type RunningDev = Awaited<ReturnType<typeof startDev>>

/**
 * Starts `npm run dev`, by default on a free port and temporary data, and waits until it serves. It ends with this
 * process. `ended` gives its exit code; `stop` kills it after a minute. @throws Error with its output
 */
export async function startDev(options: { state?: string; port?: number; detached?: boolean } = {}) {
  const state = options.state ?? (await mkdtemp(join(tmpdir(), 'crm-api-')))
  const port = options.port ?? (await chooseFreePort())
  const args = [join(PROJECT_ROOT, 'src/cli/dev.ts'), '--port', String(port), '--state', state]
  const { detached = false } = options
  // As npm starts it: `dev` then ends with its parent.
  const env = { ...process.env, npm_lifecycle_event: 'dev' }
  const child = spawn(process.execPath, args, { detached, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
    })
  }
  let isRunning = true
  const ended = once(child, 'close').then(([code]): number | null => {
    isRunning = false
    return code
  })
  const stop = async (signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM') => {
    child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    const code = await ended
    clearTimeout(timer)
    if (options.state === undefined) await rm(state, { recursive: true, force: true })
    return code
  }
  const announced = () => /Address {3}(\S+)\/api\/v1 .* Token {5}(\S+)\n/s.exec(output.stdout)
  const start = Date.now()
  while (isRunning && !announced() && Date.now() < start + READY_MS) await sleep(PAUSE_MS)
  const [, url = '', token = ''] = announced() ?? []
  if (!url) {
    await stop()
    throw new Error(`The dev server is not ready: ${`${output.stdout}${output.stderr}`.trim()}`)
  }
  return { url, token, state, pid: child.pid ?? 0, output, ended, stop }
}

/** A port of this machine that was free a moment ago. Systems assign higher ones to other servers and connections. */
export async function chooseFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(16_384, 32_768)
    const isFree = await checkPort(port).then(
      () => true,
      () => false,
    )
    if (isFree) return port
  }
}

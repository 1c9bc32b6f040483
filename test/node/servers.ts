import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkPort } from '../../src/cli/local-runtime.ts'
import { PROJECT_ROOT, spawnWrangler } from '../../src/cli/wrangler.ts'

/** Starts a server of this machine. @returns its address, and what ends it */
export async function listen(handle: RequestListener) {
  const server = createServer(handle).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${port}`, close }
}

// For what hangs: a busy machine is slower by far than a quiet one.
const READY_MS = 540_000
const STOP_MS = 240_000
const PAUSE_MS = 50

export type RunningDev = Awaited<ReturnType<typeof startDev>>

export type ServiceCommand = 'accounting' | 'companies' | 'rotate-key' | 'seed' | 'tokens' | 'webhooks'
export type Command = ServiceCommand | 'migrate' | 'setup'

export interface Outcome {
  code: number | null
  stdout: string
  stderr: string
}

/** Starts a command as its npm script does, with `env` beside the environment of this process. */
export function startCommand(
  name: Command | 'dev',
  args: string[],
  env: Record<string, string> = {},
  { inherited = process.env, detached = false } = {},
) {
  const path = join(PROJECT_ROOT, `src/cli/${name}.ts`)
  const child = spawn(process.execPath, [path, ...args], { env: { ...inherited, ...env }, detached })
  const outcome: Outcome = { code: null, stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream].setEncoding('utf8').on('data', (text: string) => {
      outcome[stream] += text
    })
  }
  const ended = once(child, 'close').then(([code]): Outcome => Object.assign(outcome, { code }))
  return { child, outcome, ended }
}

/**
 * Starts `npm run dev`, by default on a free port and temporary data, and waits until it serves. It ends with this
 * process. `stop` kills it after a minute. @throws Error with its output
 */
export async function startDev(options: { state?: string; port?: number; detached?: boolean } = {}) {
  const state = options.state ?? (await mkdtemp(join(tmpdir(), 'crm-api-')))
  const port = options.port ?? (await chooseFreePort())
  const args = ['--port', String(port), '--state', state]
  // As npm starts it: `dev` then ends with its parent.
  const env = { npm_lifecycle_event: 'dev' }
  const { child, outcome: output, ended } = startCommand('dev', args, env, options)
  const stop = async (signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM') => {
    child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    const { code } = await ended
    clearTimeout(timer)
    if (options.state === undefined) await rm(state, { recursive: true, force: true })
    return code
  }
  const announced = () => /Address {3}(\S+)\/api\/v1 .* Token {5}(\S+)\n/s.exec(output.stdout)
  const start = Date.now()
  const isRunning = () => child.exitCode === null && child.signalCode === null
  while (isRunning() && !announced() && Date.now() < start + READY_MS) await sleep(PAUSE_MS)
  const [, url = '', token = ''] = announced() ?? []
  if (!url) {
    await stop()
    throw new Error(`The dev server is not ready: ${`${output.stdout}${output.stderr}`.trim()}`)
  }
  return { url, token, state, pid: child.pid ?? 0, output, ended, isRunning, stop }
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

/** Starts `wrangler dev` on a free port and waits until it serves. `stop` kills it after a minute. */
export async function startWrangler(...options: string[]) {
  const port = String(await chooseFreePort())
  const place = ['--ip', '127.0.0.1', '--port', port, '--inspector-port', '0', '--show-interactive-dev-session=false']
  const child = spawnWrangler(['dev', ...place, ...options])
  const ended = once(child, 'close').then(() => null)
  const printed = { output: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      printed.output += text
    })
  }
  if (!(await Promise.race([once(child, 'message'), ended]))) throw new Error(`wrangler has ended: ${printed.output}`)
  const stop = async () => {
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    child.kill()
    await ended
    clearTimeout(timer)
  }
  return { url: `http://127.0.0.1:${port}`, printed, stop }
}

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CommandError, readCommandLine, runCommand } from './command.ts'
import { readPlace } from './database.ts'
import { readDevRecord, removeDevRecord, writeDevRecord } from './dev-record.ts'
import { prepareSample, type Sample, startSimulators } from './dev-sample.ts'
import { openDevTransport } from './dev-transport.ts'
import { listNpmProcesses, watchProcesses } from './parent.ts'
import { spawnWrangler } from './wrangler.ts'

const USAGE = 'npm run dev [-- --port N] [--state DIR]'
const HOST = '127.0.0.1'
const DEFAULT_PORT = 8787
const READY_PAUSE_MS = 100
const STOP_MS = 5_000
/** More often than deployed, for short waits in development. */
const SCHEDULE_MS = 60_000

await runCommand(async (args) => {
  const { values } = readCommandLine(args, USAGE, { options: ['port', 'state'], positionals: [0, 0] })
  const port = readPort(values.port)
  const place = readPlace(values.state, false)
  if (place === 'remote') return
  const url = `http://${HOST}:${port}`
  await assertPortIsFree(port)
  await assertStateIsUnused(place.state)

  const stopRequested = waitForStopRequest()
  const simulators = await startSimulators()
  try {
    const sample = await prepareSample(place, simulators.integrations)
    const isStopped = await Promise.race([stopRequested, Promise.resolve(false)])
    if (!isStopped) await serve(url, place.state, sample, stopRequested)
  } finally {
    await simulators.close()
  }
  process.exit()
})

/** Runs `wrangler dev` until it ends by itself, which is a failure, or a stop is requested. */
async function serve(url: string, state: string, sample: Sample, stopRequested: Promise<boolean>): Promise<void> {
  const address = ['--ip', HOST, '--port', new URL(url).port, '--inspector-port', '0']
  const output = ['--log-level', 'error', '--show-interactive-dev-session=false']
  const wrangler = spawnWrangler(['dev', ...address, '--persist-to', state, ...output])
  // Standard output is for this command's own messages.
  wrangler.stdout?.pipe(process.stderr, { end: false })
  wrangler.stderr?.pipe(process.stderr, { end: false })
  const ended = once(wrangler, 'close').then(([code]) => (typeof code === 'number' && code > 0 ? code : 1))
  try {
    const outcome = await Promise.race([ended, stopRequested, waitUntilServing(url, sample.token)])
    if (outcome === 'serving') {
      writeDevRecord(state, url)
      announce(url, sample)
      startSchedule(url)
    }
    const end = await Promise.race([ended, stopRequested])
    if (typeof end === 'number') process.exitCode = end
  } finally {
    removeDevRecord(state)
    await stop(wrangler, ended)
  }
}

async function waitUntilServing(url: string, token: string): Promise<'serving'> {
  for (;;) {
    try {
      const response = await fetch(`${url}/api/v1/clients?per_page=1`, {
        headers: { authorization: `Bearer ${token}` },
      })
      await response.body?.cancel()
      return 'serving'
    } catch {
      await sleep(READY_PAUSE_MS)
    }
  }
}

function announce(url: string, { company, token }: Sample): void {
  process.stdout.write(
    [
      '',
      `  Address   ${url}/api/v1   (reference: ${url}/)`,
      `  Company   ${company.id}, ${company.name}`,
      `  Token     ${token}`,
      '',
      `  curl -H 'Authorization: Bearer ${token}' '${url}/api/v1/clients?per_page=3'`,
      '',
      '',
    ].join('\n'),
  )
}

/** Runs the Worker's scheduled handler now and every minute, since `wrangler dev` fires no cron trigger. */
function startSchedule(url: string): void {
  const run = () => {
    fetch(`${url}/cdn-cgi/local/scheduled`)
      .then((response) => response.body?.cancel())
      // The Worker is restarting: the next run follows.
      .catch(() => undefined)
  }
  run()
  setInterval(run, SCHEDULE_MS).unref()
}

async function stop(wrangler: ChildProcess, ended: Promise<number>): Promise<void> {
  if (wrangler.exitCode !== null || wrangler.signalCode !== null) return
  wrangler.kill('SIGTERM')
  const isEnded = await Promise.race([ended.then(() => true), sleep(STOP_MS, false)])
  if (!isEnded) wrangler.kill('SIGKILL')
}

/**
 * True once a signal requests the end, or the process that started this one has ended: `startDev`, which closes its
 * channel, or `npm run`. Any other parent, such as a shell with a background job, may end first.
 */
function waitForStopRequest(): Promise<boolean> {
  return new Promise((resolve) => {
    const stop = () => resolve(true)
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
    if (process.connected) {
      process.once('disconnect', stop)
      process.channel?.unref()
    } else if (process.env.npm_lifecycle_event !== undefined) {
      watchProcesses(listNpmProcesses(), stop)
    }
  })
}

function readPort(text: string | undefined): number {
  if (text === undefined) return DEFAULT_PORT
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (port < 1 || port > 65_535) throw new CommandError(`--port must be a whole number from 1 to 65535, not '${text}'.`)
  return port
}

async function assertPortIsFree(port: number): Promise<void> {
  const server = createServer()
  try {
    server.listen(port, HOST)
    await once(server, 'listening')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : ''
    const problem = code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${code})`
    throw new CommandError(`Port ${port} ${problem}: choose another with --port N.`)
  } finally {
    server.close()
  }
}

/** Two servers on one state directory would lock each other's files. */
async function assertStateIsUnused(state: string): Promise<void> {
  const record = readDevRecord(state)
  if (record && (await openDevTransport(record))) {
    throw new CommandError(`${record.url} serves this data already: choose another place with --state DIR.`)
  }
}

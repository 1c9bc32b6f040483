import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CommandError, print, readCommandLine, runCommand, TEXT } from './command.ts'
import { connectToDev, readPlace } from './database.ts'
import { prepareSample, type Sample, startSimulators } from './sample-company.ts'
import { devRecordFile, findFreePort, isRunning, readDevRecord } from './start-dev.ts'
import { spawnWrangler } from './wrangler.ts'

const USAGE = 'npm run dev [-- --port N] [--state DIR]'
const HOST = '127.0.0.1'
const READY_PAUSE_MS = 100
const STOP_MS = 5_000
const PARENT_CHECK_MS = 500
/** More often than deployed, so that waits are short in development. */
const SCHEDULE_MS = 60_000

await runCommand(async (args) => {
  const { values } = readCommandLine(args, USAGE, { port: TEXT, state: TEXT })
  const port = readPort(values.port ?? '8787')
  const place = readPlace(values)
  if (place === 'remote') return
  const url = `http://${HOST}:${port}`
  await findFreePort(port).catch(({ code }: NodeJS.ErrnoException) => {
    const problem = code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${code})`
    throw new CommandError(`Port ${port} ${problem}: choose another with --port N.`)
  })
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

/** Runs `wrangler dev` until a stop is requested. If it ends before, the command fails. */
async function serve(url: string, state: string, sample: Sample, stopRequested: Promise<true>): Promise<void> {
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
      writeFileSync(devRecordFile(state), JSON.stringify({ pid: process.pid, url }))
      announce(url, sample)
      runSchedule(url)
    }
    const end = await Promise.race([ended, stopRequested])
    if (end !== true) process.exitCode = end
  } finally {
    if (readDevRecord(state)?.pid === process.pid) rmSync(devRecordFile(state), { force: true })
    wrangler.kill('SIGTERM')
    const code = await Promise.race([ended, sleep(STOP_MS)])
    if (code === undefined) wrangler.kill('SIGKILL')
  }
}

async function waitUntilServing(url: string, token: string): Promise<'serving'> {
  for (;;) {
    try {
      const headers = { authorization: `Bearer ${token}` }
      const response = await fetch(`${url}/api/v1/clients?per_page=1`, { headers })
      await response.body?.cancel()
      return 'serving'
    } catch {
      await sleep(READY_PAUSE_MS)
    }
  }
}

function announce(url: string, { company, token }: Sample): void {
  print(`
  Address   ${url}/api/v1   (reference: ${url}/)
  Company   ${company.id}, ${company.name}
  Token     ${token}

  curl -H 'Authorization: Bearer ${token}' '${url}/api/v1/clients?per_page=3'
`)
}

/** Runs the Worker's scheduled handler now and every minute, since `wrangler dev` fires no cron trigger. */
function runSchedule(url: string): void {
  fetch(`${url}/cdn-cgi/local/scheduled`)
    .then((response) => response.body?.cancel())
    // The Worker is restarting: the next run follows.
    .catch(() => undefined)
  setTimeout(runSchedule, SCHEDULE_MS, url).unref()
}

/** Resolves on a signal, or when the process that started this one has ended: the caller of `startDev`, or npm. */
function waitForStopRequest(): Promise<true> {
  return new Promise((resolve) => {
    const stop = () => resolve(true)
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
    if (process.connected) {
      process.once('disconnect', stop)
      process.channel?.unref()
    } else if (process.env.npm_lifecycle_event !== undefined) {
      // Any other parent, such as a shell with a background job, may end before.
      onNpmEnd(stop)
    }
  })
}

/** Calls back when the parent of this process has ended, or npm where the parent is the shell of `npm run`. */
function onNpmEnd(callback: () => void): void {
  const parent = process.ppid
  // A shell outlives an npm that is killed. Without `ps`, as on Windows, only the parent is known.
  const { stdout } = spawnSync('ps', ['-o', 'ppid=,comm=', '-p', String(parent)], { encoding: 'utf8' })
  const [, npm] = /^\s*(\d+)\s+\S*sh\s*$/.exec(stdout ?? '') ?? []
  const timer = setInterval(() => {
    // An orphan gets another parent, except on Windows.
    if (process.ppid === parent && isRunning(parent) && (npm === undefined || isRunning(Number(npm)))) return
    clearInterval(timer)
    callback()
  }, PARENT_CHECK_MS).unref()
}

function readPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (port < 1 || port > 65_535) throw new CommandError(`--port must be a whole number from 1 to 65535, not '${text}'.`)
  return port
}

/** Two servers on one state directory would lock each other's files. */
async function assertStateIsUnused(state: string): Promise<void> {
  const record = readDevRecord(state)
  if (record && (await connectToDev(record.url))) {
    throw new CommandError(`${record.url} serves this data already: choose another place with --state DIR.`)
  }
}

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { CommandError, readCommandLine, runCommand } from './command.ts'
import { readPlace } from './database.ts'
import { readDevRecord, removeDevRecord, writeDevRecord } from './dev-record.ts'
import { prepareSample, type Sample, startSimulators } from './dev-sample.ts'
import { startSchedule } from './dev-schedule.ts'
import { openDevTransport } from './dev-transport.ts'
import { spawnWrangler } from './wrangler.ts'

const USAGE = 'npm run dev [-- --port N] [--state DIR]'
const HOST = '127.0.0.1'
const DEFAULT_PORT = 8787
const READY_PAUSE_MS = 100
const STOP_MS = 5_000
const PARENT_CHECK_MS = 1_000

await runCommand(async (args) => {
  const { values } = readCommandLine(args, USAGE, { options: ['port', 'state'], positionals: [0, 0] })
  const port = readPort(values.port)
  const place = readPlace(values.state, false)
  if (place === 'remote') return
  const url = `http://${HOST}:${port}`
  await assertIsFree(port)
  await assertIsAlone(place.state)

  const stopAsked = waitForStop()
  const simulators = await startSimulators()
  try {
    const sample = await prepareSample(place, simulators.integrations)
    const isStopped = await Promise.race([stopAsked, Promise.resolve(false)])
    if (!isStopped) await serve(url, place.state, sample, stopAsked)
  } finally {
    await simulators.close()
  }
  process.exit()
})

/** Runs `wrangler dev` until it ends by itself, which is a failure, or a stop is asked for. */
async function serve(url: string, state: string, sample: Sample, stopAsked: Promise<boolean>): Promise<void> {
  const { port } = new URL(url)
  const wrangler = spawnWrangler(
    [
      'dev',
      '--ip',
      HOST,
      '--port',
      port,
      '--inspector-port',
      String(await findFreePort()),
      '--persist-to',
      state,
    ].concat(['--log-level', 'error', '--show-interactive-dev-session=false']),
  )
  // Standard output is for what this command itself has to say.
  wrangler.stdout?.pipe(process.stderr, { end: false })
  wrangler.stderr?.pipe(process.stderr, { end: false })
  const ended = once(wrangler, 'close').then(([code]) => (typeof code === 'number' && code > 0 ? code : 1))
  try {
    const outcome = await Promise.race([ended, stopAsked, waitUntilServing(url, sample.token)])
    if (outcome === 'serving') {
      writeDevRecord(state, url)
      announce(url, sample)
      startSchedule(url)
    }
    const end = await Promise.race([ended, stopAsked])
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

async function stop(wrangler: ChildProcess, ended: Promise<number>): Promise<void> {
  if (wrangler.exitCode !== null || wrangler.signalCode !== null) return
  wrangler.kill('SIGTERM')
  const isEnded = await Promise.race([ended.then(() => true), sleep(STOP_MS, false)])
  if (!isEnded) wrangler.kill('SIGKILL')
}

/**
 * True once the user, or whoever started this, wants it to end. `npm run` stands behind a shell that outlives it when it
 * is killed outright, and nobody would be left to end this process: so a change of either is the end.
 */
function waitForStop(): Promise<boolean> {
  const started = readAncestors()
  return new Promise((done) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => done(true))
    if (process.env.npm_lifecycle_event === undefined) return
    setInterval(() => {
      if (readAncestors() !== started) done(true)
    }, PARENT_CHECK_MS).unref()
  })
}

/** The process that started this one, and where the system tells it, the one that started that. */
function readAncestors(): string {
  try {
    const stat = readFileSync(`/proc/${process.ppid}/stat`, 'utf8')
    const [, grandparent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return `${process.ppid} ${grandparent}`
  } catch {
    return String(process.ppid)
  }
}

function readPort(text: string | undefined): number {
  if (text === undefined) return DEFAULT_PORT
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (port < 1 || port > 65_535) throw new CommandError(`--port must be a whole number from 1 to 65535, not '${text}'.`)
  return port
}

async function assertIsFree(port: number): Promise<void> {
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

/** Two servers on one state would lock each other out of its files. */
async function assertIsAlone(state: string): Promise<void> {
  const record = readDevRecord(state)
  if (record && (await openDevTransport(record))) {
    throw new CommandError(`${record.url} serves this data already: choose another place with --state DIR.`)
  }
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, HOST)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

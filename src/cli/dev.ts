import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { wholeNumber } from '../kernel/api/contract.ts'
import { type Simulators, startSimulators } from '../simulators/start.ts'
import { CommandError, command, optional, runCommand, TEXT } from './command.ts'
import { checkPort, readDevVars, startRuntime } from './local-runtime.ts'
import { OWNER, prepareSample } from './sample-company.ts'
import { type Claim, claimState, readState } from './target.ts'
import { spawnWrangler } from './wrangler.ts'

const HELP = `Prepares the local database, loads a sample company when it is empty, prints the address and a token, and serves, with
simulators of the suppliers and the accounting system.

  --port N     the port on 127.0.0.1, by default 8787
  --state DIR  where the data is kept, by default .wrangler/state`
const ARGUMENTS = { port: optional('--port N', wholeNumber(1, 65_535)), state: optional('--state DIR', TEXT) }
const STOP_MS = 5_000
const PARENT_CHECK_MS = 500
/** More often than deployed, so that waits are short in development. */
const SCHEDULE_MS = 60_000

const dev = command(ARGUMENTS, async ({ port = 8787, state: directory }) => {
  await checkPort(port).catch(({ code }: NodeJS.ErrnoException) => {
    const problem = code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${code})`
    throw new CommandError(`Port ${port} ${problem}: choose another with --port N.`)
  })
  const state = readState(directory, true)
  const claim = await claimState(state)
  if ('url' in claim) {
    throw new CommandError(`${claim.url} serves this data already: choose another place with --state DIR.`)
  }
  process.once('exit', claim.release)
  const stop = new AbortController()
  const abort = () => stop.abort()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, abort)
  if (process.env.npm_lifecycle_event !== undefined) {
    // A signal to npm ends its shell, which does not pass it on: this process then gets another parent.
    const parent = process.ppid
    setInterval(() => process.ppid !== parent && abort(), PARENT_CHECK_MS).unref()
  }
  const simulators = await startSimulators()
  await serve(port, state, simulators, claim, stop.signal).finally(simulators.close)
  process.exit()
})

/** Migrates, and runs `wrangler dev` until a stop is requested. If it ends before, the command fails. */
async function serve(port: number, state: string, { integrations }: Simulators, claim: Claim, stop: AbortSignal) {
  await (await startRuntime(state, false)).close()
  if (stop.aborted) return
  const url = `http://127.0.0.1:${port}`
  const address = ['--ip', '127.0.0.1', '--port', String(port), '--inspector-port', '0']
  const output = ['--log-level', 'error', '--show-interactive-dev-session=false']
  const wrangler = spawnWrangler(['dev', ...address, '--persist-to', state, ...output])
  // Standard output is for this command's own messages.
  for (const output of [wrangler.stdout, wrangler.stderr]) output?.pipe(process.stderr, { end: false })
  const ended = once(wrangler, 'close')
  const over = Promise.race([ended, once(stop, 'abort')]).then(() => null)
  try {
    if (await Promise.race([once(wrangler, 'message'), over])) {
      const { company, token } = await prepareSample({ url, token: readDevVars().ADMIN_TOKEN }, integrations)
      claim.publish(url)
      console.log(`
  Address   ${url}/api/v1   (reference: ${url}/)
  Company   ${company.id}, ${company.name}
  Token     ${token}
  Settings  ${url}/settings   (as ${OWNER})

  curl -H 'Authorization: Bearer ${token}' '${url}/api/v1/clients?per_page=3'
`)
      runSchedule(url)
      await over
    }
    if (!stop.aborted) process.exitCode = wrangler.exitCode || 1
  } finally {
    wrangler.kill('SIGTERM')
    await Promise.race([ended, sleep(STOP_MS)])
    wrangler.kill('SIGKILL')
  }
}

/** Runs the Worker's scheduled handler now and every minute, since `wrangler dev` fires no cron trigger. */
function runSchedule(url: string): void {
  fetch(`${url}/cdn-cgi/local/scheduled`)
    .then((response) => response.body?.cancel())
    // The Worker is restarting: the next run follows.
    .catch(() => undefined)
  setTimeout(runSchedule, SCHEDULE_MS, url).unref()
}

await runCommand('dev', HELP, { '': dev })

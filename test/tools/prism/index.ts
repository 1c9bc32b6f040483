import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { listen } from '../../node/servers.ts'
import { readExchange } from './exclusions.ts'
import { openJudge, startProxy } from './judge.ts'

/*
 * npm run prism [-- TEST …]
 *
 * Runs the tests with every request and response passed through Prism's validating proxy for the published description.
 * The proxy is installed at the first run, from a lockfile of its own.
 */
const ROOT = join(import.meta.dirname, '../../..')
const VITEST = join(ROOT, 'node_modules/vitest/vitest.mjs')

install()
const started = Date.now()
const proxy = await startProxy(join(ROOT, 'src/site/reference/openapi.json'))
const judge = openJudge(proxy)
const recorder = await listen(async (incoming, outgoing) => {
  const verdict = await readForm(incoming)
    .then(readExchange)
    .then((exchange) => judge.check(exchange))
    .catch((error: unknown) => recordFault(`An exchange could not be judged: ${error}`))
  outgoing.writeHead(verdict === '' ? 204 : 200).end(verdict)
})

const options = ['--config', 'test/vitest.config.ts', '--project', 'worker*', '--testTimeout', '60000']
const tests = spawn(process.execPath, [VITEST, 'run', ...options, ...process.argv.slice(2)], {
  cwd: ROOT,
  stdio: 'inherit',
  env: { ...process.env, PRISM_RECORDER: recorder.url },
})
const [code] = await once(tests, 'close')
recorder.close()
await proxy.close()
report()
if (code !== 0 || judge.failures.length > 0 || judge.exchanges === 0) process.exitCode = 1

function install(): void {
  if (existsSync(join(import.meta.dirname, 'node_modules/@stoplight/prism-cli'))) return
  const options = { cwd: import.meta.dirname, stdio: 'inherit', shell: process.platform === 'win32' } as const
  if (spawnSync('npm', ['ci', '--ignore-scripts'], options).status !== 0) throw new Error('The proxy is not installed.')
}

async function readForm(incoming: IncomingMessage): Promise<FormData> {
  const type = incoming.headers['content-type'] ?? ''
  return new Response(await buffer(incoming), { headers: { 'content-type': type } }).formData()
}

function recordFault(text: string): string {
  judge.failures.push(text)
  return text
}

function report(): void {
  const judged = [...judge.covered.values()].flatMap((statuses) => [...statuses.values()])
  const total = judged.reduce((sum, count) => sum + count, 0)
  console.log(`\n${judge.exchanges} exchanges, ${total} through the proxy, ${judge.failures.length} with a violation`)
  console.log(`${judge.covered.size} operations with ${judged.length} of their statuses:`)
  for (const [operation, statuses] of [...judge.covered].sort()) {
    const counts = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`)
    console.log(`  ${operation.padEnd(18)} ${counts.join('  ')}`)
  }
  console.log(
    `Requests refused: ${judge.refusedByBoth} by the proxy too, ${judge.refusedBeyondSchema} (400, 413, 415) by`,
  )
  console.log('rules that a schema does not say. Left out:')
  for (const [reason, count] of judge.excluded) console.log(`  ${String(count).padStart(5)} ${reason}`)
  for (const [reason, count] of judge.tolerated) console.log(`  Tolerated, ${count} times: ${reason}`)
  for (const failure of judge.failures.slice(0, 20)) console.log(`\n${failure}`)
  console.log(`${Math.round((Date.now() - started) / 1000)} s`)
}

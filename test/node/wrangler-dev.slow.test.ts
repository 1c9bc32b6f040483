import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { expect, it, onTestFinished } from 'vitest'
import { spawnWrangler } from '../../src/cli/wrangler.ts'
import { makeStateFolder, runCommand, writeSeed } from './cli-support.ts'
import { ask } from './dev-server.ts'
import { chooseFreePort } from './start-dev.ts'

/** Starts `wrangler dev` itself on a state directory; `output` is what it has printed. */
async function startWrangler(state: string) {
  const port = await chooseFreePort()
  const child = spawnWrangler(['dev', '--ip', '127.0.0.1', '--port', String(port), '--persist-to', state])
  const printed = { output: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      printed.output += text
    })
  }
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill()
      await once(child, 'exit')
    }
  }
  onTestFinished(stop)
  const url = `http://127.0.0.1:${port}`
  await expect
    .poll(
      () =>
        fetch(`${url}/health/live`).then(
          (one) => one.status,
          () => 0,
        ),
      { timeout: 60_000 },
    )
    .toBe(200)
  return { url, printed, stop }
}

it('wrangler dev says what an empty database lacks, and serves what the commands put into it', {
  timeout: 240_000,
}, async () => {
  const state = await makeStateFolder()
  onTestFinished(() => rm(state, { recursive: true, force: true }))

  const empty = await startWrangler(state)
  const refused = await ask({ ...empty, token: '0'.repeat(64) }, 'GET', '/me')
  expect(refused.status).toBe(503)
  expect(refused.body.error.message).toContain('`npm run migrate`')
  await expect.poll(() => empty.printed.output).toContain('run npm run migrate')
  await empty.stop()

  const first = await writeSeed({ company: { id: 6, name: 'Look-alike' } })
  const file = await writeSeed({ company: { id: 7, name: 'Harbor Prints' } })
  expect(await runCommand('migrate', '--state', state)).toMatchObject({ code: 0 })
  for (const path of [first, file]) expect(await runCommand('seed', path, '--state', state)).toMatchObject({ code: 0 })
  const created = await runCommand('tokens', 'create', '--company', '7', '--name', 'First', '--state', state)
  const token = /[0-9a-f]{64}/.exec(created.stdout)?.[0] ?? ''

  const served = await startWrangler(state)
  const account = await ask({ ...served, token }, 'GET', '/me')
  expect([account.status, JSON.stringify(account.body)]).toEqual([200, expect.stringContaining('Harbor Prints')])
})

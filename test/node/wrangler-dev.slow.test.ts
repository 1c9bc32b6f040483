import { expect, it, onTestFinished } from 'vitest'
import { outputOf, runCommand, temporaryFolder, writeSeed } from './cli-support.ts'
import { ask } from './dev-server.ts'
import { startWrangler } from './start-wrangler.ts'

it('wrangler dev says what an empty database lacks, and serves what the commands put into it', async () => {
  const state = await temporaryFolder()
  const serve = async () => {
    const wrangler = await startWrangler('--persist-to', state)
    onTestFinished(wrangler.stop)
    return wrangler
  }
  const empty = await serve()
  const refused = await ask({ ...empty, token: '0'.repeat(64) }, 'GET', '/me')
  expect(refused.status).toBe(503)
  expect(refused.body.error.message).toContain('`npm run migrate`')
  await expect.poll(() => empty.printed.output).toContain('run `npm run migrate`')
  await empty.stop()

  const first = await writeSeed({ company: { id: 6, name: 'Look-alike' } })
  const file = await writeSeed({ company: { id: 7, name: 'Harbor Prints' } })
  expect(await runCommand('migrate', '--state', state)).toMatchObject({ code: 0 })
  for (const path of [first, file]) expect(await runCommand('seed', path, '--state', state)).toMatchObject({ code: 0 })
  const token = (await outputOf('tokens', 'create', '--company', '7', '--name', 'First', '--state', state)).trim()

  const served = await serve()
  const account = await ask({ ...served, token }, 'GET', '/me')
  expect([account.status, JSON.stringify(account.body)]).toEqual([200, expect.stringContaining('Harbor Prints')])
})

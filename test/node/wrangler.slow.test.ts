import { spawnSync } from 'node:child_process'
import { describe, expect, it, onTestFinished } from 'vitest'
import { outputOf, runCommand, temporaryFolder, writeSeed } from './cli-support.ts'
import { ask } from './dev-server.ts'
import { startWrangler } from './servers.ts'
import { freshAccount, summarize } from './setup-fixture.ts'

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

describe('wrangler deploy --dry-run', () => {
  it.each(['staging', 'production'])('accepts the configuration and the bundle of %s', (env) => {
    const args = ['node_modules/wrangler/bin/wrangler.js', 'deploy', '--dry-run', '--env', env]
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(status).toBe(0)
    expect(stdout).toContain(`env.DB (crm-integration-api-${env})`)
    expect(stdout).toContain(`env.FILES (crm-integration-api-${env}-files)`)
    expect(stdout).toContain('--dry-run: exiting now.')
  })

  it.each([['deploy'], ['versions', 'upload']])(
    'of the top level, with its placeholder ids, is refused: %s',
    (...command) => {
      const args = ['node_modules/wrangler/bin/wrangler.js', ...command, '--dry-run']
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
      expect(status).not.toBe(0)
      expect(stdout + stderr).toContain('deploy with --env staging or --env production.')
    },
  )
})

const KEYS = { STORAGE_ACCESS_KEY_ID: 'key-id', STORAGE_SECRET_ACCESS_KEY: 'key-secret' }

describe('setup with the real wrangler', () => {
  it.each([['--location', 'weur'] as const, ['--jurisdiction', 'eu'] as const])(
    'makes what the stand-in of wrangler makes, and nothing in a second run: %s %s',
    async (option, name) => {
      const { api, config, readConfig, run } = await freshAccount()
      const args = ['--env', 'production', option, name, '--config', config]
      const first = await run('setup', args, KEYS)
      expect(first).toMatchObject({ code: 0, stderr: '' })
      expect(first.stdout).not.toContain(KEYS.STORAGE_SECRET_ACCESS_KEY)
      expect(first.stdout).toContain('npm run migrate -- --env production')
      const other = await freshAccount()
      const at = option === '--location' ? { location: name } : { location: null, jurisdiction: name }
      await other.setUp({ secrets: KEYS, ...at })
      expect(summarize(api)).toEqual(summarize(other.api))
      const changesOf = (each: typeof api) =>
        each.changes().map(({ method, path }) => `${method} ${path.replace(/[0-9a-f-]{36}/, 'ID')}`)
      expect(changesOf(api)).toEqual(changesOf(other.api))
      const [toml, changes] = [readConfig(), api.changes()]
      expect(await run('setup', args, KEYS)).toMatchObject({ code: 0, stderr: '' })
      expect(api.changes()).toEqual(changes)
      expect(readConfig()).toBe(toml)
    },
  )

  it('reports what the account responds in one line, and never prints the token', async () => {
    const { api, config, run } = await freshAccount()
    api.env.CLOUDFLARE_API_TOKEN = 'wrong-token'
    const args = ['--env', 'staging', '--location', 'weur', '--config', config]
    const { code, stdout, stderr } = await run('setup', args)
    expect({ code, lines: stderr.trim().split('\n').length }).toEqual({ code: 1, lines: 1 })
    expect(stderr).toContain('Authentication error [code: 10000] CLOUDFLARE_API_TOKEN needs D1 Edit')
    expect(stdout + stderr).not.toContain('wrong-token')
  })
})

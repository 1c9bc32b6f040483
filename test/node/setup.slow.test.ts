import { describe, expect, it } from 'vitest'
import { freshAccount, summarize } from './setup-fixture.ts'

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

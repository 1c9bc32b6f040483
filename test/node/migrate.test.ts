import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { makeStateFolder, runSql } from './cli-support.ts'
import { addDatabase, freshAccount, runAt, setUpHere } from './setup-fixture.ts'

const files = readdirSync('drizzle').filter((name) => name.endsWith('.sql'))

describe('migrate', () => {
  it('applies all migrations to the database that setup made, and then none', async () => {
    const { api, config } = await freshAccount()
    for (const env of ['staging', 'production']) {
      await setUpHere(api, { config, env })
    }
    const first = await runAt(api, 'migrate', ['--env', 'production', '--config', config])
    expect(first).toMatchObject({ code: 0, stderr: '' })
    const names = (name: string) =>
      api.databases
        .find((database) => database.name === name)
        ?.sqlite.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .all()
        .map((row) => row.name)
    expect(names('crm-integration-api-production')).toEqual(expect.arrayContaining(['companies', 'd1_migrations']))
    expect(names('crm-integration-api-staging')).toEqual([])
    const production = api.databases.find(({ name }) => name.endsWith('production'))
    const applied = production?.sqlite.prepare('SELECT name FROM d1_migrations ORDER BY id').all()
    expect(applied?.map(({ name }) => name)).toEqual(files)

    const second = await runAt(api, 'migrate', ['--env', 'production', '--config', config])
    expect(second.stdout).toContain('No migrations to apply')
  })

  it('goes over every database of the environment, the directory last', async () => {
    const { api, config } = await freshAccount()
    const further = addDatabase(config)
    await setUpHere(api, { config })
    const { code, stderr } = await runAt(api, 'migrate', ['--env', 'production', '--config', config])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const applied = (name: string) => {
      const found = api.databases.find((database) => database.name === name)
      return found?.sqlite
        .prepare('SELECT name FROM d1_migrations ORDER BY id')
        .all()
        .map((row) => row.name)
    }
    expect(applied(further.name)).toEqual(files)
    expect(applied('crm-integration-api-production')).toEqual(files)
    const ids = [further.name, 'crm-integration-api-production'].map(
      (name) => api.databases.find((database) => database.name === name)?.uuid ?? name,
    )
    const queried = api.calls.flatMap((each) => ids.filter((id) => JSON.stringify(each).includes(`${id}/query`)))
    expect([queried[0], queried.at(-1)]).toEqual(ids)
  })

  it('reports what the account responds in one line', async () => {
    const { api, config } = await freshAccount()
    await setUpHere(api, { config })
    api.env.CLOUDFLARE_API_TOKEN = 'wrong-token'
    const { code, stderr } = await runAt(api, 'migrate', ['--env', 'production', '--config', config])
    expect({ code, lines: stderr.trim().split('\n').length }).toEqual({ code: 1, lines: 1 })
    // Wrangler sometimes ends before it prints its error, and with 0.
    expect(stderr).toMatch(
      /^wrangler (d1 migrations apply: A request to the Cloudflare API .* failed|did not confirm that the migrations are applied)/,
    )
  })

  it('applies all migrations to a new local database', async () => {
    const { api } = await freshAccount()
    const state = await makeStateFolder()
    const { code } = await runAt(api, 'migrate', ['--state', state])
    expect(code).toBe(0)
    expect(runSql(state, 'SELECT name FROM d1_migrations ORDER BY id').map(({ name }) => name)).toEqual(files)
    expect(api.calls).toEqual([])
  })

  it('refuses a deployed and a local database together', async () => {
    const { api } = await freshAccount()
    const { code, stderr } = await runAt(api, 'migrate', ['--env', 'production', '--state', '.'])
    expect({ code, stderr }).toEqual({ code: 1, stderr: "Options '--env' and '--state' cannot be used together.\n" })
    expect(api.calls).toEqual([])
  })
})

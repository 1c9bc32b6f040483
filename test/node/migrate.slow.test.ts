import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { BEFORE_RELEASE } from '../../src/kernel/db/names.ts'
import { freshState, readAll, runSql, temporaryFolder } from './cli-support.ts'
import { chooseFreePort, startCommand } from './servers.ts'
import { addDatabase, freshAccount } from './setup-fixture.ts'

const files = readdirSync(join(import.meta.dirname, '../../drizzle')).filter((name) => name.endsWith('.sql'))

describe('migrate', () => {
  it('applies all migrations to every database of the environment, the directory last, and then none', async () => {
    const { api, config, setUp, run } = await freshAccount()
    const further = addDatabase(config)
    for (const env of ['staging', 'production']) await setUp({ env })
    const names = [further.name, 'crm-integration-api-production']
    const find = (name: string) => api.databases.find((each) => each.name === name) ?? expect.fail(name)
    const migrate = () => run('migrate', ['--env', 'production', '--config', config])
    expect(await migrate()).toMatchObject({ code: 0, stderr: '' })
    for (const name of names) {
      const applied = find(name).sqlite.prepare('SELECT name FROM d1_migrations ORDER BY id').all()
      expect(applied.map((row) => row.name)).toEqual(files)
    }
    const { sqlite } = find('crm-integration-api-staging')
    expect(sqlite.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all()).toEqual([])
    const ids = names.map((name) => find(name).uuid)
    const queried = api.calls.flatMap((each) => ids.filter((id) => JSON.stringify(each).includes(`${id}/query`)))
    expect([queried[0], queried.at(-1)]).toEqual(ids)

    expect((await migrate()).stdout).toContain('No migrations to apply')
  })

  it('reports what the account responds in one line', async () => {
    const { api, config, setUp, run } = await freshAccount()
    await setUp()
    api.env.CLOUDFLARE_API_TOKEN = 'wrong-token'
    const { code, stderr } = await run('migrate', ['--env', 'production', '--config', config])
    expect({ code, lines: stderr.trim().split('\n').length }).toEqual({ code: 1, lines: 1 })
    // Wrangler sometimes ends before it prints its error, and with 0.
    expect(stderr).toMatch(
      /^wrangler (d1 migrations apply: A request to the Cloudflare API .* failed|did not confirm that the migrations are applied)/,
    )
  })

  it("applies all migrations to a new local database, whatever wrangler's own variable names", async () => {
    const { api, run } = await freshAccount()
    Object.assign(api.env, { CLOUDFLARE_ENV: 'elsewhere' })
    const state = await temporaryFolder()
    const { code } = await run('migrate', ['--state', state])
    expect(code).toBe(0)
    expect(runSql(state, 'SELECT name FROM d1_migrations ORDER BY id').map(({ name }) => name)).toEqual(files)
    expect(api.calls).toEqual([])
  })

  it('refuses a deployed and a local database together', async () => {
    const { api, run } = await freshAccount()
    const { code, stderr } = await run('migrate', ['--env', 'production', '--state', '.'])
    expect({ code, stderr }).toEqual({ code: 1, stderr: "Options '--env' and '--state' cannot be used together.\n" })
    expect(api.calls).toEqual([])
  })
})

it.each([
  [`INSERT INTO d1_migrations (name) VALUES ('${BEFORE_RELEASE}')`, 'tokens', 'list'],
  [`INSERT INTO d1_migrations (name) VALUES ('${BEFORE_RELEASE}')`, 'dev'],
  // The first migration was another one then.
  ['ALTER TABLE clients ADD COLUMN since TEXT', 'tokens', 'list'],
  ['DROP INDEX orders_of_client', 'dev'],
] as const)(
  'data of a version before the first release (%s) is refused by %s in one line, and left as it is',
  async (sql, name, ...args) => {
    const state = await freshState()
    runSql(state, sql)
    const before = readAll(state)
    const port = name === 'dev' ? ['--port', String(await chooseFreePort())] : []
    const { code, stderr } = await startCommand(name, [...args, ...port, '--state', state]).ended
    expect({ code, lines: stderr.trim().split('\n').length }).toEqual({ code: 1, lines: 1 })
    expect(stderr).toContain('made by a version before the first release: delete its directory')
    expect(readAll(state)).toEqual(before)
  },
)

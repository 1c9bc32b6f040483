import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { readArguments } from '../../src/cli/command.ts'
import { ARGUMENTS, readSecrets } from '../../src/cli/setup.ts'
import { setKey } from '../../src/cli/wrangler.ts'
import type { AccountApi } from './account-api.ts'
import { addDatabase, freshAccount, type SetupOptions, summarize } from './setup-fixture.ts'

const NAME = 'crm-integration-api-production'
const KEYS = { STORAGE_ACCESS_KEY_ID: 'key-id', STORAGE_SECRET_ACCESS_KEY: 'key-secret' }
const IN_EUROPE = { location: null, jurisdiction: 'eu' }
const KEY = Buffer.alloc(32, 7).toString('base64')

const secretsOf = (api: AccountApi) => Object.fromEntries(api.workers.get(NAME)?.secrets ?? [])

describe('setup of an empty account', () => {
  it('makes what the environment names and writes its ids into wrangler.toml, and nothing else there', async () => {
    const { api, readConfig, setUp } = await freshAccount()
    const before = readConfig().split('\n')
    await setUp({ secrets: KEYS })
    const files = { name: `${NAME}-files`, location: 'weur', jurisdiction: 'default' }
    expect(summarize(api)).toMatchObject({
      databases: [{ name: NAME, hint: 'weur', jurisdiction: null, replication: 'auto' }],
      namespaces: [{ title: `${NAME}-cache` }],
      buckets: expect.arrayContaining([
        { ...files, cors: JSON.parse(readFileSync('src/resources/files/cors-rules.json', 'utf8')) },
      ]),
    })
    const changed = readConfig()
      .split('\n')
      .filter((line, at) => line !== before[at])
    expect(changed).toEqual([`database_id = "${api.databases[0]?.uuid}"`, `id = "${api.namespaces[0]?.id}"`])
  })

  it('makes a further database where it is told, and later leaves it where it is', async () => {
    const { api, config, readConfig, setUp } = await freshAccount()
    await setUp()
    const { binding, name } = addDatabase(config)
    await setUp({ location: 'apac' })
    expect(api.databases.map((each) => [each.name, each.hint])).toEqual([
      [NAME, 'weur'],
      [name, 'apac'],
    ])
    expect(readConfig()).toContain(`binding = "${binding}"`)
    expect(readConfig()).toContain(`database_id = "${api.databases[1]?.uuid}"`)
    const made = summarize(api)
    await setUp({ location: 'enam' })
    expect(summarize(api)).toEqual(made)
  })

  it('accepts a further database under a jurisdiction of its own', async () => {
    const { api, config, setUp } = await freshAccount()
    await setUp()
    const { name } = addDatabase(config)
    const sqlite = new DatabaseSync(':memory:')
    api.databases.push({ uuid: randomUUID(), name, jurisdiction: 'eu', replication: 'disabled', sqlite })
    await setUp()
    expect(api.databases.map((each) => [each.name, each.jurisdiction])).toEqual([
      [NAME, null],
      [name, 'eu'],
    ])
  })

  it('puts all secrets in one call, and prints those that it generates', async () => {
    const { api, setUp } = await freshAccount()
    const printed = await setUp({ secrets: KEYS })
    const { CREDENTIALS_KEY = '', ADMIN_TOKEN, ...storage } = secretsOf(api)
    expect(Buffer.from(CREDENTIALS_KEY, 'base64')).toHaveLength(32)
    expect(ADMIN_TOKEN).toMatch(/^[0-9a-f]{64}$/)
    expect(storage).toEqual({
      ...KEYS,
      STORAGE_ENDPOINT: `https://${api.account}.r2.cloudflarestorage.com`,
      STORAGE_BUCKET: `${NAME}-files`,
    })
    expect(printed).toContain(`CREDENTIALS_KEY=${CREDENTIALS_KEY} `)
    expect(printed).toContain(`ADMIN_TOKEN=${ADMIN_TOKEN} `)
    expect(printed).not.toContain(KEYS.STORAGE_SECRET_ACCESS_KEY)
    expect(api.commands.filter((line) => line.includes('secret'))).toEqual([
      `npx wrangler secret list --name ${NAME}`,
      `npx wrangler secret bulk --name ${NAME}`,
    ])
  })

  it('keeps everything in a jurisdiction, without a hint, and signs uploads for its endpoint', async () => {
    const { api, readConfig, setUp } = await freshAccount()
    await setUp({ ...IN_EUROPE, secrets: KEYS })
    const { databases, namespaces, buckets } = summarize(api)
    expect(databases).toEqual([{ name: NAME, hint: undefined, jurisdiction: 'eu', replication: 'disabled' }])
    expect(namespaces).toEqual([{ title: `${NAME}-cache`, jurisdiction: 'eu' }])
    expect(new Set(buckets.map(({ jurisdiction }) => jurisdiction))).toEqual(new Set(['eu']))
    expect(readConfig()).toMatch(/^\[\[env\.production\.r2_buckets]]\nbinding = "FILES"\njurisdiction = "eu"$/m)
    expect(secretsOf(api).STORAGE_ENDPOINT).toBe(`https://${api.account}.eu.r2.cloudflarestorage.com`)
    const before = api.changes().length
    await setUp({ ...IN_EUROPE, secrets: KEYS })
    expect(api.changes()).toHaveLength(before)
    await expect(setUp()).rejects.toThrow('is in jurisdiction eu')
  })
})

describe('setup of an account that has something', () => {
  it('changes nothing when it runs twice', async () => {
    const { api, readConfig, setUp } = await freshAccount()
    await setUp({ secrets: KEYS })
    const before = { changes: api.changes(), toml: readConfig(), secrets: secretsOf(api) }
    await setUp({ secrets: { ...KEYS, CREDENTIALS_KEY: KEY, ADMIN_TOKEN: 'a'.repeat(64) } })
    expect({ changes: api.changes(), toml: readConfig(), secrets: secretsOf(api) }).toEqual(before)
  })

  it('completes a run that was cut off at any call, before or after it had its effect', async () => {
    const whole = await freshAccount()
    await whole.setUp({ secrets: KEYS })
    expect(whole.api.calls.length).toBeGreaterThan(10)
    for (let call = 1; call <= whole.api.calls.length; call++) {
      for (const after of [false, true]) {
        const { api, readConfig, setUp } = await freshAccount()
        api.cut = { call, after }
        const where = `call ${call}, ${after ? 'after' : 'before'} its effect`
        await expect(setUp({ secrets: KEYS }), where).rejects.toThrow('Run the command again')
        const earlier = secretsOf(api)
        api.cut = null
        await setUp({ secrets: KEYS })
        expect(summarize(api), where).toEqual(summarize(whole.api))
        expect(secretsOf(api), where).toMatchObject(earlier)
        expect(readConfig(), where).toContain(`database_id = "${api.databases[0]?.uuid}"`)
        expect(readConfig(), where).toContain(`id = "${api.namespaces[0]?.id}"`)
      }
    }
  })

  it('prints every secret that it may have put, also when the response is lost', async () => {
    const { api, setUp } = await freshAccount()
    await setUp()
    const bulk = api.calls.findLastIndex(({ path }) => path.endsWith('secrets-bulk')) + 1
    const lost = await freshAccount()
    lost.api.cut = { call: bulk, after: true }
    const { printed } = await lost.setUp().catch((error) => error)
    for (const value of Object.values(secretsOf(lost.api))) expect(printed).toContain(value)
    expect(Object.keys(secretsOf(lost.api))).toEqual(['CREDENTIALS_KEY', 'ADMIN_TOKEN'])
  })

  it('never generates a CREDENTIALS_KEY for a database that has tables', async () => {
    const { api, setUp } = await freshAccount()
    await setUp()
    api.databases[0]?.sqlite.exec('CREATE TABLE integrations (id INTEGER PRIMARY KEY)')
    api.workers.clear()
    await expect(setUp()).rejects.toThrow('give the one that encrypted them')
    expect(api.workers.size).toBe(0)
    await setUp({ secrets: { CREDENTIALS_KEY: KEY } })
    expect(secretsOf(api).CREDENTIALS_KEY).toBe(KEY)
  })

  it('keeps CORS rules that the bucket has', async () => {
    const { api, setUp } = await freshAccount()
    const rules = { rules: [{ allowed: { origins: ['https://shop.example'], methods: ['PUT'] } }] }
    api.buckets.push({ name: `${NAME}-files`, location: 'weur', jurisdiction: 'default', cors: rules })
    await setUp()
    expect(api.buckets[0]?.cors).toEqual(rules)
  })

  it.each<[string, SetupOptions, (api: AccountApi) => unknown, string]>([
    ['a database_id', {}, (api) => api.databases.splice(0), 'is no D1 database'],
    ['the name of a database', {}, (api) => Object.assign(api.databases[0] ?? {}, { name: 'other' }), 'is other, not'],
    ['an id of a namespace', {}, (api) => api.namespaces.splice(0), 'is no KV namespace'],
    ['a jurisdiction', IN_EUROPE, () => {}, 'exists in no jurisdiction, which cannot be changed'],
  ])('refuses %s that the account does not have, before it makes anything', async (_, options, lose, message) => {
    const { api, setUp } = await freshAccount()
    await setUp()
    lose(api)
    const before = api.changes().length
    await expect(setUp(options)).rejects.toThrow(message)
    expect(api.changes()).toHaveLength(before)
  })
})

describe('wrangler.toml', () => {
  const table = 'env.production.d1_databases'

  it('keeps comments, and all other tables', () => {
    const text =
      '[[env.staging.d1_databases]]\nbinding = "DB"\nid = "1"\n\n[[env.production.d1_databases]]\nid = "2" # mine\nbinding = "DB"\n'
    const where = { table, binding: 'DB', key: 'id' }
    expect(setKey(text, where, '"3"')).toBe(text.replace('"2"', '"3"'))
    expect(setKey(text, { ...where, key: 'name' }, '"a"')).toBe(text.replace(/"DB"\n$/, '"DB"\nname = "a"\n'))
  })

  it.each([
    ['no such binding', '[[env.production.d1_databases]]\nbinding = "OTHER"\n', { table, binding: 'DB', key: 'id' }],
    ['no such table', 'd1_databases = [{ binding = "DB" }]\n', { table, binding: 'DB', key: 'id' }],
  ])('is refused where it has %s', (_, text, where) => {
    expect(() => setKey(text, where, '"3"')).toThrow('yourself')
  })
})

describe('--dry-run', () => {
  it('prints exactly the calls that the run then makes, and changes nothing', async () => {
    const { api, readConfig, setUp } = await freshAccount()
    const toml = readConfig()
    const printed = await setUp({ secrets: KEYS, isDryRun: true })
    expect(api.changes()).toEqual([])
    expect(readConfig()).toBe(toml)
    expect(printed).not.toContain(KEYS.STORAGE_SECRET_ACCESS_KEY)
    api.commands.length = 0
    await setUp({ secrets: KEYS })
    const [{ uuid } = { uuid: '' }] = api.databases
    const changes = api.changes().map(({ method, path }) => `${method} accounts/${api.account}/${path}`)
    const made = [...api.commands, changes.find((change) => change.endsWith(uuid))?.replace(uuid, 'ID')]
    const planned = Array.from(printed.matchAll(/^(npx wrangler .*?|PATCH \S+)(?= {3}#| \{|$)/gm), ([line]) => line)
    expect(planned.sort()).toEqual(made.sort())
  })

  it('needs no account', async () => {
    const { api, config, readConfig, run } = await freshAccount()
    const toml = readConfig()
    const none = { CLOUDFLARE_API_TOKEN: '', CLOUDFLARE_ACCOUNT_ID: '' }
    const args = ['--env', 'staging', '--jurisdiction', 'eu', '--dry-run', '--config', config]
    const { code, stdout, stderr } = await run('setup', args, none)
    expect(code).toBe(0)
    expect(stderr).toContain('the calls for an empty account')
    expect(stdout).toContain('npx wrangler d1 create crm-integration-api-staging --jurisdiction eu\n')
    expect(api.calls).toEqual([])
    expect(readConfig()).toBe(toml)
  })
})

describe('setup that cannot work', () => {
  it.each([
    [['--location', 'weur'], "Option '--env' is required"],
    [['--env', 'production'], "Option '--location' or '--jurisdiction' is required"],
    [
      ['--env', 'production', '--location', 'weur', '--jurisdiction', 'eu'],
      "Options '--location' and '--jurisdiction' cannot be used together",
    ],
    [['--env', 'production', '--location', 'sam'], '--location must be one of weur'],
    [['--env', 'production', '--jurisdiction', 'EU'], '--jurisdiction must be one of eu'],
  ])('refuses %j', (args, message) => {
    expect(() => readArguments(args, '', ARGUMENTS)).toThrow(message)
  })

  it('refuses an environment that wrangler.toml does not have with one line and no call', async () => {
    const { api, config, run } = await freshAccount()
    const args = ['--env', 'prod', '--location', 'weur', '--config', config]
    const { code, stdout, stderr } = await run('setup', args)
    const line = "--env must be one of staging, production, not 'prod'.\n"
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: line })
    expect(api.calls).toEqual([])
  })

  it.each([
    ['CREDENTIALS_KEY', 'c2hvcnQ=', 'CREDENTIALS_KEY is malformed'],
    ['ADMIN_TOKEN', 'very-secret-admin', 'ADMIN_TOKEN is malformed'],
    ['STORAGE_ACCESS_KEY_ID', 'very-secret', 'are a pair'],
  ])('refuses %s in the environment, without its value', (name, value, message) => {
    expect(() => readSecrets({ [name]: value })).toThrow(message)
    expect(() => readSecrets({ [name]: value })).not.toThrow(value)
  })

  it('names the permissions of a token that is refused, and never prints the token', async () => {
    const { api, setUp } = await freshAccount()
    api.env.CLOUDFLARE_API_TOKEN = 'wrong-token'
    const { message, printed } = await setUp().catch((error) => error)
    expect(message).toContain('Authentication error [code: 10000]')
    expect(message).toContain('D1 Edit, Workers KV Storage Edit')
    expect(message + printed).not.toContain('wrong-token')
  })

  it.each([
    [{ CLOUDFLARE_ACCOUNT_ID: 'my-account' }, 'must be 32 hexadecimal digits'],
    [{ CLOUDFLARE_API_TOKEN: '' }, 'Set CLOUDFLARE_ACCOUNT_ID'],
  ])('reports an account that cannot be reached with %j', async (env, message) => {
    const { api, setUp } = await freshAccount()
    Object.assign(api.env, env)
    await expect(setUp()).rejects.toThrow(message)
    expect(api.changes()).toEqual([])
  })

  it.each([
    ['r2/buckets', 403, '{"success":false,"errors":[{"code":10042,"message":"Please enable R2"}]}', 'Please enable R2'],
    [
      `r2/buckets/${NAME}-files/cors`,
      404,
      '{"success":false,"errors":[{"code":10006,"message":"No bucket"}]}',
      'No bucket',
    ],
    ['d1/database', 200, '{"success":true,"errors":[],"result":{}}', 'expected'],
  ])('reports what %s responds with status %i', async (path, status, body, message) => {
    const { api, setUp } = await freshAccount()
    api.replies.set(path, { status, body })
    await expect(setUp()).rejects.toThrow(message)
  })
})

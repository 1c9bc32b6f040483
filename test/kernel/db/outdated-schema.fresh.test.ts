import { applyD1Migrations, createScheduledController, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { app } from '../../../src/app.ts'
import type { AccountingDelivery } from '../../../src/delivery/accounting/delivery.ts'
import worker from '../../../src/index.ts'
import { BEFORE_RELEASE } from '../../../src/kernel/db/names.ts'
import { compareSchema } from '../../../src/kernel/db/refusals.ts'
import { adminCall } from '../../support/admin.ts'
import { mintCompany, randomToken, removeEverything, request, send, sql } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { logLines } from '../../support/log.ts'
import { moveTime, resumeTime } from '../../support/time.ts'

const { TEST_MIGRATIONS: migrations } = env

/** From the application itself: the responses are those of a state that the published description does not have. */
const get = (path: string, token: string | null = randomToken()) => send(request(token, 'GET', path), { app })

/** A migration of the next release, which only adds. */
const NEXT = {
  name: '9999_next.sql',
  queries: [
    'CREATE TABLE next (id INTEGER PRIMARY KEY)',
    'ALTER TABLE clients ADD COLUMN next TEXT',
    'CREATE INDEX clients_next ON clients (company_id, next)',
  ],
}

const outdatedLines = () => logLines.filter(({ event }) => event === 'schema_outdated')

const NEWEST = migrations.at(-1)?.name ?? ''
/** Recorded in place of the newest one: no other name has the same place. */
const OLDER = `${NEWEST.slice(0, 4)}_.sql`

describe('the migrations that the code needs', () => {
  const names = migrations.map(({ name }) => name)
  const compare = (applied: string[]) => compareSchema([...applied].sort().reverse().join(','))

  it('are those of the files, and a schema may have more of them', () => {
    const needed = NEWEST
    expect(compareSchema(null)).toEqual({ applied: null, needed, missing: names, unknown: [] })
    expect(compare(names)).toEqual({ applied: NEWEST, needed, missing: [], unknown: [] })
    const next = { applied: NEXT.name, needed, missing: [], unknown: [NEXT.name] }
    expect(compare([...names, NEXT.name])).toEqual(next)
  })

  it.each(names.map((name) => [name]))('are compared one by one: without %s a schema is older', (name) => {
    const { missing, unknown } = compare([...names.filter((one) => one !== name), NEXT.name])
    expect({ missing, unknown }).toEqual({ missing: [name], unknown: [NEXT.name] })
  })

  it('are all missing where a version before the first release made the schema', () => {
    expect(compareSchema([BEFORE_RELEASE, ...names].join(',')).missing).toEqual(names)
  })
})

// One test, as the isolate verifies the schema once: its steps are those of a deployment.
it('is refused until it is migrated, and then served', async () => {
  await removeEverything()
  for (let i = 0; i < 3; i++) {
    const { status, body, headers } = await get('/clients')
    expect(status).toBe(503)
    expect(body.error).toMatchObject({ code: 'internal_error', details: { documentation_url: expect.any(String) } })
    expect(JSON.stringify(body)).not.toMatch(/sql|table|d1_/i)
    expect(headers.get('retry-after')).toBe('30')
  }
  const advice = expect.stringMatching(/`npm run migrate -- --env NAME`.*`--remote URL`/)
  expect(outdatedLines()).toEqual([{ event: 'schema_outdated', ...compareSchema(null), advice }])

  // Without the newest migration it is refused on everything that needs the database, whatever the token.
  await applyD1Migrations(env.DB, migrations)
  await sql('UPDATE d1_migrations SET name = ? WHERE name = ?', OLDER, NEWEST)
  const company = await mintCompany({ home: 'DB' })
  /** One that the Worker has not looked up yet. */
  const read = () => get('/clients', company.token)
  expect((await read()).status).toBe(503)
  expect((await get('/clients')).status).toBe(503)
  expect((await send(request(company.token, 'POST', '/clients', { company_name: 'a' }), { app })).status).toBe(503)
  expect(await sql('SELECT * FROM clients')).toEqual([])
  expect((await get('/clients', null)).status).toBe(401)

  // It is logged again after a minute.
  {
    const before = outdatedLines().length
    moveTime(61_000)
    await read()
    await read()
    resumeTime()
    expect(outdatedLines()).toHaveLength(before + 1)
    expect(outdatedLines().at(-1)).toMatchObject({ applied: OLDER })
  }

  // It does not affect static assets and liveness, and is what the health check reports.
  {
    const at = (path: string) => send(new Request(`https://api.test${path}`), { app })
    expect((await get('/openapi.json', null)).status).toBe(200)
    expect((await at('/health/live')).status).toBe(200)
    const schema = { status: 'failed', applied: OLDER, needed: NEWEST, missing: [NEWEST], unknown: [OLDER] }
    const { status, body } = await at('/health')
    expect([status, body.checks]).toMatchObject([503, { database: { status: 'ok' }, schema }])
  }

  // It is not taken for a current one because of the newest name.
  await sql('INSERT INTO d1_migrations (name) VALUES (?)', NEXT.name)
  expect((await read()).status).toBe(503)
  await sql('DELETE FROM d1_migrations WHERE name = ?', NEXT.name)

  // It stops the sweep and the deliveries, which are repeated later.
  {
    const sweep = worker.scheduled(createScheduledController({ scheduledTime: Date.now() }), env)
    await expect(sweep).rejects.toMatchObject({ kind: 'unavailable' })
    const objects = env.ACCOUNTING_DELIVERY as unknown as DurableObjectNamespace<AccountingDelivery>
    const object = objects.get(objects.idFromName(String(company.id)))
    const startedAt = Date.now()
    const alarm = await runInDurableObject(object, async (instance, state) => {
      state.storage.kv.put('company', company.id)
      await instance.alarm()
      return state.storage.getAlarm()
    })
    expect(alarm).toBeGreaterThan(startedAt + 20_000)
    expect(logLines).toContainEqual(expect.objectContaining({ event: 'accounting_failed', error: 'ApiError' }))
  }

  // It is served as soon as it is migrated, even further than this code knows, without another wait.
  {
    await sql('UPDATE d1_migrations SET name = ? WHERE name = ?', NEWEST, OLDER)
    await applyD1Migrations(env.DB, [...migrations, NEXT])
    const { response, hops } = await measureHops(request(company.token, 'GET', '/clients'))
    expect(response.status).toBe(200)
    expect((await send(request(company.token, 'POST', '/clients', { company_name: 'a' }))).status).toBe(200)
    // The token is looked up by its object.
    expect(hops.filter(({ name }) => name.startsWith('DB.')).map(({ depth }) => depth)).toEqual([2])
  }

  // The administration is refused again within 30 s where Time Travel takes the newest migration back.
  {
    const list = async () => (await adminCall('GET', '/companies')).status
    expect(await list()).toBe(200)
    await sql('UPDATE d1_migrations SET name = ? WHERE name = ?', OLDER, NEWEST)
    moveTime(31_000)
    expect(await list()).toBe(503)
  }
})

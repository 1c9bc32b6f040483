import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { sweepAccounting } from '../../../../src/delivery/accounting/delivery.ts'
import { sweepWebhooks } from '../../../../src/delivery/webhooks/delivery.ts'
import type { Env } from '../../../../src/env.ts'
import { collectAdminEntries } from '../../../../src/kernel/db/audit.ts'
import { forEachDatabase } from '../../../../src/kernel/db/placement.ts'
import { sweepRows } from '../../../../src/kernel/db/sweep.ts'
import { sweepBackups } from '../../../../src/operation/copies/company-backup.ts'
import { sweepMailContents } from '../../../../src/resources/mail/content.ts'
import { adminCall, adminCallWith } from '../../../support/admin.ts'
import { type Home, mintCompany, request, send, sql, sqlIn, type TestCompany } from '../../../support/app.ts'
import { logLines } from '../../../support/log.ts'
import { insert, insertion } from '../../../support/rows.ts'
import { stopTime } from '../../../support/time.ts'
import { dump, rowsOf } from '../../../support/two-companies.ts'
import { breakCalls, wrapBindings } from '../../../support/wrap-bindings.ts'
import { move, stepsOf } from './support.ts'

const DAY_MS = 86_400_000
const HASH = 'a'.repeat(64)

let moving: TestCompany
let settled: TestCompany
let elsewhere: TestCompany

// A refusal of writes ends after 10 s.
beforeEach(stopTime)
beforeEach(async () => {
  // What earlier tests have left to do would hide what this one has.
  for (const home of ['DB', 'DB_TWO'] as const) {
    await sqlIn(home, 'DELETE FROM company_guards')
    await sqlIn(home, 'DELETE FROM email_thread_objects')
    await sqlIn(home, 'UPDATE webhook_endpoints SET enabled = 0')
    await sqlIn(home, 'UPDATE companies SET backed_up_at = 9e15')
  }
  logLines.length = 0
  moving = await prepare(await mintCompany({ home: 'DB' }))
  settled = await prepare(await mintCompany({ home: 'DB' }))
  elsewhere = await prepare(await mintCompany({ home: 'DB_TWO' }))
})

/** Gives a company what each sweep has something to do with. */
async function prepare(company: TestCompany): Promise<TestCompany> {
  const { id, home } = company
  const client = (await company.call('POST', '/clients', { company_name: 'a' })).body.client
  const order = (await company.call('POST', '/orders', { title: 'a', client_id: client.id })).body.project
  const old = Date.now() - 100 * DAY_MS
  const times = { created_at: old, updated_at: old }
  const event = { ...times, order_id: order.id, operation: 'update', next_attempt_at: 0 }
  const hook = { id: hookOf(id), url: 'https://x.example', secret: 'x', event_types: '[]', enabled: 1, position: 0 }
  const rows: [string, object][] = [
    ['idempotency_keys', { token_id: 1, key: 'k', fingerprint: 'f', result: '[]', created_at: old }],
    ['accounting_outbox', { ...event, state: 'done' }],
    ['accounting_outbox', { ...event, state: 'pending' }],
    ['audit_log', { id: 0, token_id: 1, request_id: 'r', action: 'x', entity_id: '1', at: old }],
    ['changes', { sequence: 0, type: 'clients', entity_id: '1', operation: 'update', version: 1, at: old }],
    [
      'integrations',
      { kind: 'accounting_sync', enabled: 1, base_url: 'http://127.0.0.1:9', credentials: 'unreadable', updated_at: 0 },
    ],
    ['email_thread_objects', { id: `object-${id}`, content_hash: HASH, bytes: 1, state: 'writing', remove_at: old }],
    ['webhook_endpoints', { ...hook, ...times }],
  ]
  await env[home].batch(rows.map(([table, row]) => insertion(table, { company_id: id, ...row }, home)))
  await env.FILES.put(keyOf(id), 'x')
  await sqlIn(home, 'UPDATE companies SET last_change = 900, backed_up_at = NULL WHERE id = ?', id)
  return company
}

const hookOf = (id: number) => `we_${String(id).padStart(18, '0')}`
const keyOf = (id: number) => `mail/${id}/${HASH}/object-${id}`

const guard = (home: Home, id: number, state: string) =>
  insert('company_guards', { company_id: id, state, destination: 'DB_TWO', slot: 0, read_only_at: Date.now() }, home)

/** Everything that the cron trigger runs. @returns the companies whose objects it has started, and what failed */
async function sweepAll(bindings: Env = env) {
  const started: string[] = []
  const failures: string[] = []
  const ids = [moving, settled, elsewhere].map(({ id }) => String(id))
  const watch = (name: string) => ({
    idFromName: String,
    get: (id: string) => ({ start: async () => void (ids.includes(id) && started.push(`${name} ${id}`)) }),
  })
  const objects = Object.fromEntries(OBJECTS.map((name) => [name, watch(name)]))
  const watched = Object.assign({}, bindings, objects)
  const now = Date.now()
  const sweepMail = (env: Env, at: number) => forEachDatabase(env, (each) => sweepMailContents(each, env.FILES, at))
  const collect = (env: Env) => forEachDatabase(env, (_, name) => collectAdminEntries(env, name))
  for (const work of [sweepMail, sweepAccounting, sweepRows, sweepWebhooks, sweepBackups, collect]) {
    await work(watched, now).catch(() => failures.push(work.name))
  }
  return { started, failures }
}

async function leftOf({ id, home }: TestCompany) {
  const count = async (text: string) =>
    (await sqlIn<{ n: number }>(home, `SELECT count(*) AS n FROM ${text}`, id))[0]?.n
  return {
    keys: await count('idempotency_keys WHERE company_id = ?'),
    events: await count("accounting_outbox WHERE company_id = ? AND state = 'done'"),
    audit: await count("audit_log WHERE company_id = ? AND request_id = 'r'"),
    changes: await count('changes WHERE company_id = ? AND sequence = 0'),
    object: (await env.FILES.head(keyOf(id))) !== null,
  }
}

const DONE = { keys: 0, events: 0, audit: 0, changes: 0, object: false }
const OBJECTS = ['ACCOUNTING_DELIVERY', 'COMPANY_BACKUP', 'WEBHOOK_DELIVERY']

/** Expects that a company's old rows are gone, and that its objects were started. */
async function expectServed(company: TestCompany, started: string[]) {
  expect(await leftOf(company)).toEqual(DONE)
  expect(started).toEqual(expect.arrayContaining(OBJECTS.map((name) => `${name} ${company.id}`)))
}

describe('the sweep', () => {
  it('visits each database', async () => {
    const { started, failures } = await sweepAll()
    expect(failures).toEqual([])
    for (const company of [moving, settled, elsewhere]) await expectServed(company, started)
  })

  it.each(['read_only', 'moved', 'writable'])('leaves a company alone that is %s, and serves others', async (state) => {
    await guard('DB', moving.id, state)
    const before = rowsOf(await dump([moving.id]), moving.id)
    const { started, failures } = await sweepAll()
    expect(failures).toEqual([])
    expect(logLines.filter(({ event }) => event === 'mail_contents_failed')).toEqual([])
    expect(rowsOf(await dump([moving.id]), moving.id)).toEqual(before)
    expect((await leftOf(moving)).object).toBe(true)
    expect(started.filter((each) => each.endsWith(` ${moving.id}`))).toEqual([])
    for (const company of [settled, elsewhere]) await expectServed(company, started)
    // As soon as it is a company like the others, it is swept like them.
    await sql('DELETE FROM company_guards')
    expect((await sweepAll()).failures).toEqual([])
    expect(await leftOf(moving)).toEqual(DONE)
  })

  it('also serves a company that is being copied', async () => {
    await guard('DB', moving.id, 'copying')
    await sweepAll()
    expect(await leftOf(moving)).toEqual(DONE)
  })

  it('takes what administrators did to the directory, once, where their request could not', async () => {
    const { id } = elsewhere
    let changed = false
    const broken = wrapBindings(env, (name, work) => {
      changed ||= name === 'DB_TWO.batch'
      return changed && name === 'DB.batch' ? Promise.reject(new Error('D1_ERROR: overloaded')) : work()
    })
    const path = `/companies/${id}/webhooks/${hookOf(id)}`
    expect((await adminCallWith(broken, 'PATCH', path, { enabled: false })).status).toBe(200)
    expect(logLines).toContainEqual(expect.objectContaining({ event: 'admin_log_late', database: 'DB_TWO' }))
    const entries = () => sqlIn('DB', 'SELECT action FROM admin_log WHERE company_id = ?', id)
    expect(await entries()).toEqual([])
    for (let times = 0; times < 2; times++) {
      expect((await sweepAll()).failures).toEqual([])
      expect(await entries()).toEqual([{ action: 'webhooks.update:enabled' }])
    }
    expect(await sqlIn('DB_TWO', 'SELECT action FROM admin_log WHERE company_id = ?', id)).toEqual([])
  })

  it('serves the other databases when one of them fails', async () => {
    for (const [failing, served] of [
      ['DB', elsewhere],
      ['DB_TWO', settled],
    ] as const) {
      const broken = breakCalls(env, new RegExp(`^${failing}\\.`), new Error('D1_ERROR: overloaded'))
      const { started } = await sweepAll(broken)
      await expectServed(served, started)
      expect(logLines).toContainEqual(expect.objectContaining({ event: 'database_failed', database: failing }))
    }
  })
})

describe('a read-only state that nobody ended', () => {
  const post = () => send(request(moving.token, 'POST', '/clients', { company_name: 'a' }))

  it('is ended by a write after ten seconds', async () => {
    await guard('DB', moving.id, 'read_only')
    expect((await post()).status).toBe(503)
    await sql('UPDATE company_guards SET read_only_at = ? WHERE company_id = ?', Date.now() - 11_000, moving.id)
    expect((await post()).status).toBe(200)
    expect(await sql('SELECT state FROM company_guards')).toEqual([{ state: 'copying' }])
  })

  it('is ended by the sweep', async () => {
    await guard('DB', moving.id, 'read_only')
    await guard('DB', settled.id, 'read_only')
    await sql('UPDATE company_guards SET read_only_at = ? WHERE company_id = ?', Date.now() - 11_000, moving.id)
    await sweepAll()
    const states = await sql('SELECT state FROM company_guards ORDER BY company_id')
    expect(states).toEqual([{ state: 'copying' }, { state: 'read_only' }])
  })
})

it('a move ends where what an administrator did waits in the old database', async () => {
  const { id } = await mintCompany({ home: 'DB_TWO' })
  for await (const { step } of stepsOf(id, 'DB')) if (step === 'remove') break
  const entry = {
    actor: 'operator',
    action: 'companies.update:name',
    entity_id: String(id),
    address: '',
    request_id: 'r',
  }
  await insert('admin_log', { company_id: id, ...entry, at: Date.now() }, 'DB_TWO')
  await move(id, 'DB')
  expect(await sqlIn('DB_TWO', 'SELECT id FROM companies WHERE id = ?', id)).toEqual([])
  const { data } = (await adminCall('GET', `/companies/${id}/audit`)).body
  expect(data.map(({ action }: { action: string }) => action)).toContain(entry.action)
})

import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { listEnabledEndpoints } from '../../../src/delivery/webhooks/queries.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { openCompany, openEach } from '../../../src/kernel/db/placement.ts'
import { listDueCompanies, listWebhookCompanies } from '../../../src/kernel/db/sweep.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { beginBackup } from '../../../src/operation/copies/backup.ts'
import { closeCopies } from '../../../src/operation/copies/guard-queries.ts'
import { RESTORE } from '../../../src/operation/copies/restore.ts'
import { manifestKey } from '../../../src/operation/copies/store.ts'
import { TABLES } from '../../../src/operation/copies/tables.ts'
import { COPY_CHANGES, restoreRows } from '../../../src/operation/copies/write-queries.ts'
import { sweepMailContents } from '../../../src/resources/mail/content.ts'
import { Shop } from '../../delivery/accounting/shop.ts'
import { noise, storedObjects } from '../../resources/mail/support.ts'
import { addMember, adminCall, adminCallWith } from '../../support/admin.ts'
import { call, type Home, mintCompany, mintToken, sql, sqlIn, type TestCompany } from '../../support/app.ts'
import { linesOf, logLines } from '../../support/log.ts'
import { insert, insertEndpoint, insertion } from '../../support/rows.ts'
import { breakCalls, loseResponses } from '../../support/wrap-bindings.ts'
import {
  backUp,
  bindObject,
  manifestsOf,
  marksOf,
  objectOf,
  recover,
  restoreAsOperator,
  rowsOf,
  sweepDueBackups,
  wipe,
  wipeAll,
} from '../copies/support.ts'

const today = () => new Date().toISOString().slice(0, 10)

const HOMES: Home[] = ['DB', 'DB_TWO']
const DAY_MS = 86_400_000

// A recovery visits every company: those of earlier tests would take most of its time.
beforeEach(wipeAll)

describe('a restore by the operator', () => {
  it.each(HOMES)('gives a company back, with revoked tokens revoked and readers that start again: %s', async (home) => {
    const company = await mintCompany({ home })
    const revoked = await mintToken(company.id)
    const replaced = await mintToken(company.id)
    const { body } = await company.call('POST', '/clients', { company_name: 'Acme' })
    const { next_cursor } = (await company.call('GET', '/changes')).body.pagination
    await backUp(company.id)
    const backups = (await adminCall('GET', `/companies/${company.id}/backups`)).body.data
    expect(backups).toEqual([{ at: expect.any(String) }])

    const end = Date.now() + 3_600_000
    await env.CACHE.put(`revoked/${hashToken(revoked)}`, String(Date.now() - 1))
    await env.CACHE.put(`revoked/${hashToken(replaced)}`, String(end))
    await wipe(company.id)
    // As if it had moved there since, to another place in the full-text tables.
    await sqlIn('DB', 'UPDATE companies SET database_slot = 900 WHERE id = ? AND database IS NOT NULL', company.id)
    const done = await restoreAsOperator(company.id, today())
    expect(done.body).toEqual({
      done: true,
      backup: backups[0].at,
      step: 'done',
      rows: expect.any(Number),
      differences: [],
      accounting: 'none',
    })
    const tokens = 'SELECT token_hash, revoked_at, expires_at FROM api_tokens WHERE company_id = ?'
    expect(await sql(tokens, company.id)).toEqual([
      { token_hash: hashToken(company.token), revoked_at: null, expires_at: null },
      { token_hash: hashToken(revoked), revoked_at: expect.any(Number), expires_at: null },
      { token_hash: hashToken(replaced), revoked_at: null, expires_at: end },
    ])
    const token = await mintToken(company.id)
    expect((await call(token, 'GET', `/clients/${body.client.id}`)).body.client.company_name).toBe('Acme')
    expect((await call(token, 'GET', `/changes?cursor=${next_cursor}`)).status).toBe(410)
    expect(await sql('SELECT suspended, deliveries_paused FROM companies WHERE id = ?', company.id)).toEqual([
      { suspended: 0, deliveries_paused: 1 },
    ])
    expect((await call(token, 'GET', '/clients?q=acme')).body.data).toHaveLength(1)
    const entries = await sql('SELECT action, entity_id FROM admin_log WHERE company_id = ? ORDER BY id', company.id)
    expect(entries.at(-1)).toEqual({ action: expect.stringMatching(/^company\.restore/), entity_id: backups[0].at })
  })

  it('lets the tokens in at once that were refused while it ran', async () => {
    const other = await mintCompany()
    const company = await mintCompany()
    const { body } = await company.call('POST', '/clients', { company_name: 'Acme' })
    const read = () => call(company.token, 'GET', `/clients/${body.client.id}`)
    await backUp(company.id)
    // As the restore leaves it until its end.
    await sql('UPDATE companies SET suspended = 1 WHERE id = ?', company.id)
    await adminCall('PATCH', `/companies/${company.id}`, { suspended: true })
    expect((await read()).status).toBe(403)
    const [row] = await sql('SELECT * FROM api_tokens WHERE company_id = ?', company.id)
    await wipe(company.id)
    expect((await read()).status).toBe(403)
    expect((await restoreAsOperator(company.id, today())).body).toMatchObject({ done: true })
    const [restored] = await sql('SELECT * FROM api_tokens WHERE company_id = ?', company.id)
    expect(restored?.token_hash).toBe(row?.token_hash)
    expect((await read()).status).toBe(200)
    expect((await call(other.token, 'GET', '/clients')).status).toBe(200)
  })

  it('shows the suspension that the database has, where it alone was set back', async () => {
    await mintCompany({ home: 'DB_TWO' })
    const { id } = await mintCompany({ home: 'DB_TWO' })
    await sqlIn('DB_TWO', 'UPDATE companies SET suspended = 1 WHERE id = ?', id)
    expect((await adminCall('GET', `/companies/${id}`)).body.suspended).toBe(false)
    await recover()
    expect((await adminCall('GET', `/companies/${id}`)).body.suspended).toBe(true)
  })

  it('restores a token whose id the empty company has given to another one', async () => {
    await mintCompany()
    const company = await mintCompany()
    await backUp(company.id)
    const [row] = await sql('SELECT * FROM api_tokens WHERE company_id = ?', company.id)
    await wipe(company.id)
    expect((await adminCall('POST', '/companies', { id: company.id })).status).toBe(200)
    await insert('api_tokens', { ...row, token_hash: 'f'.repeat(64), name: 'New' }, 'DB')
    expect((await restoreAsOperator(company.id, today())).body).toMatchObject({ done: true })
    expect((await company.call('GET', '/clients')).status).toBe(200)
    const tokens = await sql('SELECT name FROM api_tokens WHERE company_id = ? ORDER BY id', company.id)
    expect(tokens).toEqual([{ name: 'New' }, { name: row?.name }])
  })

  it.each(HOMES)('restores accounting events in order and once, though their ids are taken: in %s', async (home) => {
    const [company, other] = [await mintCompany({ home }), await mintCompany({ home })]
    const orderOf = async ({ call }: TestCompany) => {
      const { client } = (await call('POST', '/clients', { company_name: 'Acme' })).body
      return (await call('POST', '/orders', { title: 'Shirts', client_id: client.id })).body.project.id as number
    }
    const rowOf = (order_id: number, id: number, operation: string) => {
      return { id, order_id, operation, state: 'pending', next_attempt_at: 1, created_at: id, updated_at: 1 }
    }
    const add = ({ id: company_id }: TestCompany, ...row: Parameters<typeof rowOf>) =>
      insert('accounting_outbox', { company_id, ...rowOf(...row) }, home)
    const [order, othersOrder] = [await orderOf(company), await orderOf(other)]
    await add(company, order, 5_010, 'update')
    await add(company, order, 5_011, 'delete')
    await backUp(company.id)
    await wipe(company.id)
    await add(other, othersOrder, 5_010, 'create')
    const events = async () => (await rowsOf(company.id)).accounting_outbox?.map(({ operation }) => operation)
    expect((await restoreAsOperator(company.id, today())).body).toMatchObject({ done: true, differences: [] })
    expect(await events()).toEqual(['update', 'delete'])

    // A repeated insertion, as after a lost response.
    const plan = TABLES.find(({ name }) => name === 'accounting_outbox') ?? expect.fail()
    await restoreRows(await openCompany(env, company.id), plan, [rowOf(order, 5_010, 'update')])
    expect(await events()).toEqual(['update', 'delete'])
  })

  it('is refused of what is no time or no company', async () => {
    const company = await mintCompany()
    const path = `/companies/${company.id}/restore`
    for (const from of ['yesterday', '2026-02-30', '2026-11-22T03:00:00', 5]) {
      const { status, body } = await adminCall('POST', path, { from })
      const message = 'must be a date or a time, such as 2026-01-31T12:00:00Z'
      expect([from, status, body.error.details.issues]).toEqual([from, 400, [{ path: 'from', message }]])
    }
    expect((await adminCall('POST', '/companies/999999/restore', { from: today() })).status).toBe(404)
    expect((await adminCall('POST', '/recovery', { cursor: 'x' })).status).toBe(400)
  })
})

describe.each(HOMES)('the recovery of %s that was set back', (home) => {
  const db = openDatabase(env[home])

  it('gives nothing out twice, revokes again, and pauses deliveries until they are resumed', async () => {
    const shop = await Shop.open({}, home)
    const { company } = shop
    const token = await mintToken(company.id)
    for (const _ of [1, 2]) await shop.makeOrder()
    await shop.deliverLater()
    expect(await shop.invoices()).toHaveLength(2)
    const marks = await marksOf(company.id)
    const isDue = async () => {
      const due = [await listDueCompanies(db, Date.now()), await listWebhookCompanies(db, Date.now())]
      return due.map((ids) => ids.includes(company.id))
    }
    const { next_cursor } = (await company.call('GET', '/changes?start=latest')).body.pagination
    await sweepDueBackups()

    // What Time Travel does: the database is as it was, nothing else is.
    await sql(
      `UPDATE companies SET last_client_id = last_client_id - 1, last_order_id = last_order_id - 2,
         last_invoice_number = last_invoice_number - 2, last_change = last_change - 2 WHERE id = ?`,
      company.id,
    )
    await env.CACHE.put(`revoked/${hashToken(token)}`, String(Date.now() - 1))
    await env.FILES.put(`orders/${company.id}/${marks.last_order_id + 7}/a.txt`, 'x')
    await env.FILES.put(`orders/${company.id}/${marks.last_order_id + 3}/email/t/a.txt`, 'x')
    await sql("UPDATE accounting_outbox SET state = 'pending', next_attempt_at = 0 WHERE company_id = ?", company.id)
    await insertEndpoint(company.id, 'we_a')
    logLines.length = 0
    // Sequences are written again when those of any company have risen.
    await mintCompany({ home })
    await sweepDueBackups()
    expect(logLines).toContainEqual(expect.objectContaining({ event: 'database_set_back', company_id: company.id }))
    expect(await isDue()).toEqual([true, true])

    const steps = await recover()
    expect(steps[0].companies_paused).toBeGreaterThan(0)
    expect(steps.map(({ tokens_revoked }) => tokens_revoked).reduce((a, b) => a + b)).toBeGreaterThan(0)
    const recovered = steps.map((step) => step.company).find((each) => each?.id === company.id)
    expect(recovered).toMatchObject({
      last_client_id: marks.last_client_id,
      last_order_id: marks.last_order_id + 7,
      last_invoice_number: marks.last_invoice_number,
      last_change: marks.last_change + 1_000_000,
      accounting: 'read',
    })
    expect((await rowsOf(company.id)).api_tokens?.filter(({ revoked_at }) => revoked_at !== null)).toHaveLength(1)
    expect((await company.call('GET', `/changes?cursor=${next_cursor}`)).status).toBe(410)
    expect(await isDue()).toEqual([false, false])
    const context = { companyId: company.id, db }
    expect(await listEnabledEndpoints(context)).toEqual([])
    const sent = (await shop.changes()).length
    await shop.deliver()
    expect((await shop.changes()).length).toBe(sent)

    await sql('UPDATE companies SET deliveries_paused = 0 WHERE id = ?', company.id)
    expect((await isDue())[0]).toBe(true)
    expect(await listEnabledEndpoints(context)).toEqual(['we_a'])
    await shop.deliver()
    expect((await shop.changes()).length).toBeGreaterThan(sent)
    const { body } = await shop.call('POST', '/orders', { title: 'Next', client_id: shop.clientId })
    expect([body.project.id, body.invoice.number]).toEqual([
      marks.last_order_id + 8,
      String(marks.last_invoice_number + 1),
    ])
    logLines.length = 0
    await sweepDueBackups()
    expect(logLines.filter(({ event }) => event === 'database_set_back')).toEqual([])
  })

  it('learns invoice numbers from the accounting system alone, and says when it cannot', async () => {
    const [known, lost] = [await Shop.open({}, home), await Shop.open({}, home)]
    for (const shop of [known, lost]) {
      for (const _ of [1, 2, 3]) await shop.makeOrder()
      await shop.deliverLater()
      await sql('UPDATE companies SET last_invoice_number = 1001 WHERE id = ?', shop.company.id)
    }
    await lost.world.spoil({ match: 'query', times: -1, status: 500 })
    const steps = await recover()
    const of = (shop: Shop) => steps.map((step) => step.company).find((each) => each?.id === shop.company.id)
    expect(of(known)).toMatchObject({ accounting: 'read', last_invoice_number: 1003 })
    expect(of(lost)).toMatchObject({ accounting: 'failed', last_invoice_number: 1001 })

    // The seed file that the command prints.
    const { id } = lost.company
    const file = { company: { id, name: `Company ${id}`, last_invoice_number: 1003 } }
    const part = { hash: 'a'.repeat(64), part: 1, parts: 1, file }
    const before = await rowsOf(id)
    expect((await adminCall('POST', `/companies/${id}/imports`, part)).status).toBe(200)
    const after = await rowsOf(id)
    expect(after).toEqual({
      ...before,
      companies: [{ ...before.companies?.[0], last_invoice_number: 1003 }],
      imports: [expect.objectContaining({ parts: 1 })],
      admin_log: expect.any(Array),
    })
    const { body } = await lost.call('POST', '/orders', { title: 'Next', client_id: lost.clientId })
    expect(body.invoice.number).toBe('1004')
  })
})

it('a database whose responses are lost leaves the numbers of a recovery right', async () => {
  const { token } = await mintCompany({ home: 'DB_TWO' })
  await env.CACHE.put(`revoked/${hashToken(token)}`, '1')
  await recover()
  const [one, two] = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB_TWO' })]
  const ended = await mintToken(one.id)
  await env.CACHE.put(`revoked/${hashToken(ended)}`, '1')
  const steps = []
  for (let body = {}; steps.length < 2; body = { cursor: steps.at(-1).next_cursor }) {
    steps.push((await adminCallWith(loseResponses(env), 'POST', '/recovery', body)).body)
  }
  expect(steps).toMatchObject([{ companies_paused: 2 }, { tokens_revoked: 1 }])
  for (const { id } of [one, two]) {
    expect((await adminCall('GET', `/companies/${id}`)).body.deliveries_paused).toBe(true)
  }
  expect((await call(ended, 'GET', '/me')).status).toBe(401)
})

/** Repeats the first calls of a recovery until it reaches a company, whose object fails then. */
const recoverFirst = async () => {
  const first = (await adminCall('POST', '/recovery', {})).body
  const { next_cursor: cursor } = (await adminCall('POST', '/recovery', { cursor: first.next_cursor })).body
  return adminCall('POST', '/recovery', { cursor })
}

it.each<[string, (id: number) => ReturnType<typeof adminCall>]>([
  ['move', (id) => adminCall('POST', `/companies/${id}/move`, { database: 'DB_TWO' })],
  ['restore', (id) => adminCall('POST', `/companies/${id}/restore`, { from: '2099-01-01' })],
  ['recovery', recoverFirst],
])('a database that fails for the object of a company makes a %s 503, and the log names it', async (name, send) => {
  await mintCompany({ home: 'DB' })
  const { id } = await mintCompany({ home: 'DB' })
  const [lowest] = await sql<{ id: number }>('SELECT min(id) AS id FROM companies')
  const companyId = name === 'recovery' ? (lowest?.id ?? 0) : id
  const down = new Error('D1_ERROR: D1 DB is overloaded. Too many requests queued.')
  await bindObject(companyId, breakCalls(env, /^DB\w*\.batch$/, down))
  onTestFinished(() => bindObject(companyId, env))
  const { status, headers, body } = await send(id)
  expect([status, headers.get('retry-after'), body.error.code]).toEqual([503, '2', 'internal_error'])
  const line = { event: 'unavailable', error: expect.stringContaining('DB: D1_ERROR') }
  expect(linesOf(headers.get('x-request-id'))).toContainEqual(expect.objectContaining(line))
})

it('a backup under way is begun again after a recovery', async () => {
  const company = await mintCompany()
  const begun = beginBackup(Date.now())
  const object = objectOf(company.id)
  await runInDurableObject(object, (_, { storage }) => storage.kv.put('backup', begun))
  await recover()
  expect(await runInDurableObject(object, (_, { storage }) => storage.kv.get('backup'))).toBe(undefined)
})

it('a damaged backup keeps no company from a recovery', async () => {
  const company = await mintCompany()
  await backUp(company.id)
  const [{ at = '' } = {}] = await manifestsOf(company.id)
  await env.BACKUPS.put(manifestKey(company.id, at), '{')
  await mintCompany()
  await recover()
})

describe('a restore that was interrupted before Time Travel', () => {
  /** A company with a backup, and its restore whose insertions are complete. */
  async function interrupted() {
    await mintCompany()
    const company = await mintCompany()
    await addMember(company.id, 'gone@example.com', 'owner')
    await backUp(company.id)
    const [{ at: backup } = {}] = await manifestsOf(company.id)
    const untilMs = Date.parse(today()) + 86_400_000 - 1
    const progress = { step: 'members', isChecked: true, position: 9_999, reconciliation: null }
    const restoring = { untilMs, backup, ...progress, rows: 9, differences: [] }
    await runInDurableObject(objectOf(company.id), (_, { storage }) => storage.kv.put(RESTORE, restoring))
    await sql('DELETE FROM members WHERE company_id = ?', company.id)
    return company
  }
  const membersOf = async (id: number) =>
    (await adminCall('GET', `/companies/${id}/members`)).body.data.map(({ email }: { email: string }) => email)

  it('is forgotten by the recovery of a company that has its data: its backups go on', async () => {
    const { id, call } = await interrupted()
    await call('POST', '/clients', { company_name: 'Acme' })
    await recover()
    await backUp(id)
    expect(await manifestsOf(id)).toHaveLength(2)
    const refused = await restoreAsOperator(id, '2099-01-01')
    const message = 'The company has data: only an empty one can be restored'
    expect([refused.status, refused.body.error.message]).toEqual([409, message])
    expect(await membersOf(id)).toEqual([])
  })

  it('repeats its insertions after the recovery of a company that is suspended for it', async () => {
    const { id, call } = await interrupted()
    await call('POST', '/clients', { company_name: 'Acme' })
    await sql('UPDATE companies SET suspended = 1 WHERE id = ?', id)
    await recover()
    expect((await restoreAsOperator(id, today())).body).toMatchObject({ done: true })
    expect(await membersOf(id)).toEqual(['gone@example.com'])
  })
})

it('a company that the directory has lost, made again in a database that it had left, has its data there', async () => {
  const [{ id: other }, client] = [await mintCompany({ home: 'DB_TWO' }), { company_name: 'Acme' }]
  const id = other + 50_000
  // What its move to the directory has left.
  const guard = { company_id: id, state: 'moved', destination: 'DB', slot: 5 }
  await insert('company_guards', guard, 'DB_TWO')
  expect((await adminCall('POST', '/companies', { id, database: 'DB_TWO' })).status).toBe(200)
  expect((await call(await mintToken(id), 'POST', '/clients', client)).status).toBe(200)
  expect(await sqlIn('DB_TWO', 'SELECT company_name FROM clients WHERE company_id = ?', id)).toEqual([client])
})

it('a restore whose end Time Travel has undone is not reported as complete', async () => {
  await mintCompany()
  const { id, call } = await mintCompany()
  await call('POST', '/clients', { company_name: 'Acme' })
  await call('POST', '/clients', { company_name: 'Later' })
  await backUp(id)
  await wipe(id)
  expect((await restoreAsOperator(id, today())).body).toMatchObject({ done: true })
  await sql("DELETE FROM clients WHERE company_id = ? AND company_name = 'Later'", id)
  await sql('UPDATE companies SET suspended = 1 WHERE id = ?', id)
  await recover()
  expect((await restoreAsOperator(id, today())).status).toBe(409)
})

/** A row without its generated columns. */
const writable = (row: object) =>
  Object.fromEntries(Object.entries(row).filter(([name]) => !/^(text|stored)_bytes$/.test(name)))

const THREAD = '/mail/email-threads/t?account_email=a@x.example'

/** Writes a thread whose content is in R2. @returns its text */
async function putThread({ call }: TestCompany): Promise<string> {
  const text = noise(1_500_000)
  const thread = { account_email: 'a@x.example', messages: [{ text }] }
  expect((await call('PUT', '/mail/email-threads/t', thread)).status).toBe(200)
  return text
}

describe.each(HOMES)('mail contents in R2 of %s that was set back', (home) => {
  const sweep = (days: number) => sweepMailContents(openDatabase(env[home]), env.FILES, Date.now() + days * DAY_MS)
  it('are there for every thread of then, and those that it does not know are removed after 43 days', async () => {
    const company = await mintCompany({ home })
    const before = await putThread(company)
    const tables = ['email_threads', 'email_thread_objects'] as const
    const then = await rowsOf(company.id)
    await putThread(company)
    expect(await storedObjects(company.id)).toHaveLength(2)
    await sweep(29)

    // What Time Travel does: the database is as it was, R2 is not.
    for (const table of tables.toReversed()) await sql(`DELETE FROM ${table} WHERE company_id = ?`, company.id)
    await env[home].batch(tables.flatMap((table) => (then[table] ?? []).map((row) => insertion(table, writable(row)))))
    await recover()
    expect((await company.call('GET', THREAD)).body.email_thread.messages).toEqual([{ text: before }])
    await sweep(42)
    expect(await storedObjects(company.id)).toHaveLength(2)
    await sweep(44)
    const [named] = await sql<{ id: string }>('SELECT id FROM email_thread_objects WHERE company_id = ?', company.id)
    expect(await storedObjects(company.id)).toEqual([expect.stringContaining(named?.id ?? 'none')])
    expect((await company.call('GET', THREAD)).body.email_thread.messages).toEqual([{ text: before }])
  })

  it('belong to the threads of a backup that is restored after the recovery, and stay', async () => {
    const company = await mintCompany({ home })
    const [row] = await sqlIn<object>(home, 'SELECT * FROM companies WHERE id = ?', company.id)
    const text = await putThread(company)
    await backUp(company.id)
    // What Time Travel to its beginning does.
    await wipe(company.id)
    await insertion('companies', writable(row ?? {}), home).run()
    await recover()
    const objects = () => sql('SELECT state, remove_at FROM email_thread_objects WHERE company_id = ?', company.id)
    expect(await objects()).toEqual([{ state: 'replaced', remove_at: expect.any(Number) }])

    expect((await restoreAsOperator(company.id, today())).body).toMatchObject({ done: true, differences: [] })
    expect(await objects()).toEqual([{ state: 'stored', remove_at: null }])
    await sweep(44)
    const restored = await call(await mintToken(company.id), 'GET', THREAD)
    expect(restored.body.email_thread?.messages).toEqual([{ text }])
  })
})

it.each([
  ['since it moved to DB after the restored time, and only DB was set back', true],
  ['since it moved there after the restored time, and only that one was set back', false],
])('a recovery names a company without rows in its database, and goes on: %s', async (_, isMoved) => {
  const company = await mintCompany({ home: 'DB_TWO' })
  const last = await mintCompany({ home: 'DB' })
  const { id } = company
  await putThread(company)
  await wipe(id)
  const [row] = await sqlIn<{ slot: number }>('DB', 'SELECT slot FROM companies WHERE id = ?', id)
  const guard = { company_id: id, state: 'moved', destination: 'DB', slot: row?.slot }
  if (isMoved) await insert('company_guards', guard, 'DB_TWO')

  const steps = await recover()
  expect(steps.filter(({ missing }) => missing?.id === id)).toEqual([
    expect.objectContaining({ missing: { id, database: 'DB_TWO' }, company: null }),
  ])
  const recovered = steps.map((step) => step.company?.id)
  expect(recovered).toContain(last.id)
  expect(recovered).not.toContain(id)
  // Their removal would be that of contents which the company's own rows name when they are back.
  expect(await sqlIn('DB', 'SELECT id FROM email_thread_objects WHERE company_id = ?', id)).toEqual([])
})

it('a recovery names a company whose database has no binding, and goes on', async () => {
  const [gone, other] = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB' })]
  await sqlIn('DB', "UPDATE companies SET database = 'DB_GONE', database_slot = 1 WHERE id = ?", gone.id)
  const steps = await recover()
  const missing = { id: gone.id, database: 'DB_GONE' }
  expect(steps.flatMap((step) => step.missing ?? [])).toEqual([missing])
  expect(steps.map((step) => step.company?.id)).toContain(other.id)
})

describe('rows of a company in a database that it moved to after the restored time', () => {
  /** A company whose mail is in R2, with the rows that Time Travel of `DB` leaves in the other database. */
  async function setBack() {
    const company = await mintCompany({ home: 'DB' })
    const { id } = company
    await putThread(company)
    const [row] = await sql<object>('SELECT * FROM companies WHERE id = ?', id)
    const [object] = await sql<object>('SELECT * FROM email_thread_objects WHERE company_id = ?', id)
    const slot = sqlIn<{ slot: number }>('DB_TWO', 'SELECT max(slot) + 1 AS slot FROM companies')
    const unnamed = { state: 'replaced', thread_id: null, remove_at: Date.now() + 43 * DAY_MS }
    await env.DB_TWO.batch([
      insertion('companies', { ...row, ...(await slot)[0] }, 'DB_TWO'),
      insertion('email_thread_objects', { ...object, ...unnamed }, 'DB_TWO'),
    ])
    return company
  }

  const guardOf = (id: number) =>
    sqlIn('DB_TWO', 'SELECT state, destination, slot FROM company_guards WHERE company_id = ?', id)

  it('are left alone by every sweep after the recovery', async () => {
    const company = await setBack()
    const { id } = company
    await sweepDueBackups()
    await recover()
    expect(await guardOf(id)).toEqual([
      { ...(await sql('SELECT slot FROM companies WHERE id = ?', id))[0], state: 'moved', destination: 'DB' },
    ])
    expect(await sqlIn('DB_TWO', 'SELECT last_change FROM companies WHERE id = ?', id)).toEqual([
      { last_change: COPY_CHANGES },
    ])
    await backUp(id)
    logLines.length = 0
    await sqlIn('DB_TWO', 'UPDATE companies SET backed_up_at = 9e15 WHERE id <> ?', id)
    expect(await sweepDueBackups()).not.toContain(id)
    expect(logLines.filter(({ event }) => event === 'database_set_back')).toEqual([])
    await sweepMailContents(openDatabase(env.DB_TWO), env.FILES, Date.now() + 44 * DAY_MS)
    expect(await storedObjects(id)).toHaveLength(1)
    expect((await company.call('GET', THREAD)).status).toBe(200)
  })

  it('stay as they are while a move ends', async () => {
    const { id } = await setBack()
    await insert('company_guards', { company_id: id, state: 'writable', destination: 'DB', slot: 0 }, 'DB_TWO')
    await recover()
    expect(await guardOf(id)).toEqual([{ state: 'writable', destination: 'DB', slot: 0 }])
  })

  it('stay open where they are the only ones', async () => {
    const { id } = await mintCompany({ home: 'DB_TWO' })
    expect(await closeCopies(await openCompany(env, id), 'DB', openEach(env))).toBeUndefined()
    expect(await guardOf(id)).toEqual([])
  })
})

import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { listEnabledEndpoints } from '../../../src/delivery/webhooks/queries.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { listDueCompanies, listWebhookCompanies } from '../../../src/kernel/db/sweep.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { beginBackup } from '../../../src/operation/copies/backup.ts'
import { RESTORE } from '../../../src/operation/copies/restore.ts'
import { manifestKey } from '../../../src/operation/copies/store.ts'
import { Shop } from '../../delivery/accounting/shop.ts'
import { addMember, adminCall, adminCallWith } from '../../support/admin.ts'
import { call, mintCompany, mintToken, sql, sqlIn } from '../../support/app.ts'
import { linesOf, logLines } from '../../support/log.ts'
import { insert, insertEndpoint } from '../../support/rows.ts'
import { breakCalls, loseResponses } from '../../support/wrap-bindings.ts'
import {
  backUp,
  bindObject,
  HOMES,
  manifestsOf,
  marksOf,
  mintBeside,
  objectOf,
  recover,
  restoreAsOperator,
  rowsOf,
  sweepDueBackups,
  today,
  wipe,
  wipeAll,
} from '../copies/support.ts'

// A recovery visits every company: those of earlier tests would take most of its time.
beforeEach(wipeAll)

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
  const { id } = await mintBeside()
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

it('a backup that a release with other tables began is begun again, and has all rows', async () => {
  await mintCompany()
  const company = await mintCompany()
  await company.call('POST', '/clients', { company_name: 'Acme' })
  const begun = { ...beginBackup(Date.now()), tables: 'clients', table: 0 }
  await runInDurableObject(objectOf(company.id), (_, { storage }) => storage.kv.put('backup', begun))
  await backUp(company.id)
  const [manifest] = await manifestsOf(company.id)
  expect(manifest?.parts.map(({ rows }) => rows.clients ?? 0)).toEqual([1])
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
    const company = await mintBeside()
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

it('a recovery shows the suspension that the database has, where it alone was set back', async () => {
  const { id } = await mintBeside('DB_TWO')
  await sqlIn('DB_TWO', 'UPDATE companies SET suspended = 1 WHERE id = ?', id)
  expect((await adminCall('GET', `/companies/${id}`)).body.suspended).toBe(false)
  await recover()
  expect((await adminCall('GET', `/companies/${id}`)).body.suspended).toBe(true)
})

it('a restore whose end Time Travel has undone is not reported as complete', async () => {
  const { id, call } = await mintBeside()
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

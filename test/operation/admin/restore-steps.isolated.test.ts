import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, it, vi } from 'vitest'
import { type Database, openDatabase } from '../../../src/kernel/db/client.ts'
import { openCompany } from '../../../src/kernel/db/placement.ts'
import {
  beginReconciliation,
  type ReconcileContext,
  stepReconciliation,
} from '../../../src/operation/copies/reconcile.ts'
import { continueRestore, RESTORE } from '../../../src/operation/copies/restore.ts'
import { noise } from '../../resources/mail/support.ts'
import { adminCall, operatorOf } from '../../support/admin.ts'
import { call, type Home, type mintCompany, mintToken, sql, sqlIn } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { insert } from '../../support/rows.ts'
import { holdTimers } from '../../support/time.ts'
import {
  backUp,
  HOMES,
  manifestsOf,
  mintBeside,
  objectOf,
  restoreAsOperator,
  restoreNewest,
  wipe,
} from '../copies/support.ts'

type Call = Awaited<ReturnType<typeof mintCompany>>['call']

/** A company that is empty since its backup, a token in use, and one step of its restore for each call. */
async function emptySinceBackup(home: Home = 'DB', fill: (send: Call) => Promise<unknown> = async () => {}) {
  const { id, call: send } = await mintBeside(home)
  const [row = {}] = await sql('SELECT * FROM companies WHERE id = ?', id)
  const { client } = (await send('POST', '/clients', { company_name: 'Acme' })).body
  const { project } = (await send('POST', '/orders', { title: 'Shirts', client_id: client.id })).body
  await fill(send)
  await backUp(id)
  await wipe(id)
  await insert('companies', { ...row, client_count: 0, order_count: 0 }, home)
  const token = await mintToken(id)
  expect((await call(token, 'GET', '/clients')).body.data).toEqual([])

  const kept = new Map<string, unknown>()
  const kv = {
    get: (name: string) => kept.get(name),
    put: (name: string, value: unknown) => void kept.set(name, value),
    delete: (name: string) => kept.delete(name),
    list: () => [],
  } as unknown as SyncKvStorage
  const step = async (others: Partial<ReconcileContext> = {}, ms = 0, until = '2099-01-01') => {
    const buckets = { bucket: env.BACKUPS, cache: env.CACHE, files: env.FILES }
    const context = { ...(await openCompany(env, id)), ...buckets, findLastNumber: async () => 'none' as const }
    return continueRestore({ ...context, ...others }, kv, operatorOf(id), Date.parse(until), ms)
  }
  /** Goes on to the end. @param ms how long a call goes on; with 0 it does one step */
  const finish = async (ms = 60_000) => {
    for (;;) {
      const result = await step({}, ms)
      if (result.done) return result
    }
  }
  /** Goes on until rows are inserted. */
  const stepToRows = async (until?: string) => {
    while (['check', 'take'].includes((await step({}, 0, until)).step));
  }
  const isSuspended = async () => (await sql('SELECT suspended FROM companies WHERE id = ?', id))[0]?.suspended === 1
  /** Its token is cached as that of a company that is not suspended. */
  const write = async () => {
    const { status, body } = await call(token, 'POST', '/clients', { company_name: 'Late' })
    expect(status).toBe(200)
    return body.client
  }
  return { id, client, project, token, kept, step, finish, stepToRows, isSuspended, write }
}

it('a client that a request creates after the company is suspended takes no id of the backup', async () => {
  const { client, project, token, step, finish, isSuspended, write } = await emptySinceBackup()
  while (!(await isSuspended())) expect(await step()).toMatchObject({ done: false })
  const late = await write()
  const another = { table: 'clients', expected: 1, found: 2 }
  expect(await finish(0)).toMatchObject({ differences: expect.arrayContaining([another]) })
  expect((await call(token, 'GET', `/clients/${client.id}`)).body.client.company_name).toBe('Acme')
  expect((await call(token, 'GET', `/clients/${late.id}`)).body.client.company_name).toBe('Late')
  expect((await call(token, 'GET', `/orders/${project.id}`)).body.project.client_id).toBe(client.id)
})

it.each(HOMES.flatMap((home) => [[home, 'check'] as const, [home, 'email_threads'] as const]))(
  'an email thread that a request writes after the company is suspended stays, without the old content: in %s, behind %s',
  async (home, last) => {
    const thread = (text: string) => ({ account_email: 'box@x.example', messages: [{ text }] })
    const fill = (send: Call) => send('PUT', '/mail/email-threads/t1', thread(noise(2_000_000)))
    const { id, token, step, finish, isSuspended } = await emptySinceBackup(home, fill)
    let result = await step()
    while (!(await isSuspended()) || result.step !== last) result = await step()
    // Its token is cached as that of a company that is not suspended.
    expect((await call(token, 'PUT', '/mail/email-threads/t1', thread('Late'))).status).toBe(200)
    await finish(0)
    const named = 'SELECT thread_id FROM email_thread_objects WHERE company_id = ? AND thread_id IS NOT NULL'
    expect(await sqlIn(home, named, id)).toEqual([])
    const { body } = await call(token, 'GET', '/mail/email-threads/t1?account_email=box@x.example')
    expect(body.email_thread.messages).toEqual([{ text: 'Late' }])
  },
)

it.each([false, true])(
  'a restore is refused if the company gets data during the check; suspended: %s',
  async (suspended) => {
    const { id, kept, step, stepToRows, isSuspended, write } = await emptySinceBackup()
    expect(await step()).toMatchObject({ done: false, step: 'check' })
    await write()
    if (suspended) await adminCall('PATCH', `/companies/${id}`, { suspended, deliveries_paused: true })
    const refusal = { kind: 'conflict', message: expect.stringContaining('has data') }
    await expect(stepToRows()).rejects.toMatchObject(refusal)
    expect([await isSuspended(), kept.has(RESTORE)]).toEqual([suspended, false])
  },
)

it.each(HOMES)('a restore suspends a company again that was resumed before its end: in %s', async (home) => {
  const { id, step, stepToRows } = await emptySinceBackup(home)
  await stepToRows()
  const resumed = { suspended: false, deliveries_paused: false }
  expect((await adminCall('PATCH', `/companies/${id}`, resumed)).body).toMatchObject(resumed)
  expect(await step()).toMatchObject({ done: false })
  expect(await sql('SELECT suspended, deliveries_paused FROM companies WHERE id = ?', id)).toEqual([
    { suspended: 1, deliveries_paused: 1 },
  ])
  expect(await sqlIn('DB', 'SELECT suspended FROM companies WHERE id = ?', id)).toEqual([{ suspended: 1 }])
  expect(await step({}, 60_000)).toMatchObject({ done: true })
  expect(await sql('SELECT suspended FROM companies WHERE id = ?', id)).toEqual([{ suspended: 0 }])
})

it('a restore starts from the beginning, of any time, where Time Travel has removed its company', async () => {
  const { id, kept, finish, stepToRows } = await emptySinceBackup()
  await stepToRows()
  await wipe(id)
  kept.set(RESTORE, Object.assign({}, kept.get(RESTORE), { untilMs: 0 }))
  expect(await finish()).toMatchObject({ differences: [] })
})

it('a restore that a release with other tables began inserts all rows', async () => {
  const { id, client, kept, finish, stepToRows } = await emptySinceBackup()
  await stepToRows()
  kept.set(RESTORE, { ...Object(kept.get(RESTORE)), tables: 'clients', position: 999 })
  // A token was made since the backup.
  expect(await finish()).toMatchObject({ differences: [{ table: 'api_tokens' }] })
  expect(await sql('SELECT id FROM clients WHERE company_id = ?', id)).toEqual([{ id: client.id }])
})

it('a restore that fails after it has suspended the company continues', async () => {
  const { kept, step, finish, isSuspended } = await emptySinceBackup()
  const failing = { ...openDatabase(env.DB), writeIdempotent: () => Promise.reject(new Error('The directory fails.')) }
  // Another database than the directory, which then repeats whether the company is suspended.
  const fail = () => step({ database: 'DB_TWO', directory: failing }, 60_000)
  expect(await fail()).toMatchObject({ done: false, step: 'check', rows: 0 })
  await expect(fail()).rejects.toThrow('The directory fails.')
  expect([await isSuspended(), kept.has(RESTORE)]).toEqual([true, true])
  await finish()
})

it('a restore continues if only the response to the suspension was lost, beside what a late request has added', async () => {
  const { client, token, step, finish, isSuspended, write } = await emptySinceBackup()
  const db = openDatabase(env.DB)
  const lossy: Database = {
    ...db,
    writeIdempotent: async (queries) => {
      await db.writeIdempotent(queries)
      throw new Error('Network connection lost.')
    },
  }
  await expect(step({ db: lossy }, 60_000)).rejects.toThrow('Network connection lost.')
  expect(await isSuspended()).toBe(true)
  const late = await write()
  await finish()
  const names = (await call(token, 'GET', '/clients')).body.data.map((each: { id: number }) => each.id)
  expect(names).toEqual([late.id, client.id])
})

it('another backup can be chosen while the first one is checked, and not from the first change on', async () => {
  const { step, stepToRows } = await emptySinceBackup()
  expect(await step()).toMatchObject({ done: false, step: 'check' })
  await stepToRows('2098-01-01')
  await expect(step()).rejects.toMatchObject({ kind: 'conflict', message: expect.stringContaining('another time') })
})

it('a call of a restore does not end between the last check and the suspension', async () => {
  const { step, isSuspended } = await emptySinceBackup()
  expect(await step()).toMatchObject({ done: false, step: 'check' })
  expect(await isSuspended()).toBe(false)
  expect(await step()).toMatchObject({ done: false })
  expect(await isSuspended()).toBe(true)
})

it('a restore that was left while it was checked keeps a company from its backups for 10 minutes', async () => {
  const { id, kept, step } = await emptySinceBackup()
  expect(await step()).toMatchObject({ done: false, step: 'check' })
  await runInDurableObject(objectOf(id), (_, { storage }) => storage.kv.put(RESTORE, kept.get(RESTORE)))
  const backUpAfter = async (ms: number) => {
    vi.setSystemTime(Date.now() + ms)
    await backUp(id)
    return (await manifestsOf(id)).length
  }
  expect(await backUpAfter(500_000)).toBe(1)
  expect(logLines).toContainEqual({ event: 'backup_skipped', company_id: id, reason: 'restore' })
  expect(await backUpAfter(100_000)).toBe(2)
})

it('another backup can be chosen where a full database refuses the company', async () => {
  const { kept, step } = await emptySinceBackup()
  const full = new Error('D1_ERROR: CHECK constraint failed: companies_slot: SQLITE_CONSTRAINT')
  const db = { ...openDatabase(env.DB), writeIdempotent: () => Promise.reject(full) }
  await expect(step({ db }, 60_000)).rejects.toMatchObject({
    kind: 'conflict',
    message: 'The database is full: it takes 1,024 companies',
  })
  expect(kept.has(RESTORE)).toBe(false)
})

it('an accounting system whose object does not respond counts as failed', async () => {
  const context = { findLastNumber: () => new Promise<never>(() => {}) } as unknown as ReconcileContext
  const deadlines = holdTimers(15_000)
  const step = stepReconciliation(context, { ...beginReconciliation(null), left: ['accounting'] })
  await vi.waitUntil(() => deadlines.length > 0)
  deadlines[0]?.()
  expect(await step).toMatchObject({ left: [], accounting: 'failed' })
})

it('a restore inserts no row before the tokens in use are refused', async () => {
  const { id, token } = await emptySinceBackup()
  await vi.waitUntil(
    async () => (await sql('SELECT 1 FROM api_tokens WHERE last_used_at > 0 AND company_id = ?', id))[0],
  )
  expect((await restoreNewest(id)).body).toMatchObject({ done: false, step: 'check', rows: 0 })
  expect((await call(token, 'GET', '/clients')).status).toBe(403)
  await restoreAsOperator(id)
  expect((await call(token, 'GET', '/clients')).body.data).toHaveLength(1)
})

it('the audit entry of a request after the company is suspended takes no id of the backup', async () => {
  const { id, step, finish, isSuspended, write } = await emptySinceBackup()
  while (!(await isSuspended())) await step()
  await write()
  await finish()
  const entries = await sql('SELECT id, action FROM audit_log WHERE company_id = ? ORDER BY id', id)
  const actions = ['client.create', 'order.create', 'client.create']
  expect(entries).toEqual(actions.map((action, index) => ({ id: index + 1, action })))
})

it('no import comes between the rows of a restore', async () => {
  const { id, client, project } = await emptySinceBackup()
  const order = { id: project.id, title: 'file', client_id: client.id }
  const file = { company: { id, name: 'file' }, clients: [{ id: client.id, company_name: 'file' }], orders: [order] }
  const send = () => adminCall('POST', `/companies/${id}/imports`, { hash: 'a'.repeat(64), part: 1, parts: 1, file })
  expect((await restoreNewest(id)).body).toMatchObject({ done: false, rows: 0 })
  const { status, body } = await send()
  expect([status, body.error.message]).toEqual([409, expect.stringContaining('is being restored')])
  expect((await restoreAsOperator(id)).status).toBe(200)
  expect((await send()).body.differences).toHaveLength(2)
})

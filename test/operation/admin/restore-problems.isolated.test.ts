import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, it, vi } from 'vitest'
import { type Database, openDatabase } from '../../../src/kernel/db/client.ts'
import { openCompany } from '../../../src/kernel/db/placement.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import {
  beginReconciliation,
  type ReconcileContext,
  stepReconciliation,
} from '../../../src/operation/copies/reconcile.ts'
import { RESTORE, restoreFor } from '../../../src/operation/copies/restore.ts'
import { manifestKey } from '../../../src/operation/copies/store.ts'
import { noise } from '../../resources/mail/support.ts'
import { adminCall, adminCallWith, operatorOf } from '../../support/admin.ts'
import { call, type Home, mintCompany, mintToken, sql, sqlIn } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { insert } from '../../support/rows.ts'
import { holdTimers } from '../../support/time.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import {
  backUp,
  backUpInParts,
  bindObject,
  manifestsOf,
  objectOf,
  recover,
  restoreAsOperator,
  wipe,
} from '../copies/support.ts'

const HOMES: Home[] = ['DB', 'DB_TWO']

/** A call of a restore from the newest backup. */
const restoreNewest = (id: number) => adminCall('POST', `/companies/${id}/restore`, { from: '2099-01-01' })

/** A company with one client that is gone since its backup, in a database with another company. */
async function goneSinceBackup(home: Home = 'DB') {
  await mintCompany({ home })
  const company = await mintCompany({ home })
  const { client } = (await company.call('POST', '/clients', { company_name: 'Acme' })).body
  await backUp(company.id)
  await wipe(company.id)
  return { ...company, client }
}

it('a restore that cannot begin says why, each problem in its own words', async () => {
  await mintCompany()
  const { id, call } = await mintCompany()
  await call('POST', '/clients', { company_name: 'Acme' })
  const restore = async () => {
    const { status, body } = await restoreNewest(id)
    return [status, body.error?.message]
  }
  expect(await restore()).toEqual([404, 'No backup of this company began by then: choose a later time'])
  await backUp(id)
  expect(await restore()).toEqual([409, 'The company has data: only an empty one can be restored'])

  // One that is complete is forgotten: the next starts from the beginning.
  await wipe(id)
  await restoreAsOperator(id)
  vi.setSystemTime(Date.now() + 3_600_000)
  expect(await restore()).toEqual([409, 'The company has data: only an empty one can be restored'])
})

it('a restore that is complete gives its result again to a caller whose response was lost', async () => {
  const { id } = await goneSinceBackup()
  const result = await restoreAsOperator(id)
  const repeated = await restoreNewest(id)
  expect([repeated.status, repeated.body]).toEqual([200, result.body])
  expect((await adminCall('POST', `/companies/${id}/restore`, { from: '2098-01-01' })).status).toBe(409)
  // It may be incomplete after Time Travel.
  await recover()
  expect((await restoreNewest(id)).status).toBe(409)
})

it('a restore of a day leaves out a backup that began at the next midnight; one of that time has it', async () => {
  await mintCompany()
  const { id, call } = await mintCompany()
  await call('POST', '/clients', { company_name: 'Acme' })
  await env.BACKUPS.put(manifestKey(id, '2026-01-31T00:00:00.000Z'), '{}')
  const statusOf = async (from: string) => {
    const { status, body } = await adminCall('POST', `/companies/${id}/restore`, { from })
    expect(body.error.message).toMatch(/^(No backup of this company began by then|The company has data)/)
    return status
  }
  expect(await statusOf('2026-01-30')).toBe(404)
  expect(await statusOf('2026-01-30T23:59:59.999Z')).toBe(404)
  expect(await statusOf('2026-01-31T00:00:00Z')).toBe(409)
  expect(await statusOf('2026-01-31T00:59:59.999+01:00')).toBe(404)
  expect(await statusOf('2026-01-31T01:00:00+01:00')).toBe(409)
  expect(await statusOf('2026-01-31')).toBe(409)
})

it.each(HOMES)('a restore takes no backup of the company since it was made again: in %s', async (home) => {
  const { id } = await goneSinceBackup(home)
  await sqlIn('DB', 'DELETE FROM companies WHERE id = ?', id)
  expect((await adminCall('POST', '/companies', { id, database: home })).status).toBe(200)
  await backUp(id)
  await restoreAsOperator(id)
  expect((await adminCall('GET', `/companies/${id}`)).body.client_count).toBe(1)
})

it('a failure of R2 is a 503 that says when to retry, and the restore goes on where it was', async () => {
  const { id, call, client } = await goneSinceBackup()
  let left = 0
  const failing = wrapBindings(env, (name, work) =>
    name.startsWith('BACKUPS.') && left-- === 0 ? Promise.reject(new Error('R2 fails.')) : work(),
  )
  const message = expect.stringMatching(/^The storage of backups does not/)
  const refusal = { status: 503, body: { error: { message } } }
  expect(await adminCallWith(failing, 'GET', `/companies/${id}/backups`)).toMatchObject(refusal)

  await bindObject(id, failing)
  const failures: number[] = []
  for (let at = 0; ; at++) {
    left = at
    const result = await restoreAsOperator(id)
    if (result.body.done) break
    expect(result).toMatchObject(refusal)
    expect(result.headers.get('retry-after')).toBe('10')
    failures.push(at)
  }
  // A recovery by another test calls this company's object.
  left = -1
  expect(failures.length).toBeGreaterThan(2)
  expect((await call('GET', `/clients/${client.id}`)).body.client.company_name).toBe('Acme')
})

it('a failure of R2 during the checks of a restore checks no part again that is checked', async () => {
  const { id, call } = await mintCompany()
  const { client } = (await call('POST', '/clients', { company_name: 'Acme' })).body
  await call('POST', '/orders', { title: 'Shirts', client_id: client.id })
  await backUpInParts(id)
  const [{ parts } = expect.fail('no manifest')] = await manifestsOf(id)
  await wipe(id)
  const reads: unknown[] = []
  const failing = wrapBindings(env, (name, work, [key]) => {
    const isPart = name === 'BACKUPS.get' && parts.some((part) => part.key === key)
    return isPart && reads.push(key) === 3 ? Promise.reject(new Error('R2 fails.')) : work()
  })
  await bindObject(id, failing)
  expect((await restoreAsOperator(id)).status).toBe(503)
  expect((await restoreAsOperator(id)).body).toMatchObject({ done: true })
  await bindObject(id, env)
  const [first, second, third, ...others] = parts.map(({ key }) => key)
  expect(reads.slice(0, parts.length + 1)).toEqual([first, second, third, third, ...others])
})

type Call = Awaited<ReturnType<typeof mintCompany>>['call']

/** A company that is empty since its backup, a token in use, and one step of its restore for each call. */
async function emptySinceBackup(home: Home = 'DB', fill: (send: Call) => Promise<unknown> = async () => {}) {
  await mintCompany({ home })
  const { id, call: send } = await mintCompany({ home })
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
    return restoreFor({ ...context, ...others }, kv, operatorOf(id), Date.parse(until), ms)
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

it('a restore beside a copy of the company that has its email threads is refused before it changes anything', async () => {
  const { id: other } = await mintCompany()
  const { id, call } = await mintCompany()
  const thread = { account_email: 'box@x.example', messages: [{ message_id: 'm1', body: 'Hello' }] }
  expect((await call('PUT', '/mail/email-threads/t1', thread)).status).toBe(200)
  await backUp(id)
  await sql('UPDATE email_threads SET company_id = ? WHERE company_id = ?', other, id)
  await wipe(id)
  const { status, body } = await restoreNewest(id)
  expect([status, body.error?.message]).toEqual([409, expect.stringContaining('Another company of the database')])
  expect(await sql('SELECT id FROM companies WHERE id = ?', id)).toEqual([])
})

it('a restore has a record of who began it, though the response to its call was lost', async () => {
  const { id } = await goneSinceBackup()
  const { COMPANY_BACKUP } = env
  const lossy = {
    getByName: (name: string) => ({
      restore: async (...input: Parameters<ReturnType<typeof COMPANY_BACKUP.getByName>['restore']>) => {
        await COMPANY_BACKUP.getByName(name).restore(...input)
        throw new Error('Network connection lost.')
      },
    }),
  }
  const call = { from: '2099-01-01' }
  expect((await adminCallWith({ COMPANY_BACKUP: lossy }, 'POST', `/companies/${id}/restore`, call)).status).toBe(500)
  const entries = await sql("SELECT actor, action FROM admin_log WHERE company_id = ? AND action LIKE 'company.%'", id)
  expect(entries).toEqual([{ actor: 'operator', action: 'company.restore' }])
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

it('tokens of a company are invalidated behind its suspension and when its restore is complete', async () => {
  await mintCompany()
  const { id, token } = await mintCompany()
  await sql('UPDATE api_tokens SET last_used_at = 1 WHERE company_id = ?', id)
  const forgotten: string[] = []
  const limiter = { getByName: (hash: string) => ({ forget: () => forgotten.push(hash) }) }
  const progress = { backup: '2026-01-31T00:00:00.000Z', rows: 0, differences: [], accounting: 'none' }
  const restoreOnce = async (done: boolean, step: string) => {
    const backups = { getByName: () => ({ restore: async () => ({ ...progress, step, done }) }) }
    const bindings = { RATE_LIMITER: limiter, COMPANY_BACKUP: backups }
    const call = { from: '2026-01-31' }
    const { status, body } = await adminCallWith(bindings, 'POST', `/companies/${id}/restore`, call)
    expect([status, body]).toEqual([200, { ...progress, step, done }])
    return forgotten.splice(0)
  }
  expect(await restoreOnce(false, 'check')).toEqual([hashToken(token)])
  expect(await restoreOnce(false, 'clients')).toEqual([])
  expect(await restoreOnce(true, 'done')).toEqual([hashToken(token)])
})

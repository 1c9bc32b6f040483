import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { openCompany } from '../../../src/kernel/db/placement.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { manifestKey } from '../../../src/operation/copies/store.ts'
import { TABLES } from '../../../src/operation/copies/tables.ts'
import { restoreRows } from '../../../src/operation/copies/write-queries.ts'
import { adminCall, adminCallWith } from '../../support/admin.ts'
import { call, mintCompany, mintToken, sql, sqlIn, type TestCompany } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import {
  backUp,
  backUpInParts,
  bindObject,
  goneSinceBackup,
  HOMES,
  manifestsOf,
  mintBeside,
  recover,
  restoreAsOperator,
  restoreNewest,
  rowsOf,
  today,
  wipe,
  wipeAll,
} from '../copies/support.ts'

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
    await wipe(company.id)
    expect((await read()).status).toBe(403)
    expect((await restoreAsOperator(company.id, today())).body).toMatchObject({ done: true })
    expect((await read()).status).toBe(200)
    expect((await call(other.token, 'GET', '/clients')).status).toBe(200)
  })

  it('restores a token whose id the empty company has given to another one', async () => {
    const company = await mintBeside()
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

it('a restore that cannot begin says why, each problem in its own words', async () => {
  const { id, call } = await mintBeside()
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
  const { id, call } = await mintBeside()
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

it('tokens of a company are invalidated behind its suspension and when its restore is complete', async () => {
  const { id, token } = await mintBeside()
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

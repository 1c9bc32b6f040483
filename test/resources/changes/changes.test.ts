import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { removeExpiredRows } from '../../../src/kernel/db/sweep.ts'
import { call, expect200, mintCompany, mintToken, sql, type TestCompany } from '../../support/app.ts'
import { createClient } from '../orders/support.ts'

const MAILBOX = 'box@x.example'

interface Entry {
  type: string
  id: number | string
  operation: string
  version: number
  time: string
}

async function readPage(company: TestCompany, query: string) {
  return expect200(await company.call('GET', `/changes?${query}`)) as {
    data: Entry[]
    pagination: { next_cursor: string; has_more: boolean }
  }
}

/** Everything after a cursor, in pages of a size. */
async function follow(company: TestCompany, cursor: string | null, perPage = 7, more = '') {
  const entries: Entry[] = []
  let next = cursor
  for (let page = 0; page < 200; page++) {
    const query = `per_page=${perPage}${more}${next === null ? '' : `&cursor=${next}`}`
    const { data, pagination } = await readPage(company, query)
    entries.push(...data)
    next = pagination.next_cursor
    if (!pagination.has_more) return { entries, cursor: next }
  }
  throw new Error('The feed has no end.')
}

const shapeOf = ({ type, operation, version }: Entry) => [type, operation, version]

describe('the feed of changes', () => {
  it('has every create, update and delete of each type in the order of their commits', async () => {
    const company = await mintCompany()
    const id = await createClient(company)
    await company.call('PATCH', `/clients/${id}`, { phone: '1' })
    const { project } = (await company.call('POST', '/orders', { title: 'Shirts', client_id: id })).body
    await company.call('PATCH', `/orders/${project.id}`, { title: 'Hoodies' })
    await company.call('DELETE', `/orders/${project.id}`)
    await company.call('PATCH', `/clients/${id}`, { deleted: true })
    await company.call('PATCH', `/clients/${id}`, { deleted: false })
    const thread = { account_email: MAILBOX, messages: [{ id: '1' }], last_synced_at: '2026-01-01T00:00:00.000Z' }
    const { email_thread } = (await company.call('PUT', '/mail/email-threads/t1', thread)).body
    await company.call('PUT', '/mail/email-threads/t1', { ...thread, last_synced_at: '2026-02-01T00:00:00.000Z' })
    await company.call('PUT', '/mail/email-threads/t1', { ...thread, subject: 'Shirts' })

    const { entries } = await follow(company, null, 3)
    expect(entries.map((entry) => [...shapeOf(entry), entry.id])).toEqual([
      ['clients', 'create', 1, id],
      ['clients', 'update', 2, id],
      ['orders', 'create', 1, project.id],
      ['orders', 'update', 2, project.id],
      ['orders', 'delete', 3, project.id],
      ['clients', 'delete', 3, id],
      ['clients', 'update', 4, id],
      ['email_threads', 'create', 1, email_thread.id],
      // The sync that changed nothing but its own time is no change, but a revision.
      ['email_threads', 'update', 3, email_thread.id],
    ])
    expect(entries.at(-1)).toMatchObject({ account_email: MAILBOX, legacy_thread_id: 't1' })
    for (const { time } of entries) expect(Math.abs(Date.now() - Date.parse(time))).toBeLessThan(60_000)
  })

  it('has only the types that are asked for, and passes over thousands of others', async () => {
    const company = await mintCompany()
    const id = await createClient(company)
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
       INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at)
       SELECT id, last_change + i, iif(i % 5000 = 4999, 'orders', 'clients'), ?2, 'update', i, 1 FROM n JOIN companies ON id = ?1`,
      ...[company.id, String(id)],
    )
    await sql('UPDATE companies SET last_change = last_change + 12000 WHERE id = ?', company.id)
    await company.call('POST', '/orders', { title: 'Shirts', client_id: id })
    const first = await readPage(company, 'types=orders')
    expect(first).toMatchObject({ data: [{ version: 4999 }], pagination: { has_more: true } })
    const { entries } = await follow(company, first.pagination.next_cursor, 100, '&types=orders')
    expect(entries.map(shapeOf)).toEqual([
      ['orders', 'update', 9999],
      ['orders', 'create', 1],
    ])
    expect((await readPage(company, 'types=email_threads&wait=1')).pagination.has_more).toBe(false)
    await sql('DELETE FROM changes WHERE company_id = ? AND sequence <= 6000', company.id)
    expect((await follow(company, null, 100, '&types=orders')).entries).toEqual(entries)
  })

  it('keeps changes for 31 days, then returns 410 to a cursor before them', async () => {
    const company = await mintCompany()
    const { cursor: start } = await follow(company, null)
    await createClient(company)
    const { cursor: afterFirst } = await follow(company, start)
    await createClient(company)
    await sql('UPDATE changes SET at = at - 30 * 86400000 WHERE company_id = ?', company.id)
    await removeExpiredRows(openDatabase(env[company.home]), Date.now())
    expect((await follow(company, start)).entries).toHaveLength(2)

    await sql('UPDATE changes SET at = at - 2 * 86400000 WHERE company_id = ? AND sequence = 1', company.id)
    await removeExpiredRows(openDatabase(env[company.home]), Date.now())
    const gone = await company.call('GET', `/changes?cursor=${start}`)
    expect(gone).toMatchObject({ status: 410, body: { error: { details: { reason: 'cursor_expired' } } } })
    expect((await follow(company, afterFirst)).entries).toHaveLength(1)
    expect((await follow(company, null)).entries).toHaveLength(1)

    // When nothing is left, a cursor at the end is still good.
    const { cursor: end } = await follow(company, null)
    await sql('DELETE FROM changes WHERE company_id = ?', company.id)
    expect((await follow(company, end)).entries).toEqual([])
    expect((await company.call('GET', `/changes?cursor=${afterFirst}`)).status).toBe(410)
  })

  it('returns 410 to a cursor of a company that was lost and made again, however long its new feed is', async () => {
    const company = await mintCompany()
    const { next_cursor: latest } = (await readPage(company, 'start=latest')).pagination
    for (let made = 0; made < 3; made++) await createClient(company)
    const { cursor } = await follow(company, null)
    await sql('DELETE FROM changes WHERE company_id = ?', company.id)
    await sql('UPDATE companies SET last_change = 0, created_at = created_at + 1 WHERE id = ?', company.id)
    for (let made = 0; made < 5; made++) {
      await createClient(company)
      for (const old of [latest, cursor]) {
        expect((await company.call('GET', `/changes?cursor=${old}`)).body.error?.details?.reason).toBe('cursor_expired')
      }
    }
    expect((await follow(company, null)).entries).toHaveLength(5)
  })

  it('returns 400 for a cursor that is broken, of another company or of other types', async () => {
    const [company, other] = [await mintCompany(), await mintCompany()]
    const { cursor } = await follow(company, null)
    const flipped = `${cursor.startsWith('A') ? 'B' : 'A'}${cursor.slice(1)}`
    expect((await other.call('GET', `/changes?cursor=${cursor}`)).status).toBe(400)
    const cursors = [`cursor=${flipped}`, 'cursor=x', `cursor=${cursor}&types=orders`, `cursor=${cursor}&start=latest`]
    for (const query of [...cursors, 'types=invoices', 'wait=26', 'per_page=1001', 'start=now']) {
      expect((await company.call('GET', `/changes?${query}`)).status, query).toBe(400)
    }
  })

  it('needs the permission of each type, and shows what may be read', async () => {
    const company = await mintCompany()
    const id = await createClient(company)
    await company.call('POST', '/orders', { title: 'Shirts', client_id: id })
    const token = await mintToken(company.id, ['orders:read'])
    expect((await call(token, 'GET', '/changes')).body.data.map(shapeOf)).toEqual([['orders', 'create', 1]])
    expect((await call(token, 'GET', '/changes?types=orders,clients')).status).toBe(403)
    expect((await call(await mintToken(company.id, ['files:read']), 'GET', '/changes')).status).toBe(403)
  })
})

describe('long polling', () => {
  it('ends with the first change', async () => {
    const company = await mintCompany()
    const { cursor } = await follow(company, null)
    const polled = company.call('GET', `/changes?cursor=${cursor}&wait=25`)
    await scheduler.wait(300)
    const id = await createClient(company)
    expect((await polled).body.data).toMatchObject([{ type: 'clients', id }])
  })

  it('ends empty after its time, whatever else changes, with a cursor that continues', async () => {
    const [company, other] = [await mintCompany(), await mintCompany()]
    const { cursor } = await follow(company, null, 7, '&types=orders')
    const polled = company.call('GET', `/changes?cursor=${cursor}&wait=1&types=orders`)
    const client_id = await createClient(company)
    await createClient(other)
    const { body } = await polled
    expect(body).toMatchObject({ data: [], pagination: { has_more: false } })
    const { id } = (await company.call('POST', '/orders', { title: 'Shirts', client_id })).body.project
    const { entries } = await follow(company, body.pagination.next_cursor, 7, '&types=orders')
    expect(entries).toMatchObject([{ id }])
  })

  it('returns 410 where changes behind the cursor are removed while it waits', async () => {
    const company = await mintCompany()
    const id = await createClient(company)
    const { cursor } = await follow(company, null)
    const polled = company.call('GET', `/changes?cursor=${cursor}&wait=25`)
    await scheduler.wait(300)
    const db = env[company.home]
    const update = 'UPDATE clients SET phone = ?, version = version + 1 WHERE company_id = ? AND id = ?'
    await db.batch([
      ...['1', '2'].map((phone) => db.prepare(update).bind(phone, company.id, id)),
      db.prepare('DELETE FROM changes WHERE company_id = ? AND sequence < 3').bind(company.id),
    ])
    expect((await polled).body.error?.details).toMatchObject({ reason: 'cursor_expired' })
  })
})

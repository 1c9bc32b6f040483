import { env } from 'cloudflare:workers'
import { expect, it, vi } from 'vitest'
import { SEQUENCES } from '../../../src/operation/copies/tables.ts'
import { noise } from '../../resources/mail/support.ts'
import { call, mintToken, sql, type TestCompany } from '../../support/app.ts'
import { insertion } from '../../support/rows.ts'
import { type FilledCompany, fillCompany, makeIds } from '../../support/two-companies.ts'
import { backUp, hitsOf, marksOf, type Rows, restore, rowsOf, wipe } from './support.ts'

const DAYS = ['2026-11-16T03:00:00.000Z', '2026-11-17T03:00:00.000Z', '2026-11-18T03:00:00.000Z']

const setTime = (time: string | undefined) => vi.setSystemTime(new Date(time ?? Number.NaN))

/** A company with rows of every kind that there is. */
async function fill(marker: string, base: number): Promise<FilledCompany> {
  const company = await fillCompany(
    marker,
    makeIds((n) => base + n, marker.toLowerCase()),
  )
  const { id, ids } = company
  const times = { created_at: 1, updated_at: 1 }
  const entry = { actor: 'a@x.example', action: 'tokens.create', entity_id: '1', address: '::1', request_id: 'r' }
  const supplier = { kind: 'supplier_a', enabled: 1, base_url: 'http://127.0.0.1:9', credentials: 'v1.x.y' }
  const event = { order_id: ids.order, operation: 'update', state: 'parked', next_attempt_at: 1, last_error: 'x' }
  const hook = { id: `we_${base}`, url: 'https://x.example', secret: 'v1.x', event_types: '[]', position: 3 }
  const rows: [string, Record<string, unknown>][] = [
    ['members', { email: 'a@x.example', role: 'owner', created_at: 1 }],
    ['imports', { hash: 'a', parts: 2, next_part: 1, updated_at: 1 }],
    ['admin_log', { ...entry, at: 1 }],
    ['integrations', { ...supplier, updated_at: 1 }],
    ['accounting_connections', { remote_account: 'x 1', tokens: 'v1.x.z' }],
    ['accounting_links', { order_id: ids.order, external_id: '5', sync_token: '0', customer_id: '9', synced_at: 1 }],
    ['accounting_outbox', { ...event, ...times }],
    ['taxes', { id: base + 70, name: 'A third', rate: 100 / 3 }],
    ['webhook_endpoints', { ...hook, ...times, enabled: 0 }],
  ]
  const filled = await rowsOf(id)
  const missing = rows.filter(([table]) => table === 'taxes' || (filled[table] ?? []).length === 0)
  await env.DB.batch(missing.map(([table, row]) => insertion(table, { company_id: id, ...row })))
  await sql('UPDATE clients SET accounting_customer_id = 9 WHERE company_id = ? AND id = ?', id, ids.client)
  return company
}

const MAILBOX = 'box@x.example'

/** A thread with a long text and large content, both in its row. */
function largeThread(seed: string) {
  const random = (length: number) =>
    Array.from({ length }, (_, i) => `${seed}${(i * 7919 * seed.length) % 1_000_003}`).join('')
  const message = (n: number) => ({ id: `m${n}`, body: random(60_000) })
  return { account_email: MAILBOX, subject: random(5_000), messages: [message(1), message(2), message(3), message(4)] }
}

/** What a day of work changes, deletes and adds. */
async function work({ call, id, ids }: FilledCompany, day: number): Promise<void> {
  const send = async (method: string, path: string, sent: object) => {
    const { status, body } = await call(method, path, sent)
    expect([path, status, body]).toEqual([path, expect.toSatisfy((code: number) => code < 300), expect.anything()])
    return body
  }
  const { client } = await send('POST', '/clients', { company_name: `New ${day} Überraschung`, external_id: `c${day}` })
  const order = { title: `Order of day ${day}`, client_id: client.id, external_id: `o${day}` }
  const { project } = await send('POST', '/orders', order)
  const items = [
    { title: `Line ${day}`, quantity: 0.1 + 0.2, unit_price: 9.99 },
    { title: 'Other', quantity: 3, unit_price: 1 },
  ]
  await send('PUT', `/orders/${project.id}/invoice-items`, { items })
  await send('POST', `/orders/${project.id}/payments`, { amount: 5, note: 'cash' })
  await send('POST', `/orders/${ids.order}/payments`, { amount: 1 })
  await sql('UPDATE clients SET accounting_customer_id = ? WHERE company_id = ? AND id = ?', `${day}`, id, ids.client)
  await send('PUT', '/mail/email-threads/large', largeThread(`day ${day}`))
  const huge = { account_email: MAILBOX, messages: [{ text: noise(2_000_000) }] }
  await send('PUT', '/mail/email-threads/huge', huge)
}

/** Columns of a company that a restore sets itself; of the counts see `test/quota/copies`. */
const OWN = [
  ...['slot', 'deliveries_paused', 'backed_up_at', 'mail_bytes_checked'],
  ...['stored_bytes', 'stored_bytes_checked', 'audit_expired', 'recounted_at'],
]

/** The same without what a restore makes itself. */
function comparable(rows: Rows): Rows {
  const omit = (table: string, ...names: string[]) =>
    (rows[table] ?? []).map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => !names.includes(name))))
  return {
    ...rows,
    companies: omit('companies', ...SEQUENCES, ...OWN),
    accounting_outbox: omit('accounting_outbox', 'id', 'source_id').filter(({ state }) => state !== 'done'),
    // Nothing names the others.
    email_thread_objects: (rows.email_thread_objects ?? []).filter(({ state }) => state === 'stored'),
    admin_log: omit('admin_log', 'id').filter(({ action }) => action !== 'company.restore'),
    api_tokens: omit('api_tokens', 'last_used_at'),
    webhook_endpoints: omit('webhook_endpoints', 'position', 'replay_position', 'replay_end'),
    ...Object.fromEntries(['changes', 'webhook_deliveries', 'idempotency_keys'].map((table) => [table, []])),
  }
}

/** The content of the thread that R2 holds. */
async function hugeText(company: TestCompany): Promise<string> {
  const path = `/mail/email-threads/huge?account_email=${MAILBOX}`
  return (await call(await mintToken(company.id), 'GET', path)).body.email_thread.messages[0].text
}

async function searchOf(company: TestCompany) {
  const tables = ['clients_fts', 'client_names_fts', 'orders_fts', 'catalog_items_fts', 'invoice_items_fts']
  const words = ['NEW', 'ORDER', 'LINE', 'ALPHA', 'TEXT']
  const hits = tables.flatMap((table) => words.map((word) => hitsOf(company.id, table, word)))
  return {
    hits: await Promise.all(hits),
    ofApi: (await call(await mintToken(company.id), 'GET', '/clients?q=n')).body,
  }
}

it('a restore gives every row of every table back, as of each of several days', async () => {
  const [company, other] = [await fill('ALPHA', 90_000), await fill('BETA', 190_000)]
  const states: Rows[] = []
  const searches: unknown[] = []
  const texts: string[] = []
  for (const [day, time] of DAYS.entries()) {
    setTime(time)
    await work(company, day)
    if (day === 1) {
      const { ids } = company
      expect((await company.call('DELETE', `/orders/${ids.order}/payments/${ids.payment}`)).status).toBe(200)
      expect((await company.call('PUT', `/orders/${ids.order}/invoice-items`, { items: [] })).status).toBe(200)
      expect((await company.call('DELETE', `/orders/${ids.doomedOrder}`)).status).toBe(200)
      expect((await company.call('PATCH', `/clients/${ids.client}`, { company_name: 'Renamed' })).status).toBe(200)
      await sql('UPDATE catalog_items SET deleted = 1 WHERE company_id = ?', company.id)
      for (const table of ['thread_contexts', 'members', 'accounting_links']) {
        await sql(`DELETE FROM ${table} WHERE company_id = ?`, company.id)
      }
    }
    await backUp(company.id)
    states.push(comparable(await rowsOf(company.id)))
    searches.push(await searchOf(company))
    texts.push(await hugeText(company))
  }
  const anew = ['changes', 'webhook_deliveries', 'idempotency_keys', 'company_guards', 'moves']
  for (const [table, rows] of Object.entries(states[0] ?? {})) {
    expect([table, rows.length > 0]).toEqual([table, !anew.includes(table)])
  }

  const untouched = await rowsOf(other.id)
  const marks = await marksOf(company.id)
  for (const day of [0, 2]) {
    const time = DAYS[day] ?? ''
    await wipe(company.id)
    const result = await restore(company.id, time)
    expect(result).toMatchObject({ done: true, backup: time, differences: [] })
    const restored = comparable(await rowsOf(company.id))
    // What was given out after that day is not given out again.
    expect(await marksOf(company.id)).toEqual({ ...marks, last_change: marks.last_change + 1_000_000 })
    for (const table of Object.keys(restored)) expect([table, restored[table]]).toEqual([table, states[day]?.[table]])
    expect(await rowsOf(other.id)).toEqual(untouched)
    expect(await searchOf(company)).toEqual(searches[day])
    expect((await hugeText(company)) === texts[day]).toBe(true)
  }
})

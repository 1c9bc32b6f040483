import { env, exports } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { type Database, openDatabase } from '../../../src/kernel/db/client.ts'
import { fairShare } from '../../../src/kernel/gate/limits.ts'
import { exportPage } from '../../../src/operation/copies/export.ts'
import { type SeedInput, seedFile } from '../../../src/operation/copies/seed/file.ts'
import { readExport, threadOf } from '../../../src/operation/copies/seed/split.ts'
import { mintCompanyWithOrder } from '../../resources/files/support.ts'
import { noise, storedObjects } from '../../resources/mail/support.ts'
import { ADMIN_TOKEN, adminCall, adminCallWith, adminRequest } from '../../support/admin.ts'
import { call, freshId, issuesOf, mintCompany, mintToken, sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { smallShop } from '../../support/small-shop.ts'
import { SEEDED } from '../../support/tables.ts'
import { loseResponses } from '../../support/wrap-bindings.ts'
import { loadSeed } from './import-support.ts'

/** Sends all parts of a file to another company. */
async function load(file: SeedInput, companyId: number, threads: string[] = []) {
  await loadSeed({ ...file, company: { ...file.company, id: companyId } })
  const loaded: boolean[] = []
  for (const thread of threads) {
    const { status, body } = await adminCall('POST', `/companies/${companyId}/imports/email-threads`, thread)
    expect([status, body.error]).toEqual([200, undefined])
    loaded.push(body.is_new)
  }
  return loaded
}

/** The text of one response. */
async function readPart(companyId: number, query = '') {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
  const sent = adminRequest('GET', `/companies/${companyId}/export${query}`, undefined, headers)
  const response = await exports.default.fetch(sent)
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson'])
  return response.text()
}

/** All responses, without the lines that continue one. */
async function readAll(companyId: number): Promise<string[]> {
  const lines: string[] = []
  for (let query = ''; ; ) {
    const text = await readPart(companyId, query)
    expect(text.endsWith('\n')).toBe(true)
    const part = text.trimEnd().split('\n')
    const last = JSON.parse(part.at(-1) ?? '')
    if (last.type !== 'next') return [...lines, ...part]
    lines.push(...part.slice(0, -1))
    query = `?cursor=${last.data.cursor}`
  }
}

/** An export, the JSON of its email threads, and the file of all others. */
async function exportOf(companyId: number) {
  const lines = await readAll(companyId)
  return { lines, threads: lines.flatMap((line) => threadOf(line) ?? []), file: (await readExport(lines)).file }
}

/** The ids of threads are unique in the database. */
const removeThreads = async () => {
  for (const table of ['email_thread_objects', 'email_threads']) await sql(`DELETE FROM ${table}`)
}

const TABLES = ['companies', ...SEEDED, 'thread_context_links', 'email_threads']

async function readRows(companyId: number) {
  const entries = TABLES.map(async (table) => {
    const column = table === 'companies' ? 'id' : 'company_id'
    const rows = await sql(`SELECT * FROM ${table} WHERE ${column} = ?`, companyId)
    const own = { [column]: 0, slot: 0, last_change: 0, mail_bytes_checked: 0 }
    const counted = { stored_bytes: 0, stored_bytes_checked: 0, audit_expired: 0, recounted_at: 0 }
    return [table, rows.map((row) => ({ ...row, ...own, ...(table === 'companies' && counted) }))]
  })
  return Object.fromEntries(await Promise.all(entries))
}

/** A company with something of everything, most of it changed through the API. */
async function fillCompany() {
  const id = 2_000 + freshId()
  await load(smallShop(id), id)
  // An accounting system's ids may have any characters.
  await sql("UPDATE clients SET accounting_customer_id = 'NG:1.5' WHERE company_id = ? AND id = 1", id)
  const token = await mintToken(id)
  const api = async (method: string, path: string, body?: unknown) => {
    const response = await call(token, method, path, body)
    expect([method, path, response.status]).toEqual([method, path, 200])
    return response.body
  }
  await api('PATCH', '/clients/1', { phone: '555 1234', tax_exempt: true, tax_exempt_reason: 'r'.repeat(1_000) })
  await api('POST', '/clients', { company_name: 'Né \u2028 "quoted"', external_id: 'x/1', website: 'example.com' })
  const texts = { description: 'line\n\ttwo', start_date: 'next week', deadline: '2027-01-02' }
  const created = { title: 'From the API', client_id: 1, external_id: 'order/1', ...texts }
  const orderId = (await api('POST', '/orders', created)).project.id
  await api('DELETE', '/orders/2')
  await api('PUT', '/mail/threads/18c2f0a9b7d3e4aa', {
    sender_email: ' a@b.example ',
    client_id: 1,
    orders_data: [{ id: orderId, price: 1.5, nested: JSON.parse('{"a":[null,true,"ü"],"__proto__":1}') }],
    selected_order_id: orderId,
  })
  await api('PUT', '/mail/email-threads/18c2f0a9b7d3e4aa', {
    account_email: 'Shop@Example.com',
    subject: 'A \ud800 lone surrogate and \u0000',
    snippet: 's'.repeat(100_000),
    last_message_at: '2026-03-01T10:00:00Z',
    participants: [{ email: 'a@b.example' }],
    labels: ['INBOX'],
    messages: [0, 1, 2].map((at) => ({ at, number: 1.5, html: '<p>ü</p>'.repeat(100_000) })),
  })
  await api('PUT', '/mail/email-threads/18c2f0a9b7d3e4ab', { account_email: 'shop@example.com', messages: [] })
  await api('DELETE', '/mail/email-threads/18c2f0a9b7d3e4ab?account_email=shop@example.com')
  return id
}

describe('the export of a company', () => {
  it.each(['new', 'created before'])('seeded into a company that is %s is exported as the same bytes', async (kind) => {
    const id = await fillCompany()
    const { lines, threads, file } = await exportOf(id)
    const before = await readRows(id)
    expect(lines.map((line) => JSON.parse(line).type)).toEqual([
      ...['company', 'integrations', 'integrations', 'orders', 'orders', 'orders', 'clients', 'clients', 'clients'],
      ...['taxes', 'order_statuses', 'order_statuses', 'catalog_items', 'thread_contexts', 'thread_contexts'],
      ...['email_threads', 'email_threads', 'end'],
    ])
    expect(lines.join()).not.toContain('very-secret-key')
    expect(seedFile.safeParse(file).error?.issues).toBe(undefined)
    await removeThreads()
    const copy = id + 500
    if (kind !== 'new') await load({ company: { id: copy, name: 'Created' } }, copy)
    expect(await load(file, copy, threads)).toEqual([true, true])
    const comparable = (all: string[]) => all.filter((line) => !line.startsWith('{"type":"integrations"'))
    expect(comparable(await readAll(copy))).toEqual(
      comparable(lines).map((line) => line.replace(`"data":{"id":${id},"name"`, `"data":{"id":${copy},"name"`)),
    )
    expect(await readRows(copy)).toEqual({ ...before, companies: [{ ...before.companies[0] }] })

    const again = await readRows(copy)
    expect(await load(file, copy, threads)).toEqual([false, false])
    expect(await readRows(copy)).toEqual(again)
  })

  it('is refused where it was changed', async () => {
    const company = JSON.stringify({ type: 'company', data: { id: 1, name: 'Shop' } })
    const [end, other] = ['{"type":"end"}', '{"type":"order","data":{}}']
    await expect(readExport([company, '', other, end])).rejects.toThrow('line 3 has a type that no export has')
    await expect(readExport([company, end, company, end])).rejects.toThrow('line 3 begins another export')
    const ofObject = '{"type":"constructor","data":{}}'
    await expect(readExport([company, ofObject, end])).rejects.toThrow('line 2 has a type that no export has')
    for (const line of ['{"type":', 'null']) await expect(readExport([company, line])).rejects.toThrow('line 2')
    await expect(readExport([company])).rejects.toThrow(/incomplete/)
    await expect(readExport([end])).rejects.toThrow(/incomplete/)
  })

  it('leaves a thread alone that was written before it is imported', async () => {
    const { id, call } = await mintCompany()
    const put = (text: string) =>
      call('PUT', '/mail/email-threads/aa', { account_email: 'a@b.example', messages: [{ text }] })
    await put('exported')
    const { threads, file } = await exportOf(id)
    await removeThreads()
    await put('written')
    expect(await load(file, id, threads)).toEqual([false])
    const read = await call('GET', '/mail/email-threads/aa?account_email=a@b.example')
    expect(read.body.email_thread.messages).toEqual([{ text: 'written' }])
  })

  it('has content that R2 holds, which an import stores there again, also where the database’s responses are lost', async () => {
    const [{ id, token }, copy] = [await mintCompany(), 4_500 + freshId()]
    const body = { account_email: 'a@b.example', messages: [{ text: noise(2_000_000) }], snippet: 's'.repeat(100_000) }
    await call(token, 'PUT', '/mail/email-threads/aa', body)
    expect(await storedObjects(id)).toHaveLength(1)
    const { threads, file } = await exportOf(id)
    expect(JSON.parse(threads[0] ?? '').messages).toEqual(body.messages)
    await removeThreads()
    await load(file, copy)
    const path = `/companies/${copy}/imports/email-threads`
    expect((await adminCallWith(loseResponses(env), 'POST', path, threads[0])).body.is_new).toBe(true)
    expect(await storedObjects(copy)).toHaveLength(1)
    const response = await call(await mintToken(copy), 'GET', '/mail/email-threads/aa?account_email=a@b.example')
    expect(response.body.email_thread).toMatchObject(body)
    expect(await load(file, copy, threads)).toEqual([false])
    expect(await storedObjects(copy)).toHaveLength(1)
  })

  it('has threads that are refused where a field is missing or of another kind', async () => {
    const { id } = await mintCompany()
    const paths = async (thread: object) =>
      issuesOf(await adminCall('POST', `/companies/${id}/imports/email-threads`, thread))
    expect(await paths({})).toEqual(['account_email', 'messages'])
    const thread = { account_email: 'a@b.example', messages: [], id: 'x', legacy_thread_id: '/', deleted: 1 }
    const far = { created_at: '0000-01-01T00:00:00+01:00', updated_at: '9999-12-31T23:59:59-01:00' }
    expect(await paths({ ...thread, ...far })).toEqual(expect.arrayContaining(['created_at', 'updated_at']))
    expect(await paths(thread)).toEqual([
      ...['id', 'legacy_thread_id', 'last_synced_at', 'created_at', 'updated_at'],
      ...['deleted', 'revision', 'content_revision'],
    ])
  })

  it('takes a thread with other forms of its times and its id, which stays one thread', async () => {
    const { id: companyId } = await mintCompany()
    const at = '2026-03-02T10:00:00+01:00'
    const times = { last_synced_at: at, created_at: at, updated_at: '2026-03-02T09:00:00Z' }
    const id = crypto.randomUUID()
    const thread = { ...times, id, legacy_thread_id: 'q1', deleted: false, revision: 1, content_revision: 1 }
    const load = (changes: object) => {
      const body = { ...thread, account_email: 'a@b.example', messages: [], ...changes }
      return adminCall('POST', `/companies/${companyId}/imports/email-threads`, body)
    }
    expect(await load({})).toMatchObject({ status: 200, body: { is_new: true } })
    expect(await load({ id: id.toUpperCase() })).toMatchObject({ status: 200, body: { is_new: false } })
    const other = await load({ id: id.toUpperCase(), legacy_thread_id: 'q2' })
    expect(other.status).toBe(409)
    expect(other.body.error.message).toContain('an email thread with this id is in the database already')
  })

  it('has a thread that was sent as indented JSON in one line, which its copy has too', async () => {
    const [{ id, token }, copy] = [await mintCompany(), 5_000 + freshId()]
    const thread = { account_email: 'a@b.example', labels: ['x'], messages: [{ text: '\r\n \t', list: [1, {}] }] }
    const text = JSON.stringify(thread, null, '\t').replaceAll('\n', '\r\n')
    expect((await call(token, 'PUT', '/mail/email-threads/aa', text)).status).toBe(200)
    const { lines, threads, file } = await exportOf(id)
    const [line = '', ...others] = lines.filter((each) => each.startsWith('{"type":"email_threads"'))
    expect([JSON.parse(line).data, others]).toMatchObject([thread, []])
    expect(line).not.toContain('\r')

    await removeThreads()
    expect(await load(file, copy, threads)).toEqual([true])
    expect(await readAll(copy)).toContain(line)
  })

  it.each<[string, (companyId: number) => Promise<unknown>]>([
    [
      'the database',
      (id) => sql("UPDATE email_threads SET content = NULL WHERE company_id = ? AND legacy_thread_id = 'aa'", id),
    ],
    ['R2', async (id) => env.FILES.delete(await storedObjects(id))],
  ])('has threads whose content %s lost, without messages', async (store, lose) => {
    const [company, copy] = [await mintCompany(), 5_500 + freshId()]
    const messages = { aa: [{ text: store === 'R2' ? noise(2_000_000) : 'a' }], bb: [{ text: 'b' }] }
    for (const [id, each] of Object.entries(messages)) {
      await company.call('PUT', `/mail/email-threads/${id}`, { account_email: 'a@b.example', messages: each })
    }
    await lose(company.id)
    const { threads, file } = await exportOf(company.id)
    expect(threads.map((text) => JSON.parse(text).messages)).toEqual([[], messages.bb])
    const line = { event: 'mail_content_missing', request_id: expect.any(String), company_id: company.id }
    expect(logLines).toContainEqual(expect.objectContaining(line))
    await removeThreads()
    expect(await load(file, copy, threads)).toEqual([true, true])
  })

  it('has a thread whose content is replaced while it is read as it was before', async () => {
    const { id, call } = await mintCompany({ home: 'DB' })
    const put = async (messages: object[]) => {
      const sent = { account_email: 'a@b.example', messages }
      expect((await call('PUT', '/mail/email-threads/aa', sent)).status).toBe(200)
    }
    const messages = [{ text: noise(2_000_000) }]
    await put(messages)
    const context = { companyId: id, db: openDatabase(env.DB) }
    const { pieces } = await exportPage(context, env.FILES, 'email_threads', [])
    // The row and its object are read by now, the content is not.
    await put([{ text: noise(2_000_100) }])
    const states = await sql('SELECT state FROM email_thread_objects WHERE company_id = ? ORDER BY state', id)
    expect(states).toEqual([{ state: 'replaced' }, { state: 'stored' }])
    const read = await Array.fromAsync(pieces, (piece) => Buffer.from(piece as Uint8Array))
    expect(JSON.parse(Buffer.concat(read).toString()).data.messages).toEqual(messages)
  })

  it.each([1, 2])('has an order as a whole, though it changes and is deleted behind read %i of it', async (read) => {
    await mintCompanyWithOrder()
    const { orderId, call, id } = await mintCompanyWithOrder()
    const discount_amount = 7
    const items = [{ title: 'new', quantity: 1, unit_price: 100 }]
    const real = openDatabase(env.DB)
    let reads = 0
    const db: Database = {
      ...real,
      read: async (queries) => {
        const rows = await real.read(queries)
        if (++reads === read) {
          await call('PATCH', `/orders/${orderId}`, { title: 'New', discount_amount })
          await call('PUT', `/orders/${orderId}/invoice-items`, { items })
          expect((await call('DELETE', `/orders/${orderId}`)).status).toBe(200)
        }
        return rows
      },
    }
    const { pieces } = await exportPage({ companyId: id, db }, env.FILES, 'orders', [])
    const lines = (await Array.fromAsync(pieces)).join('').trimEnd().split('\n')
    const [{ title, deleted, invoice }, ...others] = lines.map((each) => JSON.parse(each).data)
    const isNew = title === 'New'
    expect([reads, deleted, others]).toEqual([2, isNew, []])
    expect(invoice).toMatchObject({ deleted, discount_amount: isNew ? 7 : 0, items: isNew ? [{ title: 'new' }] : [] })
  })

  it('can be imported where an external id went from one page to the next while these were read', async () => {
    const [{ id, token }, copy] = [await mintCompany({ home: 'DB' }), 6_500 + freshId()]
    const clients = Array.from({ length: 501 }, (_, at) => ({ id: at + 1, company_name: `Client ${at + 1}` }))
    await loadSeed({ company: { id, name: 'Many' }, clients })
    const setExternalId = (client: number, external_id: string | null) =>
      call(token, 'PATCH', `/clients/${client}`, { external_id })
    await setExternalId(500, 'x')
    const context = { companyId: id, db: openDatabase(env.DB) }
    const first = await exportPage(context, env.FILES, 'clients', [])
    await setExternalId(500, null)
    await setExternalId(501, 'x')
    const second = await exportPage(context, env.FILES, 'clients', first.next ?? [])
    const pages = [...(await Array.fromAsync(first.pieces)), ...(await Array.fromAsync(second.pieces))].join('')
    const lines = [`{"type":"company","data":{"id":${copy},"name":"Copy"}}`, ...pages.trimEnd().split('\n')]
    await loadSeed((await readExport([...lines, '{"type":"end"}'])).file)
    const found = await sql('SELECT id, external_id FROM clients WHERE company_id = ? AND id >= 500', copy)
    expect(found).toEqual([
      { id: 500, external_id: null },
      { id: 501, external_id: 'x' },
    ])
  })

  it('leaves out lines that were replaced', async () => {
    const company = await mintCompanyWithOrder()
    const { orderId, call } = company
    for (const title of ['old', 'new']) {
      const items = [{ title, quantity: 1, unit_price: 1 }]
      expect((await call('PUT', `/orders/${orderId}/invoice-items`, { items })).status).toBe(200)
    }
    const { file } = await readExport(await readAll(company.id))
    expect(file.orders?.map(({ invoice }) => invoice?.items?.map((item) => item.title))).toEqual([['new']])
  })

  it('goes on in further requests behind the last line, each in the audit trail', async () => {
    const { id } = await mintCompany()
    await sql(
      `WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 30000)
       INSERT INTO taxes (company_id, id, name, rate) SELECT ?, id, 'T', 1 FROM n WHERE id < 30000`,
      id,
    )
    const lines = await readAll(id)
    const taxes = lines.map((line) => JSON.parse(line)).filter(({ type }) => type === 'taxes')
    expect(taxes).toHaveLength(30_000)
    expect(new Set(taxes.map(({ data }) => data.id)).size).toBe(30_000)
    const entries = (await adminCall('GET', `/companies/${id}/audit`)).body.data
    expect(entries.filter(({ action }: { action: string }) => action === 'companies.export').length).toBeGreaterThan(1)
    const first = (await readPart(id)).trimEnd().split('\n').at(-1) ?? ''
    expect(JSON.parse(first)).toEqual({ type: 'next', data: { cursor: expect.any(String) } })
    const foreign = await mintCompany()
    const { cursor } = JSON.parse(first).data
    expect((await adminCall('GET', `/companies/${foreign.id}/export?cursor=${cursor}`)).status).toBe(400)
  })

  it('takes its company’s share of the isolate, by its bytes', async () => {
    const enter = vi.spyOn(fairShare, 'enter').mockReturnValue(0)
    const { id } = await mintCompany()
    const text = await readPart(id)
    const counted = enter.mock.calls.map(([companyId, bytes]) => ({ companyId, bytes }))
    enter.mockRestore()
    expect(new Set(counted.map(({ companyId }) => companyId))).toEqual(new Set([id]))
    const rows = text.slice(0, text.lastIndexOf('{"type":"end"'))
    expect(counted.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(new TextEncoder().encode(rows).length)
  })

  it('is in the audit trail, but not a HEAD, which exports nothing', async () => {
    await mintCompany()
    const { id } = await mintCompany()
    const head = await adminCall('HEAD', `/companies/${id}/export`)
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/x-ndjson'])
    expect((await adminCall('GET', `/companies/${id}/audit`)).body.data).toEqual([])
    await readPart(id)
    const { body } = await adminCall('GET', `/companies/${id}/audit`)
    expect(body.data).toMatchObject([{ actor: 'operator', action: 'companies.export', entity_id: String(id) }])
  })
})

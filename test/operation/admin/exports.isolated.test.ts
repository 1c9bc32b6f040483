import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { readExport } from '../../../src/cli/split-file.ts'
import { type Database, openDatabase } from '../../../src/kernel/db/client.ts'
import { fairShare } from '../../../src/kernel/gate/limits.ts'
import { exportPage } from '../../../src/operation/copies/export.ts'
import { seedFile } from '../../../src/operation/copies/seed/file.ts'
import { mintCompanyWithOrder } from '../../resources/files/support.ts'
import { adminCall } from '../../support/admin.ts'
import { call, freshId, mintCompany, mintToken, sql } from '../../support/app.ts'
import { smallShop } from '../../support/small-shop.ts'
import { SEEDED } from '../../support/tables.ts'
import { exportOf, importInto, loadSeed, readAll, readPart, removeThreads } from './transfer-support.ts'

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
  await importInto(smallShop(id), id)
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
    if (kind !== 'new') await importInto({ company: { id: copy, name: 'Created' } }, copy)
    expect(await importInto(file, copy, threads)).toEqual([true, true])
    const comparable = (all: string[]) => all.filter((line) => !line.startsWith('{"type":"integrations"'))
    expect(comparable(await readAll(copy))).toEqual(
      comparable(lines).map((line) => line.replace(`"data":{"id":${id},"name"`, `"data":{"id":${copy},"name"`)),
    )
    expect(await readRows(copy)).toEqual({ ...before, companies: [{ ...before.companies[0] }] })

    const again = await readRows(copy)
    expect(await importInto(file, copy, threads)).toEqual([false, false])
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

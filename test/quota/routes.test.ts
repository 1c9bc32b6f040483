import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { adminCall } from '../support/admin.ts'
import { mintCompany, sql, type TestCompany } from '../support/app.ts'
import { contracts } from '../support/endpoints.ts'
import { countRows, fillQuota, readRowBytes, readStored } from './support.ts'

let company: TestCompany
let other: TestCompany
let ids: { client: number; order: number; payment: number }

beforeAll(async () => {
  other = await mintCompany({ home: 'DB' })
  await fill(other)
})
beforeEach(async () => {
  await fillQuota(other.id, 2_147_483_648)
  company = await mintCompany({ home: 'DB' })
  ids = await fill(company)
})

/** The same of each company. */
async function fill({ id, call }: TestCompany) {
  const client = id * 10_000_000 + 1
  const send = async (method: string, path: string, body: unknown) => {
    const response = await call(method, path, body)
    expect([method, path, response.status, response.body]).toEqual([method, path, 200, response.body])
    return response.body
  }
  await send('POST', '/clients', { company_name: 'Harbor Club', email: 'a@x.example' })
  await send('PUT', '/clients/by-external-id/shop-1', { company_name: 'Harbor Club' })
  const order = (await send('POST', '/orders', { title: 'Shirts', client_id: client })).project.id
  await send('PUT', `/orders/${order}/invoice-items`, { items: [{ title: 'Tee', description: 'x'.repeat(9_000) }] })
  const payment = (await send('POST', `/orders/${order}/payments`, { amount: 5 })).payment.id
  await send('PUT', '/mail/threads/t1', { client_id: client, participant_emails: ['a@x.example'] })
  await send('PUT', '/mail/email-threads/t1', { account_email: 'box@x.example', messages: [{ a: 1 }], subject: 's' })
  return { client, order, payment }
}

type Write = [operation: string, method: string, path: string, body?: object]

const LINES = { items: Array(9).fill({ title: 'A', description: 'x'.repeat(9_000) }) }
const BOX = { account_email: 'box@x.example' }

const writesOf = ({ client, order, payment }: typeof ids): Write[] => [
  ['createClient', 'POST', '/clients', { company_name: 'New' }],
  ['updateClient', 'PATCH', `/clients/${client}`, { website: 'x.example' }],
  ['updateClient', 'PATCH', '/clients/a%40x.example', { deleted: true, website: `x.example/${'x'.repeat(100)}` }],
  ['putClient', 'PUT', '/clients/by-external-id/shop-2', { company_name: 'New' }],
  ['putClient', 'PUT', '/clients/by-external-id/shop-1', { company_name: 'Harbor Clubs' }],
  ['createOrder', 'POST', '/orders', { title: 'New', client_id: client }],
  ['updateOrder', 'PATCH', `/orders/${order}`, { title: 'Longer title' }],
  ['updateOrder', 'PATCH', `/orders/${order}`, { title: 'Shirts' }],
  ['putOrder', 'PUT', '/orders/by-external-id/shop-1', { title: 'New', client_id: client }],
  ['updateOrder', 'PATCH', `/orders/${order}`, { invoice_items: LINES.items }],
  ['putInvoiceItems', 'PUT', `/orders/${order}/invoice-items`, LINES],
  ['createPayment', 'POST', `/orders/${order}/payments`, { amount: 1 }],
  ['updatePayment', 'PATCH', `/orders/${order}/payments/${payment}`, { note: 'x'.repeat(9_000) }],
  ['putThreadContext', 'PUT', '/mail/threads/t2', { client_id: client }],
  ['putThreadContext', 'PUT', '/mail/threads/t1', { client_id: client, participant_emails: ['b'.repeat(900)] }],
  ['putEmailThread', 'PUT', '/mail/email-threads/t2', { ...BOX, messages: [] }],
  ['putEmailThread', 'PUT', '/mail/email-threads/t1', { ...BOX, messages: [{ a: 2 }] }],
  ['putEmailThread', 'PUT', '/mail/email-threads/t1', { ...BOX, messages: [{ a: 1 }], subject: 'z' }],
]

const deletionsOf = ({ client, order, payment }: typeof ids): Write[] => [
  ['deletePayment', 'DELETE', `/orders/${order}/payments/${payment}`],
  ['deleteOrder', 'DELETE', `/orders/${order}`],
  ['deleteThreadContext', 'DELETE', '/mail/threads/t1'],
  ['deleteEmailThread', 'DELETE', '/mail/email-threads/t1?account_email=box@x.example'],
  ['deleteClient', 'DELETE', `/clients/${client}`],
]

const NONE = { client: 0, order: 0, payment: 0 }

/** `presignUpload` and `deleteFile` change files; a batch has tests of its own. */
const ELSEWHERE = ['presignUpload', 'deleteFile', 'runBatch']

it('is tested with every write of the API', () => {
  const tested = [...writesOf(NONE), ...deletionsOf(NONE)].map(([operation]) => operation)
  const writes = contracts.filter(({ method }) => method !== 'GET').map(({ operationId }) => operationId)
  expect(writes.filter((name) => !tested.includes(name)).sort()).toEqual(ELSEWHERE.sort())
})

describe('a write of a company over its storage quota', () => {
  it.each(writesOf(NONE).map(([operation], index) => [operation, index] as const))(
    '%s (%i) is refused with 413, and nothing is written; when another company is over its quota, it is not',
    async (_, index) => {
      const [, method, path, body] = writesOf(ids)[index] ?? expect.fail('no write')
      await fillQuota(company.id)
      const [before, stored] = [await countRows(company.id), await readStored(company.id)]
      for (const headers of [{}, { 'Idempotency-Key': crypto.randomUUID() }]) {
        const isMail = method === 'PUT' && path.includes('mail')
        const response = await company.call(method, path, body, isMail ? {} : headers)
        expect(response.status, JSON.stringify(response.body)).toBe(413)
        expect(response.body.error).toMatchObject({
          code: 'invalid_request',
          details: { reason: 'storage_quota', limit_bytes: 1 },
        })
      }
      expect(await countRows(company.id)).toEqual(before)
      expect(await readStored(company.id)).toEqual(stored)
      await fillQuota(company.id, 2_147_483_648)
      await fillQuota(other.id)
      expect((await company.call(method, path, body)).status).toBe(200)
    },
  )

  it('is carried out when it is a deletion, with its audit entry, its change and its stored result', async () => {
    await fillQuota(company.id)
    for (const [, method, path] of deletionsOf(ids)) {
      const before = await countRows(company.id)
      const { status } = await company.call(method, path, undefined, { 'Idempotency-Key': crypto.randomUUID() })
      expect([path, status]).toEqual([path, 200])
      const after = await countRows(company.id)
      expect(after.audit_log).toBe((before.audit_log ?? 0) + 1)
      expect(after.idempotency_keys).toBe((before.idempotency_keys ?? 0) + 1)
      const { counted, real } = await readStored(company.id)
      expect(counted).toBe(real)
    }
    expect((await company.call('POST', '/clients', { company_name: 'New' })).status).toBe(413)
  })

  it('is carried out when it makes what is stored smaller', async () => {
    await fillQuota(company.id)
    const put = async (body: object) => (await company.call('PUT', `/orders/${ids.order}/invoice-items`, body)).status
    expect(await put(LINES)).toBe(413)
    const [line] = (await company.call('GET', `/orders/${ids.order}`)).body.invoice_items
    expect(await put({ items: [{ id: line.id, title: 'Tee', description: 'x' }] })).toBe(200)
  })

  it('leaves reads, which always work', async () => {
    await fillQuota(company.id)
    const paths = ['/me', '/clients', `/orders/${ids.order}`, '/mail/threads/t1', '/changes', '/clients?q=harbor']
    for (const path of paths) {
      expect([path, (await company.call('GET', path)).status]).toEqual([path, 200])
    }
  })

  it('of a batch is refused by itself, each with its own 413', async () => {
    const operations = [
      { method: 'POST', path: '/clients', body: { company_name: 'New' } },
      { method: 'PATCH', path: `/orders/${ids.order}`, body: { title: 'T'.repeat(200) } },
      { method: 'PATCH', path: `/clients/${ids.client}`, body: { deleted: true } },
    ]
    await fillQuota(company.id)
    const before = await countRows(company.id)
    const { body } = await company.call('POST', '/batch', { operations })
    expect(body.results.map(({ status }: { status: number }) => status)).toEqual([413, 413, 200])
    expect(body.results[0].body.error.details).toMatchObject({ reason: 'storage_quota', limit_bytes: 1 })
    const after = await countRows(company.id)
    expect([after.clients, after.changes]).toEqual([before.clients, (before.changes ?? 0) + 1])
  })
})

describe('the storage quota', () => {
  it('does not apply while the company is not counted for the first time', async () => {
    await sql('UPDATE companies SET recounted_at = NULL WHERE id = ?', company.id)
    await fillQuota(company.id)
    expect((await company.call('POST', '/clients', { company_name: 'New' })).status).toBe(200)
  })

  it('stops contexts of 250 KB when it is reached', async () => {
    const participants_data = Array.from({ length: 100 }, (_, index) => ({ n: index, text: 'p'.repeat(2_500) }))
    await fillQuota(company.id, 5_000_000)
    let stored = 0
    for (let at = 0; at < 40; at++) {
      const body = { client_id: ids.client, participants_data }
      const response = await company.call('PUT', `/mail/threads/fill-${at}`, body)
      if (response.status === 200) stored++
      else expect([response.status, response.body.error.details.reason]).toEqual([413, 'storage_quota'])
    }
    expect(stored).toBeGreaterThan(15)
    expect(stored).toBeLessThan(21)
    expect((await other.call('PUT', '/mail/threads/t9', { client_id: other.id * 10_000_000 + 1 })).status).toBe(200)
  })

  it('is set by the administration, from the next write on, and shown with what is stored', async () => {
    const path = `/companies/${company.id}`
    const write = async () => (await company.call('POST', '/clients', { company_name: 'New' })).status
    const set = (storage_quota_bytes: number) => adminCall('PATCH', path, { storage_quota_bytes })
    expect((await set(1)).body.storage_quota_bytes).toBe(1)
    expect(await write()).toBe(413)
    expect((await set(5_000_000)).body.storage_quota_bytes).toBe(5_000_000)
    expect(await write()).toBe(200)
    const stored_bytes = (await readStored(company.id)).counted + (await readRowBytes(company.id))
    const shown = { storage_quota_bytes: 5_000_000, stored_bytes }
    expect((await adminCall('GET', path)).body).toMatchObject(shown)
    expect((await company.call('GET', '/me')).body.limits).toMatchObject(shown)
    expect((await adminCall('GET', `/companies/${other.id}`)).body.storage_quota_bytes).toBe(2_147_483_648)
  })
})

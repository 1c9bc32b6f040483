import { describe, expect, it } from 'vitest'
import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { adminCall } from '../../support/admin.ts'
import { call, mintCompany, mintToken, sql } from '../../support/app.ts'

describe('GET /me', () => {
  it('names the currency that an owner set in the settings', async () => {
    const company = await mintCompany()
    const set = (currency: unknown) => adminCall('PUT', `/companies/${company.id}/currency`, { currency })
    expect((await set('EUR')).body.currency).toBe('EUR')
    expect((await company.call('GET', '/me')).body.company.currency).toBe('EUR')
    for (const wrong of ['eur', 'EURO', '', null, 5]) expect((await set(wrong)).status).toBe(400)
    expect((await company.call('GET', '/me')).body.company.currency).toBe('EUR')
  })

  it.each<[string, readonly string[], string | null]>([
    ['without any permission', [], null],
    ['with all permissions', PERMISSIONS, '2099-01-01T00:00:00.000Z'],
  ])('returns the company, the token and its limits to a token %s', async (_, permissions, expires_at) => {
    const company = await mintCompany()
    await company.call('PUT', '/mail/email-threads/t', { account_email: 'a@x.example', messages: [{ id: '1' }] })
    const token = await mintToken(company.id, permissions, expires_at === null ? null : Date.parse(expires_at))
    const { body } = await call(token, 'GET', '/me')
    expect(body.company).toEqual({ id: company.id, name: `Company ${company.id}`, currency: 'USD' })
    expect(body.token).toMatchObject({ permissions: [...permissions].sort(), expires_at })
    expect(body.limits).toMatchObject({ requests_per_minute: 300, database_ms_per_minute: 15_000, per_page_max: 100 })
    expect(body.limits.mail_bytes).toBeGreaterThan(0)
  })
})

it('GET /order-statuses and GET /taxes return the company’s own by position, without deleted ones, as orders accept them', async () => {
  const [company, other] = [await mintCompany(), await mintCompany()]
  await sql('UPDATE order_statuses SET position = 3 WHERE company_id = ? AND title = ?', company.id, 'New')
  const statuses = (await company.call('GET', '/order-statuses')).body.data
  expect(statuses.map(({ title }: { title: string }) => title)).toEqual(['Printing', 'New'])
  const taxes = (await company.call('GET', '/taxes')).body.data
  expect(taxes).toMatchObject([{ rate: 8.25 }])
  const { client } = (await company.call('POST', '/clients', { company_name: 'a' })).body
  const fields = { title: 'a', client_id: client.id, status_id: statuses[0].id, tax_id: taxes[0].id }
  expect((await company.call('POST', '/orders', fields)).status).toBe(200)

  await sql('UPDATE order_statuses SET deleted = 1 WHERE company_id = ? AND title = ?', company.id, 'New')
  await sql('UPDATE taxes SET deleted = 1 WHERE company_id = ?', company.id)
  expect((await company.call('GET', '/order-statuses')).body.data).toHaveLength(1)
  expect((await company.call('GET', '/taxes')).body.data).toEqual([])
  expect((await other.call('GET', '/order-statuses')).body.data).toHaveLength(2)
})

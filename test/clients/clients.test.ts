import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, mintCompany } from '../support/app.ts'

beforeAll(migrate)

describe('clients', () => {
  it('creates, reads, updates, lists', async () => {
    const { call } = await mintCompany()
    const made = await call('POST', '/clients', {
      company_name: ' Ärzte & Söhne ',
      email: 'Jo@X.example',
      phone: '(555) 010-0142',
    })
    expect(made).toMatchObject({
      status: 200,
      body: { client: { company_name: 'Ärzte & Söhne', email: 'Jo@X.example' } },
    })
    const id = made.body.client.id
    expect((await call('GET', `/clients/${id}`)).body).toEqual(made.body)
    expect((await call('GET', '/clients/jo%40x.example')).body).toEqual(made.body)
    expect((await call('GET', '/clients/-?email=JO@x.example')).body).toEqual(made.body)
    for (const q of ['ÄRZTE', 'söh', '5550100', '555-0100', 'x.ex', 'JO', '42']) {
      expect((await call('GET', `/clients?q=${encodeURIComponent(q)}`)).body, q).toMatchObject({
        data: [{ id }],
        pagination: { total: 1 },
      })
    }
    const patched = await call('PATCH', '/clients/JO%40x.example', { first_name: 'Jo', last_name: 'Weiß' })
    expect(patched.body.client).toMatchObject({ first_name: 'Jo', last_name: 'Weiß', company_name: 'Ärzte & Söhne' })
    expect((await call('GET', '/clients?q=jo%20weiss')).body.pagination.total).toBe(1)
    await call('PATCH', `/clients/${id}`, { deleted: true })
    expect((await call('GET', '/clients')).body).toMatchObject({ data: [], pagination: { total: 0 } })
    expect((await call('GET', '/clients?q=jo%20weiss')).body.pagination.total).toBe(0)
  })
  it('refuses', async () => {
    const { call } = await mintCompany()
    console.log((await call('POST', '/clients', { company_name: ' ', nope: 1, email: 'x' })).body.error)
    console.log((await call('POST', '/clients', '{')).body.error)
    console.log((await call('PUT', '/clients', {})).headers.get('allow'))
    console.log(Object.fromEntries((await call('GET', '/nope')).headers))
  })
})

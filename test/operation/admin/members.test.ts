import { describe, expect, it } from 'vitest'
import { addMember, adminCall, startAccess } from '../../support/admin.ts'
import { mintCompany, sql } from '../../support/app.ts'

const access = await startAccess()
// Its owner with the same email is no member of the other company.
const other = await mintCompany()
await addMember(other.id, 'b@example.com', 'owner')
const company = await mintCompany()
await addMember(company.id, 'owner@example.com', 'owner')

const members = () => `/companies/${company.id}/members`
const as = (method: string, path: string, body?: unknown) => access.callAs('owner@example.com', method, path, body)

describe('members', () => {
  it('are added, changed, listed by pages and removed; each change is in the audit trail', async () => {
    for (const [name, role] of [
      ['b', 'developer'],
      ['A', 'developer'],
      ['b', 'owner'],
    ] as const) {
      const { body } = await as('PUT', `${members()}/${name}@example.com`, { role })
      expect(body).toMatchObject({ email: `${name.toLowerCase()}@example.com`, role })
    }
    const first = (await as('GET', `${members()}?per_page=2`)).body
    expect(first.data).toMatchObject([{ email: 'a@example.com' }, { email: 'b@example.com' }])
    const second = (await as('GET', `${members()}?per_page=2&cursor=${first.pagination.next_cursor}`)).body
    expect(second.data).toMatchObject([{ email: 'owner@example.com' }])
    expect(second.pagination).toEqual({ per_page: 2, next_cursor: null, has_more: false })
    expect((await as('DELETE', `${members()}/b@example.com`)).status).toBe(200)
    expect((await as('DELETE', `${members()}/b@example.com`)).status).toBe(404)

    const { body } = await as('GET', `/companies/${company.id}/audit`)
    expect(body.data).toMatchObject([
      { actor: 'owner@example.com', action: 'members.delete', entity_id: 'b@example.com', address: expect.any(String) },
      { action: 'members.put', entity_id: 'b@example.com' },
      { action: 'members.put', entity_id: 'a@example.com' },
      { action: 'members.put', entity_id: 'b@example.com' },
    ])
  })

  it('are at most 1,000', async () => {
    const full = await mintCompany()
    await sql(
      `WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 1000)
        INSERT INTO members SELECT ?, 'm' || value || '@example.com', 'developer', 0 FROM n`,
      full.id,
    )
    const path = `/companies/${full.id}/members`
    expect((await adminCall('PUT', `${path}/new@example.com`, { role: 'developer' })).status).toBe(409)
    expect((await adminCall('PUT', `${path}/m7@example.com`, { role: 'owner' })).status).toBe(200)
    const beside = `/companies/${(await mintCompany()).id}/members/new@example.com`
    expect((await adminCall('PUT', beside, { role: 'developer' })).status).toBe(200)
  })

  it.each([
    ['an email that is none', 'PUT', '/nobody', { role: 'owner' }, 404],
    ['an email with two dots', 'PUT', '/a..b@example.com', { role: 'owner' }, 404],
    ['an unknown role', 'PUT', '/x@example.com', { role: 'king' }, 400],
    ['an unknown field', 'PUT', '/x@example.com', { role: 'owner', a: 1 }, 400],
    ['no body', 'PUT', '/x@example.com', undefined, 415],
    ['a broken cursor', 'GET', '?cursor=abc', undefined, 400],
  ])('refuse %s', async (_, method, path, body, status) => {
    expect((await as(method, `${members()}${path}`, body)).status).toBe(status)
  })
})

it('the audit trail also has what tokens changed, of the company alone', async () => {
  const other = await mintCompany()
  await company.call('POST', '/clients', { company_name: 'Ours' })
  await other.call('POST', '/clients', { company_name: 'Theirs' })
  const { body } = await as('GET', `/companies/${company.id}/audit?source=api`)
  expect(body.data).toMatchObject([{ actor: 'token', token_id: expect.any(Number), address: null }])
})

describe('the last owner', () => {
  it('cannot be made a developer or removed, by the owner or the operator, and nothing is written', async () => {
    // Another company's owner with the same email is no other owner of this one.
    const other = await mintCompany()
    await addMember(other.id, 'second@example.com', 'owner')
    const alone = await mintCompany()
    await addMember(alone.id, 'alone@example.com', 'owner')
    await addMember(alone.id, 'second@example.com', 'developer')
    const path = `/companies/${alone.id}/members`
    const demote = { role: 'developer' }
    for (const call of [adminCall, access.callAs.bind(null, 'alone@example.com')]) {
      for (const [method, body, action] of [
        ['PUT', demote, 'become a developer'],
        ['DELETE', undefined, 'be removed'],
      ] as const) {
        const refused = await call(method, `${path}/alone@example.com`, body)
        const message = `The last owner cannot ${action}: make another member an owner first`
        expect([refused.status, refused.body.error.message]).toEqual([409, message])
      }
    }
    const rolesOf = () => sql('SELECT email, role FROM members WHERE company_id = ? ORDER BY email', alone.id)
    expect(await rolesOf()).toEqual([
      { email: 'alone@example.com', role: 'owner' },
      { email: 'second@example.com', role: 'developer' },
    ])
    expect(await sql('SELECT action FROM admin_log WHERE company_id = ?', alone.id)).toEqual([])
    expect((await adminCall('PUT', `${path}/alone@example.com`, { role: 'owner' })).status).toBe(200)
    expect((await adminCall('PUT', `${path}/second@example.com`, { role: 'owner' })).status).toBe(200)
    expect((await adminCall('PUT', `${path}/alone@example.com`, demote)).status).toBe(200)
  })

  it('is not needed by a company that has none yet', async () => {
    const { id } = await mintCompany()
    const path = `/companies/${id}/members/first@example.com`
    expect((await adminCall('PUT', path, { role: 'developer' })).status).toBe(200)
    expect((await adminCall('PUT', path, { role: 'developer' })).status).toBe(200)
  })
})

import { describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { addMember, adminCall, adminCallWith, expectUsed, startAccess, unlimited } from '../../support/admin.ts'
import { mintCompany, sql, sqlIn } from '../../support/app.ts'
import { breakCalls } from '../../support/wrap-bindings.ts'

const access = await startAccess()
const company = await mintCompany()
await addMember(company.id, 'dev@example.com', 'developer')

describe('a company', () => {
  it('is listed for operators, by pages, and read by its members', async () => {
    await mintCompany()
    const first = (await adminCall('GET', '/companies?per_page=1')).body
    const second = (await adminCall('GET', `/companies?per_page=1&cursor=${first.pagination.next_cursor}`)).body
    expect(first.data[0].id).toBeLessThan(second.data[0].id)
    const { body } = await access.callAs('dev@example.com', 'GET', `/companies/${company.id}`)
    expect(body).toMatchObject({ id: company.id, name: `Company ${company.id}`, suspended: false, client_count: 0 })
  })

  it('of another database is listed with its counters, which are 0 while that database fails', async () => {
    const { id, call } = await mintCompany({ home: 'DB_TWO' })
    await call('POST', '/clients', { company_name: 'Acme' })
    // As a move leaves it.
    await sqlIn('DB', 'UPDATE companies SET client_count = 5, order_count = 6, mail_bytes = 7 WHERE id = ?', id)
    const find = async (bindings: Env) => {
      for (let query = 'per_page=100'; ; ) {
        const { body } = await adminCallWith(bindings, 'GET', `/companies?${query}`)
        const found = body.data.find((each: { id: number }) => each.id === id)
        if (found) return found
        query = `per_page=100&cursor=${body.pagination.next_cursor}`
      }
    }
    expect(await find(unlimited)).toMatchObject({ id, client_count: 1, order_count: 0, mail_bytes: 0 })
    const broken = breakCalls(unlimited, /^DB_TWO\./, new Error('D1_ERROR: D1 DB is overloaded.'))
    const none = { client_count: 0, order_count: 0, mail_bytes: 0, stored_bytes: 0 }
    expect(await find(broken)).toMatchObject({ id, name: `Company ${id}`, database: 'DB_TWO', ...none })
  })

  it('is suspended, which refuses its tokens at once, and resumed', async () => {
    const one = await mintCompany()
    const path = `/companies/${one.id}`
    expect((await one.call('GET', '/clients')).status).toBe(200)
    await expectUsed(one)
    expect((await adminCall('PATCH', path, { suspended: true })).body.suspended).toBe(true)
    expect((await one.call('GET', '/clients')).status).toBe(403)
    const change = { suspended: false, mail_quota_bytes: 5 }
    expect((await adminCall('PATCH', path, change)).body).toMatchObject(change)
    expect((await one.call('GET', '/clients')).status).toBe(200)
    expect(await sql('SELECT action FROM admin_log WHERE company_id = ?', one.id)).toEqual([
      { action: 'companies.update:suspended' },
      { action: 'companies.update:mail_quota_bytes,suspended' },
    ])
  })

  it.each([
    ['nothing', {}],
    ['another id', { id: 7 }],
    ['text for a flag', { suspended: 'yes' }],
    ['a negative quota', { mail_quota_bytes: -1 }],
  ])('is not changed by %s', async (_, body) => {
    expect((await adminCall('PATCH', `/companies/${company.id}`, body)).status).toBe(400)
  })

  it('that does not exist is not found', async () => {
    expect((await adminCall('GET', '/companies/99999999')).status).toBe(404)
    expect((await adminCall('GET', '/companies/x')).status).toBe(404)
  })
})

describe('the usage of a company', () => {
  it('sums its tokens’ requests, refusals and database time, by hour', async () => {
    const one = await mintCompany()
    for (let i = 0; i < 3; i++) await one.call('GET', '/clients')
    await expectUsed(one)
    const { body } = await adminCall('GET', `/companies/${one.id}/usage`)
    expect(body.data).toHaveLength(24)
    expect(body.totals.requests).toBeGreaterThanOrEqual(3)
    expect(body.data.at(-1).requests + body.data.at(-2).requests).toBe(body.totals.requests)
    expect(body).toMatchObject({ totals: { refused: 0 }, incomplete: false })
    const { body: other } = await adminCall('GET', `/companies/${(await mintCompany()).id}/usage?hours=1`)
    expect(other).toMatchObject({ totals: { requests: 0 }, incomplete: false })
  })

  it('says when a counter cannot be read', async () => {
    await company.call('GET', '/clients')
    await expectUsed(company)
    const RATE_LIMITER = { getByName: () => ({ usage: () => Promise.reject(new Error('down')) }) }
    const { body } = await adminCallWith({ RATE_LIMITER }, 'GET', `/companies/${company.id}/usage`)
    expect(body).toMatchObject({ totals: { requests: 0 }, incomplete: true })
  })

  it('asks the counters of 100 tokens, and says when more were used', async () => {
    const { id } = await mintCompany()
    const insertion = `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at, last_used_at)
      SELECT ?1, ?2 || value, 'Used', '[]', ?3, ?3 FROM json_each(?4)`
    let usedAt = Date.now()
    const use = (name: string, count: number) =>
      sql(insertion, id, `${id}-${name}`, usedAt++, JSON.stringify(Array.from({ length: count }, (_, index) => index)))
    const asked = new Set<string>()
    const usageOf = (name: string) => {
      asked.add(name)
      return []
    }
    const RATE_LIMITER = { getByName: (name: string) => ({ usage: () => usageOf(name) }) }
    const isIncomplete = async () => {
      asked.clear()
      const { body } = await adminCallWith({ RATE_LIMITER }, 'GET', `/companies/${id}/usage`)
      return [body.incomplete, asked.size]
    }
    await use('a', 100)
    expect(await isIncomplete()).toEqual([false, 100])
    await use('b', 1)
    expect(await isIncomplete()).toEqual([true, 100])
    // The oldest use is left out.
    expect(asked).toContain(`${id}-b0`)
  })
})

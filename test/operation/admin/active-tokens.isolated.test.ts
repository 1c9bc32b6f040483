import { describe, expect, it } from 'vitest'
import { adminCall } from '../../support/admin.ts'
import { call, mintCompany, mintToken, sql } from '../../support/app.ts'

const MAX = 50
const LATER = Date.UTC(2090, 0, 1)

// The first company of the database, which is full, too.
await fill((await mintCompany()).id, MAX)

/** Adds active tokens to the one that the company has, until there are so many. */
async function fill(companyId: number, count: number): Promise<void> {
  await sql(
    `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at)
      WITH RECURSIVE n(value) AS (SELECT 2 UNION ALL SELECT value + 1 FROM n WHERE value < ?2)
      SELECT ?1, 'hash' || ?1 || '-' || value, 'filled', '[]', 0 FROM n`,
    companyId,
    count,
  )
}

async function open(count: number) {
  const { id, token } = await mintCompany()
  await fill(id, count)
  const [own] = await sql<{ id: number }>("SELECT id FROM api_tokens WHERE company_id = ? AND name = 'test'", id)
  const path = `/companies/${id}/tokens`
  const counted = `SELECT count(*) AS active FROM api_tokens
    WHERE company_id = ?1 AND revoked_at IS NULL AND coalesce(expires_at, 9e15) > ?2`
  const active = async () => (await sql<{ active: number }>(counted, id, Date.now()))[0]?.active
  return {
    id,
    token,
    ownId: own?.id ?? 0,
    active,
    create: () => adminCall('POST', path, { name: 'One more' }),
    rotate: (tokenId: number, overlap_seconds: number) =>
      adminCall('POST', `${path}/${tokenId}/rotate`, { overlap_seconds }),
    revoke: (tokenId: number) => adminCall('DELETE', `${path}/${tokenId}`),
  }
}

describe('a company', () => {
  it('has at most 50 active tokens; the 51st is refused and says what to do', async () => {
    const company = await open(MAX - 1)
    expect((await company.create()).status).toBe(200)
    const { status, body } = await company.create()
    expect([status, body.error.message]).toEqual([409, 'The company has 50 active tokens: revoke one first'])
    expect(await company.active()).toBe(MAX)
  })

  it('does not get more by requests at the same time', async () => {
    const company = await open(MAX - 3)
    const all = await Promise.all([
      ...Array.from({ length: 8 }, () => company.create()),
      ...Array.from({ length: 3 }, () => company.rotate(company.ownId, 60)),
    ])
    expect(all.filter(({ status }) => status === 200)).toHaveLength(3)
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200, 409]))
    expect(await company.active()).toBe(MAX)
  })

  it.each([60, 0])('gets one successor by rotations at the same time, with %i s of overlap', async (overlap) => {
    const company = await open(5)
    const all = await Promise.all(Array.from({ length: 4 }, () => company.rotate(company.ownId, overlap)))
    // Without an overlap a later request finds it expired.
    const message = expect.stringMatching(/was already rotated|is revoked or expired/)
    const refusals = all.filter(({ status }) => status !== 200)
    expect(refusals).toHaveLength(3)
    for (const refusal of refusals) expect(refusal).toMatchObject({ status: 409, body: { error: { message } } })
    expect(await company.active()).toBe(overlap > 0 ? 6 : 5)
  })

  it('may replace revoked and expired ones, which do not count', async () => {
    const company = await open(MAX)
    await company.revoke(company.ownId)
    expect((await company.create()).status).toBe(200)
    expect((await company.create()).status).toBe(409)
    await sql("UPDATE api_tokens SET expires_at = 1 WHERE company_id = ? AND token_hash LIKE '%-3'", company.id)
    expect((await company.create()).status).toBe(200)
    await sql("UPDATE api_tokens SET expires_at = ? WHERE company_id = ? AND name = 'filled'", LATER, company.id)
    expect((await company.create()).status).toBe(409)
  })
})

describe('a rotation with 50 active tokens', () => {
  it('with an overlap would leave 51: it is refused, says what to do, and leaves the old token as it was', async () => {
    const company = await open(MAX)
    const { status, body } = await company.rotate(company.ownId, 86_400)
    expect([status, body.error.message]).toEqual([
      409,
      'The company has 50 active tokens: revoke one first, or rotate with `overlap_seconds` 0, which ends the old one at once',
    ])
    const [row] = await sql('SELECT expires_at, revoked_at FROM api_tokens WHERE id = ?', company.ownId)
    expect(row).toEqual({ expires_at: null, revoked_at: null })
    expect(await sql('SELECT 1 FROM admin_log WHERE company_id = ?', company.id)).toEqual([])
    expect((await call(company.token, 'GET', '/me')).status).toBe(200)
    expect(await company.active()).toBe(MAX)
  })

  it('without an overlap leaves 50', async () => {
    const company = await open(MAX)
    const { status, body } = await company.rotate(company.ownId, 0)
    expect(status).toBe(200)
    expect((await call(body.token, 'GET', '/me')).status).toBe(200)
    expect((await call(company.token, 'GET', '/me')).status).toBe(401)
    expect(await company.active()).toBe(MAX)
  })

  it('of a token that has ended is refused for that reason', async () => {
    const company = await open(MAX)
    await mintToken(company.id, [], 1)
    const ended = 'SELECT id FROM api_tokens WHERE company_id = ? AND expires_at = 1'
    const [row] = await sql<{ id: number }>(ended, company.id)
    const { status, body } = await company.rotate(row?.id ?? 0, 0)
    expect([status, body.error.message]).toEqual([409, expect.stringContaining('revoked or expired')])
  })
})

import { beforeAll, expect, it } from 'vitest'
import { migrate, mintCompany, sqlIn, type TestCompany } from '../../support/app.ts'

/*
 * The rowids of a full-text table begin with the company's slot. So the company in slot 0, with other clients under the
 * same ids, stands beside two whose slot is another.
 */
const HITS = 1_200
const GAP = 7

let first: number
let companies: [TestCompany, TestCompany]

/** Clients with these ids; the names of all have "Canson", and one in ten has `mark`. */
function fill(companyId: number, ids: number[], mark: string) {
  return sqlIn(
    'DB',
    `INSERT OR IGNORE INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
     SELECT ?1, value, name, upper(name), 0, 0
     FROM (SELECT value, 'Canson ' || iif(value % 10 = 0, ?3, '') || value AS name FROM json_each(?2))`,
    companyId,
    JSON.stringify(ids),
    mark,
  )
}

const idsOf = (count: number) => Array.from({ length: count }, (_, n) => (n + 1) * GAP)

beforeAll(async () => {
  await migrate()
  await mintCompany({ home: 'DB' })
  companies = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB' })]
  const [row] = await sqlIn<{ id: number }>('DB', 'SELECT id FROM companies WHERE slot = 0 AND database IS NULL')
  first = row?.id ?? 0
  expect(companies.map(({ id }) => id)).not.toContain(first)
  await fill(first, idsOf(777), 'first')
  for (const { id } of companies) await fill(id, idsOf(HITS), `of${id}`)
})

async function listOf(company: TestCompany, q: string, page: number) {
  const { status, body } = await company.call('GET', `/clients?q=${encodeURIComponent(q)}&per_page=100&page=${page}`)
  expect(status, JSON.stringify(body)).toBe(200)
  return { total: body.pagination.total, ids: body.data.map(({ id }: { id: number }) => id) }
}

it.each(['canson', 'cans', 'a', 'on'])(
  'finds and counts all clients of a company whose slot is not 0: %s',
  async (q) => {
    const newest = idsOf(HITS).reverse()
    for (const company of companies) {
      for (const page of [1, 6, 12, 13, 12, 1]) {
        const expected = { total: HITS, ids: newest.slice((page - 1) * 100, page * 100) }
        expect(await listOf(company, q, page), `page ${page}`).toEqual(expected)
      }
    }
  },
)

it('tells a company nothing of which clients of another match a text', async () => {
  const marked = idsOf(HITS).filter((id) => id % 10 === 0)
  const [one, other] = companies
  for (const company of companies) {
    expect(await listOf(company, 'first', 1)).toEqual({ total: 0, ids: [] })
    const expected = company === one ? marked.length : 0
    expect((await listOf(company, `of${one.id}`, 1)).total).toBe(expected)
    expect((await listOf(company, `of${other.id}`, 1)).total).toBe(marked.length - expected)
  }
})

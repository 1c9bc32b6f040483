import { env } from 'cloudflare:workers'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FIRST_ID, issuesOf, mintCompany, request, send, sql } from '../../support/app.ts'
import { byKeys, expectPages, type Listed, walk } from '../../support/lists.ts'
import { meterBindings } from '../../support/meter.ts'

interface Row extends Listed {
  name: string
  digits: string
  deleted: 0 | 1
  external_id: string | null
  created_at: number
  updated_at: number
}

const rows: Row[] = Array.from({ length: 60 }, (_, n) => ({
  id: FIRST_ID + 100 + n,
  name: ['Harbor Club', 'Überdruck', 'Harbor Überdruck', 'Z'][(n * 7) % 4] ?? '',
  digits: n % 3 === 0 ? `5550${n}` : '',
  deleted: n % 5 === 1 ? 1 : 0,
  external_id: n % 2 ? `E-${n}` : null,
  created_at: ((n * 13) % 7) * 1000,
  updated_at: ((n * 29) % 11) * 1000,
}))

const company = await mintCompany()
await sql(
  `INSERT INTO clients (company_id, id, company_name, company_name_key, phone, phone_key, phone_digits, deleted, external_id, created_at, updated_at)
   SELECT ?1, value ->> 'id', value ->> 'name', value ->> 'key', value ->> 'phone', value ->> 'phone', value ->> 'digits',
     value ->> 'deleted', value ->> 'external_id', value ->> 'created_at', value ->> 'updated_at' FROM json_each(?2)`,
  company.id,
  JSON.stringify(rows.map((row) => ({ ...row, key: row.name.toUpperCase(), phone: Array.from(row.digits).join(' ') }))),
)

interface Query {
  sort?: 'id' | '-id' | 'created_at' | '-created_at' | 'updated_at' | '-updated_at' | undefined
  deleted?: 'exclude' | 'include' | 'only' | undefined
  updated_since?: string | undefined
  external_id?: string | undefined
  q?: string | undefined
}

const column = (sort: string) => sort.replace('-', '') as 'id' | 'created_at' | 'updated_at'

function expected({ sort = '-id', deleted = 'exclude', updated_since, external_id, q = '' }: Query): number[] {
  return rows
    .filter((row) => deleted === 'include' || row.deleted === Number(deleted === 'only'))
    .filter((row) => updated_since === undefined || row.updated_at >= Date.parse(updated_since))
    .filter((row) => external_id === undefined || row.external_id === external_id)
    .filter((row) => [row.name.toUpperCase(), row.digits].some((text) => text.includes(q.toUpperCase())))
    .sort(byKeys((row) => [row[column(sort)], row.id], sort.startsWith('-') ? -1 : 1))
    .map(({ id }) => id)
}

const queries = fc.record(
  {
    sort: fc.constantFrom('id', '-id', 'created_at', '-created_at', 'updated_at', '-updated_at'),
    deleted: fc.constantFrom('exclude', 'include', 'only'),
    updated_since: fc.constantFrom('1970-01-01T00:00:03Z', '1970-01-01T02:00:05.000+02:00', '2030-01-01T00:00:00Z'),
    external_id: fc.constantFrom('E-7', 'E-11', 'E-8'),
    q: fc.constantFrom('harbor', 'übe', 'Ü', 'z', '555', '55', '5', 'harbor ü', 'nobody'),
  },
  { requiredKeys: [] },
)

describe('the list of clients with sort and filters', () => {
  it('has, in every combination, the same elements by number and by cursor', async () => {
    await fc.assert(
      fc.asyncProperty(queries, fc.integer({ min: 1, max: 30 }), (query, perPage) =>
        expectPages(company, '/clients', query, perPage, expected(query)),
      ),
      { numRuns: 80 },
    )
  })

  it.each([1, 2, 3])('has page %i of hits that are deleted and others', async (page) => {
    const query = { q: 'harbor', deleted: 'include', sort: 'created_at' } as const
    const { body } = await company.call('GET', `/clients?${new URLSearchParams(query)}&per_page=7&page=${page}`)
    expect(body.data.map(({ id }: Listed) => id)).toEqual(expected(query).slice(7 * (page - 1), 7 * page))
  })

  it('has every page of more hits than are gathered, behind a filter that another index has', async () => {
    const many = await mintCompany()
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1300)
       INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
       SELECT ?1, i, 'Harbor', ?2 || iif(i % 100 = 7, 'NORTH', 'HARBOR') || i, 0, 1300 - i FROM n`,
      many.id,
      'E'.repeat(30),
    )
    const since = 'updated_since=1970-01-01T00:00:00Z'
    // Only the start of a long text is matched by the index.
    const long = `q=${'e'.repeat(30)}h`
    const texts = ['q=harbor&sort=created_at', 'q=a&sort=id', `${long}&sort=created_at`, `${long}&sort=id`, long]
    for (const query of [...texts, `${since}&sort=id`, `${since}&q=harbor`]) {
      const ids = Array.from({ length: 1300 }, (_, n) => n + 1).filter((id) => !query.includes('q=') || id % 100 !== 7)
      if (!query.includes('sort')) ids.reverse()
      const { elements, total } = await walk(many, '/clients', {
        ...Object.fromEntries(new URLSearchParams(query)),
        per_page: 100,
      })
      expect({ ids: elements.map(({ id }) => id), total }, query).toEqual({ ids, total: ids.length })
    }
  })

  it('reads few rows for a long text whose start many rows have', async () => {
    const many = await mintCompany()
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1300)
       INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
       SELECT ?, i, 'Harbor', 'REGIONAL SPORTS ASSOCIATION OF CITY ' || i, 0, 0 FROM n`,
      many.id,
    )
    const { env: metered, take } = meterBindings(env)
    const path = '/clients?q=regional sports association of city 777'
    const { body } = await send(request(many.token, 'GET', path), { env: metered })
    expect([body.pagination.total, take().rowsRead < 100]).toEqual([1, true])
  })

  it.each([
    ['sort=name', 'sort'],
    ['sort=', 'sort'],
    ['sort=id&sort=-id', 'sort'],
    ['deleted=yes', 'deleted'],
    ['updated_since=2026-01-31', 'updated_since'],
    ['updated_since=2026-01-31T12:00:00', 'updated_since'],
    ['updated_since=2026-02-30T12:00:00Z', 'updated_since'],
    ['external_id=', 'external_id'],
    [`external_id=${'x'.repeat(256)}`, 'external_id'],
    ['expand=client', 'expand'],
  ])('refuses %s', async (query, path) => {
    expect(issuesOf(await company.call('GET', `/clients?${query}`))).toEqual([path])
  })

  it('takes a + of updated_since that was not encoded', async () => {
    const { body } = await company.call('GET', '/clients?updated_since=1970-01-01T02:00:05+02:00&per_page=100')
    expect(body.data.map(({ id }: Listed) => id)).toEqual(expected({ updated_since: '1970-01-01T00:00:05Z' }))
  })
})

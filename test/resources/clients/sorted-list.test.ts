import { env } from 'cloudflare:workers'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { clientsOf, emptyModel, type ListQuery, sortedIds } from '../../model/company.ts'
import { columnsOfClient } from '../../model/shop.ts'
import { eachValue, firstId, issuesOf, mintCompany, request, send, sql } from '../../support/app.ts'
import { COMMON_PARAMETERS, expectPages, idsOf, walk } from '../../support/lists.ts'
import { meterBindings } from '../../support/meter.ts'
import { insertions } from '../../support/rows.ts'

const company = await mintCompany()
const model = emptyModel()
for (let n = 0; n < 60; n++) {
  const company_name = ['Harbor Club', 'Überdruck', 'Harbor Überdruck', 'Z'][(n * 7) % 4] ?? ''
  model.clients.set(n, {
    ...{ id: firstId() + 100 + n, company_name, first_name: null, last_name: null, email: null, version: 1 },
    phone: n % 3 === 0 ? Array.from(`5550${n}`).join(' ') : null,
    deleted: n % 5 === 1,
    external_id: n % 2 ? `E-${n}` : null,
    created_at: ((n * 13) % 7) * 1000,
    updated_at: ((n * 29) % 11) * 1000,
  })
}
const rows = Array.from(model.clients.values(), (row) => ({ company_id: company.id, ...columnsOfClient(row) }))
await insertions('clients', rows, {})

type Query = Omit<ListQuery, 'updated_since'> & { updated_since?: string }

function expected({ sort = '-id', updated_since, ...query }: Query): number[] {
  const since = updated_since === undefined ? {} : { updated_since: Date.parse(updated_since) }
  return sortedIds(clientsOf(model, { ...query, ...since }), sort)
}

const queries = fc.record(
  { ...COMMON_PARAMETERS, q: fc.constantFrom('harbor', 'übe', 'Ü', 'z', '555', '55', '5', 'harbor ü', 'nobody') },
  { requiredKeys: [] },
)

/** A company with 1,300 clients, whose names are searched as this SQL of their number `i`. */
async function mintMany(nameKey: string) {
  const many = await mintCompany()
  await sql(
    `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1300)
     INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
     SELECT ?1, i, 'Harbor', ${nameKey}, 0, 1300 - i FROM n`,
    many.id,
  )
  return many
}

describe('the list of clients with sort and filters', () => {
  it('has, in every combination, the same elements by number and by cursor', async () => {
    await fc.assert(
      fc.asyncProperty(queries, fc.integer({ min: 1, max: 30 }), (query, perPage) =>
        expectPages(company, '/clients', query, perPage, expected(query)),
      ),
      {
        numRuns: 80,
        examples: [
          [{ q: 'harbor', deleted: 'include', sort: 'created_at' }, 7],
          [{ q: '555', deleted: 'include', sort: 'created_at' }, 7],
        ],
      },
    )
  })

  it('is newest first, 25 a page by default, with the exact total', async () => {
    const list = async (query: string) => (await company.call('GET', `/clients${query}`)).body
    const [first, second] = [await list(''), await list('?page=2')]
    expect([...idsOf(first.data), ...idsOf(second.data)]).toEqual(expected({}))
    const page = { per_page: 25, total: 48, next_cursor: null, has_more: false }
    expect(first.pagination).toEqual({ ...page, page: 1, next_cursor: expect.any(String), has_more: true })
    expect(second.pagination).toEqual({ ...page, page: 2 })
    expect(await list('?page=99')).toEqual({ data: [], pagination: { ...page, page: 99 } })
    for (const blank of ['?q=', '?q=%20%09', '?q=%00', '?q=%20%1F']) {
      expect(await list(blank)).toMatchObject({ data: first.data, pagination: { total: 48 } })
    }
  })

  it('has every page of more hits than are gathered, behind a filter that another index has', async () => {
    const many = await mintMany(`'${'E'.repeat(30)}' || iif(i % 100 = 7, 'NORTH', 'HARBOR') || i`)
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
      expect({ ids: idsOf(elements), total }, query).toEqual({ ids, total: ids.length })
    }
  })

  it('reads few rows for a long text whose start many rows have', async () => {
    const many = await mintMany("'REGIONAL SPORTS ASSOCIATION OF CITY ' || i")
    const { env: metered, take } = meterBindings(env)
    const path = '/clients?q=regional sports association of city 777'
    const { body } = await send(request(many.token, 'GET', path), { env: metered })
    expect([body.pagination.total, take().rowsRead < 100]).toEqual([1, true])
  })

  it.each(
    eachValue([
      ['sort', 'name', '', 'id&sort=-id'],
      ['deleted', 'yes'],
      ['updated_since', '2026-01-31', '2026-01-31T12:00:00', '2026-02-30T12:00:00Z'],
      ['external_id', '', 'x'.repeat(256)],
      ['expand', 'client'],
    ]),
  )('refuses %s=%s', async (name, value) => {
    expect(issuesOf(await company.call('GET', `/clients?${name}=${value}`))).toEqual([name])
  })

  it('takes a + of updated_since that was not encoded', async () => {
    const { body } = await company.call('GET', '/clients?updated_since=1970-01-01T02:00:05+02:00&per_page=100')
    expect(idsOf(body.data)).toEqual(expected({ updated_since: '1970-01-01T00:00:05Z' }))
  })
})

import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { call, migrate, mintCompany, mintToken, request, send, sql, type TestCompany } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'

/*
 * Lists of thousands, beyond what a filter gathers: every page of them, and what they cost. The ids have gaps.
 */
const CLIENTS = 9_000
const GAP = 7

/** Texts that nearly all, half, few and none of the clients contain. */
const SEARCHES = ['a', 'on', '.example', 'cansoN', 'odd', 'z', 'zz', 'zebra', '7', '55', '555', '(555)', 'qqq', 'ß']

let company: TestCompany
let neighbour: TestCompany
/** The texts of each client that is not deleted, by id. */
const texts = new Map<number, string[]>()

/** Tokens are replaced before they reach their rate limit. */
let tokens: string[] = []
let calls = 0

async function tokenOf({ id }: TestCompany): Promise<string> {
  if (calls++ % 200 === 0) tokens = []
  tokens[id] ??= await mintToken(id)
  return tokens[id]
}

async function callApi(method: string, path: string, body?: unknown) {
  const response = await call(await tokenOf(company), method, path, body)
  expect(response.status, path).toBe(200)
  return response.body
}

interface Fields {
  company_name: string
  email: string
  phone: string
}

function fieldsOf(n: number): Fields {
  const kind = n % 2 === 0 ? 'Even' : 'Odd'
  return {
    company_name: `${kind} Canson ${n}${n % 500 === 0 ? ' zebra zz' : ''}`,
    email: `mail${n}@shop.example`,
    phone: `(555) ${n}`,
  }
}

function textsOf({ company_name, email, phone }: Fields): string[] {
  return [company_name, email, phone, phone.replaceAll(/\D/g, '')].map((text) => text.toLowerCase())
}

async function fill(companyId: number, ids: number[], rowOf: (n: number) => Fields): Promise<void> {
  const rows = ids.map((id, n) => ({ id, ...rowOf(n), digits: rowOf(n).phone.replaceAll(/\D/g, '') }))
  await sql(
    `INSERT INTO clients (company_id, id, company_name, company_name_key, email, email_key, phone, phone_key, phone_digits,
       created_at, updated_at)
     SELECT ?1, value ->> 'id', value ->> 'company_name', upper(value ->> 'company_name'), value ->> 'email',
       upper(value ->> 'email'), value ->> 'phone', value ->> 'phone', value ->> 'digits', 0, 0 FROM json_each(?2)`,
    companyId,
    JSON.stringify(rows),
  )
}

beforeAll(async () => {
  await migrate()
  company = await mintCompany()
  neighbour = await mintCompany()
  const ids = Array.from({ length: CLIENTS }, (_, n) => (n + 1) * GAP)
  for (let from = 0; from < CLIENTS; from += 3_000) {
    await fill(company.id, ids.slice(from, from + 3_000), (n) => fieldsOf(n + from))
  }
  for (const [n, id] of ids.entries()) texts.set(id, textsOf(fieldsOf(n)))
  await fill(neighbour.id, [1, 2, 3, 5_000, 9_000], fieldsOf)
}, 60_000)

function idsOf(q: string): number[] {
  return [...texts]
    .filter(([, fields]) => fields.some((text) => text.includes(q.toLowerCase())))
    .map(([id]) => id)
    .sort((a, b) => b - a)
}

async function expectPage(q: string, perPage: number, page: number): Promise<void> {
  const path = `/clients?q=${encodeURIComponent(q)}&per_page=${perPage}&page=${page}`
  const body = await callApi('GET', path)
  const expected = idsOf(q)
  expect(body.pagination.total, path).toBe(expected.length)
  const ids = body.data.map(({ id }: { id: number }) => id)
  expect(ids, path).toEqual(expected.slice((page - 1) * perPage, page * perPage))
}

/** The first, a middle, the last and a page behind the last, of short and long pages. */
async function expectPages(q: string): Promise<void> {
  for (const perPage of [1, 7, 100]) {
    const pages = Math.ceil(idsOf(q).length / perPage)
    for (const page of new Set([1, Math.max(1, pages >> 1), Math.max(1, pages), pages + 1, 1_000_000])) {
      await expectPage(q, perPage, page)
    }
  }
}

/** The rows that the database reads for one request. */
async function rowsReadBy(from: TestCompany, path: string): Promise<number> {
  let rowsRead = 0
  const DB = new Proxy(env.DB, {
    get: (target, name) => {
      if (name !== 'withSession') return Reflect.get(target, name).bind(target)
      return (mark: string) => {
        const session = target.withSession(mark)
        const batch = async (statements: D1PreparedStatement[]) => {
          const results = await session.batch(statements)
          rowsRead += results.reduce((sum, { meta }) => sum + meta.rows_read, 0)
          return results
        }
        return { prepare: session.prepare.bind(session), batch, getBookmark: session.getBookmark.bind(session) }
      }
    },
  })
  const bindings: Env = { ...env, DB }
  expect((await send(request(await tokenOf(from), 'GET', path), { env: bindings })).status).toBe(200)
  return rowsRead
}

describe('a list of thousands', () => {
  it('has every page and the exact total, unfiltered and for each search', async () => {
    for (const q of ['', ...SEARCHES]) await expectPages(q)
  }, 60_000)

  it('has every client exactly once on its pages, in order', async () => {
    for (const q of ['', 'odd', 'on']) {
      const ids: number[] = []
      for (let page = 1; ids.length < idsOf(q).length; page++) {
        const body = await callApi('GET', `/clients?q=${q}&per_page=100&page=${page}`)
        expect(body.data.length).toBeGreaterThan(0)
        ids.push(...body.data.map(({ id }: { id: number }) => id))
      }
      expect(ids, q).toEqual(idsOf(q))
    }
  }, 60_000)

  it('stays exact when clients change', async () => {
    const ids = [...texts.keys()]
    for (const [step, at] of [3, 8_999, 4_000, 0, 6_001].entries()) {
      const id = ids[at] ?? 0
      await callApi('PATCH', `/clients/${id}`, { company_name: 'Zebra', email: null, phone: null })
      texts.set(id, ['zebra'])
      const gone = ids[at === 0 ? 17 : at - 2] ?? 0
      await callApi('PATCH', `/clients/${gone}`, { deleted: true })
      const before = texts.get(gone) ?? []
      texts.delete(gone)
      const fields = fieldsOf(20_000 + step)
      const body = await callApi('POST', '/clients', fields)
      texts.set(body.client.id, textsOf(fields))
      for (const q of ['', ...SEARCHES]) await expectPages(q)
      await callApi('PATCH', `/clients/${gone}`, { deleted: false })
      texts.set(gone, before)
      for (const q of ['', 'a', 'canson']) await expectPage(q, 25, 200)
    }
  }, 120_000)

  it('reads few rows for a first page, and in a search with few hits', async () => {
    expect(await rowsReadBy(company, '/clients?per_page=100')).toBeLessThan(250)
    for (const q of ['z', 'zz', 'zebra', 'qq', 'qqq', 'ß', '(555) 4321']) {
      expect(idsOf(q).length, q).toBeLessThan(30)
      expect(await rowsReadBy(company, `/clients?q=${encodeURIComponent(q)}`), q).toBeLessThan(150)
    }
  })

  it('reads the hits of a search once for its page and once for its total', async () => {
    for (const q of ['a', 'on', 'canson', '.example', '555']) {
      for (const page of [1, 45, 90, 1_000_000]) {
        const path = `/clients?q=${encodeURIComponent(q)}&per_page=100&page=${page}`
        expect(await rowsReadBy(company, path), path).toBeLessThan(2.5 * CLIENTS)
      }
    }
  })

  it('waits for one batch in any search', async () => {
    const token = await mintToken(company.id)
    const depthOf = async (q: string) => {
      const { response, depth } = await measureHops(request(token, 'GET', `/clients?q=${q}`))
      expect(response.status).toBe(200)
      return depth
    }
    await measureHops(request(token, 'GET', '/clients'))
    expect([await depthOf('shop.exampl'), await depthOf('a'), await depthOf('zebra')]).toEqual([2, 2, 2])
  })

  it('does not raise the cost of searches of a small neighbour company', async () => {
    for (const q of SEARCHES) {
      expect(await rowsReadBy(neighbour, `/clients?q=${encodeURIComponent(q)}`), q).toBeLessThan(100)
    }
    const { body } = await neighbour.call('GET', '/clients?q=on')
    expect(body.data.map(({ id }: { id: number }) => id)).toEqual([9_000, 5_000, 3, 2, 1])
    expect(body.pagination.total).toBe(5)
  })
})

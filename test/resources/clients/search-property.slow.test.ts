import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, mintCompany, sql, type TestCompany } from '../../support/app.ts'

beforeAll(migrate)

/** A small alphabet, so that random searches hit, with its cases written out by hand instead of by `fold`. */
const CASES: Record<string, string> = {
  a: 'a',
  A: 'a',
  b: 'b',
  B: 'b',
  é: 'é',
  É: 'é',
  'e\u0301': 'é',
  σ: 'σ',
  Σ: 'σ',
  ς: 'σ',
  ж: 'ж',
  Ж: 'ж',
  ß: 'ss',
  ẞ: 'ss',
  s: 's',
  S: 's',
  漢: '漢',
  字: '字',
  '🧵': '🧵',
  ' ': ' ',
  '"': '"',
  '%': '%',
  _: '_',
  '*': '*',
  "'": "'",
  '-': '-',
  '(': '(',
  1: '1',
  2: '2',
  '\\': '\\',
  ':': ':',
  x: 'x',
  '👩‍🎨': '👩‍🎨',
}
const text = (min: number, max: number) =>
  fc.array(fc.constantFrom(...Object.keys(CASES)), { minLength: min, maxLength: max }).map((list) => ({
    sent: list.join(''),
    plain: list
      .map((character) => CASES[character])
      .join('')
      .trim(),
  }))
/** A field that is set: not only spaces. */
const filled = text(1, 8).filter(({ plain }) => plain !== '')
const phone = fc
  .array(fc.constantFrom('1', '2', '(', ')', '-', ' ', '+'), { minLength: 1, maxLength: 9 })
  .map((list) => list.join('').trim())
  .filter((value) => value !== '')
  .map((value) => ({ sent: value, plain: value }))

type Text = { sent: string; plain: string } | null
interface Client {
  company_name: Text
  first_name: Text
  last_name: Text
  email: Text
  phone: Text
  deleted: boolean
}
const nullable = (arbitrary: fc.Arbitrary<Text>) => fc.option(arbitrary, { nil: null })
const email = fc
  .constantFrom('a.b@ab.example', 'Aa1@b.example', 's-s@2.example')
  .map((value) => ({ sent: value, plain: value.toLowerCase() }))
const fields: { [K in keyof Client]: fc.Arbitrary<Client[K]> } = {
  company_name: filled,
  first_name: nullable(filled),
  last_name: nullable(filled),
  email: nullable(email),
  phone: nullable(phone),
  deleted: fc.boolean(),
}

/** The definition of a match, applied to each client. */
function naive(q: string, client: Client): boolean {
  if (client.deleted) return false
  const { company_name, first_name, last_name, email, phone } = client
  const both = first_name && last_name ? `${first_name.plain} ${last_name.plain}` : ''
  const texts = [company_name?.plain, first_name?.plain, last_name?.plain, both, email?.plain, phone?.plain]
  if (texts.some((each) => each?.includes(q))) return true
  const digits = q.replaceAll(/\D/g, '')
  const isPhone = /^[\d ()+-]+$/.test(q) && (digits.length >= 3 || (digits === q && q !== ''))
  return isPhone && (phone?.plain.replaceAll(/\D/g, '') ?? '').includes(digits)
}

function bodyOf(change: Partial<Client>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(change).map(([name, value]) => [name, typeof value === 'object' && value ? value.sent : value]),
  )
}

async function searchAll(company: TestCompany, q: string, perPage: number) {
  const ids: number[] = []
  let total = -1
  for (let page = 1; total < 0 || (page - 1) * perPage < total; page++) {
    const path = `/clients?q=${encodeURIComponent(q)}&per_page=${perPage}&page=${page}`
    const { body } = await company.call('GET', path)
    total = body.pagination.total
    expect(body.data.length).toBe(Math.max(0, Math.min(perPage, total - (page - 1) * perPage)))
    ids.push(...body.data.map((client: { id: number }) => client.id))
  }
  expect(ids).toHaveLength(total)
  return ids
}

describe('a search over random clients', () => {
  it('finds what the definition says after creations, updates, deletions and restorations', async () => {
    const change = fc.record(fields, { requiredKeys: [] }).filter((each) => Object.keys(each).length > 0)
    const scenario = fc.record({
      clients: fc.array(fc.record(fields), { minLength: 1, maxLength: 10 }),
      changes: fc.array(fc.tuple(fc.nat(), change), { maxLength: 10 }),
      searches: fc.array(fc.oneof(text(1, 1), text(2, 2), text(1, 4), phone), { minLength: 12, maxLength: 12 }),
      perPage: fc.constantFrom(2, 3, 100),
    })
    await fc.assert(
      fc.asyncProperty(scenario, async ({ clients, changes, searches, perPage }) => {
        const company = await mintCompany()
        const state = new Map<number, Client>()
        for (const client of clients) {
          const { body } = await company.call('POST', '/clients', bodyOf(client))
          state.set(body.client.id, client)
        }
        const ids = [...state.keys()]
        for (const [at, change] of changes) {
          const id = ids[at % ids.length] ?? 0
          const before = state.get(id)
          expect((await company.call('PATCH', `/clients/${id}`, bodyOf(change))).status).toBe(200)
          if (before) state.set(id, { ...before, ...change })
        }
        // Whole fields and pieces of them, so that there is always something to find.
        const pieces = [...state.values()].flatMap(({ company_name, last_name, phone }) =>
          [company_name, last_name, phone].flatMap((each) =>
            each
              ? [
                  each.plain,
                  ...[1, 2, 4].map((end) =>
                    Array.from(each.plain)
                      .slice(1, 1 + end)
                      .join(''),
                  ),
                ]
              : [],
          ),
        )
        for (const q of [...searches.map(({ sent }) => sent), ...pieces.slice(0, 16)]) {
          const plain = [...q.normalize('NFC').trim()]
            .map((character) => CASES[character] ?? character)
            .join('')
            .trim()
          if (plain === '') continue
          const expected = ids.filter((id) => naive(plain, state.get(id) ?? unreachable())).sort((a, b) => b - a)
          expect(await searchAll(company, q, perPage), q).toEqual(expected)
        }
        const live = [...state.values()].filter(({ deleted }) => !deleted).length
        expect((await company.call('GET', '/clients')).body.pagination.total).toBe(live)
        const counted = await sql('SELECT client_count FROM companies WHERE id = ?', company.id)
        expect(counted).toEqual([{ client_count: live }])
      }),
      { numRuns: 12 },
    )
  }, 60_000)
})

function unreachable(): never {
  throw new Error('unreachable')
}

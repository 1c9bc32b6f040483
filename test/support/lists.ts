import fc from 'fast-check'
import { expect } from 'vitest'
import type { TestCompany } from './app.ts'

/** An element of a list, as far as tests compare it. */
export interface Listed {
  id: number
}

export const idsOf = (rows: readonly Listed[]): number[] => rows.map(({ id }) => id)

/** Parameters that the lists of clients and orders share. */
export const COMMON_PARAMETERS = {
  sort: fc.constantFrom('id', '-id', 'created_at', '-created_at', 'updated_at', '-updated_at'),
  deleted: fc.constantFrom('exclude', 'include', 'only'),
  updated_since: fc.constantFrom('1970-01-01T00:00:03Z', '1970-01-01T02:00:05.000+02:00', '2030-01-01T00:00:00Z'),
  external_id: fc.constantFrom('E-7', 'E-11', 'E-13', 'E-8'),
}

/** A path with its query; undefined values are left out. */
export function pathOf(list: string, query: Record<string, string | number | undefined>): string {
  const sent = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, `${value}`]]))
  return `${list}?${new URLSearchParams(sent)}`
}

/**
 * Every element of a list, page by page through the cursors; `between` runs before each page but the first. Checks that
 * the pages agree with each other.
 */
export async function walk<T extends Listed>(
  company: TestCompany,
  list: string,
  query: Record<string, string | number | undefined>,
  between: () => Promise<unknown> = async () => undefined,
): Promise<{ elements: T[]; total: number }> {
  const elements: T[] = []
  let total: number | undefined
  let cursor: string | undefined
  for (let page = 1; ; page++) {
    const { status, body, headers } = await company.call('GET', pathOf(list, { ...query, cursor }))
    expect(status, JSON.stringify(body)).toBe(200)
    elements.push(...body.data)
    total ??= body.pagination.total
    expect(body.pagination).toEqual({
      page,
      per_page: Number(query.per_page ?? 25),
      total,
      next_cursor: body.pagination.has_more ? expect.any(String) : null,
      has_more: body.pagination.has_more,
    })
    const next = pathOf(`https://api.test/api/v1${list}`, {
      ...query,
      page: undefined,
      cursor: body.pagination.next_cursor,
    })
    const link = headers.get('link')
    cursor = body.pagination.next_cursor ?? undefined
    if (cursor === undefined) {
      expect(link).toBeNull()
      return { elements, total: total ?? 0 }
    }
    expect(new URL(/^<(.*)>; rel="next"$/.exec(link ?? '')?.[1] ?? '').href).toBe(new URL(next).href)
    expect(body.data).toHaveLength(Number(query.per_page ?? 25))
    await between()
  }
}

/** The list has exactly these elements: through its cursors, and on one page by number, near the end or far beyond it. */
export async function expectPages<Q extends object>(
  company: TestCompany,
  list: string,
  sent: Q,
  per_page: number,
  ids: number[],
): Promise<void> {
  const query = { ...sent, per_page }
  const { elements, total } = await walk(company, list, query)
  expect({ ids: idsOf(elements), total }).toEqual({ ids, total: ids.length })
  const pages = Math.ceil(ids.length / per_page)
  const page = Math.max(1, [1, pages - 1, pages, pages + 1, 1_000_000][(ids.length + per_page) % 5] ?? 1)
  const { body } = await company.call('GET', pathOf(list, { ...query, page }))
  expect(idsOf(body.data)).toEqual(ids.slice((page - 1) * per_page, page * per_page))
  expect(body.pagination).toMatchObject({ total: ids.length, has_more: ids.length > page * per_page })
}

/** Compares by several values, one after the other. */
export function byKeys<T>(keys: (row: T) => readonly (string | number)[], direction: 1 | -1 = 1) {
  return (a: T, b: T): number => {
    const [left, right] = [keys(a), keys(b)]
    const index = left.findIndex((value, at) => value !== right[at])
    return index === -1 ? 0 : direction * ((left[index] ?? 0) < (right[index] ?? 0) ? -1 : 1)
  }
}

import { expect } from 'vitest'
import { type ApiResponse, expect200 } from '../support/app.ts'
import { pathOf } from '../support/lists.ts'

/** A list of the API beside the one of the model. */
export interface ListSpec<R> {
  path: string
  send: (path: string) => Promise<ApiResponse>
  query: Record<string, string | number | undefined>
  limit: number
  /** The model's rows as they are now, in any order. */
  rows: () => R[]
  /** The order of the list, which no change during the walk affects. */
  compare: (a: R, b: R) => number
  /** The response's element, or a part of it. */
  show: (row: R) => unknown
  /** Of the first page of a list that has a total. */
  page?: number
  /** Whether a page that is not the last may have fewer elements, or none. */
  mayBeShort?: boolean
  /** Of a list that reads so many rows for a page, listed or not: all that it may read, in any order. */
  scanned?: { rows: () => R[]; limit: number }
}

/** A walk through a list by its cursors. Between its pages anything may be written. */
export class Walk<R> {
  readonly spec: ListSpec<R>
  /** The last row that was met. */
  private last: R | undefined
  private cursor: string | undefined
  private total: number | undefined
  private page: number

  constructor(spec: ListSpec<R>) {
    this.spec = spec
    this.page = spec.page ?? 1
  }

  /** The address of the next page. */
  get address(): string {
    const { path, query, limit, page } = this.spec
    const sent = { ...query, per_page: limit, ...(this.cursor === undefined ? { page } : { cursor: this.cursor }) }
    return pathOf(path, sent)
  }

  /** Reads the next page and compares it with the model. @returns whether another follows */
  async next(): Promise<boolean> {
    const { send, limit, rows, compare, show, page, mayBeShort, scanned } = this.spec
    const { last } = this
    const all = rows().sort(compare)
    const skipped = last === undefined && page !== undefined ? (page - 1) * limit : 0
    const left = last === undefined ? all.slice(skipped) : all.filter((row) => compare(row, last) > 0)
    const body = expect200(await send(this.address))
    const { data, pagination } = body
    const count = mayBeShort && pagination.has_more ? Math.min(data.length, limit) : limit
    expect(data).toMatchObject(left.slice(0, count).map(show))
    expect(pagination.has_more).toBe(mayBeShort ? pagination.has_more : left.length > limit)
    if (!pagination.has_more) expect(left.length).toBeLessThanOrEqual(limit)
    if (page !== undefined) {
      this.total ??= all.length
      expect(pagination).toMatchObject({ page: this.page, per_page: limit, total: this.total })
      this.page++
    }
    // Where the rows read do not fill a page, the next one begins behind them.
    const read = scanned?.rows().filter((row) => last === undefined || compare(row, last) > 0)
    const end = read?.sort(compare)[(scanned?.limit ?? 0) - 1]
    const isFull = !end || left.filter((row) => compare(row, end) <= 0).length > limit
    this.last = isFull ? (left[data.length - 1] ?? last) : end
    this.cursor = pagination.next_cursor ?? undefined
    return pagination.has_more
  }
}

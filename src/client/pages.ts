import { ApiError } from './errors.ts'
import type { CallOptions, RequestOptions } from './transport.ts'
import type { Page } from './types.ts'

/** `cursor` starts after an earlier page, and excludes `page`. */
export type ListQuery = CallOptions & {
  page?: number | undefined
  per_page?: number | undefined
  cursor?: string | undefined
}
type Read = <Body>(segments: string[], options: RequestOptions) => Promise<Body>

const MAX_PER_PAGE = 100
const NO_CURSOR = 'The list has no cursor: this client needs version 1.1.0 of the API'

/** The methods of one list. */
export function listOf<Item, Filter extends ListQuery>(read: Read, ...segments: string[]) {
  const list = ({ signal, ...query }: Filter | ListQuery = {}) => read<Page<Item>>(segments, { signal, query })

  /** Pages of 100 by default. A page's `pagination.next_cursor` continues after it, for 7 days. */
  async function* pages(query?: Filter): AsyncGenerator<Page<Item>, void, undefined> {
    let next: ListQuery = { per_page: MAX_PER_PAGE, ...query }
    for (;;) {
      const page = await list(next)
      if (page.data.length > 0) yield page
      const cursor: string | null | undefined = page.pagination.next_cursor
      if (cursor === null) return
      if (cursor === undefined) throw new ApiError({ status: 200, code: 'unexpected_answer', message: NO_CURSOR })
      next = { ...next, page: undefined, cursor }
    }
  }

  /** One by one. What exists during the whole walk is neither skipped nor repeated, whatever else changes. */
  async function* all(query?: Filter): AsyncGenerator<Item, void, undefined> {
    for await (const page of pages(query)) yield* page.data
  }

  return { list: (query?: Filter) => list(query), pages, all }
}

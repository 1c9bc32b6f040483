import { ApiError } from './errors.ts'
import type { CallOptions, RequestOptions } from './transport.ts'
import type { CursorPage, Page } from './types.ts'

type ListQuery = CallOptions & { page?: number | undefined; per_page?: number | undefined; cursor?: string | undefined }
type Read = <Body>(segments: string[], options: RequestOptions) => Promise<Body>

const MAX_PER_PAGE = 100
const NO_CURSOR = 'The list has no cursor: this client needs version 1.1.0 of the API'

/** The methods of one list, whose query is `Args`. `cursor` starts after an earlier page, and excludes `page`. */
export function listOf<Item, Args extends [query?: ListQuery], OnePage extends CursorPage<Item> = Page<Item>>(
  read: Read,
  ...segments: string[]
) {
  const readPage = ({ signal, ...query }: ListQuery) => read<OnePage>(segments, { signal, query })

  /** Pages of 100 by default. A page's `pagination.next_cursor` continues after it: see the README for how long. */
  async function* pages(...[query]: Args): AsyncGenerator<OnePage, void, undefined> {
    const { page: firstPage, ...filter }: ListQuery = { per_page: MAX_PER_PAGE, ...query }
    for (let next: ListQuery = { ...filter, page: firstPage }; ; ) {
      const page = await readPage(next)
      if (page.data.length > 0) yield page
      const cursor: string | null | undefined = page.pagination.next_cursor
      if (cursor === null) return
      if (cursor === undefined) throw new ApiError({ status: 200, code: 'unexpected_answer', message: NO_CURSOR })
      next = { ...filter, cursor }
    }
  }

  /** One by one. What exists during the whole walk is neither skipped nor repeated, whatever else changes. */
  async function* all(...args: Args): AsyncGenerator<Item, void, undefined> {
    for await (const page of pages(...args)) yield* page.data
  }

  return { list: (...[query]: Args) => readPage({ ...query }), pages, all }
}

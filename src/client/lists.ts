import { ApiError } from './errors.ts'
import type { CallOptions, Read } from './transport.ts'
import type { ChangesPage, ChangesQuery, CursorPage, Page } from './types.ts'

type ListQuery = CallOptions & { page?: number | undefined; per_page?: number | undefined; cursor?: string | undefined }

const MAX_PER_PAGE = 100
const MAX_CHANGES_PER_PAGE = 1_000
/** With the objects of the changes. */
const MAX_EXPANDED_PER_PAGE = 100
/** The API responds to a long poll at the latest then. */
const MAX_WAIT_SECONDS = 25
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

/**
 * The changes of the company, in the order in which they were committed.
 *
 * Store a page's `pagination.next_cursor` once all of the page is processed, of an empty page too: from there `pages` and
 * `follow` continue with the same `types`, in another process and weeks later. A cursor whose changes are no longer kept
 * rejects with `CursorExpiredError`.
 */
export function changesOf(read: Read) {
  const list = ({ signal, ...query }: ChangesQuery & { start?: 'latest'; wait?: number } = {}, options = {}) =>
    read<ChangesPage>(['changes'], { signal, query, waitMs: (query.wait ?? 0) * 1000, ...options })
  const large = (query: ChangesQuery) => ({
    per_page: query.expand ? MAX_EXPANDED_PER_PAGE : MAX_CHANGES_PER_PAGE,
    ...query,
  })

  return {
    /** One page. With `wait`, up to 25 seconds, an empty one is returned only after that time. */
    list: (query?: ChangesQuery & { wait?: number }) => list(query),

    /** A cursor that is followed by the changes of these types from now on. Take it before a full copy of the lists. */
    latestCursor: async (query: Pick<ChangesQuery, 'signal' | 'types'> = {}): Promise<string> =>
      (await list({ ...query, start: 'latest' })).pagination.next_cursor,

    /** Pages until there are no further changes. */
    async *pages(query: ChangesQuery = {}): AsyncGenerator<ChangesPage, void, undefined> {
      for (let { cursor } = query; ; ) {
        const page = await list({ ...large(query), cursor })
        yield page
        if (!page.pagination.has_more) return
        cursor = page.pagination.next_cursor
      }
    },

    /** Pages without an end, each as soon as there are changes. Outages are waited for, however long they last. */
    async *follow(query: ChangesQuery = {}): AsyncGenerator<ChangesPage, never, undefined> {
      for (let { cursor } = query; ; ) {
        const page = await list(
          { ...large(query), cursor, wait: MAX_WAIT_SECONDS },
          { maxRetries: Number.POSITIVE_INFINITY },
        )
        yield page
        cursor = page.pagination.next_cursor
      }
    },
  }
}

import type { RequestOptions } from './transport.ts'
import type { ChangesPage, ChangesQuery } from './types.ts'

type Read = <Body>(segments: string[], options: RequestOptions) => Promise<Body>

/** The API responds to a long poll at the latest then. */
const MAX_WAIT_SECONDS = 25
const MAX_PER_PAGE = 1_000

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

  return {
    /** One page. With `wait`, up to 25 seconds, an empty one is returned only after that time. */
    list: (query?: ChangesQuery & { wait?: number }) => list(query),

    /** A cursor that is followed by the changes of these types from now on. Take it before a full copy of the lists. */
    latestCursor: async (query: Pick<ChangesQuery, 'signal' | 'types'> = {}): Promise<string> =>
      (await list({ ...query, start: 'latest' })).pagination.next_cursor,

    /** Pages until there are no further changes. */
    async *pages(query: ChangesQuery = {}): AsyncGenerator<ChangesPage, void, undefined> {
      for (let { cursor } = query; ; ) {
        const page = await list({ per_page: MAX_PER_PAGE, ...query, cursor })
        yield page
        if (!page.pagination.has_more) return
        cursor = page.pagination.next_cursor
      }
    },

    /** Pages without an end, each as soon as there are changes. Outages are waited for, however long they last. */
    async *follow(query: ChangesQuery = {}): AsyncGenerator<ChangesPage, never, undefined> {
      for (let { cursor } = query; ; ) {
        const next = { per_page: MAX_PER_PAGE, ...query, cursor, wait: MAX_WAIT_SECONDS }
        const page = await list(next, { maxRetries: Number.POSITIVE_INFINITY })
        yield page
        cursor = page.pagination.next_cursor
      }
    },
  }
}

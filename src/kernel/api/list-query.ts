import * as z from 'zod/mini'
import { cursorText, instant, PER_PAGE_MAX, trimmed, wholeNumber, withDefault } from './contract.ts'

/** A date-time in a query as milliseconds. Form decoding turns an unencoded `+` into a space. */
const timeText = z
  .pipe(z.string().check(z.overwrite((value) => value.replace(' ', '+'))), instant)
  .check(z.meta({ type: 'string', format: 'date-time' }))

/** The query shared by the lists of clients and orders. A list adds its `sort`. */
export const listQuery = {
  page: z
    .optional(wholeNumber(1, 1_000_000))
    .check(z.meta({ default: 1 }), z.describe('The page, from 1. Cannot be sent with `cursor`.')),
  per_page: withDefault(wholeNumber(1, PER_PAGE_MAX), 25, 'How many elements a page has.'),
  cursor: z.optional(cursorText),
  updated_since: z
    .optional(timeText)
    .check(
      z.describe(
        'Only what was changed at this time or later. Inclusive. A change may appear up to a minute after its time: ask for the last minute again, or follow `GET /changes`. What the operator loads from a file has the times of the file: only `GET /changes` tells of it.',
      ),
    ),
  deleted: withDefault(z.enum(['exclude', 'include', 'only']), 'exclude', 'Whether deleted ones are listed.'),
  external_id: z.optional(trimmed(255)).check(z.describe('Only the one with this id of yours.')),
}

export const SORTS = ['id', '-id', 'created_at', '-created_at', 'updated_at', '-updated_at'] as const

export function listOf<T extends typeof listQuery & z.core.$ZodShape>(fields: T) {
  return z.strictObject(fields).check(
    z.refine((query) => !('cursor' in query && 'page' in query && query.cursor && query.page), {
      path: ['page'],
      error: 'must not be sent together with cursor',
    }),
  )
}

const nextPage = {
  next_cursor: z
    .nullable(z.string())
    .check(z.describe('Send it as `cursor` for the next page; null on the last. Valid for 7 days.')),
  has_more: z.boolean().check(z.describe('Whether a page follows.')),
}

const pageWith =
  <F extends z.core.$ZodShape>(fields: F) =>
  <T extends z.ZodMiniType>(element: T) =>
    z.strictObject({ data: z.array(element), pagination: z.strictObject({ ...fields, ...nextPage }) })

/** A page of a list that is read by cursor only. */
export const cursorPageOf = pageWith({ per_page: z.int().check(z.positive()) })

export const pageOf = pageWith({
  page: z.int().check(z.positive()),
  per_page: z.int().check(z.positive()),
  total: z.int().check(z.nonnegative(), z.describe('All elements of the list, on every page.')),
})

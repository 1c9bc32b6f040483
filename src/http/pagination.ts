import * as z from 'zod/mini'
import { wholeNumber } from './contract.ts'

const PER_PAGE_DEFAULT = 25
const PER_PAGE_MAX = 100
const PAGE_MAX = 1_000_000

/** The query of every paged list. */
export const pageQuery = {
  page: z._default(wholeNumber(1, PAGE_MAX), 1).check(z.meta({ default: 1 }), z.describe('The page, from 1.')),
  per_page: z
    ._default(wholeNumber(1, PER_PAGE_MAX), PER_PAGE_DEFAULT)
    .check(z.meta({ default: PER_PAGE_DEFAULT }), z.describe('How many elements a page has.')),
}

export interface Page {
  page: number
  per_page: number
}

/** The answer of every paged list. */
export function pageOf<T extends z.ZodMiniType>(element: T) {
  return z.strictObject({
    data: z.array(element),
    pagination: z.strictObject({
      page: z.int().check(z.positive()),
      per_page: z.int().check(z.positive()),
      total: z.int().check(z.nonnegative(), z.describe('All elements of the list, on every page.')),
    }),
  })
}

export function offsetOf({ page, per_page }: Page): number {
  return (page - 1) * per_page
}

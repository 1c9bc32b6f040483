import * as z from 'zod'
import { wholeNumber } from './contract.ts'

const PER_PAGE_DEFAULT = 25
const PER_PAGE_MAX = 100
const PAGE_MAX = 1_000_000

/** The query of every paged list. */
export const pageQuery = {
  page: wholeNumber(1, PAGE_MAX).default(1).meta({ default: 1 }).describe('The page, from 1.'),
  per_page: wholeNumber(1, PER_PAGE_MAX)
    .default(PER_PAGE_DEFAULT)
    .meta({ default: PER_PAGE_DEFAULT })
    .describe('How many elements a page has.'),
}

export interface Page {
  page: number
  per_page: number
}

/** The answer of every paged list. */
export function pageOf<T extends z.ZodType>(element: T) {
  return z.strictObject({
    data: z.array(element),
    pagination: z.strictObject({
      page: z.int().positive(),
      per_page: z.int().positive(),
      total: z.int().nonnegative().describe('All elements of the list, on every page.'),
    }),
  })
}

export function offsetOf({ page, per_page }: Page): number {
  return (page - 1) * per_page
}

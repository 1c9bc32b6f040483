import * as z from 'zod/mini'
import { cursorText, idText, nextPage, PER_PAGE_MAX, wholeNumber } from '../../kernel/api/contract.ts'

const PER_PAGE_DEFAULT = 50

export const company_id = idText.check(z.describe('The company.'))
/** The path parameters of what belongs to a company. */
export const ofCompany = z.strictObject({ company_id })

export const count = z.int().check(z.nonnegative())

/** The query of the administration API's lists. */
export const adminPage = {
  per_page: z
    ._default(wholeNumber(1, PER_PAGE_MAX), PER_PAGE_DEFAULT)
    .check(z.meta({ default: PER_PAGE_DEFAULT }), z.describe('How many elements a page has.')),
  cursor: z.optional(cursorText),
}

/** Further query parameters of a list over all companies. */
export const anyCompany = { company_id: z.optional(idText).check(z.describe('Only those of this company.')) }

/** The response of the administration API's lists. */
export function adminPageOf<T extends z.ZodMiniType>(element: T) {
  return z.strictObject({
    data: z.array(element),
    pagination: z.strictObject({ per_page: z.int().check(z.positive()), ...nextPage }),
  })
}

/** The pagination of an example with one page. */
export const onePage = { per_page: PER_PAGE_DEFAULT, next_cursor: null, has_more: false }

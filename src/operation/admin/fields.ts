import * as z from 'zod/mini'
import {
  type At,
  contractsOf,
  cursorText,
  type Given,
  idText,
  PER_PAGE_MAX,
  type Role,
  wholeNumber,
  withDefault,
} from '../../kernel/api/contract.ts'
import { cursorPageOf } from '../../kernel/api/list-query.ts'

export const company_id = idText.check(z.describe('The company.'))
const ofCompany = z.strictObject({ company_id })

type WithParams<A extends At, G extends Given> = G extends { params: z.ZodMiniType }
  ? G
  : A extends `${string} /companies/{company_id}${string}`
    ? G & { params: typeof ofCompany }
    : G

/** Makes the contracts of one subject. The role is a default; the parameters of a path are by default its company. */
export function adminContracts(tag: string, role: Role) {
  const define = contractsOf(tag, null)
  return <A extends At, const G extends Given>(operationId: string, at: A, given: G) => {
    const params = at.includes(' /companies/{company_id}') && { params: ofCompany }
    const all: object = { role, ...params, ...given }
    return define(operationId, at, all as WithParams<A, G>)
  }
}

export const count = z.int().check(z.nonnegative())

const page = {
  per_page: withDefault(wholeNumber(1, PER_PAGE_MAX), 50, 'How many elements a page has.'),
  cursor: z.optional(cursorText),
}

/** Further query parameters of a list over all companies. @param id of an element */
export const anyCompany = <Id extends z.ZodMiniType>(id: Id) => ({
  company_id: z.optional(idText).check(z.describe('Only those of this company.')),
  id: z.optional(id).check(z.describe('Only the one with this id.')),
})

export function listOf<T extends z.ZodMiniType, Filters extends z.core.$ZodShape>(element: T, filters: Filters) {
  return { query: z.strictObject({ ...page, ...filters }), response: cursorPageOf(element) }
}

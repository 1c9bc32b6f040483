import * as z from 'zod/mini'
import {
  type Contract,
  cursorText,
  idText,
  nextPage,
  PER_PAGE_MAX,
  type Role,
  wholeNumber,
} from '../../kernel/api/contract.ts'

const PER_PAGE_DEFAULT = 50

export const company_id = idText.check(z.describe('The company.'))
const ofCompany = z.strictObject({ company_id })

type Schemas = 'params' | 'query' | 'body' | 'response'
type Given = Pick<Contract, Schemas> & Partial<Omit<Contract, Schemas>>
type At = `${Contract['method']} /${string}`
type AdminContract<A extends At, G extends Given> = Omit<Contract, Schemas | 'method' | 'path'> &
  (A extends `${infer M} ${infer P}` ? { method: M & Contract['method']; path: P } : never) &
  (G extends { params: z.ZodMiniType }
    ? object
    : A extends `${string} /companies/{company_id}${string}`
      ? { params: typeof ofCompany }
      : object) &
  Pick<G, (Schemas | 'hasRawBody') & keyof G>

/** Makes the contracts of one subject. The role is a default; the parameters of a path are by default its company. */
export function adminContracts(tag: string, role: Role) {
  return <A extends At, const G extends Given>(operationId: string, at: A, given: G) => {
    const [method, path = ''] = at.split(' ')
    const params = path.startsWith('/companies/{company_id}') && { params: ofCompany }
    const all: object = { tag, permission: null, role, errors: [], method, path, operationId, ...params, ...given }
    // The types of the method and the path are in `at`.
    return all as AdminContract<A, G>
  }
}

export const count = z.int().check(z.nonnegative())

const page = {
  per_page: z
    ._default(wholeNumber(1, PER_PAGE_MAX), PER_PAGE_DEFAULT)
    .check(z.meta({ default: PER_PAGE_DEFAULT }), z.describe('How many elements a page has.')),
  cursor: z.optional(cursorText),
}

/** Further query parameters of a list over all companies. @param id of an element */
export const anyCompany = <Id extends z.ZodMiniType>(id: Id) => ({
  company_id: z.optional(idText).check(z.describe('Only those of this company.')),
  id: z.optional(id).check(z.describe('Only the one with this id.')),
})

export function listOf<T extends z.ZodMiniType, Filters extends z.core.$ZodShape>(element: T, filters: Filters) {
  const pagination = z.strictObject({ per_page: z.int().check(z.positive()), ...nextPage })
  return {
    query: z.strictObject({ ...page, ...filters }),
    response: z.strictObject({ data: z.array(element), pagination }),
  }
}

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

/** The names in a path, such as `company_id`. */
type NamesIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never
type WithParams<A extends At, G extends Given, Fields extends z.core.$ZodShape> = A extends `${string}{${string}`
  ? G & { params: z.ZodMiniObject<Pick<Fields, NamesIn<A> & keyof Fields>, z.core.$strict> }
  : G

type None = Record<never, never>

/** Makes the contracts of one subject. The role is a default. @param params of its paths, besides the company */
export function adminContracts<P extends z.core.$ZodShape = None>(tag: string, role: Role, params = {} as P) {
  const define = contractsOf(tag, null)
  const fields = { company_id: idText.check(z.describe('The company.')), ...params }
  return <A extends At, const G extends Given>(operationId: string, at: A, given: G) => {
    const named = Object.entries(fields).filter(([name]) => at.includes(`{${name}}`))
    const ofPath = named.length > 0 && { params: z.strictObject(Object.fromEntries(named)) }
    const all: object = { role, ...ofPath, ...given }
    return define(operationId, at, all as WithParams<A, G, typeof fields>)
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

import * as z from 'zod/mini'
import { component, id, idDigits, levelsOf, oneLine, text, trimmed } from '../../kernel/api/contract.ts'
import { invalid } from '../../kernel/http/errors.ts'

/** Fields that are stored as JSON texts. */
export const NESTED = ['client_data', 'clients_data', 'orders_data', 'participant_emails', 'participants_data'] as const

/** Limits the JSON of a context as it is stored, so that a seed takes it: numbers may be written out five times as long. */
export const MAX_JSON_BYTES = 500_000
const MAX_ELEMENTS = 100
/** Stays far below the 1,000 levels of JSON that SQLite reads. */
const MAX_DEPTH = 32

const isInRange = (each: unknown) => typeof each !== 'number' || Number.isFinite(each)

/** Whether the database can store the value as JSON: a number beyond doubles was parsed as infinite. */
export const storable = (maxDepth = MAX_DEPTH) =>
  z.refine((value) => levelsOf(value).every((level, depth) => depth <= maxDepth && level.every(isInRange)), {
    error: `must be nested at most ${maxDepth} levels deep, with numbers of a double’s range`,
    abort: true,
  })

const linkedId = z.union([id, idDigits], {
  error: ({ input }) => (input === undefined ? 'is required' : 'must be a positive integer'),
})

/** Refuses a member that Zod would drop. */
const whole = <T extends z.ZodMiniType>(object: T) => {
  const isWhole = (value: unknown) => !Object.hasOwn(Object(value), '__proto__')
  const check = z.refine(isWhole, { path: ['__proto__'], message: 'must have another name' })
  const published = z.meta({ propertyNames: { not: { const: '__proto__' } } })
  return z.pipe(z.transform((value: unknown) => value).check(check), object).check(published)
}
const linkedClient = whole(z.looseObject({ id: z.nullish(linkedId) }))
const linkedOrder = whole(z.looseObject({ id: linkedId }))
const listOf = <T extends z.ZodMiniType>(element: T) =>
  z.nullish(z.array(element).check(z.maxLength(MAX_ELEMENTS), storable()))

/** A field of a response, which may be sent back. */
const ignored = z.optional(z.unknown()).check(z.describe('Ignored.'))

export const newThreadContext = component(
  'ThreadContextBody',
  'A whole context: what is left out becomes null. Ids may be numbers or strings of digits, which become numbers.',
  {
    thread_id: z.nullish(oneLine(255)).check(z.describe('Left out: the first that is stored, else the legacy id.')),
    sender_email: z.nullish(trimmed(320)),
    client_id: z.nullish(linkedId).check(z.describe('A client of the company.')),
    client_data: z
      .nullish(linkedClient.check(storable()))
      .check(z.describe('An `id` must be a client of the company.')),
    clients_data: listOf(linkedClient).check(z.describe('An `id` must be a client of the company.')),
    orders_data: listOf(linkedOrder).check(z.describe('Each `id` must be an order of the company.')),
    selected_order_id: z.nullish(linkedId).check(z.describe('The `id` of an element of `orders_data`.')),
    participant_emails: listOf(text(0, 1_000)),
    participants_data: listOf(whole(z.record(z.string(), z.unknown()))),
    legacy_thread_id: ignored,
    fetched_at: ignored,
    updated_at: ignored,
  },
  z.refine(({ client_id, orders_data }) => !!client_id || !!orders_data?.length, {
    message: 'must link to something, by `client_id` or an element of `orders_data`: to remove the context, DELETE it',
  }),
  z.refine(
    ({ selected_order_id, orders_data }) =>
      !selected_order_id || !!orders_data?.some((order) => order.id === selected_order_id),
    { message: 'must be the id of an element of `orders_data`', path: ['selected_order_id'] },
  ),
)

export type NewThreadContext = z.output<typeof newThreadContext>

function linksIn({ client_data, clients_data, orders_data }: NewThreadContext) {
  return [
    ...(client_data ? [{ table: 'clients', path: 'client_data', element: client_data }] : []),
    ...(clients_data ?? []).map((element, index) => ({ table: 'clients', path: `clients_data.${index}`, element })),
    ...(orders_data ?? []).map((element, index) => ({ table: 'orders', path: `orders_data.${index}`, element })),
  ]
}

export function referencesOf(body: NewThreadContext) {
  const links = linksIn(body).map(({ table, path, element }) => ({ table, path: `${path}.id`, id: element.id }))
  const all = [{ table: 'clients', path: 'client_id', id: body.client_id }, ...links]
  return all.filter(({ id }) => id !== undefined && id !== null)
}

/** A read would omit an element of another company. @throws ApiError 400 naming each */
export function refuseOtherCompanies(companyId: number, body: NewThreadContext): void {
  const accepted = ['null', `${companyId}`, `"${companyId}"`]
  const issues = linksIn(body).flatMap(({ path, element }) =>
    ['company_id', 'companyId']
      .filter((name) => !accepted.includes(JSON.stringify(element[name] ?? null)))
      .map((name) => ({ path: `${path}.${name}`, message: 'must be the token’s company, or left out' })),
  )
  if (issues.length > 0) throw invalid(issues)
}

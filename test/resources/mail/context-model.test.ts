import fc from 'fast-check'
import { expect, it } from 'vitest'
import { clients, makeCompanies, me, orders, other, read, store } from './context-support.ts'
import { freshThreadId } from './support.ts'

await makeCompanies()

/** A context as it is generated: JSON columns are values, ids texts. */
interface Generated {
  isMine: boolean
  client_id: string | null
  selected_order_id: string | null
  client_data: Record<string, Json> | undefined
  clients_data: Json
  orders_data: Json
  participants_data: Json
  updated_at: number
}

type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

/** A plain model of which context is returned, and with which contents. */
function expected(contexts: (Generated & { threadId: string })[]) {
  const newestFirst = contexts.toSorted((a, b) => b.updated_at - a.updated_at || (a.threadId < b.threadId ? 1 : -1))
  const context = newestFirst.find((each) => each.isMine && isTied(each))
  if (!context) return 404
  const data = context.client_data
  return {
    client_id: isOwned(clients, context.client_id) ? context.client_id : null,
    selected_order_id: isOwned(orders, context.selected_order_id) ? context.selected_order_id : null,
    client_data: data && belongs(clients, data) ? data : null,
    clients_data: keep(clients, context.clients_data),
    orders_data: keep(orders, context.orders_data),
    participants_data: context.participants_data,
  }
}

function isTied({ client_id, client_data, clients_data, orders_data, participants_data }: Generated): boolean {
  const elements = Array.isArray(orders_data) ? orders_data : [orders_data]
  return (
    isOwned(clients, client_id) ||
    elements.some((each) => (idOf(each) ?? null) !== null && belongs(orders, each)) ||
    [client_data ?? null, clients_data, orders_data, participants_data].some(namesMine)
  )
}

function namesMine(value: Json): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(
    ([name, member]) =>
      (['company_id', 'companyId'].includes(name) && (member === me.id || member === String(me.id))) ||
      namesMine(member),
  )
}

function keep(ids: typeof clients, part: Json): Json {
  if (Array.isArray(part)) return part.filter((each) => belongs(ids, each))
  return belongs(ids, part) ? part : null
}

function belongs(ids: typeof clients, element: Json): boolean {
  const named = isObject(element) ? [element.company_id, element.companyId] : []
  const id = idOf(element) ?? null
  return (
    named.every((company) => (company ?? null) === null || company === me.id || company === String(me.id)) &&
    (id === null || isOwned(ids, id))
  )
}

function idOf(element: Json): Json | undefined {
  if (isObject(element)) return element.id
  return typeof element === 'number' || typeof element === 'string' ? element : null
}

function isOwned({ mine, both, deleted }: typeof clients, id: Json): boolean {
  return [mine, both, deleted].some((own) => id === own || id === String(own))
}

function isObject(value: Json): value is { [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `JSON.stringify` sends -0 as 0. */
const asSent = (value: unknown): Json => JSON.parse(JSON.stringify(value))

it('a thread context equals the model for any contents', async () => {
  const anyId = (ids: typeof clients): fc.Arbitrary<string | number | null> =>
    fc
      .tuple(fc.constantFrom(...Object.values(ids)), fc.nat(6))
      .map(([id, form]) => [id, String(id), `${id} `, -id, `0${id}`, 'abc'][form] ?? null)
  const idText = (ids: typeof clients) => fc.option(anyId(ids).map((id) => (id === null ? null : String(id))))
  const company = fc.constantFrom(me.id, String(me.id), other.id, null, true, 'null')
  const namesOf = (ids: typeof clients) => ({ id: anyId(ids), company_id: company, companyId: company })
  const element = (ids: typeof clients) =>
    fc.oneof(
      { weight: 8, arbitrary: fc.record({ ...namesOf(ids), n: fc.nat(9) }, { requiredKeys: [] }) },
      { weight: 1, arbitrary: anyId(ids) },
      { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }).map(asSent) },
    )
  const list = (ids: typeof clients) => fc.oneof(fc.array(element(ids), { maxLength: 5 }), element(ids))
  const context = fc.record({
    isMine: fc.boolean(),
    client_id: idText(clients),
    selected_order_id: idText(orders),
    client_data: fc.option(fc.record(namesOf(clients), { requiredKeys: [] }), { nil: undefined }),
    clients_data: list(clients),
    orders_data: list(orders),
    participants_data: fc.oneof({ weight: 3, arbitrary: fc.constant<Json[]>([]) }, fc.record({ company_id: company })),
    updated_at: fc.nat(2),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(context, { minLength: 1, maxLength: 4 }), async (contexts) => {
      const legacyId = freshThreadId()
      const stored = []
      for (const { isMine, ...each } of contexts) {
        stored.push({ ...each, isMine, threadId: await store(isMine ? me : other, legacyId, each) })
      }
      const wanted = expected(stored)
      const response = await read(me, legacyId)
      if (wanted === 404) expect(response).toBe(404)
      else expect(response).toMatchObject(wanted)
    }),
    { numRuns: 150 },
  )
})

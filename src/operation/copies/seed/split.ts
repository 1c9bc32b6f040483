import { Buffer } from 'node:buffer'
import { hash } from 'node:crypto'
import type { SeedInput } from './file.ts'
import { type KnownIds, numbered } from './rows.ts'

/** Limits one part, so that its transaction is short. */
const PART_ROWS = 500
const PART_BYTES = 400_000
/** Limits an element that fills a part, which must fit into a body of 1 MB. */
const ELEMENT_MAX_BYTES = 900_000

/** A part of a seed file, which is a valid seed file too. */
export interface SeedPart {
  file: SeedInput
  /** The ids in other parts that this one refers to. */
  known: KnownIds
}

type Order = NonNullable<SeedInput['orders']>[number]

/** An element of a list, which stays in one part. */
interface Element {
  list: Exclude<keyof SeedInput, '$schema' | 'company'>
  value: object
  rows: number
  bytes: number
  /** A slice of an order; a part holds only one slice of each. */
  isSlice?: true
}

/**
 * Splits a valid file into parts that load one after the other: referenced rows first, and orders with invoice numbers
 * before those that get one.
 *
 * @returns the parts, at least one, and a hash of all of them
 * @throws RangeError for an element that is too large for a part
 */
export function splitSeedFile(file: SeedInput): { hash: string; parts: SeedPart[] } {
  const groups: Element[][] = [[]]
  let [rows, bytes] = [0, 0]
  for (const element of listElements(file)) {
    if (element.bytes > ELEMENT_MAX_BYTES)
      throw new RangeError(`\`${element.list}\` has an element of more than 900 KB`)
    const group = groups.at(-1) ?? []
    const isFull = rows + element.rows > PART_ROWS || bytes + element.bytes > PART_BYTES
    if (group.length > 0 && (isFull || element.isSlice || group[0]?.isSlice)) {
      groups.push([])
      rows = bytes = 0
    }
    groups.at(-1)?.push(element)
    rows += element.rows
    bytes += element.bytes
  }
  const knownTo = findKnown(file)
  const parts = groups.map((group): SeedPart => {
    const part = joinElements(file, group)
    return { file: part, known: knownTo(part) }
  })
  return { hash: hash('sha256', JSON.stringify(parts)), parts }
}

function joinElements({ company }: SeedInput, elements: Element[]): SeedInput {
  const part: Record<string, unknown> & SeedInput = { company }
  for (const { list, value } of elements) {
    if (list === 'integrations') part.integrations = { ...part.integrations, ...value }
    else part[list] = [...(part[list] ?? []), value] as never
  }
  return part
}

function listElements(file: SeedInput): Element[] {
  const element = (list: Element['list'], value: object): Element => ({
    list,
    value,
    rows: 1,
    bytes: Buffer.byteLength(JSON.stringify(value)),
  })
  const listOf = (list: 'taxes' | 'clients' | 'catalog_items' | 'thread_contexts') =>
    (file[list] ?? []).map((value) => element(list, value))
  const hasNumber = ({ invoice }: Order) => !invoice || invoice.number !== undefined
  const orders = (file.orders ?? []).toSorted((a, b) => Number(hasNumber(b)) - Number(hasNumber(a)))
  return [
    ...numbered(file.order_statuses).map((value) => element('order_statuses', value)),
    ...listOf('taxes'),
    ...listOf('clients'),
    ...listOf('catalog_items'),
    ...orders.flatMap(sliceOrder),
    ...listOf('thread_contexts'),
    ...Object.entries(file.integrations ?? {}).map(([kind, value]) => element('integrations', { [kind]: value })),
  ]
}

/** Yields an order as one element, or as several slices with the same order and invoice. */
function sliceOrder(order: Order): Element[] {
  const { invoice, artworks = [] } = order
  const children = [
    ...numbered(invoice?.items).map((item) => ({ item })),
    ...(invoice?.payments ?? []).map((payment) => ({ payment })),
    ...artworks.map((artwork) => ({ artwork })),
  ].map((child) => ({ child, bytes: Buffer.byteLength(JSON.stringify(child)) }))
  const headRows = invoice ? 2 : 1
  const head = { ...order, artworks: [], invoice: invoice && { ...invoice, items: [], payments: [] } }
  const headBytes = Buffer.byteLength(JSON.stringify(head))

  const slices: { children: object[]; bytes: number }[] = [{ children: [], bytes: headBytes }]
  for (const { child, bytes } of children) {
    const slice = slices.at(-1)
    const isFull = slice && (headRows + slice.children.length >= PART_ROWS || slice.bytes + bytes > PART_BYTES)
    if (!slice || (isFull && slice.children.length > 0)) slices.push({ children: [child], bytes: headBytes + bytes })
    else {
      slice.children.push(child)
      slice.bytes += bytes
    }
  }
  return slices.map(({ children, bytes }) => {
    const of = (kind: string) => children.flatMap((child) => Reflect.get(child, kind) ?? [])
    const parts = { items: of('item'), payments: of('payment') }
    const value = { ...head, artworks: of('artwork'), invoice: invoice && { ...invoice, ...parts } }
    const element: Element = { list: 'orders', value, rows: headRows + children.length, bytes }
    return slices.length > 1 ? { ...element, isSlice: true } : element
  })
}

/** Finds the ids in other parts of the file to which a part refers. */
function findKnown(file: SeedInput): (part: SeedInput) => KnownIds {
  const idsOf = (of: SeedInput, name: keyof KnownIds) => new Set(of[name]?.map(({ id }) => id))
  const all = {
    clients: idsOf(file, 'clients'),
    order_statuses: idsOf(file, 'order_statuses'),
    taxes: idsOf(file, 'taxes'),
  }
  return (part) => {
    const { orders = [] } = part
    const elsewhere = (name: keyof KnownIds, ids: (number | null | undefined)[]) => {
      const own = idsOf(part, name)
      const found = new Set(ids.flatMap((id) => (id && all[name].has(id) && !own.has(id) ? [id] : [])))
      return found.size > 0 ? { [name]: [...found] } : {}
    }
    return {
      ...elsewhere(
        'clients',
        orders.map((order) => order.client_id),
      ),
      ...elsewhere(
        'order_statuses',
        orders.map((order) => order.order_status_id),
      ),
      ...elsewhere(
        'taxes',
        orders.map((order) => order.invoice?.tax_id),
      ),
    }
  }
}

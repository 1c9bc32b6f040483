import { Buffer } from 'node:buffer'
import { hash } from 'node:crypto'
import type { SeedInput } from './file.ts'
import type { KnownIds } from './rows.ts'

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

  const slices: (typeof children)[] = [[]]
  let bytes = headBytes
  for (const each of children) {
    const slice = slices.at(-1) ?? []
    if (slice.length > 0 && (headRows + slice.length >= PART_ROWS || bytes + each.bytes > PART_BYTES)) {
      slices.push([])
      bytes = headBytes
    }
    slices.at(-1)?.push(each)
    bytes += each.bytes
  }
  return slices.map((slice) => {
    const parts = slice.map(({ child }) => child)
    const items = parts.flatMap((part) => ('item' in part ? [part.item] : []))
    const payments = parts.flatMap((part) => ('payment' in part ? [part.payment] : []))
    const value = {
      ...head,
      artworks: parts.flatMap((part) => ('artwork' in part ? [part.artwork] : [])),
      invoice: invoice && { ...invoice, items, payments },
    }
    const size = slice.reduce((sum, each) => sum + each.bytes, headBytes)
    const element: Element = { list: 'orders', value, rows: headRows + slice.length, bytes: size }
    return slices.length > 1 ? { ...element, isSlice: true } : element
  })
}

/** Adds positions to the elements, since a part alone would lose them. */
function numbered<T extends { position?: number | undefined }>(elements: T[] = []): T[] {
  return elements.map((element, index) => ({ ...element, position: element.position ?? index + 1 }))
}

/** Finds the ids in other parts of the file to which a part refers. */
function findKnown(file: SeedInput): (part: SeedInput) => KnownIds {
  const idsOf = ({ clients = [], order_statuses = [], taxes = [] }: SeedInput) => ({
    clients: new Set(clients.map(({ id }) => id)),
    order_statuses: new Set(order_statuses.map(({ id }) => id)),
    taxes: new Set(taxes.map(({ id }) => id)),
  })
  const all = idsOf(file)
  return (part) => {
    const own = idsOf(part)
    const { orders = [] } = part
    const elsewhere = (name: keyof KnownIds, ids: (number | null | undefined)[]) => {
      const found = new Set(ids.flatMap((id) => (id && all[name].has(id) && !own[name].has(id) ? [id] : [])))
      return found.size > 0 ? { [name]: [...found] } : {}
    }
    return {
      ...elsewhere(
        'clients',
        orders.map(({ client_id }) => client_id),
      ),
      ...elsewhere(
        'order_statuses',
        orders.map(({ order_status_id }) => order_status_id),
      ),
      ...elsewhere(
        'taxes',
        orders.map(({ invoice }) => invoice?.tax_id),
      ),
    }
  }
}

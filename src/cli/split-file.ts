import { createHash } from 'node:crypto'
import { parseJson } from '../kernel/http/messages.ts'
import { bytesOf, splitBySize } from '../operation/copies/chunks.ts'
import type { SeedInput } from '../operation/copies/seed/file.ts'
import { type KnownIds, lastNumberOf, numbered, REFERENCES } from '../operation/copies/seed/rows.ts'
import { LISTS } from '../operation/copies/tables.ts'

/** Limits one part, so that its transaction is short. An element over a limit is a part by itself. */
const PART_ROWS = 500
const PART_BYTES = 400_000
/** Limits an element: a row to what D1 stores, an order with all that belongs to it to the body of a request. */
const ELEMENT_MAX_KB = { rows: 900, orders: 5_000 }

type Order = NonNullable<SeedInput['orders']>[number]

/** An element of a list, which stays in one part. */
interface Element {
  list: Exclude<keyof SeedInput, '$schema' | 'company'>
  value: object
  rows: number
  bytes: number
}

/**
 * Splits a valid file into parts that load one after the other: referenced rows first, and orders with invoice numbers
 * before those that get one.
 *
 * @returns a hash of the parts, and these, at least one: valid seed files, with the ids in others that each refers to
 * @throws RangeError for an element that is too large for a part
 */
export function splitSeedFile(file: SeedInput) {
  const elements = listElements(file)
  for (const { list, value, bytes } of elements) {
    const maxKb = ELEMENT_MAX_KB[list === 'orders' ? 'orders' : 'rows']
    if (bytes <= maxKb * 1_000) continue
    const id = Reflect.get(value, 'id') ?? Reflect.get(value, 'thread_id')
    throw new RangeError(`\`${list}\` has an element of more than ${maxKb} KB: ${id ?? Object.keys(value)}`)
  }
  const groups = splitBySize(elements, ({ rows, bytes }) => [rows, bytes], [PART_ROWS, PART_BYTES])
  // A company alone is one part.
  if (groups.length === 0) groups.push([])
  const knownTo = findKnown(file)
  const company = groups.length > 1 ? reserveIds(file) : file.company
  const parts = groups.map((group) => joinElements(company, group)).map((file) => ({ file, known: knownTo(file) }))
  const digest = createHash('sha256')
  // All parts may be longer than a string can be.
  for (const [index, part] of parts.entries()) digest.update(`${index === 0 ? '[' : ','}${JSON.stringify(part)}`)
  return { hash: digest.update(']').digest('hex'), parts }
}

/** The company with the last ids of all parts: what requests create between two of them must not take one of a later part. */
function reserveIds({ company, clients = [], orders = [] }: SeedInput): SeedInput['company'] {
  const invoices = orders.flatMap(({ invoice }) => invoice ?? [])
  const items = invoices.flatMap(({ items = [] }) => items)
  const payments = invoices.flatMap(({ payments = [] }) => payments)
  const lists = { client: clients, order: orders, invoice: invoices, invoice_item: items, payment: payments }
  const ids = Object.entries(lists).map(([noun, list]): [string, number] => {
    const name = `last_${noun}_id`
    return [name, list.reduce((last, { id }) => Math.max(last, id), Number(Reflect.get(company, name) ?? 0))]
  })
  const { last_invoice_number: given, created_at } = company
  const last_invoice_number = lastNumberOf(orders, given ?? 0)
  // An empty company that becomes the file's keeps its number where the file has none, and a new one begins at 1000.
  const isRaised = given !== undefined || (last_invoice_number > 1_000 && created_at === undefined)
  return { ...company, ...Object.fromEntries(ids), ...(isRaised && { last_invoice_number }) }
}

function joinElements(company: SeedInput['company'], elements: Element[]): SeedInput {
  const lists = Object.entries(Object.groupBy(elements, ({ list }) => list)).map(([list, group]) => {
    const values = group.map(({ value }) => value)
    return [list, list === 'integrations' ? Object.assign({}, ...values) : values]
  })
  return { company, ...Object.fromEntries(lists) }
}

function listElements(file: SeedInput): Element[] {
  const hasNumber = ({ invoice }: Order) => !invoice || invoice.number !== undefined
  const lists: Record<Element['list'], object[] | undefined> = {
    order_statuses: numbered(file.order_statuses),
    taxes: file.taxes,
    clients: file.clients,
    catalog_items: file.catalog_items,
    orders: file.orders?.toSorted((a, b) => Number(hasNumber(b)) - Number(hasNumber(a))),
    thread_contexts: file.thread_contexts,
    integrations: Object.entries(file.integrations ?? {}).map(([kind, value]) => ({ [kind]: value })),
  }
  return Object.entries(lists).flatMap(([list, values = []]) =>
    values.map((value) => ({ list: list as Element['list'], value, rows: rowsOf(value), bytes: bytesOf(value) })),
  )
}

/** The rows of an element: only an order has more than one. */
function rowsOf({ invoice, artworks = [] }: Partial<Order>): number {
  const { items = [], payments = [] } = invoice ?? {}
  return (invoice ? 2 : 1) + items.length + payments.length + artworks.length
}

/** Finds the ids in other parts of the file to which a part refers. */
function findKnown(file: SeedInput): (part: SeedInput) => KnownIds {
  const idsOf = (of: SeedInput, name: keyof KnownIds) => new Set(of[name]?.map(({ id }) => id))
  const references = REFERENCES.map(([from, field, to]) => ({ from, field, to, ids: idsOf(file, to) }))
  return (part) => {
    const orders = part.orders ?? []
    const rows = { orders, invoices: orders.flatMap(({ invoice }) => invoice ?? []) }
    const known = references.map(({ from, field, to, ids }) => {
      const used = new Set(rows[from].map((row): number => Reflect.get(row, field)))
      return [to, [...used.intersection(ids).difference(idsOf(part, to))]] as const
    })
    return Object.fromEntries(known.filter(([, ids]) => ids.length > 0))
  }
}

const THREAD = '{"type":"email_threads","data":'

/** The JSON of the email thread in a line of an export; null for another line. */
export function threadOf(line: string): string | null {
  return line.startsWith(THREAD) ? line.trimEnd().slice(THREAD.length, -1) : null
}

/**
 * Reads the lines of an export, its responses one after the other, apart from email threads.
 *
 * @returns a seed file without the integrations, whose credentials an export does not have, and the kinds of these
 * @throws RangeError for lines that are no complete export
 */
export async function readExport(lines: AsyncIterable<string> | Iterable<string>) {
  const lists = new Map(['company', 'integrations', ...LISTS, 'end'].map((type): [string, unknown[]] => [type, []]))
  const owners = new Map<string, object>()
  let [number, last] = [0, '']
  for await (const text of lines) {
    number++
    if (text.trim() === '' || threadOf(text) !== null) continue
    const parsed = parseJson(text)
    if (parsed === undefined) throw new RangeError(`line ${number} is not JSON`)
    const { type, data } = Object(parsed)
    const list = lists.get(type)
    if (!list) throw new RangeError(`line ${number} has a type that no export has`)
    if (type === 'company' && list.length > 0) throw new RangeError(`line ${number} begins another export`)
    list.push(data)
    last = type
    if (!data?.external_id) continue
    // Where it went from one row to another meanwhile, the row that was read later has it.
    const owner = `${type} ${data.external_id}`
    Object.assign(owners.get(owner) ?? {}, { external_id: null })
    owners.set(owner, data)
  }
  const { company: [company] = [], integrations = [], end: _end, ...file } = Object.fromEntries(lists)
  if (!company || last !== 'end')
    throw new RangeError('the export is incomplete: its first line must be of the type `company`, its last of `end`')
  const kinds = integrations.flatMap((each) => Object.keys(Object(each)))
  return { file: { company, ...file } as SeedInput, integrations: kinds }
}

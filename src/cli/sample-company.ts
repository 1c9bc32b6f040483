import { isoDate, isoTime } from '../http/time.ts'
import { createRandom, type Random } from './random.ts'
import {
  COLORS,
  FIRST_NAMES,
  GARMENTS,
  INKS,
  LAST_NAMES,
  METHODS,
  OCCASIONS,
  OTHER_SCRIPTS,
  PAYMENT_METHODS,
  PLACES,
  SAMPLE_COMPANY,
  SIZES,
  STATUSES,
  TAXES,
  TRADES,
} from './sample-data.ts'
import { sampleThreadContexts } from './sample-threads.ts'
import type { SeedInput } from './seed-file.ts'

export type SampleClient = NonNullable<SeedInput['clients']>[number]
export type SampleOrder = NonNullable<SeedInput['orders']>[number]
type SampleInvoice = NonNullable<SampleOrder['invoice']>

const SEED = 20_261
const CLIENTS = 60
const ORDERS = 80
const CATALOG_ITEMS = 40
const DAY_MS = 86_400_000
const YEAR_DAYS = 360
const FIRST_INVOICE_NUMBER = 1001
/** Positions in `STATUSES` (from 1) that an order has while it is young, and when it is done. */
const COMPLETED = 10
const OPEN = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11]

/** A made-up shop with a year of work behind it; the same in every run on one day. */
export function makeSampleCompany(now: number): SeedInput {
  const random = createRandom(SEED)
  const clients = Array.from({ length: CLIENTS }, (_, index) => makeClient(random, index, now))
  const orders = Array.from({ length: ORDERS }, (_, index) => makeOrder(random, index, clients, now))
  return {
    company: { ...SAMPLE_COMPANY, accounting_sync_enabled: true },
    order_statuses: STATUSES.map(([title, color, workflow_key], index) => ({
      id: index + 1,
      title,
      color,
      workflow_key,
      position: index + 1,
      is_default: index === 0,
    })),
    taxes: TAXES.map(([name, rate], index) => ({ id: index + 1, name, rate })),
    clients,
    orders,
    catalog_items: Array.from({ length: CATALOG_ITEMS }, (_, index) => makeCatalogItem(random, index)),
    thread_contexts: sampleThreadContexts(random, clients, orders, now),
  }
}

function makeClient(random: Random, index: number, now: number): SampleClient {
  const script = index % 12 === 7 ? OTHER_SCRIPTS[Math.floor(index / 12)] : undefined
  const [trade, exemption] = TRADES[index % TRADES.length] ?? TRADES[0]
  const name = script?.[0] ?? `${PLACES[(index * 5 + Math.floor(index / TRADES.length)) % PLACES.length]} ${trade}`
  const first = script?.[1] ?? random.pick(FIRST_NAMES)
  const last = script?.[2] ?? random.pick(LAST_NAMES)
  const host = `${toHost(name) || `customer-${index + 1}`}.example`
  const reason = script ? null : exemption
  const created = isoTime(now - random.between(YEAR_DAYS, 3 * YEAR_DAYS) * DAY_MS)
  return {
    id: index + 1,
    company_name: name,
    first_name: first,
    last_name: last,
    email: random.chance(0.95) ? `${toHost(first) || 'hello'}@${host}` : null,
    website: random.chance(0.6) ? `https://${host}` : null,
    phone: random.chance(0.9) ? `(555) 01${random.between(0, 9)}-${random.between(1000, 9999)}` : null,
    accounting_sync_enabled: random.chance(0.7),
    tax_exempt: reason !== null,
    tax_exempt_reason: reason,
    created_at: created,
    updated_at: created,
  }
}

function makeOrder(random: Random, index: number, clients: SampleClient[], now: number): SampleOrder {
  const id = index + 1
  const ageDays = Math.round(((ORDERS - id) / ORDERS) * YEAR_DAYS)
  const created = now - ageDays * DAY_MS
  // The first customers come back most often.
  const client = random.pick(clients.slice(0, random.chance(0.5) ? 15 : CLIENTS))
  const deadline = isoDate(created + random.between(10, 28) * DAY_MS)
  return {
    id,
    title: `${random.pick(OCCASIONS)} ${isoDate(created).slice(0, 4)}`,
    client_id: client.id,
    order_status_id: ageDays > 45 ? COMPLETED : random.pick(OPEN),
    description: random.chance(0.7)
      ? `${random.pick(COLORS)} garments, ${random.pick(METHODS)[0]}. Bag and label by size.`
      : null,
    start_date: isoDate(created + 2 * DAY_MS),
    deadline,
    client_notes: random.chance(0.3) ? 'Thank you for your order. Pickup at the back dock, 9 to 5.' : null,
    created_date: isoDate(created),
    created_at: isoTime(created),
    updated_at: isoTime(Math.min(now, created + random.between(0, 9) * DAY_MS)),
    invoice: makeInvoice(random, id, client, { created, due: deadline, now }),
    artworks: Array.from({ length: random.between(0, 2) }, (_, at) => makeArtwork(random, id * 10 + at)),
  }
}

function makeInvoice(
  random: Random,
  orderId: number,
  client: SampleClient,
  { created, due, now }: { created: number; due: string; now: number },
): SampleInvoice {
  const items = Array.from({ length: random.between(1, 5) }, (_, at) => makeItem(random, orderId * 10 + at, at + 1))
  if (random.chance(0.5)) {
    items.push({
      id: orderId * 10 + 9,
      title: 'Screen setup',
      quantity: 1,
      unit_price: 25,
      taxable: false,
      position: 9,
    })
  }
  const subtotal = items.reduce((sum, item) => sum + item.quantity * item.unit_price, 0)
  const hasDiscount = random.chance(0.25)
  const isPercent = random.chance(0.6)
  return {
    id: orderId,
    number: String(FIRST_INVOICE_NUMBER + orderId - 1),
    due_date: due,
    tax_id: random.pick([1, 2, 2, 2, 3]),
    tax_exempt: client.tax_exempt ?? false,
    tax_exempt_reason: client.tax_exempt_reason ?? null,
    discount_amount: hasDiscount ? random.pick(isPercent ? [5, 10, 12.5] : [15, 25, 50]) : 0,
    discount_amount_type: isPercent ? 'percentage' : 'fixed_amount',
    discount_type: random.chance(0.8) ? 'before_tax' : 'after_tax',
    items,
    payments: Array.from({ length: random.between(0, 2) }, (_, at) => ({
      id: orderId * 10 + at,
      amount: Math.round(subtotal * 50) / 100,
      method: random.pick(PAYMENT_METHODS),
      paid_at: isoTime(Math.min(now, created + (at * 12 + 1) * DAY_MS)),
      note: at === 0 ? 'Deposit' : null,
    })),
  }
}

function makeItem(random: Random, id: number, position: number): NonNullable<SampleInvoice['items']>[number] {
  const [title, style, supplier, low, high] = random.pick(GARMENTS)
  const color = random.pick(COLORS)
  const size = random.pick(SIZES)
  return {
    id,
    title: `${title}, ${color.toLowerCase()}`,
    description: `${style} ${color} ${size}`,
    quantity: random.pick([6, 12, 18, 24, 36, 48, 72, 144]),
    unit_price: random.between(low * 20, high * 20) / 20,
    supplier,
    style,
    color,
    size,
    sku: `${style}-${color.slice(0, 3).toUpperCase()}-${size}`,
    position,
  }
}

function makeArtwork(random: Random, id: number): NonNullable<SampleOrder['artworks']>[number] {
  const [method, places, mostColors] = random.pick(METHODS)
  const inks = Array.from({ length: random.between(1, mostColors) }, () => random.pick(INKS))
  return {
    id,
    name: `${random.pick(['Logo', 'Crest', 'Mascot', 'Sponsor list', 'Event date'])} ${random.pick(['A', 'B', 'C'])}`,
    print_method: method,
    placements: [...new Set([random.pick(places), random.pick(places)])],
    colors: [...new Set(inks)],
    preview_url: `https://art.ridgeline.example/previews/${id}.png`,
    status: random.pick(['draft', 'proof sent', 'approved', 'approved']),
  }
}

function makeCatalogItem(random: Random, index: number): NonNullable<SeedInput['catalog_items']>[number] {
  const [title, style, , low, high] = GARMENTS[index % GARMENTS.length] ?? GARMENTS[0]
  const [method] = METHODS[Math.floor(index / GARMENTS.length)] ?? METHODS[0]
  return {
    id: index + 1,
    title: `${title} with ${method} (${style})`,
    description: `${style}, one location, 24 pieces and more. Sizes S to XL; larger sizes cost more.`,
    price: random.between(low * 20, high * 20) / 20 + 3,
  }
}

function toHost(name: string): string {
  return name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll('ø', 'o')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
}

import { randomInt } from 'node:crypto'
import type { SeedInput } from '../../src/operation/copies/seed/file.ts'
import { outputOf, writeSeed } from '../node/cli-support.ts'

export const CLIENTS = 5_000
export const ORDERS = 8_000
/** The first clients have an external id each, `crm-1` and so on. */
export const LINKED_CLIENTS = 500
/** Clients and orders with ids above this one are made by {@link seedLater}. */
const LATER_IDS = 900_000
const LATER_ROWS = 10

/** The seed of a journey, which its output names. `JOURNEY_SEED` repeats one. */
export function chooseSeed(): number {
  const seed = Number(process.env.JOURNEY_SEED ?? randomInt(1_000_000_000))
  console.log(`JOURNEY_SEED=${seed}`)
  return seed
}

const company = { id: 1, name: 'Harbor Print Shop' }
const order_statuses = [
  { id: 1, title: 'New', is_default: true },
  { id: 2, title: 'Printing' },
  { id: 3, title: 'Shipped' },
]

/** Loads a company of 5,000 clients and 8,000 orders, each with an invoice of one line, into a state directory. */
export function fillShop(state: string): Promise<void> {
  return loadFile(state, {
    company,
    order_statuses,
    taxes: [{ id: 1, name: 'State', rate: 8.25 }],
    clients: numbers(CLIENTS).map((id) => ({
      id,
      company_name: `Club ${id}`,
      email: `club${id}@mail.example`,
      ...(id <= LINKED_CLIENTS && { external_id: `crm-${id}` }),
    })),
    orders: numbers(ORDERS).map((id) => ({
      id,
      title: `Order ${id}`,
      client_id: (id % CLIENTS) + 1,
      order_status_id: (id % 3) + 1,
      invoice: { id, tax_id: 1, items: [{ id, title: 'Tee', quantity: 12, unit_price: 9.5 }] },
    })),
  })
}

/** Loads ten more clients and ten more orders, beside a running service. */
export async function seedLater(state: string): Promise<{ clients: number; orders: number }> {
  const ids = numbers(LATER_ROWS).map((number) => LATER_IDS + number)
  await loadFile(state, {
    company,
    clients: ids.map((id) => ({ id, company_name: `Seeded ${id}` })),
    orders: ids.map((id) => ({ id, title: `Seeded ${id}`, client_id: id })),
  })
  return { clients: LATER_ROWS, orders: LATER_ROWS }
}

export async function loadFile(state: string, file: SeedInput): Promise<void> {
  await outputOf('seed', await writeSeed(file), '--state', state)
}

/** The token of one user of the company, alone with its rate limit. */
export async function createToken(state: string, name: string, company = 1): Promise<string> {
  return (await outputOf('tokens', 'create', '--company', `${company}`, '--name', name, '--state', state)).trim()
}

export function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1)
}

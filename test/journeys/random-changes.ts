import type { ApiClient, ApiError, BatchOperation, Client, Project } from '../../src/client/index.ts'
import type { Random } from '../support/random.ts'
import type { Copy } from './copy.ts'
import { CLIENTS, LINKED_CLIENTS, ORDERS } from './large-shop.ts'

/** The clients of orders: never deleted, since no order can be made for a deleted client. */
const KEPT_CLIENTS = 1_000
/** Both sides change these most, so that they meet. */
const CONTESTED = 20

/** What was carried out, as far as its response says. */
export interface Journal {
  /** The rows of the responses, by `clients 17` and the like. */
  changes: Map<string, (Client | Project)[]>
  /** The unique names of the rows that were created. */
  created: { clients: string[]; orders: string[] }
  /** Upserts: a repeated PUT is carried out twice, with the same result. */
  upserted: Set<string>
  refused: Record<number, number>
}

export function emptyJournal(): Journal {
  return { changes: new Map(), created: { clients: [], orders: [] }, upserted: new Set(), refused: {} }
}

export interface Actor {
  name: string
  api: ApiClient
  random: Random
  journal: Journal
  /** The integrator's own copy; the shop's users have none. */
  copy?: Copy
}

/** Makes random changes, one of them a batch: as many as `count` in all. */
export async function makeChanges(actor: Actor, round: number, count: number, batched: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `${actor.name} ${round}-${index}`)
  const tasks = [
    () => runBatch(actor, names.slice(0, batched)),
    ...names.slice(batched).map((name) => () => changeOne(actor, name)),
  ]
  // Four at once.
  const queue = tasks.values()
  const work = async () => {
    for (const task of queue) await task()
  }
  await Promise.all([work(), work(), work(), work()])
}

async function runBatch(actor: Actor, names: string[]): Promise<void> {
  const operations = names.map((name) => chooseOperation(actor, name))
  const { results } = await actor.api.batch(operations)
  for (const [index, { status, body }] of results.entries()) {
    const { method, path } = operations[index] ?? {}
    if (status !== 200) {
      refuse(actor, status, `${method} ${path}: ${JSON.stringify(body)}`)
      continue
    }
    const { client, project } = body as { client?: Client; project?: Project }
    // A whole order has its client beside it.
    const [type, row] = project ? (['orders', project] as const) : (['clients', client] as const)
    if (row) note(actor, type, row, method === 'POST')
  }
}

function chooseOperation(actor: Actor, name: string): BatchOperation {
  const { random } = actor
  const external_id = random.chance(0.5) ? `batch-${name}` : null
  const client_id = random.between(1, KEPT_CLIENTS)
  const clientId = pickClient(actor)
  const orderId = pickOrder(actor)
  return random.pick<BatchOperation>([
    { method: 'POST', path: '/clients', body: { company_name: name, external_id } },
    { method: 'POST', path: '/orders', body: { title: name, client_id, external_id } },
    { method: 'PATCH', path: `/clients/${clientId}`, body: { phone: name }, ...ifCopied(actor, 'clients', clientId) },
    { method: 'PATCH', path: `/orders/${orderId}`, body: { title: name }, ...ifCopied(actor, 'orders', orderId) },
  ])
}

/** The version of the copy, for `If-Match`; that of a user is not checked. */
function ifCopied({ copy }: Actor, type: 'clients' | 'orders', id: number) {
  const version = copy?.[type].get(id)?.version
  return version === undefined ? {} : { ifMatch: version }
}

function changeOne(actor: Actor, name: string): Promise<void> {
  const { api, random, journal, copy } = actor
  const orderId = pickOrder(actor)
  const clientId = pickClient(actor)
  const changes = [
    async () => note(actor, 'clients', await api.clients.create({ company_name: name }), true),
    async () => note(actor, 'clients', await api.clients.create({ company_name: name, external_id: name }), true),
    async () => {
      // A key of its own, as the id of a job: repeated after a response, it is carried out once.
      const body = { title: name, client_id: random.between(1, KEPT_CLIENTS), deadline: '2027-01-31' }
      const options = { idempotencyKey: name.replaceAll(' ', '-') }
      const first = await api.orders.create(body, options)
      const again = random.chance(0.3) ? await api.orders.create(body, options) : first
      if (again.project.id !== first.project.id) throw new Error(`The key of ${name} made a second order.`)
      note(actor, 'orders', first.project, true)
    },
    async () => {
      const project = await changeCopied(actor, 'orders', orderId, (ifMatch) =>
        api.orders.update(orderId, { description: name, status_id: random.between(1, 3) }, ifMatch),
      )
      note(actor, 'orders', project.project, false)
    },
    async () => {
      const client = await changeCopied(actor, 'clients', clientId, (ifMatch) =>
        api.clients.update(clientId, { first_name: name }, ifMatch),
      )
      note(actor, 'clients', client, false)
    },
    async () => note(actor, 'orders', (await api.orders.delete(orderId)).project, false),
    async () => {
      const id = random.between(KEPT_CLIENTS + 1, CLIENTS)
      note(actor, 'clients', await api.clients.update(id, { deleted: random.chance(0.7) }), false)
    },
  ]
  const upsert = async () => {
    // Existing ones are replaced, others created.
    const externalId = `crm-${random.between(LINKED_CLIENTS - 50, LINKED_CLIENTS + 50)}`
    journal.upserted.add(externalId)
    note(actor, 'clients', await api.clients.upsert(externalId, { company_name: name }), false)
  }
  const change = random.pick(copy ? [...changes, upsert, upsert] : changes)
  return change().catch((error: ApiError) => refuse(actor, error.status, `${name}: ${error.stack}`))
}

/** Changes the version of the copy; where it is another one, reads the current one and tries once more. */
async function changeCopied<T>(
  actor: Actor,
  type: 'clients' | 'orders',
  id: number,
  change: (options: { ifMatch?: number }) => Promise<T>,
): Promise<T> {
  const options = ifCopied(actor, type, id)
  try {
    return await change(options)
  } catch (error) {
    if (options.ifMatch === undefined || (error as ApiError).reason !== 'version_mismatch') throw error
    const { api } = actor
    const ifMatch =
      type === 'clients' ? (await api.clients.get(id)).version : (await api.orders.get(id)).project.version
    return change({ ifMatch })
  }
}

function pickClient({ random, copy }: Actor): number {
  if (random.chance(0.3)) return random.between(1, CONTESTED)
  const ids = copy && random.chance(0.3) ? [...copy.clients.keys()].slice(-100).filter((id) => id > CLIENTS) : []
  return ids.length > 0 ? random.pick(ids) : random.between(LINKED_CLIENTS + CONTESTED + 100, CLIENTS)
}

function pickOrder({ random }: Actor): number {
  return random.chance(0.3) ? random.between(1, CONTESTED) : random.between(1, ORDERS)
}

function note({ journal }: Actor, type: 'clients' | 'orders', row: Client | Project, isCreated: boolean): void {
  const key = `${type} ${row.id}`
  journal.changes.set(key, [...(journal.changes.get(key) ?? []), row])
  if (isCreated) journal.created[type].push('company_name' in row ? row.company_name : row.title)
}

/** A deleted order cannot be changed, and another version is not overwritten. Everything else is an error. */
function refuse({ journal }: Actor, status: number, problem: string): void {
  if (status !== 404 && status !== 412) throw new Error(problem)
  journal.refused[status] = (journal.refused[status] ?? 0) + 1
}

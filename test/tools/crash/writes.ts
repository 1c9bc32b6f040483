import type { Random } from '../../support/random.ts'
import { ask } from '../harness/http.ts'
import type { Action, ClientFields, OrderFields, ThreadName, Write } from './state.ts'
import { BYTES_FOR_R2, makeThreadBody, THREAD_BYTES } from './threads.ts'

/** A request that hangs longer than this after a kill counts as left without a response. */
const PATIENCE_MS = 20_000

const SMALL_THREADS = 0.75
/** Of the writes of threads, beside those of a thread that is always as large. */
const THREADS_FOR_R2 = 0.1
const THREAD_FOR_R2 = 'thread-4'

/** A write of content that R2 holds, of a thread that never has other content. */
export const FIRST_WRITE: Action = {
  kind: 'email_thread.write',
  thread: { accountEmail: 'sales@shop.example', legacyThreadId: THREAD_FOR_R2 },
  bytes: BYTES_FOR_R2,
}
const MAILBOXES = ['sales@shop.example', 'art@shop.example']
const THREADS: ThreadName[] = MAILBOXES.flatMap((accountEmail) =>
  [1, 2, 3, 4].map((number) => ({ accountEmail, legacyThreadId: `thread-${number}` })),
)
const NAMES = ['Harbor Rowing', 'Ünïon Tees', 'Северный клуб', 'Maple School', 'Blue River Brewing']

export interface World {
  clientIds: number[]
  orderIds: number[]
  statusIds: number[]
  /** Orders and clients with a deletion sent: writes to those orders, and orders for those clients, may be refused. */
  maybeDeleted: { orders: Set<number>; clients: Set<number> }
}

/** The kinds of writes and how many of a hundred each is. */
const WEIGHTS: [number, (random: Random, world: World) => Action][] = [
  [25, (random) => ({ kind: 'client.create', fields: { company_name: nameFor(random), ...clientFields(random) } })],
  [15, updateClient],
  [20, createOrder],
  [
    18,
    (random, world) => ({ kind: 'order.update', id: random.pick(world.orderIds), fields: orderChange(random, world) }),
  ],
  [5, deleteOrder],
  [17, writeThread],
]

export function makeAction(random: Random, world: World): Action {
  let turn = random.between(
    1,
    WEIGHTS.reduce((sum, [weight]) => sum + weight, 0),
  )
  for (const [weight, make] of WEIGHTS) {
    turn -= weight
    if (turn <= 0) return make(random, world)
  }
  throw new Error('The weights do not add up.')
}

/**
 * Sends a write under its request id.
 *
 * @returns the write with its outcome, and a violation where the response is not allowed
 */
export async function send(
  url: string,
  token: string,
  requestId: string,
  action: Action,
  world: World,
): Promise<{ write: Write; violation: string | null }> {
  const { method, path, body } = requestOf(action, requestId)
  const done = (outcome: Write['outcome'], response: unknown, violation: string | null = null) => ({
    write: { requestId, action, outcome, response },
    violation,
  })
  const headers = { 'x-request-id': requestId }
  const answer = await ask({ url }, token, method, `/api/v1${path}`, { body, headers, timeoutMs: PATIENCE_MS })
  if (answer.status === 0) return done('unknown', null, answer.body)
  if (answer.status === 200) return done('acknowledged', answer.body)
  const found = `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`
  if (answer.status >= 500) return done('unknown', null, found)
  return done('refused', null, mayBeRefused(action, answer.status, world) ? null : found)
}

function mayBeRefused(action: Action, status: number, { maybeDeleted }: World): boolean {
  if (action.kind === 'order.create') return status === 400 && maybeDeleted.clients.has(action.fields.client_id)
  return status === 404 && 'id' in action && maybeDeleted.orders.has(action.id)
}

function requestOf(action: Action, mark: string): { method: string; path: string; body?: object } {
  switch (action.kind) {
    case 'client.create':
      return { method: 'POST', path: '/clients', body: action.fields }
    case 'client.update':
      return { method: 'PATCH', path: `/clients/${action.id}`, body: action.fields }
    case 'order.create':
      return { method: 'POST', path: '/orders', body: action.fields }
    case 'order.update':
      return { method: 'PATCH', path: `/orders/${action.id}`, body: action.fields }
    case 'order.delete':
      return { method: 'DELETE', path: `/orders/${action.id}` }
    case 'email_thread.write': {
      const { accountEmail, legacyThreadId } = action.thread
      const body = makeThreadBody(accountEmail, action.bytes, mark)
      return { method: 'PUT', path: `/mail/email-threads/${legacyThreadId}`, body }
    }
  }
}

function createOrder(random: Random, world: World): Action {
  const fields = { ...orderChange(random, world), title: nameFor(random), client_id: random.pick(world.clientIds) }
  return { kind: 'order.create', fields }
}

function deleteOrder(random: Random, world: World): Action {
  const id = random.pick(world.orderIds)
  world.maybeDeleted.orders.add(id)
  return { kind: 'order.delete', id }
}

function writeThread(random: Random): Action {
  const [small, usual, ...large] = THREAD_BYTES
  const thread = random.pick(THREADS)
  const isForR2 = random.chance(THREADS_FOR_R2) || thread.legacyThreadId === THREAD_FOR_R2
  const bytes = isForR2 ? BYTES_FOR_R2 : random.pick(random.chance(SMALL_THREADS) ? [small, usual] : large)
  return { kind: 'email_thread.write', thread, bytes }
}

const nameFor = (random: Random) => `${random.pick(NAMES)} ${random.hex(6)}`

function clientFields(random: Random): ClientFields {
  return {
    first_name: random.chance(0.2) ? null : 'Zoë',
    email: `${random.hex(8)}@Client.example`,
    phone: phone(random),
    ...(random.chance(0.3) && { external_id: externalId(random) }),
  }
}

function updateClient(random: Random, world: World): Action {
  const action = { kind: 'client.update', id: random.pick(world.clientIds), fields: clientChange(random) } as const
  if (action.fields.deleted) world.maybeDeleted.clients.add(action.id)
  return action
}

function clientChange(random: Random): ClientFields {
  if (random.chance(0.15)) return { deleted: random.chance(0.5) }
  if (random.chance(0.2)) return { external_id: random.chance(0.3) ? null : externalId(random) }
  return random.chance(0.5) ? { phone: phone(random) } : { company_name: nameFor(random), ...clientFields(random) }
}

/** Long enough that no two are equal: they are unique in the company. */
const externalId = (random: Random) => `shop:${random.hex(16)}`

const phone = (random: Random) => `(555) ${random.between(100, 999)}-${random.between(1_000, 9_999)}`

function orderChange(random: Random, world: World): OrderFields {
  return {
    description: `Print ${random.hex(8)}`,
    ...(random.chance(0.5) && { title: nameFor(random) }),
    ...(random.chance(0.5) && { client_notes: random.hex(20) }),
    ...(random.chance(0.5) && { deadline: `2027-0${random.between(1, 9)}-${random.between(10, 28)}` }),
    ...(random.chance(0.3) && { status_id: random.pick(world.statusIds) }),
    ...(random.chance(0.3) && { external_id: random.chance(0.3) ? null : externalId(random) }),
  }
}

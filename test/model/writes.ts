import { expect } from 'vitest'
import { expect200 } from '../support/app.ts'
import type { Random } from '../support/random.ts'
import { type Kind, maybe, oneIn } from './choice.ts'
import { addChange, addStatusChange, type Client, type Order, type Thread } from './company.ts'
import { MAILBOXES, type Shop, STATUSES, WORDS } from './shop.ts'

const timesOf = (row: { created_at: string; updated_at: string }) => ({
  created_at: Date.parse(row.created_at),
  updated_at: Date.parse(row.updated_at),
})

/** Sends a write that succeeds, and gives the body of its response. */
async function send(shop: Shop, ...input: Parameters<Shop['call']>) {
  return expect200(await shop.call(...input))
}

/** Names as they are searched for: words of several scripts, with a number. */
const nameOf = (shop: Shop, random: Random) =>
  `${random.pick(WORDS)} ${random.pick(['Harbor', 'regatta', random.pick(WORDS)])} ${shop.next()}`

/* Clients */

function clientFields(shop: Shop, random: Random) {
  return {
    ...(oneIn(2, random) && { first_name: random.pick([null, 'Ινές', 'Ñuño', '王']) }),
    ...(oneIn(2, random) && { last_name: random.pick([null, 'Weiß', 'Ćosić']) }),
    ...(oneIn(2, random) && { email: random.pick([null, `n${shop.next() % 50}@Neu.example`]) }),
    ...(oneIn(2, random) && { phone: random.pick([null, `+49 (555) ${shop.next()}`, '٣٤٥ 12']) }),
    ...(oneIn(4, random) && { external_id: random.pick([null, `N${shop.next()}`]) }),
  }
}

async function createClient(shop: Shop, random: Random): Promise<void> {
  const sent = { company_name: nameOf(shop, random), ...clientFields(shop, random) }
  const { client: row } = await send(shop, 'POST', '/clients', sent)
  const known = Math.max(shop.base, ...shop.model.clients.keys())
  expect(row.id).toBe(known + 1)
  const none = { first_name: null, last_name: null, email: null, phone: null, external_id: null }
  const client: Client = { ...none, ...sent, id: row.id, deleted: false, version: 1, ...timesOf(row) }
  shop.model.clients.set(client.id, client)
  addChange(shop.model, 'clients', client, true)
}

async function patchClient(shop: Shop, client: Client, sent: Partial<Client>): Promise<void> {
  const { client: row } = await send(shop, 'PATCH', `/clients/${client.id}`, sent)
  Object.assign(client, sent, { version: client.version + 1, ...timesOf(row) })
  expect(row.version).toBe(client.version)
  addChange(shop.model, 'clients', client, false)
}

async function changeClient(shop: Shop, random: Random): Promise<void> {
  const client = random.pick([...shop.model.clients.values()])
  const company_name = oneIn(2, random) ? { company_name: nameOf(shop, random) } : {}
  const sent = { ...company_name, ...clientFields(shop, random) }
  await patchClient(shop, client, Object.keys(sent).length > 0 ? sent : { company_name: client.company_name })
}

async function deleteOrRestoreClient(shop: Shop, random: Random): Promise<void> {
  const wanted = oneIn(2, random)
  const some = [...shop.model.clients.values()].filter(({ deleted }) => deleted !== wanted)
  if (some.length > 0) await patchClient(shop, random.pick(some), { deleted: wanted })
}

/* Orders */

const isLive = ({ deleted }: { deleted: boolean }) => !deleted
const liveClients = (shop: Shop) => [...shop.model.clients.values()].filter(isLive)
const liveOrders = (shop: Shop) => [...shop.model.orders.values()].filter(isLive)

function orderFields(shop: Shop, random: Random) {
  return {
    ...(oneIn(2, random) && { status_id: random.pick(STATUSES) }),
    ...(oneIn(4, random) && { external_id: random.pick([null, `N${shop.next()}`]) }),
  }
}

async function createOrder(shop: Shop, random: Random): Promise<void> {
  const { orders } = shop.model
  const client_id = random.pick(liveClients(shop)).id
  const { status_id = 2, external_id = null, ...rest } = orderFields(shop, random)
  const sent = { title: nameOf(shop, random), client_id, status_id, external_id, ...rest }
  const { project, invoice } = await send(shop, 'POST', '/orders', sent)
  expect(project.id).toBe(Math.max(shop.base, ...orders.keys()) + 1)
  const { id, created_date } = project
  const order: Order = {
    ...{ id, deleted: false, version: 1, title: sent.title, client_id, order_status_id: status_id, external_id },
    ...{ created_date, number: invoice.number },
    ...timesOf(project),
  }
  orders.set(order.id, order)
  addChange(shop.model, 'orders', order, true)
}

async function changeOrder(shop: Shop, random: Random): Promise<void> {
  const order = random.pick(liveOrders(shop))
  const { status_id, ...fields } = orderFields(shop, random)
  const sent: Partial<Order> = {
    ...fields,
    ...(oneIn(3, random) && { client_id: random.pick(liveClients(shop)).id }),
    ...(oneIn(2, random) && { title: nameOf(shop, random) }),
  }
  const body = { title: order.title, ...sent, ...(status_id !== undefined && { status_id }) }
  const { project } = await send(shop, 'PATCH', `/orders/${order.id}`, body)
  const status = status_id === undefined ? {} : { order_status_id: status_id }
  const { order_status_id: oldStatus } = order
  Object.assign(order, sent, status, { version: order.version + 1, ...timesOf(project) })
  expect(project.version).toBe(order.version)
  addChange(shop.model, 'orders', order, false)
  if (order.order_status_id !== oldStatus) addStatusChange(shop.model, order, oldStatus)
}

async function deleteOrder(shop: Shop, random: Random): Promise<void> {
  const order = random.pick(liveOrders(shop))
  const { project } = await send(shop, 'DELETE', `/orders/${order.id}`)
  Object.assign(order, { deleted: true, version: order.version + 1, ...timesOf(project) })
  addChange(shop.model, 'orders', order, false)
}

/* Mail */

async function putThread(shop: Shop, random: Random): Promise<void> {
  const { threads } = shop.model
  const known = maybe([...threads.values()], random)
  const account_email = known?.account_email ?? random.pick(MAILBOXES)
  const legacy_thread_id = known?.legacy_thread_id ?? `n${shop.next()}`
  const isSame = known && known.label !== '' && oneIn(3, random)
  const label = isSame ? known.label : `label ${shop.next()}`
  const message_count = isSame ? known.message_count : random.between(0, 2)
  const messages = Array.from({ length: message_count }, (_, at) => ({ id: `m${at}` }))
  const sent = { account_email, subject: `Thread ${shop.next()}`, messages, labels: [label] }
  const { email_thread: row } = await send(shop, 'PUT', `/mail/email-threads/${legacy_thread_id}`, sent)
  const thread: Thread = {
    ...{ id: known?.id ?? row.id, account_email, legacy_thread_id, subject: sent.subject },
    ...{ message_count, label, deleted: false, revision: (known?.revision ?? 0) + 1 },
    ...timesOf(row),
  }
  expect(row.id).toBe(thread.id)
  threads.set(`${account_email} ${legacy_thread_id}`, Object.assign(known ?? thread, thread))
  addChange(shop.model, 'email_threads', thread, !known)
}

async function deleteThread(shop: Shop, random: Random): Promise<void> {
  const thread = random.pick([...shop.model.threads.values()].filter(isLive))
  const path = `/mail/email-threads/${thread.legacy_thread_id}?account_email=${thread.account_email}`
  const { email_thread: row } = await send(shop, 'DELETE', path)
  Object.assign(thread, { deleted: true, revision: thread.revision + 1, ...timesOf(row) })
  addChange(shop.model, 'email_threads', thread, false)
}

async function putContext(shop: Shop, random: Random): Promise<void> {
  const { contexts } = shop.model
  const known = maybe([...contexts.values()], random)
  const legacy_thread_id = known?.legacy_thread_id ?? `n${shop.next()}`
  const some = <T extends { id: number }>(rows: T[]) => rows.slice(0, 3).map(({ id }) => id)
  const clients = [...some(liveClients(shop)), random.pick(liveClients(shop)).id].filter(() => oneIn(2, random))
  const orders = [...some(liveOrders(shop)), random.pick(liveOrders(shop)).id]
  const client_id = maybe(some(liveClients(shop)), random) ?? null
  const elements = (ids: number[]) => ids.map((id) => ({ id }))
  const body = { client_id, clients_data: elements(clients), orders_data: elements(orders) }
  await send(shop, 'PUT', `/mail/threads/${legacy_thread_id}`, body)
  const thread_id = known?.thread_id ?? legacy_thread_id
  contexts.set(legacy_thread_id, { thread_id, legacy_thread_id, client_id, clients, orders })
}

async function deleteContext(shop: Shop, random: Random): Promise<void> {
  const legacyId = maybe([...shop.model.contexts.keys()], random, 1)
  if (legacyId === undefined) return
  await send(shop, 'DELETE', `/mail/threads/${legacyId}`)
  shop.model.contexts.delete(legacyId)
}

export const WRITES: Partial<Record<Kind, (shop: Shop, random: Random) => Promise<void>>> = {
  createClient,
  changeClient,
  deleteOrRestoreClient,
  createOrder,
  changeOrder,
  deleteOrder,
  putThread,
  deleteThread,
  putContext,
  deleteContext,
}

import { expect } from 'vitest'
import type { Choice, Kind } from './choice.ts'
import { addChange, addStatusChange, type Client, type Order, type Thread } from './company.ts'
import { MAILBOXES, type Shop, STATUSES, WORDS } from './shop.ts'

const timesOf = (row: { created_at: string; updated_at: string }) => ({
  created_at: Date.parse(row.created_at),
  updated_at: Date.parse(row.updated_at),
})

/** Sends a write that succeeds, and gives the body of its response. */
async function send(shop: Shop, ...input: Parameters<Shop['call']>) {
  const { status, body } = await shop.call(...input)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

/** Names as they are searched for: words of several scripts, with a number. */
const nameOf = (shop: Shop, choice: Choice) =>
  `${choice.pick(WORDS)} ${choice.pick(['Harbor', 'regatta', choice.pick(WORDS)])} ${shop.next()}`

/* Clients */

function clientFields(shop: Shop, choice: Choice) {
  return {
    ...(choice.oneIn(2) && { first_name: choice.pick([null, 'Ινές', 'Ñuño', '王']) }),
    ...(choice.oneIn(2) && { last_name: choice.pick([null, 'Weiß', 'Ćosić']) }),
    ...(choice.oneIn(2) && { email: choice.pick([null, `n${shop.next() % 50}@Neu.example`]) }),
    ...(choice.oneIn(2) && { phone: choice.pick([null, `+49 (555) ${shop.next()}`, '٣٤٥ 12']) }),
    ...(choice.oneIn(4) && { external_id: choice.pick([null, `N${shop.next()}`]) }),
  }
}

async function createClient(shop: Shop, choice: Choice): Promise<void> {
  const sent = { company_name: nameOf(shop, choice), ...clientFields(shop, choice) }
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

async function changeClient(shop: Shop, choice: Choice): Promise<void> {
  const client = choice.pick([...shop.model.clients.values()])
  const company_name = choice.oneIn(2) ? { company_name: nameOf(shop, choice) } : {}
  const sent = { ...company_name, ...clientFields(shop, choice) }
  await patchClient(shop, client, Object.keys(sent).length > 0 ? sent : { company_name: client.company_name })
}

async function deleteOrRestoreClient(shop: Shop, choice: Choice): Promise<void> {
  const wanted = choice.oneIn(2)
  const some = [...shop.model.clients.values()].filter(({ deleted }) => deleted !== wanted)
  if (some.length > 0) await patchClient(shop, choice.pick(some), { deleted: wanted })
}

/* Orders */

const isLive = ({ deleted }: { deleted: boolean }) => !deleted
const liveClients = (shop: Shop) => [...shop.model.clients.values()].filter(isLive)
const liveOrders = (shop: Shop) => [...shop.model.orders.values()].filter(isLive)

function orderFields(shop: Shop, choice: Choice) {
  return {
    ...(choice.oneIn(2) && { status_id: choice.pick(STATUSES) }),
    ...(choice.oneIn(4) && { external_id: choice.pick([null, `N${shop.next()}`]) }),
  }
}

async function createOrder(shop: Shop, choice: Choice): Promise<void> {
  const { orders } = shop.model
  const client_id = choice.pick(liveClients(shop)).id
  const { status_id = 2, external_id = null, ...rest } = orderFields(shop, choice)
  const sent = { title: nameOf(shop, choice), client_id, status_id, external_id, ...rest }
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

async function changeOrder(shop: Shop, choice: Choice): Promise<void> {
  const order = choice.pick(liveOrders(shop))
  const { status_id, ...fields } = orderFields(shop, choice)
  const sent: Partial<Order> = {
    ...fields,
    ...(choice.oneIn(3) && { client_id: choice.pick(liveClients(shop)).id }),
    ...(choice.oneIn(2) && { title: nameOf(shop, choice) }),
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

async function deleteOrder(shop: Shop, choice: Choice): Promise<void> {
  const order = choice.pick(liveOrders(shop))
  const { project } = await send(shop, 'DELETE', `/orders/${order.id}`)
  Object.assign(order, { deleted: true, version: order.version + 1, ...timesOf(project) })
  addChange(shop.model, 'orders', order, false)
}

/* Mail */

async function putThread(shop: Shop, choice: Choice): Promise<void> {
  const { threads } = shop.model
  const known = choice.maybe([...threads.values()])
  const account_email = known?.account_email ?? choice.pick(MAILBOXES)
  const legacy_thread_id = known?.legacy_thread_id ?? `n${shop.next()}`
  const isSame = known && known.label !== '' && choice.oneIn(3)
  const label = isSame ? known.label : `label ${shop.next()}`
  const message_count = isSame ? known.message_count : choice.below(3)
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

async function deleteThread(shop: Shop, choice: Choice): Promise<void> {
  const thread = choice.pick([...shop.model.threads.values()].filter(isLive))
  const path = `/mail/email-threads/${thread.legacy_thread_id}?account_email=${thread.account_email}`
  const { email_thread: row } = await send(shop, 'DELETE', path)
  Object.assign(thread, { deleted: true, revision: thread.revision + 1, ...timesOf(row) })
  addChange(shop.model, 'email_threads', thread, false)
}

async function putContext(shop: Shop, choice: Choice): Promise<void> {
  const { contexts } = shop.model
  const known = choice.maybe([...contexts.values()])
  const legacy_thread_id = known?.legacy_thread_id ?? `n${shop.next()}`
  const some = <T extends { id: number }>(rows: T[]) => rows.slice(0, 3).map(({ id }) => id)
  const clients = [...some(liveClients(shop)), choice.pick(liveClients(shop)).id].filter(() => choice.oneIn(2))
  const orders = [...some(liveOrders(shop)), choice.pick(liveOrders(shop)).id]
  const client_id = choice.maybe(some(liveClients(shop))) ?? null
  const elements = (ids: number[]) => ids.map((id) => ({ id }))
  const body = { client_id, clients_data: elements(clients), orders_data: elements(orders) }
  await send(shop, 'PUT', `/mail/threads/${legacy_thread_id}`, body)
  const thread_id = known?.thread_id ?? legacy_thread_id
  contexts.set(legacy_thread_id, { thread_id, legacy_thread_id, client_id, clients, orders })
}

async function deleteContext(shop: Shop, choice: Choice): Promise<void> {
  const legacyId = choice.maybe([...shop.model.contexts.keys()], 1)
  if (legacyId === undefined) return
  await send(shop, 'DELETE', `/mail/threads/${legacyId}`)
  shop.model.contexts.delete(legacyId)
}

export const WRITES: Partial<Record<Kind, (shop: Shop, choice: Choice) => Promise<void>>> = {
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

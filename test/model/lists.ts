import { byKeys } from '../support/lists.ts'
import type { Random } from '../support/random.ts'
import { type Kind, maybe, oneIn } from './choice.ts'
import type { Change, Client, ListQuery, Model, Order, Thread } from './company.ts'
import { clientsOf, ordersOf } from './company.ts'
import { MAILBOXES, type Shop, STATUSES, WORDS } from './shop.ts'
import { Walk } from './walk.ts'

const LIMITS = [1, 2, 7, 25, 100] as const
const COLUMNS = ['id', 'created_at', 'updated_at'] as const
/** What changes during a walk matters to an order by the time of changes. */
const BY_CHANGE = ['updated_at', 'updated_at', 'updated_at', '-updated_at'] as const
export const SORTS = ['id', '-id', 'created_at', '-created_at', ...BY_CHANGE] as const
const isoTime = (ms: number) => new Date(ms).toISOString()

type Timed = { created_at: number; updated_at: number }
const withTimes = <T extends Timed>(row: T) => {
  return { ...row, created_at: isoTime(row.created_at), updated_at: isoTime(row.updated_at) }
}

/** Most rows have these: more than the 1,000 that a search gathers. */
const COMMON = ['harbor', 'Regatta', '55510', 'r', 'ar'] as const

/** A text that some row has a part of, of one, two, three or more characters; of any of the companies. */
function searchText(shops: readonly Shop[], random: Random): string {
  const [client] = [...random.pick(shops).model.clients.values()].slice(random.between(0, 49))
  const names = [client?.company_name, client?.last_name, client?.email, client?.phone, `${random.pick(WORDS)} regatta`]
  const characters = Array.from(random.pick(names.flatMap((name) => name ?? [])))
  const length = random.pick([1, 2, 3, 4, 5, 8, 60])
  const text = characters.slice(random.between(0, characters.length - length)).slice(0, length)
  if (oneIn(3, random)) return random.pick([...COMMON, '(555) 1', ' ', 'example', 'no such'])
  return random.pick([text.join(''), text.join('').toLowerCase(), text.join('').toUpperCase()])
}

/** The filters that the lists of clients and orders share. */
function commonQuery(shops: readonly Shop[], random: Random, rows: readonly Timed[]): ListQuery {
  return {
    ...(oneIn(3, random) && { deleted: random.pick(['exclude', 'include', 'only']) }),
    ...(oneIn(2, random) && { q: searchText(shops, random) }),
    ...(oneIn(5, random) && { updated_since: random.pick(rows).updated_at + random.between(0, 1) }),
    ...(oneIn(12, random) && { external_id: random.pick(['E7', 'E9', 'E101', 'N3', 'none']) }),
  }
}

/** Where a list begins, by the number of its rows. */
type Paging = (count: number) => { limit: number; page: number }

/** Near the end of an order by the time of changes is what was changed meanwhile. */
function randomPaging(random: Random): Paging {
  const limit = random.pick(LIMITS)
  return (count) => {
    const pages = Math.ceil(count / limit)
    return { limit, page: random.pick([1, 1 + random.between(0, pages), Math.max(1, pages - random.between(0, 2))]) }
  }
}

/** A list of clients or orders: the order is that of the first page, also where rows change. */
function openKeyset<R extends Client | Order>(
  shop: Shop,
  paging: Paging,
  list: {
    path: string
    query: ListQuery
    column: 'id' | 'created_at' | 'updated_at' | 'created_date'
    descends: boolean
    find: (model: Model, query: ListQuery) => R[]
    show: (row: R) => unknown
    expand?: string
  },
): Walk<R> {
  const { path, query, column, find, show, expand } = list
  // A row that was created after the first page has no place in an order by the time of its change.
  const all: ReadonlyMap<number, Client | Order> = path === '/clients' ? shop.model.clients : shop.model.orders
  const everyone = new Map(Array.from(all.values(), ({ id, updated_at }) => [id, updated_at]))
  const placeOf = (row: R): number | string => {
    if (column === 'updated_at') return everyone.get(row.id) ?? 0
    return column === 'created_date' ? ('created_date' in row ? row.created_date : '') : row[column]
  }
  return new Walk<R>({
    path,
    send: (address) => shop.call('GET', address),
    query: { ...wireOf(query), expand },
    ...paging(find(shop.model, query).length),
    rows: () => find(shop.model, query).filter((row) => column !== 'updated_at' || everyone.has(row.id)),
    compare: byKeys((row) => [placeOf(row), row.id], list.descends ? -1 : 1),
    show,
  })
}

function wireOf({ updated_since, status, ...query }: ListQuery) {
  const since = updated_since === undefined ? undefined : isoTime(updated_since)
  return { ...query, updated_since: since, status: status?.join() }
}

function listClients(shop: Shop, random: Random, shops: readonly Shop[]) {
  const common = commonQuery(shops, random, [...shop.model.clients.values()])
  const sort = maybe(SORTS, random)
  return openClients(shop, randomPaging(random), { ...common, ...(sort && { sort }) })
}

function openClients(shop: Shop, paging: Paging, query: ListQuery) {
  const list = { path: '/clients', query, ...orderOf(query.sort ?? '-id'), find: clientsOf, show: withTimes }
  return openKeyset<Client>(shop, paging, list)
}

/** The searches with most hits, in every order: what a few random steps may miss. */
export async function checkCommon(shop: Shop, sorts: readonly (string | undefined)[]): Promise<void> {
  for (const q of COMMON) {
    for (const sort of sorts) {
      const query = { q, ...(sort && { sort }) }
      for (const share of sort ? [0] : [0, 0.5, 0.99]) {
        const paging = (count: number) => ({ limit: 25, page: 1 + Math.floor((count / 25) * share) })
        await openClients(shop, paging, query).next()
        if (q !== '55510') await openOrders(shop, paging, query).next()
      }
    }
  }
}

function orderOf(sort: string) {
  const column = COLUMNS.find((each) => sort.endsWith(each)) ?? 'id'
  return { column, descends: sort.startsWith('-') }
}

function listOrders(shop: Shop, random: Random, shops: readonly Shop[]) {
  const common = commonQuery(shops, random, [...shop.model.orders.values()])
  const sort = maybe(SORTS, random)
  const query: ListQuery = {
    ...common,
    ...(sort && { sort }),
    ...(oneIn(4, random) && { client_id: random.pick([shop.base + 1, shop.base + 7, 999_999]) }),
    ...(oneIn(4, random) && { status: random.pick([[1], [2], [1, 2], [...STATUSES], [3, 9]]) }),
    ...(oneIn(4, random) && { from: random.pick(['2022-03-01', '2023-01-15', '2026-01-01']) }),
    ...(oneIn(4, random) && { to: random.pick(['2022-02-01', '2023-12-31', '2099-01-01']) }),
  }
  return openOrders(shop, randomPaging(random), query, maybe(['client', 'totals,client'], random, 3))
}

function openOrders(shop: Shop, paging: Paging, query: ListQuery, expand?: string) {
  const { clients } = shop.model
  const show = ({ number: _, ...order }: Order) => {
    const client = clients.get(order.client_id)
    return { ...withTimes(order), ...(expand && client && { client: withTimes(client) }) }
  }
  const order = query.sort ? orderOf(query.sort) : ({ column: 'created_date', descends: true } as const)
  return openKeyset<Order>(shop, paging, {
    ...{ path: '/orders', query, ...order, find: ordersOf, show },
    ...(expand && { expand }),
  })
}

function listThreads(shop: Shop, random: Random) {
  const account_email = random.pick(MAILBOXES)
  const deleted = random.pick(['exclude', 'include', 'only'] as const)
  const since = maybe([...shop.model.threads.values()], random, 3)?.updated_at
  const ofMailbox = () => [...shop.model.threads.values()].filter((thread) => thread.account_email === account_email)
  const isListed = (thread: Thread) =>
    (deleted === 'include' || thread.deleted === (deleted === 'only')) && thread.updated_at >= (since ?? 0)
  return new Walk<Thread>({
    path: '/mail/email-threads',
    send: (address) => shop.call('GET', address),
    query: { account_email, deleted, updated_since: since === undefined ? since : isoTime(since) },
    limit: random.pick(LIMITS),
    rows: () => ofMailbox().filter(isListed),
    compare: byKeys(({ created_at, id }) => [created_at, id], -1),
    show: ({ revision: _, label: __, ...thread }) => withTimes(thread),
    mayBeShort: true,
    scanned: { rows: ofMailbox, limit: 1_000 },
  })
}

function listContexts(shop: Shop, random: Random) {
  const isOfOrder = oneIn(2, random)
  const id = shop.base + 1 + random.between(0, 3)
  return new Walk({
    path: '/mail/threads',
    send: (address) => shop.call('GET', address),
    query: isOfOrder ? { order_id: id } : { client_id: id },
    limit: random.pick(LIMITS),
    rows: () =>
      [...shop.model.contexts.values()].filter(({ client_id, clients, orders }) =>
        isOfOrder ? orders.includes(id) : client_id === id || clients.includes(id),
      ),
    compare: byKeys(({ thread_id }) => [thread_id]),
    show: ({ thread_id, legacy_thread_id, client_id, clients, orders }) => ({
      ...{ thread_id, legacy_thread_id, client_id: client_id === null ? null : String(client_id) },
      clients_data: clients.map((each) => ({ id: each })),
      orders_data: orders.map((each) => ({ id: each })),
    }),
  })
}

function listChanges(shop: Shop, random: Random) {
  const { changes, threads } = shop.model
  const types = maybe(['clients', 'orders', 'email_threads', 'clients,email_threads'], random)
  const threadsById = () => new Map([...threads.values()].map((thread) => [thread.id, thread]))
  return new Walk<Change>({
    path: '/changes',
    send: (address) => shop.call('GET', address),
    query: { types },
    limit: random.pick([1, 100, 1_000]),
    rows: () => changes.filter(({ type }) => types === undefined || types.split(',').includes(type)),
    compare: byKeys(({ sequence }) => [sequence]),
    show: ({ sequence: _, ...change }) => {
      const thread = typeof change.id === 'string' ? threadsById().get(change.id) : undefined
      return { ...change, ...(thread && { legacy_thread_id: thread.legacy_thread_id }) }
    },
    mayBeShort: true,
  })
}

type Opener = (shop: Shop, random: Random, shops: readonly Shop[]) => { next(): Promise<boolean> }

/** Lists that are walked by cursors. */
export const WALKS: Partial<Record<Kind, Opener>> = { listClients, listOrders, listThreads, listContexts, listChanges }

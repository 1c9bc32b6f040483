import { expect } from 'vitest'
import { EVENT_TYPES } from '../../src/delivery/webhooks/event-types.ts'
import { adminCall } from '../support/admin.ts'
import { sql, sqlIn } from '../support/app.ts'
import { byKeys } from '../support/lists.ts'
import type { Choice } from './choice.ts'
import type { Delivery, Event, Token } from './company.ts'
import type { Shop } from './shop.ts'
import { type ListSpec, Walk } from './walk.ts'

const LIMITS = [1, 2, 7, 50, 100] as const
const EVENT_STATES = ['pending', 'parked', 'dead', 'done'] as const
const OWNER = 'owner@shop.example'
/** Of a company, which may have 50: tokens of the test's own come on top. */
const MAX_ACTIVE_TOKENS = 30
const MAX_WEBHOOKS = 8

/** Sends a change and records its entry. */
async function change(shop: Shop, method: string, path: string, body: unknown, action: string, entity?: string) {
  const response = await adminCall(method, `/companies/${shop.id}${path}`, body)
  expect(response.status, JSON.stringify(response.body)).toBe(200)
  shop.model.adminLog.push({ action, entity_id: entity ?? String(response.body.id) })
  return response.body
}

/** What the administration's lists have at first. Ids are the same in every company. */
export async function fillAdministration(shop: Shop, events: number): Promise<void> {
  const { model } = shop
  await sql('INSERT INTO members (company_id, email, role, created_at) VALUES (?, ?, ?, 0)', shop.id, OWNER, 'owner')
  model.members.set(OWNER, 'owner')
  for (let n = 0; n < 3; n++) await addWebhook(shop)
  const orders = [...model.orders.keys()]
  await shop.insert(
    'accounting_outbox',
    Array.from({ length: events }, (_, n) => ({
      order_id: orders[n % orders.length],
      operation: 'update',
      state: EVENT_STATES[n % 4],
      next_attempt_at: 0,
      created_at: 0,
      updated_at: 0,
    })),
  )
  model.events.push(
    ...(await sqlIn<Event>(
      shop.company.home,
      'SELECT id, order_id, operation, state FROM accounting_outbox WHERE company_id = ? ORDER BY id',
      shop.id,
    )),
  )
  for (const [id] of model.webhooks) await addDeliveries(shop, id, 5)
}

async function addWebhook(shop: Shop): Promise<void> {
  const { webhooks, changes } = shop.model
  const n = shop.next()
  const id = `we_${String(n).padStart(18, '0')}`
  const row = { url: `https://hooks.example/${n}`, position: changes.length, created_at: Math.floor(n / 2) }
  const stored = { ...row, secret: 'x', event_types: '[]', enabled: 0, updated_at: 0 }
  await shop.insert('webhook_endpoints', [{ id, ...stored }])
  webhooks.set(id, { id, ...row, event_types: [] })
}

async function addDeliveries(shop: Shop, endpoint_id: string, count: number): Promise<void> {
  const { changes, deliveries } = shop.model
  const known = deliveries.filter((each) => each.endpoint_id === endpoint_id).map(({ sequence }) => sequence)
  const first = Math.max(0, ...known)
  const added = changes.slice(first, first + count)
  await shop.insert(
    'webhook_deliveries',
    added.map(({ sequence, type, id }) => ({ endpoint_id, type, entity_id: String(id), sequence })),
  )
  deliveries.push(...added.map(({ sequence, id }) => ({ endpoint_id, sequence, entity_id: String(id) })))
}

const CHANGES: ((shop: Shop, choice: Choice) => Promise<void>)[] = [
  async function createOrRevokeToken(shop, choice) {
    const { tokens } = shop.model
    const active = tokens.filter(({ name, state }) => name !== 'test' && state === 'active')
    const doomed = choice.maybe(active, active.length > MAX_ACTIVE_TOKENS ? 1 : 3)
    if (doomed) {
      await change(shop, 'DELETE', `/tokens/${doomed.id}`, undefined, 'tokens.revoke')
      doomed.state = 'revoked'
    } else {
      const name = `Token ${shop.next()}`
      const { id } = await change(shop, 'POST', '/tokens', { name }, 'tokens.create')
      tokens.push({ id, name, state: 'active' })
    }
  },
  async function changeMembers(shop, choice) {
    const { members } = shop.model
    const others = [...members.keys()].filter((email) => email !== OWNER)
    const doomed = choice.maybe(others, 3)
    if (doomed) {
      await change(shop, 'DELETE', `/members/${doomed}`, undefined, 'members.delete', doomed)
      members.delete(doomed)
      return
    }
    const email = choice.maybe(others) ?? `m${shop.next()}@shop.example`
    const role = choice.pick(['developer', 'owner'])
    await change(shop, 'PUT', `/members/${email}`, { role }, 'members.put', email)
    members.set(email, role)
  },
  async function changeWebhooks(shop, choice) {
    const { model } = shop
    const webhook = choice.maybe([...model.webhooks.values()])
    if (!webhook) {
      if (model.webhooks.size < MAX_WEBHOOKS) await addWebhook(shop)
    } else if (choice.oneIn(3)) {
      await change(shop, 'DELETE', `/webhooks/${webhook.id}`, undefined, 'webhooks.delete')
      model.webhooks.delete(webhook.id)
      model.deliveries = model.deliveries.filter(({ endpoint_id }) => endpoint_id !== webhook.id)
    } else if (choice.oneIn(2)) {
      await addDeliveries(shop, webhook.id, 1 + choice.below(4))
    } else {
      const event_types = [choice.pick(EVENT_TYPES)]
      await change(shop, 'PATCH', `/webhooks/${webhook.id}`, { event_types }, 'webhooks.update:event_types')
      webhook.event_types = event_types
    }
  },
  async function retryEvent(shop, choice) {
    const event = choice.maybe(
      shop.model.events.filter(({ state }) => state !== 'done'),
      1,
    )
    if (!event) return
    const path = `/accounting-events/${event.id}/retry`
    await change(shop, 'POST', path, undefined, 'accounting_events.retry', String(event.id))
    event.state = 'pending'
  },
]

export const changeAdministration = (shop: Shop, choice: Choice) => choice.pick(CHANGES)(shop, choice)

type List = Pick<ListSpec<never>, 'path' | 'query'>

function open<R>(choice: Choice, list: List & Pick<ListSpec<R>, 'rows' | 'compare' | 'show'>) {
  return new Walk<R>({ ...list, send: (address) => adminCall('GET', address), limit: choice.pick(LIMITS) })
}

function walkAudit(shop: Shop, source: string | undefined, limit: number) {
  const { apiLog, adminLog } = shop.model
  return new Walk<{ action: string; entity_id: string; at: number }>({
    path: `/companies/${shop.id}/audit`,
    query: { source },
    send: (address) => adminCall('GET', address),
    limit,
    rows: () =>
      source === 'api'
        ? apiLog.map(({ action, entity_id, token_id }, at) => ({ action, entity_id, token_id, at }))
        : adminLog.map((entry, at) => ({ ...entry, at })),
    compare: byKeys(({ at }) => [at], -1),
    show: ({ at: _, ...entry }) => entry,
  })
}

/** The audit has an entry of each change, and no other. */
export async function checkAudit(shop: Shop): Promise<void> {
  const walk = walkAudit(shop, 'api', 100)
  while (await walk.next());
}

const LISTS: ((shop: Shop, choice: Choice) => { next(): Promise<boolean> })[] = [
  function listTokens(shop, choice) {
    const isOfAll = choice.oneIn(2)
    const id = isOfAll ? choice.maybe(shop.model.tokens, 3)?.id : undefined
    return open<Token>(choice, {
      path: isOfAll ? '/tokens' : `/companies/${shop.id}/tokens`,
      query: isOfAll ? { company_id: shop.id, id } : {},
      rows: () => shop.model.tokens.filter((token) => id === undefined || token.id === id),
      compare: byKeys((token) => [token.id]),
      show: (token) => ({ ...token, company_id: shop.id }),
    })
  },
  function listMembers(shop, choice) {
    return open(choice, {
      path: `/companies/${shop.id}/members`,
      query: {},
      rows: () => [...shop.model.members].map(([email, role]) => ({ email, role })),
      compare: byKeys(({ email }) => [email]),
      show: (member) => member,
    })
  },
  function listAudit(shop, choice) {
    return walkAudit(shop, choice.maybe(['administration', 'api', 'api'], 1), choice.pick(LIMITS))
  },
  function listWebhooks(shop, choice) {
    const isOfAll = choice.oneIn(2)
    const { webhooks, changes } = shop.model
    const id = isOfAll ? choice.maybe([...webhooks.keys()], 3) : undefined
    return open(choice, {
      path: isOfAll ? '/webhooks' : `/companies/${shop.id}/webhooks`,
      query: isOfAll ? { company_id: shop.id, id } : {},
      rows: () => [...webhooks.values()].filter((webhook) => id === undefined || webhook.id === id),
      compare: byKeys((webhook) => [webhook.created_at, webhook.id]),
      show: ({ id, url, event_types, position }) => ({
        ...{ id, url, event_types, company_id: shop.id, behind: changes.length - position },
      }),
    })
  },
  function listDeliveries(shop, choice) {
    const id = choice.maybe([...shop.model.webhooks.keys()], 1)
    if (id === undefined) return { next: async () => false }
    const walk = open<Delivery>(choice, {
      path: `/companies/${shop.id}/webhooks/${id}/deliveries`,
      query: {},
      rows: () => shop.model.deliveries.filter(({ endpoint_id }) => endpoint_id === id),
      compare: byKeys(({ sequence }) => [sequence]),
      show: ({ sequence, entity_id }) => ({ sequence, entity_id }),
    })
    // The list of an endpoint that was deleted meanwhile is 404.
    return { next: async () => shop.model.webhooks.has(id) && walk.next() }
  },
  function listEvents(shop, choice) {
    const isOfAll = choice.oneIn(2)
    const state = choice.maybe(['pending', 'parked', 'dead'])
    const id = isOfAll ? choice.maybe(shop.model.events, 3)?.id : undefined
    return open<Event>(choice, {
      path: isOfAll ? '/accounting-events' : `/companies/${shop.id}/accounting-events`,
      query: isOfAll ? { company_id: shop.id, state, id } : { state },
      rows: () =>
        shop.model.events.filter(
          (event) =>
            event.state !== 'done' &&
            (state === undefined || event.state === state) &&
            (id === undefined || event.id === id),
        ),
      compare: byKeys((event) => [event.id]),
      show: (event) => ({ ...event, company_id: shop.id }),
    })
  },
]

export const listAdministration = (shop: Shop, choice: Choice) => choice.pick(LISTS)(shop, choice)

/** The list of companies has these, each once, with the counts of their own rows. */
export async function checkCompanies(shops: readonly Shop[]): Promise<void> {
  const found = []
  for (let cursor = ''; ; ) {
    const { body } = await adminCall('GET', `/companies?per_page=100${cursor}`)
    found.push(...body.data)
    if (!body.pagination.has_more) break
    cursor = `&cursor=${body.pagination.next_cursor}`
  }
  const isOwn = ({ id }: { id: number }) => shops.some((shop) => shop.id === id)
  const count = (rows: Iterable<{ deleted: boolean }>) => [...rows].filter(({ deleted }) => !deleted).length
  expect(found.filter(isOwn)).toMatchObject(
    shops.map(({ id, company, model }) => ({
      ...{ id, database: company.home },
      client_count: count(model.clients.values()),
      order_count: count(model.orders.values()),
    })),
  )
}

import { env } from 'cloudflare:workers'
import { splitSeedFile } from '../../src/cli/split-file.ts'
import * as accounting from '../../src/delivery/accounting/queries.ts'
import * as webhooks from '../../src/delivery/webhooks/queries.ts'
import { openDatabase } from '../../src/kernel/db/client.ts'
import { listDueCompanies, listWebhookCompanies } from '../../src/kernel/db/sweep.ts'
import { continueMove } from '../../src/operation/copies/move.ts'
import type { SeedInput } from '../../src/operation/copies/seed/file.ts'
import { readPart } from '../../src/operation/copies/store.ts'
import { backUp, manifestsOf, restore, wipe } from '../operation/copies/support.ts'
import { adminCall, operatorOf } from '../support/admin.ts'
import { sql, sqlIn } from '../support/app.ts'
import { ENDPOINT, MAILBOX } from './twin-rows.ts'
import type { Actor } from './twins.ts'

/** Later than all that is stored. */
const NOW = 1_800_000_000_000

export async function administration({ id, administer, send, note, word, tokenId: own }: Actor) {
  const refuse = async (method: string, path: string) =>
    note(method, (await adminCall(method, path, method === 'POST' ? {} : undefined)).status)
  await refuse('GET', '/companies/5/members')
  // The token and the event before the company's own ones are those of the first company.
  await refuse('POST', `/companies/${id}/tokens/${own - 1}/rotate`)
  await refuse('DELETE', `/companies/${id}/tokens/${own - 1}`)
  const read = async (...paths: string[]) => {
    for (const path of paths) await administer('GET', path)
  }
  await read('', '/usage', '/members')
  await administer('PUT', '/members/b%40x.example', { role: 'owner' })
  for (const name of ['a', 'b', 'c']) await administer('DELETE', `/members/${name}%40x.example`)
  await administer('PUT', '/members/d%40x.example', { role: 'developer' })
  await read('/members?per_page=1')
  const { body } = await administer('POST', '/tokens', { name: 'second' })
  const tokenId: number = body.id
  await read('/tokens')
  await administer('POST', `/tokens/${tokenId}/rotate`, {})
  await administer('DELETE', `/tokens/${tokenId}`)
  await read('/tokens?per_page=1', '/integrations')
  const credentials = { account_number: '7', api_key: 'k' }
  await administer('PUT', '/integrations/supplier_b', { enabled: true, base_url: 'http://127.0.0.1:9', credentials })
  await read('/integrations', '/webhooks', `/webhooks/${ENDPOINT}`)
  await administer('PATCH', `/webhooks/${ENDPOINT}`, { enabled: false })
  await administer('PATCH', `/webhooks/${ENDPOINT}`, { enabled: true, event_types: ['order.created'] })
  await read(`/webhooks/${ENDPOINT}/deliveries`)
  await administer('POST', `/webhooks/${ENDPOINT}/rotate-secret`)
  const span = { from: '2020-01-01T00:00:00Z', to: '2030-01-01T00:00:00Z' }
  await administer('POST', `/webhooks/${ENDPOINT}/replay`, span)
  await administer('POST', '/webhooks', { url: 'https://example.com/hook' })
  await administer('DELETE', `/webhooks/${ENDPOINT}`)
  await read('/webhooks?per_page=1')
  const { body: events } = await administer('GET', '/accounting-events')
  await refuse('POST', `/companies/${id}/accounting-events/${events.data?.[0]?.id - 1}/retry`)
  await administer('POST', `/accounting-events/${events.data?.[0]?.id}/retry`, {})
  await administer('POST', '/accounting-events/retry', { states: ['dead', 'parked'] })
  await read('/accounting-events?per_page=1')
  for (const id of [1, 11]) await administer('PUT', `/clients/${id}/accounting-customer`, { customer_id: '77' })
  await read(`/imports/${'f'.repeat(64)}`, `/imports/${'e'.repeat(64)}`, '/audit')
  for (const last_name of ['B', 'C']) await send('PATCH', '/clients/1', { last_name })
  await read('/audit?source=api', '/audit?per_page=1', '/export')
  await administer('PATCH', '', { suspended: true })
  await send('GET', '/me')
  await administer('PATCH', '', { suspended: false, name: word })
  await read('')
}

/** The rows of a company in every kind of line of a backup. */
async function linesOf({ id, note }: Actor) {
  for (const manifest of await manifestsOf(id)) {
    note('company', [manifest.company, manifest.counts])
    const store = { bucket: env.BACKUPS, companyId: id }
    for (const part of manifest.parts) note('lines', await readPart(store, part))
  }
}

const change = async ({ call }: Actor) => {
  await call('PATCH', '/clients/1', { first_name: 'Changed' })
  await call('PATCH', '/orders/1', { title: 'Changed' })
  await call('DELETE', '/orders/2')
  await call('PUT', '/mail/email-threads/mail-2', { account_email: MAILBOX, messages: [{ id: 'Changed' }] })
}

export async function backups(actor: Actor) {
  await backUp(actor.id)
  await change(actor)
  await backUp(actor.id)
  await linesOf(actor)
  const { slot } = (await sql<{ slot: number }>('SELECT slot FROM companies WHERE id = ?', actor.id))[0] ?? { slot: 0 }
  await wipe(actor.id)
  actor.note('restore', await restore(actor.id, new Date().toISOString()))
  actor.note('slot', (await sql('SELECT slot FROM companies WHERE id = ? AND slot = ?', actor.id, slot)).length)
}

/** A file that repeats rows, changes some, and names rows of others. */
const file = (id: number): SeedInput => ({
  company: { id, name: 'Imported', accounting_sync_enabled: false },
  order_statuses: [
    { id: 1, title: 'New' },
    { id: 4, title: 'Imported', is_default: true },
  ],
  taxes: [{ id: 1, name: 'Imported', rate: 1 }],
  clients: [
    { id: 1, company_name: 'Changed', external_id: 'shop-1' },
    { id: 14, company_name: 'New', external_id: 'shop-11' },
  ],
  orders: [
    {
      ...{ id: 1, title: 'Changed', client_id: 1, artworks: [{ id: 1, name: 'Changed' }] },
      invoice: {
        ...{ id: 1, number: '1001', tax_id: 1, payments: [{ id: 1, amount: 9 }] },
        items: [{ id: 1, title: 'Changed', quantity: 9, unit_price: 9 }],
      },
    },
    {
      id: 14,
      title: 'New',
      client_id: 2,
      invoice: { id: 14, number: '1011', tax_id: 2, items: [{ id: 14, title: 'Tee', quantity: 1, unit_price: 1 }] },
    },
  ],
  catalog_items: [
    { id: 1, title: 'Changed' },
    { id: 14, title: 'New' },
  ],
  thread_contexts: [
    { thread_id: 'context-1', legacy_thread_id: 'thread-1', client_id: '2' },
    { thread_id: 'context-other', client_id: '1' },
  ],
  integrations: { supplier_b: { base_url: 'http://127.0.0.1:8', credentials: { account_number: '7', api_key: 'k' } } },
})

export async function imports({ id, administer }: Actor) {
  const load = async (input: SeedInput) => {
    const { parts } = splitSeedFile(input)
    const hash = 'e'.repeat(64)
    for (const [at, part] of parts.entries()) {
      await administer('POST', '/imports', { hash, part: at + 1, parts: parts.length, ...part })
    }
    await administer('GET', `/imports/${hash}`)
  }
  const all = file(id)
  const order = { id: 15, title: 'Bad', client_id: 1 }
  for (const bad of [
    { orders: [{ ...order, client_id: 11 }] },
    { orders: [{ ...order, order_status_id: 11 }] },
    { orders: [{ ...order, invoice: { id: 15, tax_id: 11 } }] },
    { orders: [{ ...order, id: 2, invoice: { id: 1 } }] },
    { orders: [{ ...order, invoice: { id: 15, number: '1001' } }] },
    { orders: [{ ...order, external_id: 'web-1' }] },
    { clients: [{ id: 15, company_name: 'Bad', external_id: 'shop-1' }] },
  ]) {
    await load({ company: all.company, ...bad } as SeedInput)
  }
  await load(all)
  await load(all)
}

export async function deliveries({ id, note }: Actor) {
  const context = { companyId: id, db: openDatabase(env.DB) }
  const set = (fields: string) => sql(`UPDATE companies SET ${fields} WHERE id = ?`, id)
  await note('paused', [await accounting.loadCompanyState(context), await webhooks.listEnabledEndpoints(context)])
  await set('deliveries_paused = 0')
  note('state', await accounting.loadCompanyState(context))
  for (const now of [1, 2, 5, 1_000]) note('queue', await accounting.loadQueue(context, now, 20))
  for (const order of [1, 2, 3, 11]) note('order', await accounting.loadOrder(context, order, NOW))
  const { events } = await accounting.loadOrder(context, 1, NOW)
  const [event, other] = events
  if (!event || !other) throw new Error('There is no event.')
  const sent = { state: 'sent', request_id: 'r-1', request_body: '{}' } as const
  const link = { external_id: '7', sync_token: '0', customer_id: '9' }
  // The event before is one of the first company.
  const before = { ...event, id: event.id - 1, request_id: null }
  await accounting.recordStep(context, before, { event: accounting.DONE }, NOW)
  const step = { event: sent, link, customer: { clientId: 1, customerId: '9' }, connection: { reason: 'x' } }
  await accounting.recordStep(context, event, step, NOW)
  note('sent', await accounting.loadOrder(context, 1, NOW))
  await accounting.recordStep(context, { ...event, ...sent }, { event: accounting.DONE }, NOW)
  await accounting.dropEvents(context, [other.id], NOW)
  await accounting.saveTokens(context, 'x')
  await accounting.switchRemoteAccount(context, 'https://x.example 2', 'https://accounting.example 1')
  await accounting.switchRemoteAccount(context, 'https://x.example 3', undefined)

  note('endpoints', await webhooks.listEnabledEndpoints(context))
  const round = await webhooks.loadRound(context, ENDPOINT, NOW)
  note('round', round)
  const due = round?.due[0]
  if (!due) throw new Error('The endpoint is not enabled, or nothing is due.')
  const retry = { attempts: 9, next_attempt_at: NOW, last_error: 'x' }
  const kept = [...round.feed.slice(0, 2), due].map((item) => ({ ...item, ...retry }))
  const ofRound = { done: [due], kept, released: [due], progress: { position: 5 } }
  const outcome = { ...ofRound, initial_failures: 2, disabledReason: null }
  note('saved', await webhooks.saveRound(context, round.endpoint, outcome, NOW))
  note('next', await webhooks.loadRound(context, ENDPOINT, NOW + 1))
  const ended = { done: [], kept: [], released: [], progress: {}, initial_failures: 3, disabledReason: 'x' }
  note('disabled', await webhooks.saveRound(context, round.endpoint, ended, NOW))
  note('none', await webhooks.loadRound(context, ENDPOINT, NOW + 1))
}

/** The sweep reads all companies: only what it finds of this one is noted. */
export async function sweeps({ id, note }: Actor) {
  const db = openDatabase(env.DB)
  const setAll = (text: string) => sqlIn('DB', text, id)
  const look = async (name: string) =>
    note(name, [(await listDueCompanies(db, NOW)).includes(id), (await listWebhookCompanies(db, NOW)).includes(id)])
  const pause = (paused: number, own: '=' | '<>') =>
    setAll(
      `UPDATE companies SET deliveries_paused = ${paused} WHERE id ${own} ? AND id NOT IN (SELECT company_id FROM company_guards)`,
    )
  await pause(0, '<>')
  await look('paused')
  await pause(0, '=')
  await look('open')
  await setAll('UPDATE companies SET last_change = 0 WHERE id = ?')
  await look('due deliveries')
  await setAll('UPDATE webhook_deliveries SET next_attempt_at = NULL WHERE company_id = ?')
  await setAll("UPDATE accounting_outbox SET state = 'done' WHERE company_id = ?")
  await look('nothing due')
  await pause(1, '<>')
}

/** Moves to the other database, while clients, orders and threads change. */
export async function moves(actor: Actor) {
  for (let count = 0, done = false; !done; count++) {
    if (count === 500) throw new Error('The move does not end.')
    const result = await continueMove(env, operatorOf(actor.id), 'DB_TWO', count < 12 ? 0 : 2_000)
    done = result.done
    if (count === 4 || count === 10) await change(actor)
  }
}

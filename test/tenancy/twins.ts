import { env } from 'cloudflare:workers'
import { expect } from 'vitest'
import { fold } from '../../src/kernel/db/search.ts'
import { rowsOf } from '../operation/copies/support.ts'
import { adminCall } from '../support/admin.ts'
import {
  type ApiResponse,
  type Home,
  migrate,
  mintCompany,
  removeEverything,
  sql,
  sqlIn,
  type TestCompany,
} from '../support/app.ts'
import { insertion } from '../support/rows.ts'
import { dump, rowsOf as rowsOfDump } from '../support/two-companies.ts'

/*
 * A scenario runs twice: for a company that has the database to itself, and for one between two others whose rows have
 * the same ids, emails, addresses and keys. Both companies must see and store the same. No expected value is written
 * down, so a scenario only lists requests.
 */

/** The company that a scenario acts for. What it notes must be the same in both runs. */
export interface Actor extends TestCompany {
  word: string
  tokenId: number
  note: (name: string, value: unknown) => void
  /** Sends a request and notes its response. */
  send: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<ApiResponse>
  /** The same to the administration API, with a path behind that of the company. */
  administer: (method: string, path: string, body?: unknown) => Promise<ApiResponse>
}

export type Scenario = (actor: Actor) => Promise<unknown>

/** How the others differ: the first has fewer rows with other values, the last has more. */
type Kind = 'first' | 'middle' | 'last'

export const MAILBOX = 'box@x.example'
export const ENDPOINT = 'we_000000000000000001'
const OTHER_ENDPOINT = 'we_000000000000000002'
const LONG_AGO = 1_700_000_000_000
const NEVER = 9_000_000_000_000
/** The feeds of two companies begin here, that of the first at 1. */
const FEED = 10_000
const THREAD_ID = '12345678-1234-4234-8234-123456789012'

type Row = Record<string, unknown>

/** Rows of every table that requests do not fill, by ids that all companies share. */
function rowsFor(word: string, kind: Kind): [table: string, row: Row][] {
  const isOwn = kind === 'middle'
  const factor = { first: 3, middle: 1, last: 7 }[kind]
  const times = { created_at: LONG_AGO, updated_at: LONG_AGO + factor }
  const ids = kind === 'last' ? [1, 2, 3, 4, 5, 11, 12, 13] : isOwn ? [1, 2, 3] : [1, 2, 3, 6]
  // Of the first company, the invoices of orders 1 and 3 have each other's ids.
  const invoiceOf = (order: number) => (kind === 'first' && order < 4 ? 4 - order : order)
  const emailOf = (id: number) => `c${kind === 'first' && id < 4 ? 4 - id : Math.min(id, 3)}@x.example`
  // The others' first client is found by what is the title of orders.
  const nameOf = (id: number) => `${word} tee ${id}${!isOwn && id === 1 ? ' order' : ''}`
  const isDeleted = (id: number) => Number(id === { first: 2, middle: 3, last: 12 }[kind])
  const ofId = (id: number): Record<string, Row | Row[]> => ({
    order_statuses: {
      id,
      title: word,
      color: word,
      position: isOwn ? id : 10 - id,
      is_default: isOwn === (id === 1) ? 1 : 0,
    },
    taxes: { id, name: word, rate: factor, accounting_tax_code_id: word },
    clients: {
      id,
      external_id: `shop-${id}`,
      company_name: nameOf(id),
      company_name_key: fold(nameOf(id)),
      email: emailOf(id),
      email_key: fold(emailOf(id)),
      phone: '5550100',
      phone_key: '5550100',
      phone_digits: '5550100',
      deleted: isDeleted(id),
      tax_exempt: isOwn ? 0 : 1,
      tax_exempt_reason: word,
      accounting_customer_id: `${word}-${id}`,
      ...times,
    },
    orders: {
      id,
      external_id: `web-${id}`,
      title: `${word} order ${id}`,
      title_key: fold(`${word} order ${id}`),
      number_key: String(1000 + id),
      client_id: kind === 'last' && id === 2 ? 1 : id,
      order_status_id: id === 2 ? null : id,
      created_date: `2026-01-0${Math.min(id, 9)}`,
      deleted: isDeleted(id),
      version: factor,
      ...times,
    },
    invoices: {
      id: invoiceOf(id),
      project_id: id,
      number: String(1000 + id),
      tax_id: id,
      deleted: Number(isOwn && id === 2),
      tax_exempt_reason: word,
      ...times,
    },
    invoice_items: [item(id, invoiceOf(id)), item(id + 100, invoiceOf(isOwn ? id : 1))],
    payments: { id, invoice_id: invoiceOf(id), amount_cents: 100 * factor, method: word, note: word },
    artworks: { id, project_id: id, name: word, placements: JSON.stringify([word]), colors: '[]' },
    catalog_items: { id, title: `${word} tee`, price_cents: 100 * factor, search_text: fold(`${word} tee`) },
    thread_contexts: context(`context-${id}`, id),
    accounting_outbox: statesOf(id).map((state) => event(id, state)),
    accounting_links: {
      order_id: id,
      external_id: `${word}-${id}`,
      sync_token: String(factor),
      customer_id: word,
      synced_at: LONG_AGO + factor,
    },
  })
  const ofCompany: Record<string, Row[]> = {
    // The client of these exists in the others alone; an order ties the second to its company.
    thread_contexts: [
      { ...context('context-9', isOwn ? 11 : 1), legacy_thread_id: 'thread-9' },
      { ...context('context-8', 1), legacy_thread_id: 'thread-8', client_id: isOwn ? '11' : '1' },
    ],
    accounting_connections: [
      {
        remote_account: 'https://accounting.example 1',
        tokens: word,
        paused_until: isOwn ? 1 : NEVER,
        reason: `${word} stopped`,
        stopped_for: LONG_AGO,
      },
    ],
    integrations: ['accounting_sync', 'supplier_a', 'supplier_b', 'storage'].map((name) => ({
      ...{ kind: name, enabled: isOwn && OFF.includes(name) ? 0 : 1, base_url: `http://127.0.0.1:9/${word}` },
      ...{ credentials: word, updated_at: isOwn ? LONG_AGO + 1 : LONG_AGO },
    })),
    webhook_endpoints: [ENDPOINT, OTHER_ENDPOINT].map((id) => ({
      ...{ id, url: `http://127.0.0.1:9/${word}`, secret: word, event_types: '["client.created","client.updated"]' },
      ...{ enabled: isOwn === (id === ENDPOINT) ? 1 : 0, position: factor, ...times },
    })),
    webhook_deliveries: [1, 2, 3].map((sequence) => ({
      ...{ endpoint_id: ENDPOINT, type: 'clients', entity_id: '1', attempts: factor, last_error: word },
      ...{ sequence: kind === 'first' ? sequence : FEED + sequence },
      ...{ first_attempt_at: factor, next_attempt_at: (sequence === 1) === isOwn ? factor : null },
    })),
    members: ['a@x.example', 'b@x.example', ...(isOwn ? [] : ['c@x.example'])].map((email) => {
      return { email, role: isOwn === (email === 'a@x.example') ? 'owner' : 'developer', created_at: factor }
    }),
    imports: [{ hash: 'f'.repeat(64), parts: 9, next_part: 1 + factor, updated_at: factor }],
    audit_log: [{ id: 1, token_id: factor, request_id: word, action: `${word}.update`, entity_id: '1', at: LONG_AGO }],
    admin_log: [{ actor: 'operator', action: 'x', entity_id: word, address: '::1', request_id: word, at: LONG_AGO }],
  }
  return [...ids.map(ofId), ofCompany].flatMap((tables) =>
    Object.entries(tables).flatMap(([table, rows]) => [rows].flat().map((row): [string, Row] => [table, row])),
  )

  function item(id: number, invoice_id: number): Row {
    const title = `${word} tee ${id}`
    const price = { quantity: factor, unit_price_cents: 100 }
    return { id, invoice_id, title, ...price, search_text: fold(title), description: word }
  }
  function context(thread_id: string, id: number): Row {
    const objects = [{ id, title: word }, ...(isOwn ? [{ id: 11, title: word }] : [])]
    return {
      thread_id: isOwn ? thread_id : thread_id.replace('context-2', 'another'),
      legacy_thread_id: `thread-${id}`,
      client_id: String(id),
      client_data: JSON.stringify(objects.at(-1)),
      clients_data: JSON.stringify(objects),
      orders_data: JSON.stringify(objects),
      selected_order_id: String(objects.at(-1)?.id),
      fetched_at: factor,
      updated_at: factor,
    }
  }
  function statesOf(order: number): string[] {
    if (order === 1) return isOwn ? ['pending', 'dead', 'done'] : ['pending', 'sent', 'parked', 'done']
    return isOwn ? ['dead', 'done'] : ['dead', 'parked', 'pending']
  }
  function event(order_id: number, state: string): Row {
    const attempts = { attempts: factor, next_attempt_at: state === 'pending' ? order_id * factor : NEVER }
    const body = state === 'sent' ? { request_id: 'r-1', request_body: '{}' } : {}
    return { order_id, operation: 'update', state, last_error: word, ...attempts, ...body, ...times }
  }
}

const OFF = ['supplier_b', 'storage']
const WORDS = { first: 'ALPHA', middle: 'BRAVO', last: 'CHARL' }

async function mintTwin(kind: Kind, home: Home) {
  const word = WORDS[kind]
  const company = await mintCompany({ home })
  for (const table of ['order_statuses', 'taxes'])
    await sqlIn(home, `DELETE FROM ${table} WHERE company_id = ?`, company.id)
  await sqlIn(
    home,
    `UPDATE companies SET last_client_id = 0, last_order_id = 0, last_invoice_id = 0, accounting_sync_enabled = 1, deliveries_paused = 1, backed_up_at = ?2,
       mail_quota_bytes = ?3 WHERE id = ?1`,
    ...[company.id, LONG_AGO, kind === 'middle' ? 2 ** 31 : 2 ** 30],
  )
  for (const isDirectory of [false, true]) {
    const database = isDirectory ? 'DB' : home
    const rows = rowsFor(word, kind).filter(([table]) => DIRECTORY.includes(table) === isDirectory)
    await env[database].batch(
      rows.map(([table, row]) => insertion(table, { company_id: company.id, ...row }, database)),
    )
  }
  const [token] = await sql<{ id: number }>('SELECT id FROM api_tokens WHERE company_id = ?', company.id)
  const mailThread = { account_email: MAILBOX, subject: word, messages: [{ id: word }], labels: [word] }
  const more = kind === 'last' ? ['mail-1', 'mail-2', 'mail-3', 'mail-11'] : ['mail-1', 'mail-2', 'mail-3']
  for (const id of more) expect((await company.call('PUT', `/mail/email-threads/${id}`, mailThread)).status).toBe(200)
  if (kind !== 'middle') await company.call('DELETE', `/mail/email-threads/mail-1?account_email=${MAILBOX}`)
  for (const id of [1, 2, 3]) await env.FILES.put(`orders/${company.id}/${id}/${word}.txt`, word)

  if (kind === 'first') {
    const content = { message_count: 0, last_synced_at: 0, content_hash: 'x', revision: 1, content_revision: 1 }
    const thread = { id: THREAD_ID, account_email: 'other@x.example', legacy_thread_id: 'mail-2', ...content }
    await insertion('email_threads', { company_id: company.id, ...thread, created_at: 0, updated_at: 0 }, home).run()
  } else {
    await sqlIn(home, 'UPDATE changes SET sequence = sequence + ?2 WHERE company_id = ?1', company.id, FEED)
    await sqlIn(home, 'UPDATE companies SET last_change = last_change + ?2 WHERE id = ?1', company.id, FEED)
  }
  if (kind !== 'middle') await sqlIn(home, 'UPDATE companies SET mail_bytes_checked = 1 WHERE id = ?', company.id)
  // No request writes such a row: it names a thread of another company.
  const ofThread = { type: 'email_threads', entity_id: THREAD_ID, operation: 'update' }
  const foreign = { sequence: FEED + 99, ...ofThread, version: 1, at: NEVER }
  if (kind === 'middle') {
    await insertion('changes', { company_id: company.id, ...foreign }, home).run()
    await sqlIn(home, 'UPDATE companies SET last_change = ?2 WHERE id = ?1', company.id, FEED + 99)
  }
  if (kind === 'last') {
    // While the company is changed, and later: of rows that it has, too.
    const late = [0, 1, 2, 3, 4, 5].flatMap((at) => [
      { ...foreign, type: 'clients', entity_id: '3', sequence: FEED + 100 + 2 * at },
      { ...foreign, type: 'orders', entity_id: '3', sequence: FEED + 101 + 2 * at },
      { ...foreign, type: at % 2 ? 'clients' : 'orders', entity_id: '1', sequence: 3 * FEED + at },
    ])
    const guard = { company_id: company.id, state: 'moved', destination: 'DB_TWO', slot: 7 }
    await env[home].batch([
      ...late.map((row) => insertion('changes', { company_id: company.id, ...row, previous_updated_at: 5 }, home)),
      insertion('company_guards', guard, home),
    ])
  }

  const notes: [string, unknown][] = []
  const actor: Actor & { notes: unknown } = Object.assign(company, {
    word,
    notes,
    tokenId: token?.id ?? 0,
    note: (name: string, value: unknown) => void notes.push([name, value]),
    send: async (...input: Parameters<TestCompany['call']>) => {
      const response = await actor.call(...input)
      const { status, headers, body } = response
      actor.note(`${input[0]} ${input[1].replace(/cursor=.*/, 'cursor')}`, [status, headers.get('etag'), body])
      return response
    },
    administer: async (method: string, path: string, body?: unknown) => {
      const response = await adminCall(method, `/companies/${company.id}${path}`, body)
      actor.note(`admin ${method} ${path.replace(/\/\d+/, '/ID')}`, [response.status, response.body])
      return response
    },
  })
  return actor
}

/** Tables of the directory, wherever the company's data is. */
const DIRECTORY = ['members', 'admin_log']

/** Everything that a run left, and noted, in words that do not tell one run from another. */
async function outcomeOf(actor: Awaited<ReturnType<typeof mintTwin>>): Promise<unknown> {
  const walk = (value: unknown, key = '', parent: Row = {}, table = ''): unknown => {
    if (Array.isArray(value)) return value.map((each) => walk(each, key, parent, table))
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([name, each]) => [
          name.replaceAll(String(actor.id), 'COMPANY'),
          walk(each, name, value as Row, table || key),
        ]),
      )
    }
    if (value === actor.id) return 'COMPANY'
    if (value !== null && (GLOBAL.test(key) || (key === 'entity_id' && OF_TOKEN.test(String(parent.action)))))
      return 'ID'
    if (key === 'id' && (GLOBAL_TABLES.test(table) || OF_GLOBAL.some((name) => name in parent))) return 'ID'
    if (typeof value === 'number') return value > 1_750_000_000_000 && value < NEVER ? 'TIME' : value
    if (typeof value !== 'string') return value
    return value
      .replaceAll(String(actor.id), 'COMPANY')
      .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, 'UUID')
      .replaceAll(/\b(20(2[5-9]|[3-9]\d)-\d\d-\d\d)?T[\d:.]+Z/g, 'TIME')
      .replaceAll(/\b1[78]\d{11}\b/g, 'TIME')
      .replaceAll(/-[\da-f]{16}\b/g, '-HASH')
      .replaceAll(/\bwe_(?!0{15})[\da-f]{18}\b/g, 'ENDPOINT')
  }
  const everywhere = rowsOfDump(await dump([actor.id]), actor.id)
  const rows = [...Object.entries(await rowsOf(actor.id)), ...Object.entries(everywhere)].map(([table, all], index) => [
    `${index} ${table}`,
    all.map((row) => JSON.stringify(walk(row, '', row, table))).sort(),
  ])
  return { notes: walk(actor.notes), rows: Object.fromEntries(rows) }
}

/** Fields that differ between any two runs. */
const GLOBAL =
  /^(token_id|token_hash|request_id|slot|database_slot|next_cursor|secret|token|content_hash|hint|credentials|database_ms|source_id)$/
const GLOBAL_TABLES = /^(audit_log|admin_log|accounting_outbox|api_tokens|email_threads|email_thread_objects)$/
/** What an administrator did to such a row. */
const OF_TOKEN = /^(tokens|accounting_events)\./
/** A response with one of these has the id of such a row. */
const OF_GLOBAL = ['attempts', 'actor', 'action', 'permissions', 'token_id']

/** Runs the scenario alone, in a database of its own. */
async function runAlone(scenario: Scenario, home: Home): Promise<unknown> {
  await removeEverything()
  await migrate(true)
  const actor = await mintTwin('middle', home)
  await scenario(actor)
  return outcomeOf(actor)
}

/** Runs the scenario between two others. @returns what it left, and what the others had before and after it */
async function runBetween(scenario: Scenario, home: Home, homeOfOthers: Home) {
  const first = await mintTwin('first', homeOfOthers)
  const actor = await mintTwin('middle', home)
  const last = await mintTwin('last', homeOfOthers)
  const others = async () => [await rowsOf(first.id), await rowsOf(last.id)]
  const before = await others()
  await scenario(actor)
  return { outcome: await outcomeOf(actor), before, after: await others() }
}

/** Expects that a scenario neither depends on other companies nor changes anything of theirs. */
export async function expectSeparate(scenario: Scenario, home: Home, homeOfOthers = home): Promise<void> {
  const alone = await runAlone(scenario, home)
  const { outcome, before, after } = await runBetween(scenario, home, homeOfOthers)
  expect(outcome).toEqual(alone)
  expect(after).toEqual(before)
}

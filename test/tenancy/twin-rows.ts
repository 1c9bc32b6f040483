import { fold } from '../../src/kernel/db/columns.ts'

/** How the others differ: the first has fewer rows with other values, the last has more. */
export type Kind = 'first' | 'middle' | 'last'

export const MAILBOX = 'box@x.example'
export const ENDPOINT = 'we_000000000000000001'
const OTHER_ENDPOINT = 'we_000000000000000002'
export const LONG_AGO = 1_700_000_000_000
export const NEVER = 9_000_000_000_000
/** The feeds of two companies begin here, that of the first at 1. */
export const FEED = 10_000

export type Row = Record<string, unknown>

const OFF = ['supplier_b', 'storage']

/** Rows of every table that requests do not fill, by ids that all companies share. */
export function rowsFor(word: string, kind: Kind): [table: string, row: Row][] {
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
      ...{ id, title: word, color: word, position: isOwn ? id : 10 - id },
      is_default: isOwn === (id === 1) ? 1 : 0,
    },
    taxes: { id, name: word, rate: factor, accounting_tax_code_id: word },
    clients: {
      ...{ id, external_id: `shop-${id}`, deleted: isDeleted(id), accounting_customer_id: `${word}-${id}` },
      ...{ company_name: nameOf(id), company_name_key: fold(nameOf(id)) },
      ...{ email: emailOf(id), email_key: fold(emailOf(id)) },
      ...{ phone: '5550100', phone_key: '5550100', phone_digits: '5550100' },
      ...{ tax_exempt: isOwn ? 0 : 1, tax_exempt_reason: word, ...times },
    },
    orders: {
      ...{ id, external_id: `web-${id}`, deleted: isDeleted(id), version: factor },
      ...{ title: `${word} order ${id}`, title_key: fold(`${word} order ${id}`), number_key: String(1000 + id) },
      ...{ client_id: kind === 'last' && id === 2 ? 1 : id, order_status_id: id === 2 ? null : id },
      ...{ created_date: `2026-01-0${Math.min(id, 9)}`, ...times },
    },
    invoices: {
      ...{ id: invoiceOf(id), project_id: id, number: String(1000 + id), tax_id: id, tax_exempt_reason: word },
      ...{ deleted: Number(isOwn && id === 2), ...times },
    },
    invoice_items: [item(id, invoiceOf(id)), item(id + 100, invoiceOf(isOwn ? id : 1))],
    payments: { id, invoice_id: invoiceOf(id), amount_cents: 100 * factor, method: word, note: word },
    artworks: { id, project_id: id, name: word, placements: JSON.stringify([word]), colors: '[]' },
    catalog_items: { id, title: `${word} tee`, price_cents: 100 * factor, search_text: fold(`${word} tee`) },
    thread_contexts: context(`context-${id}`, id),
    accounting_outbox: statesOf(id).map((state) => event(id, state)),
    accounting_links: {
      ...{ order_id: id, external_id: `${word}-${id}`, sync_token: String(factor), customer_id: word },
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
        ...{ remote_account: 'https://accounting.example 1', tokens: word, reason: `${word} stopped` },
        ...{ paused_until: isOwn ? 1 : NEVER, stopped_for: LONG_AGO },
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
    const all = JSON.stringify(objects)
    return {
      ...{ thread_id: isOwn ? thread_id : thread_id.replace('context-2', 'another'), legacy_thread_id: `thread-${id}` },
      ...{ client_id: String(id), client_data: JSON.stringify(objects.at(-1)), clients_data: all, orders_data: all },
      ...{ selected_order_id: String(objects.at(-1)?.id), fetched_at: factor, updated_at: factor },
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

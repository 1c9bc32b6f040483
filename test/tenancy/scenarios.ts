import { EXPANSIONS } from '../../src/resources/orders/shapes.ts'
import { sql } from '../support/app.ts'
import { administration, backups, deliveries, imports, moves, sweeps } from './services.ts'
import { MAILBOX } from './twin-rows.ts'
import type { Actor, Scenario } from './twins.ts'
import { mail, writesOfClients, writesOfInvoices, writesOfOrders } from './writes.ts'

/** Paths of a list, by their queries. */
const queriesOf = (list: string, ...queries: string[]) => queries.map((query) => `${list}?${query}`)

const DELETED_SINCE = 'deleted=include&updated_since=1970-01-01T00:00:00Z'

const READS = [
  ...['/me', '/order-statuses', '/taxes', '/changes', '/changes?start=latest', '/changes?expand=object'],
  ...['/clients', '/clients?page=2&per_page=1', '/clients?q=tee&page=2&per_page=1'],
  ...queriesOf('/clients', 'q=tee', 'q=te', 'q=e', 'q=5550100', 'q=alpha', 'external_id=shop-2', 'external_id=shop-11'),
  ...queriesOf('/clients', 'deleted=only', 'sort=created_at&deleted=include', `sort=updated_at&${DELETED_SINCE}`),
  '/clients?q=tee&sort=-created_at&deleted=include',
  ...['/clients/1', '/clients/11', '/clients/c3%40x.example', '/clients/-?email=c1@x.example'],
  ...['/clients/by-external-id/shop-1', '/clients/by-external-id/shop-11'],
  ...['/orders', '/orders?page=2&per_page=1'],
  ...queriesOf('/orders', 'q=order', 'q=tee', 'q=tee%201', 'q=1001', 'q=alpha', 'client_id=1', 'client_id=11'),
  ...queriesOf('/orders', 'client_id=1&status=1', 'client_id=1&from=2026-01-01', 'status=1', 'status=1,2'),
  ...queriesOf('/orders', 'status=1&from=2026-01-01', 'from=2026-01-01&to=2026-01-02', 'deleted=only'),
  ...queriesOf('/orders', `sort=-updated_at&${DELETED_SINCE}&expand=totals,client`, 'expand=totals,client'),
  ...queriesOf('/orders', 'sort=id&deleted=include&external_id=web-2', `deleted=include&expand=${EXPANSIONS}`),
  ...['/orders/1', '/orders/2', '/orders/3', '/orders/11', '/orders/3?deleted=include'],
  ...['/orders/1/payments', '/orders/11/payments', '/orders/1/files', '/orders/11/files'],
  ...['/products/search', ...queriesOf('/products/search', 'q=tee', 'q=te', 'q=alpha')],
  ...queriesOf('/products/invoice_item', 'id=1', 'id=101', 'id=111'),
  ...['/products/supplier_a?style=x', '/products/supplier_b?style=x'],
  ...queriesOf('/mail/threads', 'client_id=1', 'order_id=1', 'order_id=11', 'client_id=11'),
  ...[1, 3, 8, 9, 11].map((id) => `/mail/threads/thread-${id}`),
  ...queriesOf('/mail/email-threads', `account_email=${MAILBOX}`, `account_email=${MAILBOX}&deleted=only`),
  ...[1, 3, 11].map((id) => `/mail/email-threads/mail-${id}?account_email=${MAILBOX}`),
]

/** Reads every list to its end through its cursors, two at a time. */
const LISTS = [
  ...queriesOf('/clients', 'per_page=1', 'per_page=1&q=tee&deleted=include'),
  '/clients?per_page=1&sort=-updated_at&deleted=include',
  ...queriesOf('/orders', 'per_page=1', 'per_page=1&q=order', 'per_page=1&status=1,2', 'per_page=1&client_id=1'),
  '/orders?per_page=1&sort=updated_at&deleted=include',
  ...queriesOf('/changes', 'per_page=4', 'per_page=4&types=orders'),
  '/mail/threads?per_page=1&client_id=1',
  `/mail/email-threads?per_page=1&account_email=${MAILBOX}`,
]

async function readList({ send }: Pick<Actor, 'send'>, path: string, pages = 20, first = '') {
  for (let cursor = first, page = 0; page < pages; page++) {
    const { body } = await send('GET', `${path}${cursor}`)
    const { next_cursor: next, has_more } = body.pagination ?? {}
    if (!next || has_more === false) break
    cursor = `&cursor=${next}`
  }
}

/** What changes between two pages keeps the place that it had. */
async function walks({ call, send }: Actor) {
  for (const list of ['/clients', '/orders']) {
    const path = `${list}?per_page=1&sort=updated_at&deleted=include`
    const { body } = await send('GET', path)
    await call('PATCH', `${list}/2`, list === '/clients' ? { first_name: 'Changed' } : { title: 'Changed' })
    await readList({ send }, path, 20, `&cursor=${body.pagination.next_cursor}`)
  }
}

async function reads(actor: Actor) {
  for (const path of READS) await actor.send('GET', path)
  for (const path of LISTS) await readList(actor, path)
  const { body } = await actor.send('GET', '/changes?start=latest')
  await actor.send('GET', `/changes?cursor=${body.pagination.next_cursor}`)
}

/** Searches with more hits than are sorted one by one. */
async function manyHits(actor: Actor) {
  const rows = (from: string) =>
    `WITH RECURSIVE n (i) AS (VALUES (1001) UNION ALL SELECT i + 1 FROM n WHERE i < 2101) ${from} FROM n`
  await sql(
    rows(`INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
      SELECT ?1, iif(i = 2101, 5000, i), 'Many tee ' || i, 'MANY TEE ' || i, i, i`),
    actor.id,
  )
  await sql(
    rows(`INSERT INTO orders (company_id, id, title, title_key, client_id, created_date, created_at, updated_at)
      SELECT ?1, i, 'Many', iif(i = 2101, 'OTHER', 'MANY ORDER ' || i), iif(i = 2101, 1, 2), '2026-01-01', i, i`),
    actor.id,
  )
  for (const path of ['/clients?q=tee', '/clients?q=te', '/orders?q=order']) {
    await actor.send('GET', path)
    await readList(actor, `${path}&per_page=100&sort=-updated_at&deleted=include`, 3)
  }
}

export const SCENARIOS = {
  reads,
  walks,
  manyHits,
  writesOfClients,
  writesOfOrders,
  writesOfInvoices,
  mail,
  administration,
  imports,
  deliveries,
  sweeps,
  backups,
  moves,
} satisfies Record<string, Scenario>

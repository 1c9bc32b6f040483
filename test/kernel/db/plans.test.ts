import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { migrate, mintCompany, request, send, type TestCompany } from '../../support/app.ts'
import { addItem, insert } from '../../support/rows.ts'

/*
 * What the database does for each read: which index it uses, and that it neither walks a table nor sorts. Statements are
 * caught as they are sent, so that what is explained is what runs.
 */
let company: TestCompany
let clientId: number
let orderId: number
let itemId: number
const cursors = new Map<string, string>()
const behind = (path: string) => `${path}&cursor=${cursors.get(path)}`

beforeAll(async () => {
  await migrate()
  company = await mintCompany()
  clientId = (await company.call('POST', '/clients', { company_name: 'a', email: 'a@x.example' })).body.client.id
  const order = (await company.call('POST', '/orders', { title: 'a', client_id: clientId })).body
  orderId = order.project.id
  itemId = await addItem(company, order.invoice.id)
  await company.call('POST', '/clients', { company_name: 'b', email: 'b@x.example' })
  for (const path of ['/clients?per_page=1', '/clients?per_page=1&q=example', '/clients?per_page=1&sort=updated_at']) {
    cursors.set(path, (await company.call('GET', path)).body.pagination.next_cursor)
  }
  await insert('thread_contexts', {
    company_id: company.id,
    thread_id: 't',
    legacy_thread_id: 't',
    client_id: String(clientId),
    fetched_at: 0,
    updated_at: 0,
  })
})

/** The plan of every statement that a request sends through its session, one line a step. */
async function plansOf(path: string): Promise<{ text: string; steps: string[] }[]> {
  const sent: { text: string; values: unknown[] }[] = []
  const DB = new Proxy(env.DB, {
    get: (target, name) => {
      if (name !== 'withSession') return Reflect.get(target, name).bind(target)
      return (mark: string) => {
        const session = target.withSession(mark)
        const prepare = (text: string) => {
          const statement = session.prepare(text)
          return new Proxy(statement, {
            get: (inner, key) => {
              if (key !== 'bind') return Reflect.get(inner, key).bind(inner)
              return (...values: unknown[]) => {
                sent.push({ text, values })
                return inner.bind(...values)
              }
            },
          })
        }
        return {
          prepare,
          batch: (statements: D1PreparedStatement[]) => session.batch(statements),
          getBookmark: () => session.getBookmark(),
        }
      }
    },
  })
  const bindings: Env = { ...env, DB }
  expect((await send(request(company.token, 'GET', path), { env: bindings })).status).toBe(200)
  expect(sent.length).toBeGreaterThan(0)
  return Promise.all(
    sent.map(async ({ text, values }) => {
      const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${text}`)
        .bind(...values)
        .all<{ detail: string }>()
      return { text, steps: results.map(({ detail }) => detail) }
    }),
  )
}

describe('the plan of a read', () => {
  const paths: [string, () => string][] = [
    ['clients', () => '/clients'],
    ['a later page of clients', () => '/clients?page=3&per_page=100'],
    ['a page of clients far behind', () => '/clients?page=900&per_page=100'],
    ['a page of clients and deleted ones far behind', () => '/clients?page=900&sort=created_at&deleted=include'],
    ['a search', () => '/clients?q=harbor'],
    ['a page of a search far behind', () => '/clients?q=harbor&page=900'],
    ['a search for digits', () => '/clients?q=5550100'],
    ['a search for one character', () => '/clients?q=a'],
    ['one client', () => `/clients/${clientId}`],
    ['a client by email', () => '/clients/a%40x.example'],
    ['orders', () => '/orders'],
    ['orders of a client', () => `/orders?client_id=${clientId}`],
    ['orders of a client with a status', () => `/orders?client_id=${clientId}&status=${company.id * 100 + 1}`],
    ['orders of a status', () => `/orders?status=${company.id * 100 + 1}`],
    ['orders of a client between days', () => `/orders?client_id=${clientId}&from=2026-01-01&to=2099-01-01`],
    ['orders of a status between days', () => `/orders?status=${company.id * 100 + 1}&from=2026-01-01&to=2099-01-01`],
    ['orders since a day', () => '/orders?from=2026-01-01'],
    ['a page of orders far behind', () => '/orders?page=900&per_page=100'],
    [
      'a page far behind of orders of a status between days',
      () => `/orders?status=${company.id * 100 + 1}&from=2026-01-01&page=900`,
    ],
    ['a page far behind of orders of a client', () => `/orders?client_id=${clientId}&page=900`],
    ['clients by updated_at, deleted ones too', () => '/clients?sort=-updated_at&deleted=include'],
    ['clients that were changed since a time', () => '/clients?updated_since=2026-01-01T00:00:00Z'],
    ['a search in another order', () => '/clients?q=harbor&sort=created_at'],
    ['clients behind a cursor', () => behind('/clients?per_page=1')],
    ['a search behind a cursor', () => behind('/clients?per_page=1&q=example')],
    ['clients by updated_at behind a cursor', () => behind('/clients?per_page=1&sort=updated_at')],
    ['orders of several statuses', () => `/orders?status=${company.id * 100 + 1},${company.id * 100 + 2}`],
    ['deleted orders with totals and clients', () => '/orders?deleted=only&expand=totals,client'],
    ['a search of orders', () => '/orders?q=harbor&sort=-updated_at'],
    ['an order', () => `/orders/${orderId}`],
    ['the newest items', () => '/products/search'],
    ['a search of items and lines', () => '/products/search?q=cotton%20tee'],
    ['a search of items and lines for one character', () => '/products/search?q=t'],
    ['a search of items', () => '/products/search?q=cotton&include=local'],
    ['a search of lines', () => '/products/search?q=cotton&include=lines'],
    ['a line', () => `/products/invoice_item?id=${itemId}`],
    ['a thread context', () => '/mail/threads/t'],
    ['the threads of an order', () => `/mail/threads?order_id=${orderId}`],
    ['the threads of a client', () => `/mail/threads?client_id=${clientId}`],
    ['the email threads of a mailbox', () => '/mail/email-threads?account_email=box%40x.example'],
    ['its deleted email threads', () => '/mail/email-threads?account_email=box%40x.example&deleted=only'],
  ]

  it.each(paths)('of %s walks no table and sorts nothing', async (_, path) => {
    for (const { text, steps } of await plansOf(path())) {
      // A source that is not included: the condition is false before a row is read.
      if (/ where 0$/.test(text)) continue
      const bad = steps.filter((step, index) => {
        // A sort is of the few rows of one order, of what a filter gathered, of what changed since a cursor, of the newest
        // of several statuses, or of the page itself.
        if (step.startsWith('USE TEMP B-TREE') && step !== 'USE TEMP B-TREE FOR DISTINCT') {
          const isOfPage = index === steps.length - 1 && steps[0]?.startsWith('CO-ROUTINE')
          const isOfFew = steps.some((other) => /^MATERIALIZE (hits_\d|changed)$|^SCAN wanted /.test(other))
          return !/(order|project)_id=\?\)$/.test(steps[index - 1] ?? '') && !isOfPage && !isOfFew
        }
        const scanned = /^SCAN (\S+)/.exec(step)?.[1]
        if (scanned === undefined || scanned === 'CONSTANT' || scanned.startsWith('(subquery')) return false
        // What was just gathered, or the full-text index.
        const isGathered = steps.some((other) => [`MATERIALIZE ${scanned}`, `CO-ROUTINE ${scanned}`].includes(other))
        return !isGathered && !step.includes('VIRTUAL TABLE INDEX')
      })
      expect(bad, `${text}\n${steps.join('\n')}`).toEqual([])
    }
  })

  it.each([
    ['/clients?q=harbor', ['clients']],
    ['/clients?q=5550100', ['clients']],
    ['/products/search?q=xl', ['catalog_items', 'invoice_items']],
    ['/products/search?q=cotton', ['catalog_items', 'invoice_items']],
    ['/products/search?q=tee', ['catalog_items', 'invoice_items']],
    ['/products/search?q=cotton%20xl%20tee', ['catalog_items', 'invoice_items']],
    ['/products/search?q=cotton&include=local', ['catalog_items']],
    ['/products/search?q=cotton&include=lines', ['invoice_items']],
  ])('of %s uses the full-text index within the company’s range of rowids', async (path, tables) => {
    const plans = await plansOf(path)
    for (const table of tables) {
      const searching = plans.filter(({ steps }) => steps.some((step) => step.includes(`${table}_fts`)))
      expect(searching.length, table).toBeGreaterThan(0)
      for (const { text, steps } of searching) {
        const scans = steps.filter((step) => step.includes(`${table}_fts`))
        for (const scan of scans) {
          // `M` is a match; `>` and `<` are the bounds of the rowid that are handed to it.
          expect(scan, text).toMatch(/VIRTUAL TABLE INDEX \d+:.*M/)
          expect(scan, text).toMatch(/[<>]/)
        }
      }
      // Rows are looked up one by one, and nowhere by their company alone.
      const steps = plans.filter(({ text }) => !/ where 0$/.test(text)).flatMap((plan) => plan.steps)
      const own = steps.filter((step) => new RegExp(`^(SEARCH|SCAN) ${table} `).test(`${step} `))
      expect(own, steps.join('\n')).not.toEqual([])
      for (const step of own)
        expect(step).toMatch(/\(company_id=\? AND id=\?\)( LEFT-JOIN)?$|INTEGER PRIMARY KEY \(rowid=\?\)$/)
    }
  })

  it('of a total reads a counter, not the rows', async () => {
    for (const path of ['/clients', '/orders']) {
      const plans = await plansOf(path)
      expect(
        plans.some(({ steps }) => steps.some((step) => /SEARCH companies USING INTEGER PRIMARY KEY/.test(step))),
      ).toBe(true)
      expect(plans.every(({ text }) => !/count\(\*\)/i.test(text))).toBe(true)
    }
  })

  it.each([
    [
      'orders of a status',
      () => `/orders?status=${company.id * 100 + 1}`,
      'orders_of_status (company_id=? AND order_status_id=?)',
    ],
    [
      'orders of several',
      () => `/orders?status=${company.id * 100 + 1},${company.id * 100 + 2}`,
      'orders_of_status (company_id=? AND order_status_id=?)',
    ],
    ['orders of a client', () => `/orders?client_id=${clientId}`, 'orders_of_client (company_id=? AND client_id=?)'],
    ['orders since a day', () => '/orders?from=2026-01-01', 'orders_live (company_id=? AND created_date>?)'],
    [
      'clients that were changed',
      () => '/clients?updated_since=2026-01-01T00:00:00Z',
      'clients_live_updated (company_id=? AND updated_at>?)',
    ],
    ['deleted clients', () => '/clients?deleted=only', 'clients_deleted (company_id=?)'],
  ])('of the total of %s reads an index alone', async (_, path, step) => {
    const totals = (await plansOf(path())).filter(({ text }) => /count\(\*\) FROM (clients|orders) /.test(text))
    expect(totals).toHaveLength(1)
    expect(totals[0]?.steps.join('\n')).toContain(`USING COVERING INDEX ${step}`)
  })

  it('of the total of a search of clients reads the full-text index alone', async () => {
    for (const q of ['a', 'ab', 'abc', '5550100']) {
      const totals = (await plansOf(`/clients?q=${q}`)).filter(({ text }) => /count\(\*\)/.test(text))
      expect(totals).toHaveLength(1)
      expect(totals[0]?.steps.filter((step) => /\bclients\b/.test(step))).toEqual([])
    }
  })
})

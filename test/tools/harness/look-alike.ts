import type { DatabaseSync } from 'node:sqlite'
import { readSampleSeed } from '../../../src/cli/sample-company.ts'
import { type SeedInput, seedFile } from '../../../src/operation/copies/seed/file.ts'
import { loadRows } from '../../../src/operation/copies/seed/queries.ts'
import { deriveRows, NAMES, TABLES } from '../../../src/operation/copies/seed/rows.ts'
import { clientRow, NEWEST } from './client-row.ts'
import type { D1 } from './rows.ts'

/** The company in slot 0, in front of any that is tested or measured. */
export const LOOK_ALIKE = 900_001

const CLIENTS = 1_500

/**
 * A company with the ids and the names of those that are tested: of the sample company, then of the benchmarks. What it
 * shows in another company's lists, counts or searches is a leak.
 */
export function lookAlike(id = LOOK_ALIKE): SeedInput {
  const { order_statuses, taxes, clients = [], orders = [], catalog_items, thread_contexts } = readSampleSeed(NEWEST)
  const idsFrom = (first: number) => Array.from({ length: CLIENTS - first + 1 }, (_, index) => first + index)
  return {
    company: { id, name: 'Ridgeline Custom Apparel' },
    ...{ order_statuses, taxes, catalog_items, thread_contexts },
    clients: [
      ...clients,
      ...idsFrom(clients.length + 1).map((each) => {
        const { company_name, first_name, last_name, email, phone } = clientRow(each)
        // A seed takes no email with accents.
        const plain = email.normalize('NFKD').replace(/\p{M}/gu, '')
        return { id: each, company_name, first_name, last_name, email: plain, phone }
      }),
    ],
    orders: [
      ...orders.map(({ id, title, client_id, created_date }) => ({ id, title, client_id, created_date })),
      ...idsFrom(orders.length + 1).map((each) => ({ id: each, title: `Order ${each}`, client_id: each })),
    ].map((order) => ({
      ...order,
      order_status_id: 1,
      invoice: {
        id: order.id,
        number: String(1_000 + order.id),
        tax_id: 1,
        items: [{ id: order.id, title: 'Heavy cotton tee', quantity: 24, unit_price: 9.5 }],
        payments: [{ id: order.id, amount: 100 }],
      },
    })),
  }
}

/** The statements that put it into slot 0 of a database that has the schema. */
function statements(id: number): { sql: string; params: unknown[] }[] {
  const file = seedFile.parse(lookAlike(id))
  const rows = deriveRows(file, 0, NEWEST)
  const company = `INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (?, 0, ?, 0, 0) ON CONFLICT DO NOTHING`
  return [
    { sql: company, params: [id, file.company.name] },
    ...NAMES.flatMap((name) => loadRows({ companyId: id, now: NEWEST }, TABLES[name], rows[name])).map(({ prepared }) =>
      prepared.getQuery(),
    ),
  ]
}

export async function addLookAlike(db: D1): Promise<void> {
  for (const { sql, params } of statements(LOOK_ALIKE))
    await db
      .prepare(sql)
      .bind(...params)
      .run()
}

/** The same in a file, where the company may exist already. */
export function fillLookAlike(db: DatabaseSync, id: number): void {
  for (const { sql, params } of statements(id)) db.prepare(sql).run(...params.map((value) => String(value)))
}

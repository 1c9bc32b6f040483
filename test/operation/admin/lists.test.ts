import { expect, it } from 'vitest'
import { addMember, adminCall } from '../../support/admin.ts'
import { mintCompany, mintToken, sql, type TestCompany } from '../../support/app.ts'
import { insert, insertEndpoint } from '../../support/rows.ts'

const times = { created_at: 0, updated_at: 0 }
const endpointOf = ({ id }: TestCompany, n: number) => `we_${String(id * 10 + n).padStart(18, '0')}`

/** A company with three rows in each list of the administration, most of which were not stored in the list's order. */
async function fillCompany(): Promise<TestCompany> {
  const company = await mintCompany({ home: 'DB' })
  const { id: company_id } = company
  await insert('clients', { company_id, id: 1, company_name: 'A', company_name_key: 'A', ...times })
  await insert('orders', { company_id, id: 1, title: 'A', client_id: 1, created_date: '2026-01-31', ...times })
  for (const [index, n] of [2, 1, 3].entries()) {
    if (n > 1) await mintToken(company_id)
    await addMember(company_id, `m${n}@x.example`, 'owner')
    const entry = { company_id, action: 'x', entity_id: '1', request_id: 'r' }
    await insert('admin_log', { ...entry, at: index, actor: 'operator', address: '192.0.2.1' })
    await insert('audit_log', { ...entry, at: n, id: n, token_id: 1 })
    await insertEndpoint(company_id, endpointOf(company, n), { enabled: 0, created_at: n === 3 ? 1 : 2 })
    const delivery = { company_id, endpoint_id: endpointOf(company, 2), type: 'clients', entity_id: '1', sequence: n }
    await insert('webhook_deliveries', delivery)
    const event = { company_id, order_id: 1, operation: 'update', state: 'pending', next_attempt_at: 0, ...times }
    await insert('accounting_outbox', event)
  }
  return company
}

it.each<[path: string, key: string, table: string, highestFirst?: boolean]>([
  ['/companies/{id}/tokens?', 'id', 'api_tokens'],
  ['/tokens?company_id={id}&', 'id', 'api_tokens'],
  ['/companies/{id}/members?', 'email', 'members'],
  ['/companies/{id}/audit?', 'time', 'admin_log', true],
  ['/companies/{id}/audit?source=api&', 'time', 'audit_log', true],
  ['/companies/{id}/webhooks?', 'created_at', 'webhook_endpoints'],
  ['/webhooks?company_id={id}&', 'created_at', 'webhook_endpoints'],
  ['/companies/{id}/webhooks/{endpoint}/deliveries?', 'sequence', 'webhook_deliveries'],
  ['/companies/{id}/accounting-events?', 'id', 'accounting_outbox'],
  ['/accounting-events?company_id={id}&', 'id', 'accounting_outbox'],
])(
  '%s has each row of the company once and in its order, also when the first is removed after its page',
  async (named, key, table, highestFirst = false) => {
    await fillCompany()
    const company = await fillCompany()
    const path = named.replace('{id}', String(company.id)).replace('{endpoint}', endpointOf(company, 2))
    const { data: whole } = (await adminCall('GET', `${path}per_page=100`)).body
    expect(whole).toHaveLength(3)
    const byKey = (a: Record<string, number>, b: Record<string, number>) => ((a[key] ?? 0) < (b[key] ?? 0) ? -1 : 1)
    expect(whole).toEqual(highestFirst ? whole.toSorted(byKey).reverse() : whole.toSorted(byKey))
    const column = key === 'time' ? 'at' : key
    const first = `(SELECT ${highestFirst ? 'max' : 'min'}(${column}) FROM ${table} WHERE company_id = ?1)`
    const pages: unknown[] = []
    for (let cursor = ''; pages.length < 3; ) {
      const { data, pagination } = (await adminCall('GET', `${path}per_page=1${cursor}`)).body
      expect([data.length, pagination.has_more]).toEqual([1, pages.length < 2])
      pages.push(...data)
      cursor = `&cursor=${pagination.next_cursor}`
      if (pages.length === 1)
        await sql(`DELETE FROM ${table} WHERE company_id = ?1 AND ${column} = ${first}`, company.id)
    }
    expect(pages).toEqual(whole)
  },
)

/** Names and titles that companies under test give, too. */
const NAMES = JSON.stringify('A,Acme,Oak,Elm,Harbor Rowing Club,B,x,Zoë,Club shirts,Team shirts,T,10'.split(','))

const CLIENT = `company_name, company_name_key, first_name, first_name_key, email, email_key, phone, phone_key,
  phone_digits, created_at, updated_at`
const ORDER = 'title, title_key, number_key, client_id, created_date, created_at, updated_at'

/** Adds clients, and orders with their invoices, under the ids after `from`, where the company exists. */
export function lookAlikeRows(company: number, from: number, clients: number, orders: number): string[] {
  const insert = (count: number, table: string, columns: string, values: string) =>
    `WITH RECURSIVE n (i) AS (VALUES (${from} + 1) UNION ALL SELECT i + 1 FROM n WHERE i < ${from} + ${count}),
       rows AS (SELECT i, json_extract('${NAMES}', '$[' || (i % 12) || ']') AS name FROM n)
     INSERT OR IGNORE INTO ${table} (company_id, id, ${columns})
     SELECT ${company}, i, ${values} FROM rows WHERE EXISTS (SELECT 1 FROM companies WHERE id = ${company})`
  const client = `name, upper(name), 'Ann', 'ANN', 'ann@acme.test', 'ANN@ACME.TEST', '(555) 010-0199', '(555) 010-0199',
    '5550100199', 0, 0`
  const order = "name, upper(name), i, i, date('now'), 0, 0"
  return [
    insert(clients, 'clients', CLIENT, client),
    insert(orders, 'orders', ORDER, order),
    insert(orders, 'invoices', 'project_id, number, created_at, updated_at', 'i, i, 0, 0'),
  ]
}

/** The first company of a database, in slot 0: no company under test is. It has 1,500 clients. */
export function lookAlike(company: number): string[] {
  return [
    `INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (${company}, 0, 'Company ${company}', 0, 0)`,
    ...lookAlikeRows(company, 0, 1_500, 100),
    `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100)
     INSERT INTO invoice_items (company_id, id, invoice_id, title, quantity, unit_price_cents, search_text)
     SELECT ${company}, i, i, 'Tee', 12, 950, 'TEE' FROM n`,
  ]
}

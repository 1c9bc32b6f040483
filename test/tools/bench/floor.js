import { DurableObject } from 'cloudflare:workers'

// The floor: the same bytes from the same database by one query, without token, limit, validation or framework. A request
// with a token calls an object first, which does nothing.
export class Empty extends DurableObject {
  enter() {
    return { allowed: true }
  }
}

const CLIENT = `id, company_name, first_name, last_name, email, website, phone,
  accounting_sync_enabled, tax_exempt, tax_exempt_reason, deleted, external_id, version, created_at, updated_at`
const PROJECT = `id, title, client_id, description, start_date, deadline, order_status_id, client_notes,
  created_date, created_at, updated_at, deleted, external_id, version`

const present = (row) => ({
  ...row,
  ...('accounting_sync_enabled' in row && {
    accounting_sync_enabled: row.accounting_sync_enabled === 1,
    tax_exempt: row.tax_exempt === 1,
  }),
  deleted: row.deleted === 1,
  created_at: new Date(row.created_at).toISOString(),
  updated_at: new Date(row.updated_at).toISOString(),
})

const page = (rows) => {
  const total = rows[0]?.total ?? 0
  return Response.json({
    data: rows.map(({ total: _, ...row }) => present(row)),
    pagination: { page: 1, per_page: 25, total },
  })
}

const object = (columns, from) =>
  `(SELECT json_group_array(json_object(${columns.map((name) => `'${name}', ${name}`)})) FROM ${from})`

const LINE = ['id', 'invoice_id', 'title', 'description', 'quantity', 'unit_price_cents', 'taxable', 'supplier'].concat(
  ['style', 'color', 'size', 'sku', 'position'],
)
const LINES = `invoice_items WHERE company_id = 1
  AND invoice_id = (SELECT id FROM invoices WHERE company_id = 1 AND project_id = o.id AND deleted = 0)`
const presentLine = ({ unit_price_cents: cents, taxable, ...line }) => ({
  ...line,
  unit_price: cents / 100,
  total: Math.round(line.quantity * cents) / 100,
  taxable: taxable === 1,
  deleted: false,
})

const ORDER = `SELECT o.*, c.company_name, c.first_name, c.last_name, c.email, c.website, c.phone, c.created_at AS c_created_at,
  i.id AS i_id, i.number, i.due_date, i.tax_id, i.tax_exempt, i.tax_exempt_reason, i.discount_hundredths,
  i.discount_amount_type, i.discount_type, t.name AS t_name, t.rate, s.title AS s_title, s.color, s.workflow_key,
  s.position, s.is_default,
  ${object(['id', 'invoice_id', 'title', 'description', 'quantity', 'unit_price_cents', 'taxable', 'supplier', 'style', 'color', 'size', 'sku', 'position'], 'invoice_items WHERE company_id = 1 AND invoice_id = i.id')} AS items,
  ${object(['id', 'amount_cents', 'method', 'paid_at', 'note'], 'payments WHERE company_id = 1 AND invoice_id = i.id')} AS payments,
  ${object(['id', 'name', 'print_method', 'placements', 'colors', 'preview_url', 'status'], 'artworks WHERE company_id = 1 AND project_id = o.id')} AS artworks
  FROM orders o JOIN clients c ON c.company_id = 1 AND c.id = o.client_id
  LEFT JOIN invoices i ON i.company_id = 1 AND i.project_id = o.id AND i.deleted = 0
  LEFT JOIN taxes t ON t.company_id = 1 AND t.id = i.tax_id
  LEFT JOIN order_statuses s ON s.company_id = 1 AND s.id = o.order_status_id
  WHERE o.company_id = 1 AND o.id = ? AND o.deleted = 0`

/** The rows of company 1 in a full-text table: it has slot 1, behind a look-alike. */
const IN_SLOT = 'rowid BETWEEN (1 << 53) AND (2 << 53) - 1'

export default {
  async fetch(request, { DB, OBJECT }) {
    const { pathname, searchParams } = new URL(request.url)
    const token = request.headers.get('authorization')
    if (token) await OBJECT.get(OBJECT.idFromName(token)).enter()
    const ask = async (sql, ...params) =>
      (
        await DB.prepare(sql)
          .bind(...params)
          .all()
      ).results
    const [, kind, key] = pathname.split('/')
    if (request.method === 'POST') {
      const body = await request.json()
      const upper = body.company_name.toUpperCase()
      const [row] = await ask(
        `INSERT INTO clients (company_id, id, company_name, company_name_key, email, email_key, created_at, updated_at)
         VALUES (1, (SELECT last_client_id + 1 FROM companies WHERE id = 1), ?, ?, ?, ?, ?, ?) RETURNING ${CLIENT}`,
        body.company_name,
        upper,
        body.email,
        body.email.toUpperCase(),
        Date.now(),
        Date.now(),
      )
      return Response.json({ client: present(row) })
    }
    if (request.method === 'PATCH') {
      const body = await request.json()
      const [row] = await ask(
        `UPDATE orders SET title = ?, client_notes = ?, updated_at = ? WHERE company_id = 1 AND id = ? RETURNING ${PROJECT}`,
        body.title,
        body.client_notes,
        Date.now(),
        key,
      )
      return Response.json({ project: present(row) })
    }
    if (kind === 'client') {
      const [row] = await ask(`SELECT ${CLIENT} FROM clients WHERE company_id = 1 AND id = ?`, key)
      return Response.json({ client: present(row) })
    }
    if (kind === 'clients') {
      return page(
        await ask(
          `SELECT ${CLIENT}, (SELECT client_count FROM companies WHERE id = 1) AS total FROM clients
           WHERE company_id = 1 AND deleted = 0 ORDER BY id DESC LIMIT 25`,
        ),
      )
    }
    if (kind === 'search') {
      const match = `"${searchParams.get('q')}"`
      return page(
        await ask(
          `SELECT ${CLIENT}, (SELECT count(*) FROM clients_fts WHERE clients_fts MATCH ?1 AND ${IN_SLOT}) AS total FROM clients
           WHERE company_id = 1 AND id IN (SELECT rowid - (1 << 53) FROM clients_fts
             WHERE clients_fts MATCH ?1 AND ${IN_SLOT} ORDER BY rowid DESC LIMIT 25)
           ORDER BY id DESC`,
          match,
        ),
      )
    }
    if (kind === 'orders') {
      return page(
        await ask(
          `SELECT ${PROJECT}, count(*) OVER () AS total FROM orders INDEXED BY orders_of_client
           WHERE company_id = 1 AND client_id = ? AND deleted = 0
           ORDER BY created_date DESC, id DESC LIMIT 25`,
          key,
        ),
      )
    }
    if (kind === 'lines') {
      const rows = await ask(`SELECT ${PROJECT}, ${object(LINE, LINES)} AS invoice_items,
        (SELECT order_count FROM companies WHERE id = 1) AS total
        FROM orders o WHERE company_id = 1 AND deleted = 0 ORDER BY created_date DESC, id DESC LIMIT 100`)
      return page(rows.map((row) => ({ ...row, invoice_items: JSON.parse(row.invoice_items).map(presentLine) })))
    }
    const [row] = await ask(ORDER, key)
    return Response.json({
      ...row,
      items: JSON.parse(row.items),
      payments: JSON.parse(row.payments),
      artworks: JSON.parse(row.artworks),
    })
  },
}

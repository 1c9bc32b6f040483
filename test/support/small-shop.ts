import type { SeedInput } from '../../src/operation/copies/seed/file.ts'

/** A small shop that has one of everything. */
export function smallShop(id = 1): SeedInput {
  return {
    company: { id, name: `Shop ${id}` },
    order_statuses: [
      { id: 1, title: 'New', color: '#111', workflow_key: 'new', is_default: true },
      { id: 2, title: 'Printing' },
    ],
    taxes: [{ id: 1, name: 'State', rate: 8.25 }],
    clients: [
      {
        id: 1,
        company_name: 'Ünïon; -- "Tees" \'n\' more?',
        first_name: 'Zoë',
        email: 'Zoe@Example.com',
        phone: '(555) 010-0199',
        external_id: 'cust 1',
      },
      { id: 2, company_name: 'BEGIN TRANSACTION; COMMIT; /* end case', deleted: true },
    ],
    orders: [
      {
        id: 1,
        title: 'Shirts',
        client_id: 1,
        order_status_id: 2,
        created_date: '2026-01-31',
        external_id: 'web-1',
        description: 'two\nlines\ttab',
        invoice: {
          id: 1,
          number: '1001',
          tax_id: 1,
          discount_amount: 12.5,
          discount_amount_type: 'fixed',
          items: [{ id: 1, title: 'Tee', quantity: 12, unit_price: 9.5, style: 'PC61' }],
          payments: [{ id: 1, amount: 50, method: 'card', paid_at: '2026-02-01T10:00:00+02:00' }],
        },
        artworks: [{ id: 1, name: 'Crest', placements: ['front'], colors: [{ pms: '186 C' }] }],
      },
      { id: 2, title: 'No invoice', client_id: 2 },
    ],
    catalog_items: [{ id: 1, title: 'Tee with print', price: 9.5 }],
    thread_contexts: [
      { thread_id: 'thread-f:1', legacy_thread_id: '18c2f0a9b7d3e4f1', client_id: '1', orders_data: [{ id: 1 }] },
    ],
    integrations: {
      supplier_b: { base_url: 'http://127.0.0.1:9', credentials: { account_number: '7', api_key: 'very-secret-key' } },
      accounting_sync: {
        base_url: 'https://accounting.example',
        credentials: { realm_id: '1', client_id: 'c', client_secret: 's', refresh_token: 'first' },
      },
    },
  }
}

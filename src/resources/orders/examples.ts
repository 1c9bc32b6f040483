import { exampleClient } from '../clients/documentation.ts'

/* Of the sample company, which `npm run dev` serves: a test sends every example of the description to it. */

export const exampleProject = {
  id: 44,
  title: 'Staff shirts',
  client_id: 17,
  description: 'Sand garments, embroidery. Bag and label by size.',
  start_date: '2026-06-13',
  deadline: '2026-07-01',
  order_status_id: 10,
  client_notes: null,
  created_date: '2026-06-11',
  created_at: '2026-06-11T18:52:00.000Z',
  updated_at: '2026-06-15T18:52:00.000Z',
  deleted: false,
  external_id: null,
  version: 1,
}

const exampleInvoice = {
  id: 44,
  project_id: 44,
  number: '1044',
  due_date: '2026-07-01',
  tax_id: 2,
  tax_exempt: false,
  tax_exempt_reason: null,
  discount_amount: 0,
  discount_amount_type: 'fixed_amount',
  discount_type: 'before_tax',
  subtotal: 292.5,
  discount_total: 0,
  tax_total: 24.13,
  total: 316.63,
  amount_paid: 150,
  balance_due: 166.63,
  deleted: false,
}

const exampleItem = {
  id: 440,
  invoice_id: 44,
  title: 'Trucker cap, gold',
  description: '112 Gold XL',
  quantity: 18,
  unit_price: 16.25,
  total: 292.5,
  taxable: true,
  supplier: 'supplier_b',
  style: '112',
  color: 'Gold',
  size: 'XL',
  sku: '112-GOL-XL',
  position: 1,
  deleted: false,
}

export const exampleStatuses = [
  ['Quote', '#94a3b8', 'quote'],
  ['Quote sent', '#64748b', 'quote_sent'],
  ['Approved', '#0ea5e9', 'approved'],
  ['Art in progress', '#8b5cf6', 'artwork'],
  ['Proof sent', '#a855f7', 'proof_sent'],
  ['Garments ordered', '#f59e0b', 'garments_ordered'],
  ['In production', '#2563eb', 'production'],
  ['Quality check', '#14b8a6', 'quality_check'],
  ['Ready for pickup', '#22c55e', 'ready'],
  ['Completed', '#15803d', 'completed'],
  ['On hold', '#ef4444', 'on_hold'],
].map(([title, color, workflow_key], index) => {
  return { id: index + 1, title, color, workflow_key, position: index + 1, is_default: index === 0 }
})

const stateAndCityTax = { id: 2, name: 'State and city sales tax', rate: 8.25 }
export const exampleTaxes = [
  { id: 1, name: 'State sales tax', rate: 6.25 },
  stateAndCityTax,
  { id: 3, name: 'Out of state', rate: 0 },
]

export const newPayment = { amount: 100, method: 'card', paid_at: '2026-06-20T12:00:00.000Z' }
export const examplePayment = { id: 802, invoice_id: 44, ...newPayment, note: null }

export const exampleOrder = {
  project: exampleProject,
  invoice: exampleInvoice,
  invoice_items: [exampleItem],
  payments: [
    { id: 440, invoice_id: 44, amount: 150, method: 'check', paid_at: '2026-06-12T18:52:00.000Z', note: 'Deposit' },
  ],
  client: exampleClient,
  tax: stateAndCityTax,
  order_status: exampleStatuses.find(({ id }) => id === exampleProject.order_status_id),
  artworks: [
    {
      id: 440,
      project_id: 44,
      name: 'Mascot C',
      print_method: 'direct to garment',
      placements: ['full back'],
      colors: ['PMS 123 C'],
      preview_url: 'https://art.ridgeline.example/previews/440.png',
      status: 'proof sent',
    },
  ],
  accounting: { status: 'not_synced', last_error: null, synced_at: null },
}

export const discountedInvoice = {
  ...exampleInvoice,
  discount_amount: 10,
  discount_amount_type: 'percentage',
  discount_total: 29.25,
  tax_total: 21.72,
  total: 284.97,
  balance_due: 134.97,
}

export const newOrder = { title: 'Anniversary shirts 2026', client_id: 17, description: 'Navy, two-colour front print' }
export const createdProject = {
  ...exampleProject,
  ...newOrder,
  id: 81,
  start_date: null,
  deadline: null,
  order_status_id: 1,
  created_date: '2026-11-20',
  created_at: '2026-11-20T20:40:00.000Z',
  updated_at: '2026-11-20T20:40:00.000Z',
}
export const createdInvoice = {
  ...exampleInvoice,
  id: 81,
  project_id: 81,
  number: '1081',
  due_date: null,
  tax_id: null,
  discount_amount_type: 'percentage',
  subtotal: 0,
  tax_total: 0,
  total: 0,
  amount_paid: 0,
  balance_due: 0,
}
export const createdOrder = {
  project: createdProject,
  invoice: createdInvoice,
  invoice_items: [],
  payments: [],
  client: exampleClient,
  tax: null,
  order_status: exampleStatuses.find(({ is_default }) => is_default),
  artworks: [],
  accounting: { status: 'pending', last_error: null, synced_at: null },
}

export const newItem = { title: 'Hoodie, navy', quantity: 12, unit_price: 28 }
export const createdItem = {
  ...exampleItem,
  ...newItem,
  id: 810,
  invoice_id: 82,
  description: null,
  total: 336,
  supplier: null,
  style: null,
  color: null,
  size: null,
  sku: null,
}

/** The invoice with that payment, before its discount. */
export const paidInvoice = { ...exampleOrder.invoice, amount_paid: 250, balance_due: 66.63 }

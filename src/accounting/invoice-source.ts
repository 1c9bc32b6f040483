import { computeTotals, fromCents, lineTotal } from '../orders/totals.ts'
import type { InvoiceSource } from './invoice-payload.ts'
import type { InvoiceRows } from './queries.ts'

/** What the accounting system is told of an order. */
export function toInvoiceSource({ project, invoice, client, tax, items }: InvoiceRows): InvoiceSource {
  const totals = computeTotals(items, { ...invoice, taxRate: tax?.rate ?? null }, [])
  return {
    number: invoice.number,
    title: project.title,
    description: project.description,
    created_date: project.created_date,
    deadline: project.deadline ?? invoice.due_date,
    client: { company_name: client.company_name, email: client.email },
    tax: tax && tax.rate > 0 && !invoice.tax_exempt ? { code_id: tax.accounting_tax_code_id } : null,
    discount: {
      amount: fromCents(invoice.discount_hundredths),
      amount_type: invoice.discount_amount_type,
      type: invoice.discount_type,
    },
    lines: items.map((item) => ({
      title: item.title,
      description: item.description,
      quantity: item.quantity,
      unit_price_cents: item.unit_price_cents,
      total_cents: lineTotal(item),
      taxable: item.taxable,
    })),
    totals: {
      subtotal: totals.subtotal,
      discount_total: totals.discount,
      tax_total: totals.tax,
      total: totals.total,
    },
  }
}

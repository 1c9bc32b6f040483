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
    created_date: project.createdDate,
    deadline: project.deadline ?? invoice.dueDate,
    client: { company_name: client.companyName, email: client.email },
    tax: tax && tax.rate > 0 && !invoice.taxExempt ? { code_id: tax.accountingTaxCodeId } : null,
    discount: {
      amount: fromCents(invoice.discountHundredths),
      amount_type: invoice.discountAmountType,
      type: invoice.discountType,
    },
    lines: items.map((item) => ({
      title: item.title,
      description: item.description,
      quantity: item.quantity,
      unit_price_cents: item.unitPriceCents,
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

import * as z from 'zod/mini'
import { component, date, defineContract, id, idText, isoTime, text, trimmed } from '../../kernel/api/contract.ts'
import { AMOUNT_MAX, decimals, invoice, invoiceItem, payment } from './contract.ts'

const ITEMS_MAX = 500

/** As JSON with its search text, which may be three times as long, the list stays below D1's 2 MB for one value. */
const ITEMS_LIMIT_BYTES = 400_000

const shortText = z.nullish(trimmed(255))

const newItem = z
  .strictObject({
    id: z
      .optional(id)
      .check(z.describe('Of a line of this invoice, which keeps it. Without it the line is a new one.')),
    title: trimmed(255),
    description: z.nullish(text(0, 10_000)),
    quantity: z._default(decimals(4, 0, 1_000_000), 1).check(z.meta({ default: 1 }), z.describe('At most 4 decimals.')),
    unit_price: z
      ._default(decimals(2, -AMOUNT_MAX, AMOUNT_MAX), 0)
      .check(z.meta({ default: 0 }), z.describe('At most 2 decimals; negative for a credit.')),
    taxable: z._default(z.boolean(), true).check(z.meta({ default: true })),
    supplier: shortText,
    style: shortText,
    color: shortText,
    size: shortText,
    sku: shortText,
  })
  .check(
    z.refine(({ quantity, unit_price }) => Math.abs(quantity * unit_price) <= AMOUNT_MAX, {
      path: ['unit_price'],
      when: ({ issues }) => issues.length === 0,
      error: `times \`quantity\` must be between -${AMOUNT_MAX} and ${AMOUNT_MAX}`,
    }),
    z.meta({ id: 'NewInvoiceItem', description: 'A line of an invoice, as it is to be.' }),
  )

/** Two lines must not have one id. */
const hasDistinctIds = (items: { id?: number | undefined }[]) => {
  const ids = items.flatMap((item) => item.id ?? [])
  return new Set(ids).size === ids.length
}

const newItems = component('NewInvoiceItems', 'All lines of an invoice, in their order.', {
  items: z.array(newItem).check(z.maxLength(ITEMS_MAX), z.refine(hasDistinctIds, 'must not contain an `id` twice')),
})

/** Stored in UTC. */
const instant = z.pipe(
  z.iso.datetime({ offset: true }),
  z.transform((value) => isoTime(Date.parse(value))),
)
export const paidAt = z.union([date, instant], 'must be a date or a date-time with an offset')

const newPayment = component('NewPayment', 'A payment on the invoice of an order.', {
  amount: decimals(2, 0.01, AMOUNT_MAX).check(z.describe('At most 2 decimals.')),
  method: shortText,
  paid_at: z.nullish(paidAt).check(z.describe('A date, or a date-time with an offset, which is stored in UTC.')),
  note: z.nullish(text(0, 10_000)),
})

export type NewItem = z.output<typeof newItem>
export type NewPayment = z.output<typeof newPayment>

const orderId = { id: idText.check(z.describe('The id of the order (project).')) }
const write = {
  tag: 'Orders',
  permission: 'orders:write',
  errors: ['not_found', 'conflict', 'precondition_failed'],
  hasVersion: true,
} as const
const ofPayment = { ...write, response: z.strictObject({ payment, invoice }) } as const

export const putInvoiceItems = defineContract({
  ...write,
  method: 'PUT',
  path: '/orders/{id}/invoice-items',
  operationId: 'putInvoiceItems',
  params: z.strictObject(orderId),
  body: newItems,
  bodyLimitBytes: ITEMS_LIMIT_BYTES,
  response: z.strictObject({ invoice, invoice_items: z.array(invoiceItem) }),
})

export const createPayment = defineContract({
  ...ofPayment,
  method: 'POST',
  path: '/orders/{id}/payments',
  operationId: 'createPayment',
  params: z.strictObject(orderId),
  body: newPayment,
})

export const deletePayment = defineContract({
  ...ofPayment,
  method: 'DELETE',
  path: '/orders/{id}/payments/{payment_id}',
  operationId: 'deletePayment',
  params: z.strictObject({ ...orderId, payment_id: idText.check(z.describe('The id of the payment.')) }),
})

export const endpoints = [putInvoiceItems, createPayment, deletePayment]

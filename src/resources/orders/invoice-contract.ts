import * as z from 'zod/mini'
import { component, defineContract, idText } from '../../kernel/api/contract.ts'
import { invoice, invoiceItem, payment } from './contract.ts'
import { items, LISTS_LIMIT_BYTES, newPayment, paymentChanges } from './element-contract.ts'

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
  body: component('NewInvoiceItems', 'All lines of an invoice, in their order.', { items }),
  bodyLimitBytes: LISTS_LIMIT_BYTES,
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

export const listPayments = defineContract({
  tag: 'Orders',
  permission: 'orders:read',
  method: 'GET',
  path: '/orders/{id}/payments',
  operationId: 'listPayments',
  params: z.strictObject(orderId),
  response: z.strictObject({ data: z.array(payment) }),
  errors: ['not_found'],
})

const onePayment = {
  ...ofPayment,
  path: '/orders/{id}/payments/{payment_id}',
  params: z.strictObject({ ...orderId, payment_id: idText.check(z.describe('The id of the payment.')) }),
} as const

export const updatePayment = defineContract({
  ...onePayment,
  method: 'PATCH',
  operationId: 'updatePayment',
  body: paymentChanges,
})

export const deletePayment = defineContract({ ...onePayment, method: 'DELETE', operationId: 'deletePayment' })

export const endpoints = [putInvoiceItems, listPayments, createPayment, updatePayment, deletePayment]

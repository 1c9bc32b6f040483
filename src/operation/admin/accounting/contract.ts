import * as z from 'zod/mini'
import { component, dateTime, defineContract, id, idText } from '../../../kernel/api/contract.ts'
import { accountingId } from '../../copies/seed/integrations-file.ts'
import { adminPage, adminPageOf } from '../paging.ts'

const STATES = ['pending', 'parked', 'dead'] as const

const company_id = idText.check(z.describe('The company.'))
const ofCompany = z.strictObject({ company_id })
const state = z
  .enum(STATES)
  .check(z.describe('`pending`: retried automatically; `parked`: waits for a person; `dead`: rejected or given up.'))

const event = component('AccountingEvent', 'A change that is not delivered to the accounting system yet.', {
  id,
  company_id: id,
  order_id: id,
  operation: z.enum(['create', 'update', 'delete']),
  state,
  attempts: z.int().check(z.nonnegative()),
  next_attempt_at: z.nullable(dateTime).check(z.describe('Null where it is not retried by itself.')),
  last_error: z.nullable(z.string()),
  created_at: dateTime,
  updated_at: dateTime,
})

const retried = component('RetriedEvents', 'What is sent again.', {
  retried: z.int().check(z.nonnegative(), z.describe('How many events.')),
})

const filters = { ...adminPage, state: z.optional(state) }
const states = component('EventsToRetry', 'Which events to send again.', {
  states: z.array(z.enum(['parked', 'dead'])).check(z.minLength(1), z.maxLength(2)),
})

const common = { tag: 'Accounting', permission: null, role: 'developer', errors: [] } as const

export const listAllEvents = defineContract({
  ...common,
  method: 'GET',
  path: '/accounting-events',
  operationId: 'listAllEvents',
  role: 'operator',
  query: z.strictObject({
    ...filters,
    company_id: z.optional(idText).check(z.describe('Only those of this company.')),
    id: z.optional(idText).check(z.describe('Only the one with this id.')),
  }),
  response: adminPageOf(event),
})

export const listEvents = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}/accounting-events',
  operationId: 'listEvents',
  params: ofCompany,
  query: z.strictObject(filters),
  response: adminPageOf(event),
})

export const retryEvent = defineContract({
  ...common,
  method: 'POST',
  path: '/companies/{company_id}/accounting-events/{event_id}/retry',
  operationId: 'retryEvent',
  params: z.strictObject({ company_id, event_id: idText.check(z.describe('The event.')) }),
  response: retried,
})

export const retryEvents = defineContract({
  ...common,
  method: 'POST',
  path: '/companies/{company_id}/accounting-events/retry',
  operationId: 'retryEvents',
  params: ofCompany,
  body: states,
  response: retried,
})

export const linkCustomer = defineContract({
  ...common,
  method: 'PUT',
  path: '/companies/{company_id}/clients/{client_id}/accounting-customer',
  operationId: 'linkCustomer',
  params: z.strictObject({ company_id, client_id: idText.check(z.describe('The client.')) }),
  body: component('AccountingCustomer', 'The customer in the accounting system.', { customer_id: accountingId }),
  response: component('LinkedCustomer', 'The client and its customer.', {
    client_id: id,
    company_name: z.string(),
    customer_id: z.string(),
    retried: z.int().check(z.nonnegative(), z.describe('Parked and dead events that are sent again.')),
  }),
})

export const endpoints = [listAllEvents, listEvents, retryEvent, retryEvents, linkCustomer]

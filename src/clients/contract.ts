import * as z from 'zod'
import { dateTime, defineContract, id, text, trimmed } from '../http/contract.ts'
import { pageOf, pageQuery } from '../http/pagination.ts'

const email = z.string().trim().pipe(z.email().max(255)).meta({ format: 'email', maxLength: 255 })

export const client = z
  .strictObject({
    id,
    company_name: z.string(),
    first_name: z.string().nullable(),
    last_name: z.string().nullable(),
    email: z.string().nullable(),
    website: z.string().nullable(),
    phone: z.string().nullable(),
    accounting_sync_enabled: z.boolean(),
    tax_exempt: z.boolean(),
    tax_exempt_reason: z.string().nullable(),
    deleted: z.boolean().describe('Hidden from the list; still readable by id.'),
    created_at: dateTime,
    updated_at: dateTime,
  })
  .meta({ id: 'Client', description: 'A client of the company.' })

const writable = {
  first_name: trimmed(255).nullable().optional(),
  last_name: trimmed(255).nullable().optional(),
  email: email.nullable().optional(),
  website: text(1, 255).nullable().optional().describe('Stored as sent.'),
  phone: trimmed(255).nullable().optional(),
  accounting_sync_enabled: z.boolean().optional(),
  tax_exempt: z.boolean().optional(),
  tax_exempt_reason: trimmed(1000).nullable().optional(),
  deleted: z.boolean().optional().describe('`true` hides the client from the list, `false` brings it back.'),
}

const newClient = z
  .strictObject({ company_name: trimmed(255), ...writable })
  .meta({ id: 'NewClient', description: 'The fields of a client to create.' })

const clientChanges = z
  .strictObject({ company_name: trimmed(255).optional(), ...writable })
  .refine((body) => Object.keys(body).length > 0, 'must name at least one field to change')
  .meta({ id: 'ClientChanges', description: 'The fields of a client to change.', minProperties: 1 })

export type ClientFields = z.output<typeof clientChanges>

const clientKey = z.strictObject({
  id: z.string().min(1).describe('The id, or the email, percent-encoded; its case does not matter.'),
})

const clientLookup = z.strictObject({ email: email.optional().describe('Look up by this email instead of the path.') })

const one = z.strictObject({ client })

export const listClients = defineContract({
  method: 'GET',
  path: '/clients',
  operationId: 'listClients',
  tag: 'Clients',
  permission: 'clients:read',
  query: z.strictObject({
    ...pageQuery,
    q: text(0, 200).optional().describe('Search text. Blank: no filter.'),
  }),
  answer: pageOf(client),
  errors: [],
})

export const createClient = defineContract({
  method: 'POST',
  path: '/clients',
  operationId: 'createClient',
  tag: 'Clients',
  permission: 'clients:write',
  body: newClient,
  answer: one,
  errors: [],
})

export const readClient = defineContract({
  method: 'GET',
  path: '/clients/{id}',
  operationId: 'readClient',
  tag: 'Clients',
  permission: 'clients:read',
  params: clientKey,
  query: clientLookup,
  answer: one,
  errors: ['not_found'],
})

export const updateClient = defineContract({
  method: 'PATCH',
  path: '/clients/{id}',
  operationId: 'updateClient',
  tag: 'Clients',
  permission: 'clients:write',
  params: clientKey,
  query: clientLookup,
  body: clientChanges,
  answer: one,
  errors: ['not_found'],
})

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

const exampleClient = {
  id: 42,
  company_name: 'Harbor Rowing Club',
  first_name: 'Ines',
  last_name: 'Duarte',
  email: 'ines@harbor-rowing.example',
  website: 'https://harbor-rowing.example',
  phone: '(555) 010-0142',
  accounting_sync_enabled: false,
  tax_exempt: true,
  tax_exempt_reason: 'Non-profit',
  deleted: false,
  created_at: '2026-03-02T09:30:00.000Z',
  updated_at: '2026-03-02T09:30:00.000Z',
}

const clientKey = z.strictObject({
  id: z
    .string()
    .min(1)
    .describe('The numeric id, or the email, percent-encoded. An email matches exactly, whatever its case.'),
})

const clientLookup = z.strictObject({ email: email.optional().describe('Look up by this email instead of the path.') })

const one = z.strictObject({ client })

export const listClients = defineContract({
  method: 'GET',
  path: '/clients',
  operationId: 'listClients',
  tag: 'Clients',
  permission: 'clients:read',
  summary: 'List and search clients',
  description:
    'Newest first (`id` descending). Soft-deleted clients are hidden. `q` finds a substring, ignoring case in any script, in company name, first name, last name, "first last", email or phone; digits match the digits of a phone whatever stands between them.',
  query: z.strictObject({
    ...pageQuery,
    q: text(0, 200).optional().describe('Search text. Blank: no filter.'),
  }),
  answer: pageOf(client),
  errors: [],
  example: {
    query: { q: 'rowing', page: 1, per_page: 25 },
    answer: { data: [exampleClient], pagination: { page: 1, per_page: 25, total: 1 } },
  },
})

export const createClient = defineContract({
  method: 'POST',
  path: '/clients',
  operationId: 'createClient',
  tag: 'Clients',
  permission: 'clients:write',
  summary: 'Create a client',
  description: 'Only `company_name` is required. The company is the one of the token; `company_id` is refused.',
  body: newClient,
  answer: one,
  errors: [],
  example: {
    body: { company_name: 'Harbor Rowing Club', first_name: 'Ines', email: 'ines@harbor-rowing.example' },
    answer: { client: exampleClient },
  },
})

export const readClient = defineContract({
  method: 'GET',
  path: '/clients/{id}',
  operationId: 'readClient',
  tag: 'Clients',
  permission: 'clients:read',
  summary: 'Read a client by id or email',
  description:
    'Three lookups: a numeric id in the path; a percent-encoded email in the path; or the query `email` with any placeholder in the path (the query wins). Where several clients have the email, one that is not deleted comes first, then the lowest id. A soft-deleted client is still found.',
  params: clientKey,
  query: clientLookup,
  answer: one,
  errors: ['not_found'],
  example: { params: { id: '42' }, answer: { client: exampleClient } },
})

export const updateClient = defineContract({
  method: 'PATCH',
  path: '/clients/{id}',
  operationId: 'updateClient',
  tag: 'Clients',
  permission: 'clients:write',
  summary: 'Update, soft-delete or restore a client',
  description:
    'Changes only the fields that are sent; `null` clears one. `deleted: true` hides the client from the list, `deleted: false` brings it back. It is looked up as in reading: by id, by an email in the path, or by the query `email`.',
  params: clientKey,
  query: clientLookup,
  body: clientChanges,
  answer: one,
  errors: ['not_found'],
  example: {
    params: { id: '42' },
    body: { phone: '(555) 010-0142' },
    answer: { client: exampleClient },
  },
})

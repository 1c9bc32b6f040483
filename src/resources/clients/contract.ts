import * as z from 'zod/mini'
import {
  component,
  dateTime,
  defineContract,
  externalId,
  id,
  namesAField,
  oneLine,
  pageOf,
  queryEmail,
  text,
  trimmed,
  version,
} from '../../kernel/api/contract.ts'
import { listOf, listQuery, SORTS } from '../../kernel/api/list-query.ts'

export const email = z
  .pipe(z.string().check(z.trim()), z.email().check(z.maxLength(255)))
  .check(z.meta({ format: 'email', maxLength: 255 }))

export const client = component('Client', 'A client of the company.', {
  id,
  company_name: z.string(),
  first_name: z.nullable(z.string()),
  last_name: z.nullable(z.string()),
  email: z.nullable(z.string()),
  website: z.nullable(z.string()),
  phone: z.nullable(z.string()),
  accounting_sync_enabled: z.boolean(),
  tax_exempt: z.boolean(),
  tax_exempt_reason: z.nullable(z.string()),
  deleted: z.boolean().check(z.describe('Hidden from the list; still readable by id.')),
  external_id: z.nullable(z.string()).check(z.describe('Your own id of the client, unique in the company.')),
  version,
  created_at: dateTime,
  updated_at: dateTime,
})

const writable = {
  first_name: z.nullish(trimmed(255)),
  last_name: z.nullish(trimmed(255)),
  email: z.nullish(email),
  website: z.nullish(oneLine(1, 255)).check(z.describe('Stored as sent.')),
  phone: z.nullish(trimmed(255)),
  accounting_sync_enabled: z.optional(z.boolean()),
  tax_exempt: z.optional(z.boolean()),
  tax_exempt_reason: z.nullish(trimmed(1000)),
  deleted: z.optional(z.boolean()).check(z.describe('`true` hides the client from the list, `false` brings it back.')),
}

const external_id = z.nullish(externalId).check(z.describe('Your own id of the client, unique in the company.'))

const newClient = component('NewClient', 'The fields of a new client.', {
  company_name: trimmed(255),
  ...writable,
  external_id,
})

const wholeClient = component('WholeClient', 'All fields of a client: one that is left out gets its default.', {
  company_name: trimmed(255),
  ...writable,
})

const clientChanges = z
  .strictObject({ company_name: z.optional(trimmed(255)), ...writable, external_id })
  .check(
    namesAField,
    z.meta({ id: 'ClientChanges', description: 'The fields of a client to change.', minProperties: 1 }),
  )

export type NewClient = z.output<typeof newClient>
export type ClientFields = z.output<typeof clientChanges>
export type WholeClient = z.output<typeof wholeClient>

const response = z.strictObject({ client })
const shared = { tag: 'Clients', path: '/clients', errors: [] } as const
const one = {
  ...shared,
  path: '/clients/{id}',
  params: z.strictObject({
    id: z.string().check(z.minLength(1), z.describe('The id, or the email, percent-encoded and in any case.')),
  }),
  query: z.strictObject({
    email: z.optional(queryEmail(255)).check(z.describe('Look up by this email instead of the path.')),
  }),
  response,
  errors: ['not_found'],
} as const
const read = { method: 'GET', permission: 'clients:read' } as const
const write = { permission: 'clients:write' } as const

export const listClients = defineContract({
  ...shared,
  ...read,
  operationId: 'listClients',
  isPaged: true,
  query: listOf({
    ...listQuery,
    sort: z
      ._default(z.enum(SORTS), '-id')
      .check(z.meta({ default: '-id' }), z.describe('The order; `-` for descending. Ties are ordered by `id`.')),
    q: z.optional(text(0, 200)).check(z.describe('Search text. Blank: no filter.')),
  }),
  response: pageOf(client),
})

export type ClientList = z.output<typeof listClients.query>

export const createClient = defineContract({
  ...shared,
  ...write,
  method: 'POST',
  operationId: 'createClient',
  body: newClient,
  errors: ['conflict'],
  hasVersion: true,
  response,
})

export const readClient = defineContract({
  ...one,
  ...read,
  operationId: 'readClient',
  hasEtag: true,
  hasVersion: true,
})

export const updateClient = defineContract({
  ...one,
  ...write,
  method: 'PATCH',
  operationId: 'updateClient',
  body: clientChanges,
  errors: ['not_found', 'conflict', 'precondition_failed'],
  hasVersion: true,
})

const byExternalId = {
  ...shared,
  path: '/clients/by-external-id/{external_id}',
  params: z.strictObject({ external_id: externalId.check(z.describe('Your own id of the client, percent-encoded.')) }),
  invalidParams: 'invalid_request',
  response,
} as const

export const readClientByExternalId = defineContract({
  ...byExternalId,
  ...read,
  operationId: 'readClientByExternalId',
  errors: ['not_found'],
  hasEtag: true,
  hasVersion: true,
})

export const putClient = defineContract({
  ...byExternalId,
  ...write,
  method: 'PUT',
  operationId: 'putClient',
  body: wholeClient,
  createsOnly: true,
  errors: ['precondition_failed'],
  hasVersion: true,
})

export const endpoints = [listClients, createClient, readClient, updateClient, putClient, readClientByExternalId]

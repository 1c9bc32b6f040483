import * as z from 'zod/mini'
import {
  changesOf,
  component,
  contractsOf,
  type Documentation,
  dateTime,
  emailAddress,
  externalId,
  id,
  oneLine,
  queryEmail,
  text,
  trimmed,
  version,
  withDefault,
} from '../../kernel/api/contract.ts'
import { listOf, listQuery, pageOf, SORTS } from '../../kernel/api/list-query.ts'

export const trimmedEmail = (maxLength: number) =>
  z
    .pipe(z.string().check(z.trim()), emailAddress().check(z.maxLength(maxLength)))
    .check(z.meta({ format: 'email', maxLength }))
export const email = trimmedEmail(255)

/** A text of a client that may be null. @param seeded describes it in a seed file, `sent` in a request */
function nullable<T extends z.ZodMiniType>(schema: T, seeded: string, sent?: string) {
  return {
    shown: z.nullable(z.string()),
    sent: z.nullish(schema).check(...(sent === undefined ? [] : [z.describe(sent)])),
    seeded: z._default(z.nullable(schema), null as never).check(z.describe(seeded)),
  }
}

function flag(text: string) {
  const described = z.describe(text)
  const seeded = z._default(z.boolean(), false).check(described)
  return { shown: z.boolean(), sent: z.optional(z.boolean()).check(described), seeded }
}

/** The fields that callers set: in responses, in requests and in seed files. */
const fields = {
  first_name: nullable(trimmed(255), 'The first name of the contact person.'),
  last_name: nullable(trimmed(255), 'The last name of the contact person.'),
  email: nullable(email, 'The email address of the contact person.'),
  website: nullable(oneLine(255), 'The address of the website, stored as written.', 'Stored as sent.'),
  phone: nullable(trimmed(255), 'The phone number, in any form.'),
  accounting_sync_enabled: flag('Stored and returned. Whether an order is sent follows the order and the company.'),
  tax_exempt: flag('New orders take it over with its reason. Existing ones keep theirs.'),
  tax_exempt_reason: nullable(trimmed(1000), 'Why it pays no tax.'),
  deleted: {
    ...flag('Hidden from lists, as if it had been deleted through the API.'),
    shown: z.boolean().check(z.describe('Hidden from the list; still readable by id.')),
    sent: z.optional(z.boolean()).check(z.describe('`true` hides the client from the list, `false` brings it back.')),
  },
}

function part<P extends 'shown' | 'sent' | 'seeded'>(name: P) {
  const entries = Object.entries(fields).map(([field, parts]) => [field, parts[name]])
  return Object.fromEntries(entries) as { [Field in keyof typeof fields]: (typeof fields)[Field][P] }
}

export const seeded = part('seeded')
/** The values of fields that are left out. */
export const initial = z.parse(z.object(seeded), {})

export const client = component('Client', 'A client of the company.', {
  id,
  company_name: z.string(),
  ...part('shown'),
  external_id: z.nullable(z.string()).check(z.describe('Your own id of the client, unique in the company.')),
  version,
  created_at: dateTime,
  updated_at: dateTime,
})

const whole = { company_name: trimmed(255), ...part('sent') }
const wholeClient = component('WholeClient', 'All fields of a client: one that is left out gets its default.', whole)

const external_id = z.nullish(externalId).check(z.describe('Your own id, unique in the company; not `.` or `..`.'))
const newClient = component('NewClient', 'The fields of a new client.', { ...whole, external_id })

const changed = { ...whole, company_name: z.optional(whole.company_name), external_id }
const clientChanges = changesOf('ClientChanges', 'The fields of a client to change.', changed)

export type NewClient = z.output<typeof newClient>
export type ClientFields = z.output<typeof clientChanges>
export type WholeClient = z.output<typeof wholeClient>

const versioned = { hasVersion: true, response: z.strictObject({ client }) } as const
const define = contractsOf('Clients', 'clients')
const one = {
  params: z.strictObject({
    id: z.string().check(z.minLength(1), z.describe('The id, or the email, percent-encoded and in any case.')),
  }),
  query: z.strictObject({
    email: z.optional(queryEmail(255)).check(z.describe('Look up by this email instead of the path.')),
  }),
  ...versioned,
  errors: ['not_found'],
} as const

export const listClients = define('listClients', 'GET /clients', {
  isPaged: true,
  query: listOf({
    ...listQuery,
    sort: withDefault(z.enum(SORTS), '-id', 'The order; `-` for descending. Ties are ordered by `id`.'),
    q: z.optional(text(0, 200)).check(z.describe('Search text. Control characters count as spaces. Blank: no filter.')),
  }),
  response: pageOf(client),
})

export type ClientList = z.output<typeof listClients.query>

export const createClient = define('createClient', 'POST /clients', {
  body: newClient,
  errors: ['conflict'],
  ...versioned,
})

export const readClient = define('readClient', 'GET /clients/{id}', { ...one, hasEtag: true })

export const updateClient = define('updateClient', 'PATCH /clients/{id}', {
  ...one,
  body: clientChanges,
  errors: ['not_found', 'conflict', 'precondition_failed'],
})

export const deleteClient = define('deleteClient', 'DELETE /clients/{id}', {
  ...one,
  errors: ['not_found', 'precondition_failed'],
})

const byExternalId = {
  params: z.strictObject({ external_id: externalId.check(z.describe('Your own id of the client, percent-encoded.')) }),
  invalidParams: 'invalid_request',
  ...versioned,
} as const

export const readClientByExternalId = define('readClientByExternalId', 'GET /clients/by-external-id/{external_id}', {
  ...byExternalId,
  errors: ['not_found'],
  hasEtag: true,
})

export const putClient = define('putClient', 'PUT /clients/by-external-id/{external_id}', {
  ...byExternalId,
  body: wholeClient,
  createsOnly: true,
  errors: ['precondition_failed'],
})

/* The examples are of the sample company, which `npm run dev` serves. */

export const published = {
  tags: {
    Clients: 'The customers of the company: list and search, create, read, update, soft-delete and restore.',
  },
  document: (): Record<string, Documentation> => {
    const sent = { company_name: 'Granite Street Climbing', first_name: 'Ines', email: 'ines@granite-street.example' }
    return {
      listClients: {
        summary: 'List and search clients',
        description:
          'Newest first (`id` descending) unless `sort` says otherwise. Soft-deleted clients are hidden unless `deleted` says otherwise; filters can be combined. Send `next_cursor` as `cursor`, or follow `Link`, to read on: a walk by cursor returns every client that stays in the list exactly once, whatever changes meanwhile, which page numbers cannot. What another token wrote a moment before may be missing: see “Read replicas”. Sorted by `updated_at`, a walk uses each client’s time as of the first page, and leaves out clients created since. Behind a cursor, `total` is that of the first page. A cursor is valid for 7 days, and a walk of clients or orders for 30 days in all. To follow changes, use `GET /changes`. `q` finds a substring, ignoring case in any script, in company name, first name, last name, "first last", email or phone. A `q` of the digits 0 to 9 only, or of three or more digits with spaces, `(`, `)`, `+`, `-`, `.` or `/`, matches the digits of a phone, whatever separates them.',
        example: { query: { q: 'old mill brewing', page: 1, per_page: 25 } },
      },
      createClient: {
        summary: 'Create a client',
        description: 'Only `company_name` is required. The company is the one of the token; `company_id` is refused.',
        example: { body: sent },
      },
      readClient: {
        summary: 'Read a client by id or email',
        description:
          'Three lookups: a numeric id in the path; a percent-encoded email in the path; or the query `email` with any placeholder in the path (the query wins). Where several clients have the email, one that is not deleted comes first, then the lowest id. A soft-deleted client is still found.',
        example: { params: { id: '17' } },
      },
      updateClient: {
        summary: 'Update, soft-delete or restore a client',
        description:
          'Changes only the fields that are sent; `null` clears one. `deleted: true` hides the client from the list, `deleted: false` brings it back. Lookup works as in `readClient`: by id, by an email in the path, or by the query `email`.',
        example: { params: { id: '61' }, body: { phone: '(555) 010-0142' } },
      },
      deleteClient: {
        summary: 'Delete a client',
        description:
          'Hides the client, as `updateClient` with `deleted: true`, which also brings it back. A repeated deletion changes nothing. Lookup works as in `readClient`.',
        example: { params: { id: '61' } },
      },
      putClient: {
        summary: 'Create or replace a client by your own id',
        description:
          'Creates the client with this `external_id`, or replaces every field of the one that has it: a field that is left out gets its default (null or false), so a soft-deleted client is restored. Sent twice, it leaves one client. `If-None-Match: *` only creates, `If-Match` only replaces the version that it names; else 412.',
        example: { params: { external_id: 'shop-7' }, body: sent },
      },
      readClientByExternalId: {
        summary: 'Read a client by your own id',
        description:
          'The client whose `external_id` this is, exactly as it was sent. A soft-deleted client is still found.',
        example: { params: { external_id: 'shop-7' } },
      },
    }
  },
}

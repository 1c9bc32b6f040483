import type { Documentation } from '../../kernel/api/contract.ts'
import { initial } from './contract.ts'

/** A client of the sample company, which `npm run dev` serves: a test sends every example of the description to it. */
export const exampleClient = {
  id: 17,
  company_name: 'Old Mill Brewing Company',
  first_name: 'Søren',
  last_name: 'Mendes',
  email: 'soren@old-mill-brewing-company.example',
  website: 'https://old-mill-brewing-company.example',
  phone: '(555) 011-6696',
  accounting_sync_enabled: true,
  tax_exempt: false,
  tax_exempt_reason: null,
  deleted: false,
  external_id: null,
  version: 1,
  created_at: '2025-08-06T14:59:00.000Z',
  updated_at: '2025-08-06T14:59:00.000Z',
}

const sent = { company_name: 'Granite Street Climbing', first_name: 'Ines', email: 'ines@granite-street.example' }

/** A function, since the bundler keeps values that are computed from others. */
export const createdClient = () => ({
  ...exampleClient,
  ...initial,
  ...sent,
  id: 61,
  created_at: '2026-11-20T20:40:00.000Z',
  updated_at: '2026-11-20T20:40:00.000Z',
})

export const published = {
  tags: {
    Clients: 'The customers of the company: list and search, create, read, update, soft-delete and restore.',
  },
  document: (): Record<string, Documentation> => {
    const created = createdClient()
    const put = { ...created, id: 63, external_id: 'shop-7' }
    return {
      listClients: {
        summary: 'List and search clients',
        description:
          'Newest first (`id` descending) unless `sort` says otherwise. Soft-deleted clients are hidden unless `deleted` says otherwise; filters can be combined. Send `next_cursor` as `cursor`, or follow `Link`, to read on: cursors meet every client that stays in the list exactly once, whatever changes meanwhile, which page numbers cannot. What another token wrote a moment before may be missing: see “Read replicas”. In an order by `updated_at`, a client keeps the place that it had at the first page, and one created since is not met. Behind a cursor, `total` is that of the first page. A cursor is valid for 7 days, and a walk of clients or orders for 30 days in all. To follow changes, use `GET /changes`. `q` finds a substring, ignoring case in any script, in company name, first name, last name, "first last", email or phone. Three or more digits, and a `q` of digits only, match the digits of a phone, whatever separates them.',
        example: {
          query: { q: 'old mill brewing', page: 1, per_page: 25 },
          response: {
            data: [exampleClient],
            pagination: { page: 1, per_page: 25, total: 1, next_cursor: null, has_more: false },
          },
        },
      },
      createClient: {
        summary: 'Create a client',
        description: 'Only `company_name` is required. The company is the one of the token; `company_id` is refused.',
        example: { body: sent, response: { client: created } },
      },
      readClient: {
        summary: 'Read a client by id or email',
        description:
          'Three lookups: a numeric id in the path; a percent-encoded email in the path; or the query `email` with any placeholder in the path (the query wins). Where several clients have the email, one that is not deleted comes first, then the lowest id. A soft-deleted client is still found.',
        example: { params: { id: '17' }, response: { client: exampleClient } },
      },
      updateClient: {
        summary: 'Update, soft-delete or restore a client',
        description:
          'Changes only the fields that are sent; `null` clears one. `deleted: true` hides the client from the list, `deleted: false` brings it back. Lookup works as in `readClient`: by id, by an email in the path, or by the query `email`.',
        example: {
          params: { id: '61' },
          body: { phone: '(555) 010-0142' },
          response: { client: { ...created, phone: '(555) 010-0142', version: 2 } },
        },
      },
      deleteClient: {
        summary: 'Delete a client',
        description:
          'Hides the client, as `updateClient` with `deleted: true`, which also brings it back. Lookup works as in `readClient`.',
        example: {
          params: { id: '61' },
          response: { client: { ...created, phone: '(555) 010-0142', deleted: true, version: 3 } },
        },
      },
      putClient: {
        summary: 'Create or replace a client by your own id',
        description:
          'Creates the client with this `external_id`, or replaces every field of the one that has it: a field that is left out gets its default (null or false), so a soft-deleted client is restored. Sent twice, it leaves one client. `If-None-Match: *` only creates, `If-Match` only replaces the version that it names; else 412.',
        example: { params: { external_id: 'shop-7' }, body: sent, response: { client: put } },
      },
      readClientByExternalId: {
        summary: 'Read a client by your own id',
        description:
          'The client whose `external_id` this is, exactly as it was sent. A soft-deleted client is still found.',
        example: { params: { external_id: 'shop-7' }, response: { client: put } },
      },
    }
  },
}

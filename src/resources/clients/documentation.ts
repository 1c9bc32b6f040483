import type { Documentation } from '../../kernel/api/contract.ts'

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
          'Newest first (`id` descending) unless `sort` says otherwise. Soft-deleted clients are hidden unless `deleted` says otherwise; filters can be combined. Send `next_cursor` as `cursor`, or follow `Link`, to read on: a walk by cursor returns every client that stays in the list exactly once, whatever changes meanwhile, which page numbers cannot. What another token wrote a moment before may be missing: see “Read replicas”. Sorted by `updated_at`, a walk uses each client’s time as of the first page, and leaves out clients created since. Behind a cursor, `total` is that of the first page. A cursor is valid for 7 days, and a walk of clients or orders for 30 days in all. To follow changes, use `GET /changes`. `q` finds a substring, ignoring case in any script, in company name, first name, last name, "first last", email or phone. Three or more digits, and a `q` of the digits 0 to 9 only, match the digits of a phone, whatever separates them.',
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
          'Hides the client, as `updateClient` with `deleted: true`, which also brings it back. Lookup works as in `readClient`.',
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

import * as z from 'zod/mini'
import {
  commaList,
  component,
  contractsOf,
  cursorText,
  type Documentation,
  dateTime,
  id,
  wholeNumber,
  withDefault,
} from '../../kernel/api/contract.ts'
import type { Permission } from '../../kernel/gate/permissions.ts'
import { client } from '../clients/contract.ts'
import { listedOrder } from '../orders/shapes.ts'

export const CHANGE_TYPES = {
  clients: 'clients:read',
  orders: 'orders:read',
  email_threads: 'mail:read',
} as const satisfies Record<string, Permission>

export type ChangeType = keyof typeof CHANGE_TYPES

export const NAMES = ['clients', 'orders', 'email_threads'] as const satisfies readonly ChangeType[]

const fields = {
  operation: z
    .enum(['create', 'update', 'delete'])
    .check(z.describe('`delete` for every change that leaves it deleted; an `update` may restore what was deleted.')),
  version: z.int().check(z.positive(), z.describe('The version that the change made.')),
  time: dateTime,
}

export const change = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.enum(['clients']), id, ...fields }),
    z.strictObject({
      type: z.enum(['orders']),
      id,
      ...fields,
      operation: z
        .enum(['create', 'update', 'delete', 'status_changed'])
        .check(
          z.describe('As of other types; `status_changed` follows the `update` or `delete` that changed the status.'),
        ),
      old_status_id: z.nullish(id).check(z.describe('Of `status_changed`: the status before; null for none.')),
      new_status_id: z.nullish(id).check(z.describe('Of `status_changed`: the status since; null for none.')),
    }),
    z.strictObject({
      type: z.enum(['email_threads']),
      id: z.uuid(),
      account_email: z.string(),
      legacy_thread_id: z.string(),
      ...fields,
    }),
  ])
  .check(
    z.meta({
      id: 'Change',
      description: 'A create, update or delete, or a new status: read the object for its content.',
    }),
  )

export type Change = z.output<typeof change>

const EXPANDED_MAX = 100

const define = contractsOf('Changes', null)

export const listChanges = define('listChanges', 'GET /changes', {
  query: z
    .strictObject({
      cursor: z.optional(cursorText).check(z.describe('The `next_cursor` of a response: the changes after it.')),
      start: z
        .optional(z.enum(['latest']))
        .check(z.describe('`latest`: no changes, only a cursor for those to come. Instead of `cursor`.')),
      types: z.optional(
        commaList(NAMES, `Comma list of ${NAMES.join(', ')}. Left out or blank: all that the token may read.`),
      ),
      per_page: withDefault(wholeNumber(1, 1_000), 100, 'How many changes a response has at most.'),
      wait: withDefault(wholeNumber(0, 25), 0, 'Seconds to wait for a change where there is none yet.'),
      expand: z
        .optional(z.enum(['object']))
        .check(z.describe('`object`: the clients and orders of the changes, as they are now, beside them.')),
    })
    .check(
      z.refine(({ expand, per_page }) => !expand || per_page <= EXPANDED_MAX, {
        path: ['per_page'],
        error: `must be at most ${EXPANDED_MAX} with expand=object`,
      }),
      z.refine(({ cursor, start }) => !cursor || !start, {
        path: ['start'],
        error: 'must not be sent together with cursor',
      }),
    ),
  response: component('Changes', 'A page of the feed, oldest change first.', {
    data: z.array(change),
    clients: z
      .optional(z.array(client))
      .check(z.describe('With `expand=object`: the clients in `data`, each once, also deleted ones.')),
    orders: z
      .optional(z.array(listedOrder))
      .check(
        z.describe('With `expand=object`: the orders in `data`, each once and with every part, also deleted ones.'),
      ),
    pagination: z.strictObject({
      next_cursor: z.string().check(z.describe('Send it as `cursor` for what follows, now or later.')),
      has_more: z.boolean().check(z.describe('Whether more is there already. A page may be empty nevertheless.')),
    }),
  }),
  errors: ['gone'],
})

export const published = {
  tags: { Changes: 'The feed of every change, for copies that stay up to date.' },
  document: (): Record<string, Documentation> => ({
    listChanges: {
      summary: 'Follow every change',
      description:
        'Every create, update and delete of the company’s clients, orders and email threads in the order in which they were committed, whoever made them; an update or delete that changes the status of an order is followed by `status_changed`. Changes are kept for 31 days. To copy a company and follow it: take a cursor with `start=latest`, read the lists with their own cursors, then ask for the changes after that cursor again and again, and read each object that they name. Without `cursor` the feed begins with the oldest change that is kept. With `wait` the response comes with the next change, or empty after so many seconds. 410 when changes after the cursor are no longer kept, or the operator has restored the database: copy the lists again, and take each object as it is, since a restore may lower its `version`. A sync of an email thread that changes nothing but `last_synced_at` is no change. Needs the permission to read each of the `types`. With `expand=object` the response also has the clients and orders of its changes, each at least as new as the change and with all that the full order has but `accounting`; `per_page` is then at most 100, and a page has fewer changes where their orders have more than 10,000 lines, payments and artworks, or 1,000,000 characters of one of the three.',
      example: { query: { types: 'clients', per_page: 1 } },
    },
  }),
}

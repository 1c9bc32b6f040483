import * as z from 'zod/mini'
import { component, contractsOf, type Documentation, dateTime, id } from '../../kernel/api/contract.ts'
import { PERMISSIONS } from '../../kernel/gate/permissions.ts'

const count = z.int().check(z.nonnegative())

const CURRENCY = 'Of all amounts: three capital letters, such as an ISO 4217 code; not checked against the list.'
const STORED_BYTES =
  'Bytes of all else in the database, to about 10 %: with soft-deleted rows, changes, stored results and indexes.'

const define = contractsOf('Account', null)

export const readAccount = define('readAccount', 'GET /me', {
  response: component('Account', 'The company and the token of the request, and its limits.', {
    company: z.strictObject({
      id,
      name: z.string(),
      currency: z.string().check(z.describe(CURRENCY)),
    }),
    token: z.strictObject({
      id,
      name: z.string(),
      permissions: z.array(z.enum(PERMISSIONS)),
      created_at: dateTime,
      expires_at: z.nullable(dateTime).check(z.describe('Null for a token that does not expire.')),
    }),
    limits: z.strictObject({
      requests_per_minute: count,
      database_ms_per_minute: count.check(z.describe('Milliseconds of database time.')),
      per_page_max: count.check(z.describe('Of `per_page` in lists of clients and orders.')),
      batch_operations_max: count,
      body_bytes_max: count.check(z.describe('Of a body, where the operation names no other limit.')),
      file_bytes_max: count.check(z.describe('Of an uploaded file.')),
      mail_bytes: count.check(z.describe('Stored (compressed) bytes of email threads.')),
      mail_quota_bytes: count.check(z.describe('The limit of `mail_bytes`.')),
      stored_bytes: count.check(z.describe(STORED_BYTES)),
      storage_quota_bytes: count.check(z.describe('The limit of `stored_bytes`.')),
    }),
  }),
})

export const published = {
  tags: { Account: 'The company, the token and its limits.' },
  document: (): Record<string, Documentation> => ({
    readAccount: {
      summary: 'Read the company, the token and its limits',
      description: 'What the token of the request stands for. A first request that needs nothing but a valid token.',
    },
  }),
}

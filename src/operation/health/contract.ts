import * as z from 'zod/mini'
import { component, dateTime, defineContract } from '../../kernel/api/contract.ts'

const status = z.enum(['ok', 'failed'])

const check = z.strictObject({
  status,
  ms: z.int().check(z.nonnegative(), z.describe('Milliseconds until it responded, or failed.')),
})

const schema = z.extend(check, {
  applied: z.nullable(z.string()).check(z.describe('The newest migration that the database has.')),
  needed: z.string().check(z.describe('The newest migration that this release needs.')),
  missing: z
    .array(z.string())
    .check(
      z.describe('Migrations that this release needs and the database does not have: it is older, and not served.'),
    ),
  unknown: z
    .array(z.string())
    .check(z.describe('Migrations that the database has and this release does not know: it is newer, and served.')),
})

// Health is outside of /api/v1 and /admin/v1, for callers without a token, and not published: guides/monitoring.md
// describes it.

export const readHealth = defineContract({
  method: 'GET',
  path: '/health',
  operationId: 'readHealth',
  tag: 'Health',
  permission: null,
  response: component('Health', 'Whether everything that the service needs responds within two seconds.', {
    status,
    checked_at: dateTime.check(z.describe('Up to five seconds before the response.')),
    checks: z.strictObject({
      database: check,
      schema,
      databases: z
        .record(z.string(), schema)
        .check(z.describe('By the name of the binding: the further databases of companies. Empty where there is one.')),
      cache: check,
      files: check,
      backups: check,
      credentials_key: check.check(z.describe('Whether `CREDENTIALS_KEY` has the form of a key.')),
      durable_objects: z
        .record(z.string(), check)
        .check(z.describe('By the name of the binding: one object of each class.')),
    }),
  }),
  errors: [],
})

export const readLiveness = defineContract({
  method: 'GET',
  path: '/health/live',
  operationId: 'readLiveness',
  tag: 'Health',
  permission: null,
  response: component('Liveness', 'The service runs.', { status: z.literal('ok') }),
  errors: [],
})

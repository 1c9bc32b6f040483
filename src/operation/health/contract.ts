import * as z from 'zod/mini'
import { component, type Documentation, dateTime, defineContract } from '../../kernel/api/contract.ts'

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

// Health is outside of /api/v1 and /admin/v1, for callers without a token.

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

export const endpoints = [readHealth, readLiveness]

/** Not published: a test shows that the examples fit. */
export const documentation = {
  readHealth: {
    summary: 'Check what the service depends on',
    description:
      'Reaches every database, the cache, the buckets of files and of backups and one Durable Object of each class, each within two seconds, compares the schemas of the databases with the release, and checks the form of `CREDENTIALS_KEY`. 503 with the same body where one of them fails. An isolate repeats its checks after five seconds at the earliest. No token.',
    example: {
      response: {
        status: 'ok',
        checked_at: '2026-11-22T18:30:00.000Z',
        checks: {
          database: { status: 'ok', ms: 12 },
          schema: {
            status: 'ok',
            ms: 12,
            applied: '0000_initial.sql',
            needed: '0000_initial.sql',
            missing: [],
            unknown: [],
          },
          databases: {},
          cache: { status: 'ok', ms: 4 },
          files: { status: 'ok', ms: 31 },
          backups: { status: 'ok', ms: 30 },
          credentials_key: { status: 'ok', ms: 0 },
          durable_objects: {
            rate_limiter: { status: 'ok', ms: 9 },
            company_limiter: { status: 'ok', ms: 9 },
            accounting_delivery: { status: 'ok', ms: 10 },
            webhook_delivery: { status: 'ok', ms: 10 },
            company_backup: { status: 'ok', ms: 10 },
          },
        },
      },
    },
  },
  readLiveness: {
    summary: 'Check that the service runs',
    description: 'Reaches nothing: for a monitor that only asks whether requests arrive. No token.',
    example: { response: { status: 'ok' } },
  },
} satisfies Record<string, Documentation>

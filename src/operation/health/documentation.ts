import type { Documentation } from '../../kernel/api/contract.ts'

/** The published description of these endpoints, by operation. */
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

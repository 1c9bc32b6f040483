import * as z from 'zod/mini'
import { component, cursorText, type Documentation, date, dateTime, id } from '../../../kernel/api/contract.ts'
import { SEQUENCES, type Sequences } from '../../copies/tables.ts'
import { adminContracts, count } from '../fields.ts'

const accounting = z
  .enum(['none', 'read', 'failed'])
  .check(
    z.describe(
      'Whether the accounting system was asked for its last invoice number; `none` where it is not connected or not yet asked.',
    ),
  )

const sequences = Object.fromEntries(SEQUENCES.map((name) => [name, count])) as Record<keyof Sequences, typeof count>

const define = adminContracts('Recovery', 'operator')

export const listBackups = define('listBackups', 'GET /companies/{company_id}/backups', {
  response: component('Backups', 'The backups of a company, the oldest first.', {
    data: z.array(
      component('Backup', 'A backup that can be restored.', {
        at: dateTime.check(z.describe('When it began.')),
      }),
    ),
  }),
  createsCompany: true,
})

export const restoreCompany = define('restoreCompany', 'POST /companies/{company_id}/restore', {
  body: component('RestoreInput', 'Which state of the company.', {
    from: z
      .union([date, z.iso.datetime({ offset: true })], 'must be a date or a time, such as 2026-01-31T12:00:00Z')
      .check(z.describe('The newest backup with data that began until the end of this day (UTC), or until this time.')),
  }),
  response: component('RestoreProgress', 'How far a restore has come.', {
    done: z.boolean().check(z.describe('Whether that was all. Repeat the request until it was.')),
    backup: dateTime.check(z.describe('When the backup began that is restored.')),
    step: z.string().check(z.describe('What is being restored.')),
    rows: count.check(z.describe('Rows read of the backups so far.')),
    differences: z
      .array(
        component('RestoreDifference', 'A table with another number of rows.', {
          table: z.string(),
          expected: count,
          found: count,
        }),
      )
      .check(
        z.describe(
          'At the end: tables that have not as many rows as when the backup ended. Those that were written while it ran are here too.',
        ),
      ),
    accounting,
  }),
  createsCompany: true,
  errors: ['not_found', 'conflict'],
})

export const recoverDeployment = define('recoverDeployment', 'POST /recovery', {
  body: component('RecoveryInput', 'Where to go on.', {
    cursor: z
      .optional(cursorText)
      .check(z.describe('The `next_cursor` of the last response. Without one it starts from the beginning.')),
  }),
  response: component('RecoveryProgress', 'What a step of a recovery did.', {
    companies_paused: count.check(z.describe('Companies whose deliveries were paused by this step.')),
    tokens_revoked: count.check(z.describe('Tokens that were revoked again by this step.')),
    company: z.nullable(
      component('RecoveredCompany', 'A company that is done, and the highest ids that it has assigned.', {
        id,
        ...sequences,
        accounting,
      }),
    ),
    missing: z.nullable(
      component('MissingCompany', 'A company without rows in the database that the directory names.', {
        id,
        database: z.string(),
      }),
    ),
    next_cursor: z.nullable(z.string()).check(z.describe('Null when that was all.')),
  }),
})

const backup = '2026-11-22T03:05:00.000Z'

export const published = {
  tags: { Recovery: 'Backups, and what follows a loss of data.' },
  document: (): Record<string, Documentation> => ({
    listBackups: {
      summary: 'List the backups of a company',
      description: 'The company may be gone. Backups are made daily and kept for 35 days.',
      example: { response: { data: [{ at: backup }] } },
    },
    restoreCompany: {
      summary: 'Restore a company from its backups',
      description:
        'Into a company that does not exist or is empty. Each request does some steps, for about 5 s: repeat it with the same body until `done`. Meanwhile the company is suspended. Its ids and invoice numbers are raised past those that were assigned after the backup, its feed of changes starts again, so that every reader copies the lists again, tokens that were revoked since stay revoked, and its deliveries stay paused until `PATCH /companies/{company_id}` resumes them.',
      example: {
        body: { from: '2026-11-22' },
        response: { done: true, backup, step: 'done', rows: 4821, differences: [], accounting: 'read' },
      },
    },
    recoverDeployment: {
      summary: 'Recover from a restore of the whole database',
      description:
        'After D1 Time Travel has set the database back: pauses the deliveries of all companies, revokes again what was revoked since, then raises the ids and invoice numbers of each company past what its backups, the marks that are kept every 5 minutes, its files and its accounting system have, and starts its feed of changes again. Each request does one step: repeat it with `next_cursor` until that is null. A company that is `missing` moved between databases that were set back to different times: set all of them back to the same minute, and recover again. Deliveries stay paused until `PATCH /companies/{company_id}` resumes them.',
      example: {
        body: {},
        response: { companies_paused: 3, tokens_revoked: 1, company: null, missing: null, next_cursor: 'Wy4uLl0' },
      },
    },
  }),
}

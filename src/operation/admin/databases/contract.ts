import * as z from 'zod/mini'
import { component, cursorText, type Documentation, date, dateTime, id, trimmed } from '../../../kernel/api/contract.ts'
import { DATABASE_BINDING } from '../../../kernel/db/names.ts'
import { id as seededId } from '../../copies/seed/file.ts'
import { SEQUENCES, type Sequences } from '../../copies/tables.ts'
import { adminContracts, count } from '../fields.ts'

const database = z
  .string()
  .check(
    z.regex(DATABASE_BINDING, 'must be the binding of a database: DB, or DB_ and capital letters'),
    z.describe('The binding of a database.'),
  )

const define = adminContracts('Databases', 'operator')

const move = {
  source: database,
  destination: database,
  step: z.string().check(z.describe('What comes next.')),
  rows: count.check(z.describe('Rows copied so far, without those that were written meanwhile.')),
}

export const listDatabases = define('listDatabases', 'GET /databases', {
  response: component('Databases', 'The databases of the deployment, and the companies that are being moved.', {
    data: z.array(
      component('Database', 'A database with the data of companies.', {
        name: database,
        companies: count,
        rows: count.check(z.describe('Clients and orders that are not deleted.')),
        size_bytes: count,
        size_max_bytes: count.check(z.describe('How large a database can become.')),
        error: z.nullable(z.string()).check(z.describe('Why its numbers are 0: it does not respond, or is missing.')),
      }),
    ),
    moves: z.array(
      component('Move', 'A move that is not complete.', {
        company_id: id,
        ...move,
        started_at: dateTime,
        updated_at: dateTime.check(z.describe('When its last step ended.')),
      }),
    ),
  }),
})

export const createCompany = define('createCompany', 'POST /companies', {
  body: component('NewCompany', 'A company without data, and where it is to be.', {
    id: seededId,
    name: z.optional(trimmed(255)),
    database: z._default(database, 'DB'),
    adopt: z._default(z.boolean(), false).check(z.describe('Takes back its data here, which the directory has lost.')),
  }),
  response: component('CreatedCompany', 'The company.', { id, name: z.string(), database }),
  errors: ['conflict'],
})

export const moveCompany = define('moveCompany', 'POST /companies/{company_id}/move', {
  body: component('MoveInput', 'Where the company is to be: the present database takes a move back.', { database }),
  response: component('MoveProgress', 'How far a move has come.', {
    done: z.boolean().check(z.describe('Whether that was all. Repeat the request until it was.')),
    ...move,
    frozen_ms: count.check(z.describe('How long writes were refused, in milliseconds. 0 before that.')),
  }),
  errors: ['conflict'],
})

export const rotateKey = adminContracts('Keys', 'operator')('rotateKey', 'POST /key-rotation', {
  response: component('KeyRotation', 'How far the rotation has come.', {
    reencrypted: count.check(z.describe('Values that this request encrypted with the first key.')),
    unreadable: count.check(
      z.describe('Values that no key can decrypt, of this request: save those credentials again.'),
    ),
    remaining: count.check(z.describe('Values that are not encrypted with the first key, after this request.')),
  }),
  errors: ['conflict'],
})

const accounting = z
  .enum(['none', 'read', 'failed'])
  .check(
    z.describe(
      'Whether the accounting system was asked for its last invoice number; `none` where it is not connected or not yet asked.',
    ),
  )

const sequences = Object.fromEntries(SEQUENCES.map((name) => [name, count])) as Record<keyof Sequences, typeof count>

const defineRecovery = adminContracts('Recovery', 'operator')

export const listBackups = defineRecovery('listBackups', 'GET /companies/{company_id}/backups', {
  response: component('Backups', 'The backups of a company, the oldest first.', {
    data: z.array(
      component('Backup', 'A backup that can be restored.', {
        at: dateTime.check(z.describe('When it began.')),
      }),
    ),
  }),
  createsCompany: true,
})

export const restoreCompany = defineRecovery('restoreCompany', 'POST /companies/{company_id}/restore', {
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
  errors: ['conflict'],
})

export const recoverDeployment = defineRecovery('recoverDeployment', 'POST /recovery', {
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
      component('MissingCompany', 'A company whose database has no rows of it, or no binding.', {
        id,
        database: z.string(),
      }),
    ),
    next_cursor: z.nullable(z.string()).check(z.describe('Null when that was all.')),
  }),
})

const backup = '2026-11-22T03:05:00.000Z'

export const published = {
  tags: {
    Databases: 'Where the data of companies is.',
    Keys: 'The rotation of the key of stored credentials.',
    Recovery: 'Backups, and what follows a loss of data.',
  },
  document: (): Record<string, Documentation> => ({
    listDatabases: {
      summary: 'List the databases',
      description:
        'With their size and what they hold. `DB` is also the directory of all companies, tokens and members.',
    },
    createCompany: {
      summary: 'Create a company',
      description:
        'Without data: in the database that is named. 409 where the directory has lost the company while a database has its data: `adopt`, with that database, takes it back as it is there. Its tokens and members are those of the directory: make new ones where it has none. A seed file that is imported for a company that does not exist creates it in `DB`.',
      example: {
        body: { id: 7, name: 'Ridgeline Custom Apparel', database: 'DB_APAC' },
        response: { id: 7, name: 'Ridgeline Custom Apparel', database: 'DB_APAC' },
      },
    },
    moveCompany: {
      summary: 'Move a company to another database',
      description:
        'Each request does some steps, for about 5 s: repeat it with the same body until `done`. One that is interrupted is continued by the next. Requests of the company go on meanwhile; in the last moment its writes get 503 with `Retry-After`. Both databases are compared before the new one takes over. Until then a request with the present database takes the move back.',
      example: {
        params: { company_id: '7' },
        body: { database: 'DB_APAC' },
        response: { done: false, source: 'DB', destination: 'DB_APAC', step: 'copy', rows: 48_210, frozen_ms: 0 },
      },
    },
    rotateKey: {
      summary: 'Encrypt stored credentials with the first key',
      description:
        'With `CREDENTIALS_KEY` set to `NEW,OLD`: encrypts up to 100 stored values again. Repeat while `reencrypted` is not 0. The old key may be removed when `remaining` is 0; values that no key can decrypt remain until their credentials are saved again. 409 while the move of a company is not finished or a database of companies has no binding, and for a malformed `CREDENTIALS_KEY`.',
      example: { response: { reencrypted: 4, unreadable: 0, remaining: 0 } },
    },
    listBackups: {
      summary: 'List the backups of a company',
      description:
        'The company may be gone. Backups are made daily and kept for 35 days, the newest with data for longer.',
      example: { response: { data: [{ at: backup }] } },
    },
    restoreCompany: {
      summary: 'Restore a company from its backups',
      description:
        'Into a company that does not exist or is empty. Each request does some steps, for about 5 s: repeat it with the same body until `done`. Meanwhile the company is suspended. Its ids and invoice numbers are raised past those that were assigned after the backup, its feed of changes starts again, so that every reader copies the lists again, tokens that were revoked since, in the last 90 days, stay revoked, and its deliveries stay paused until `PATCH /companies/{company_id}` resumes them.',
      example: {
        body: { from: '2026-11-22' },
        response: { done: true, backup, step: 'done', rows: 4821, differences: [], accounting: 'read' },
      },
    },
    recoverDeployment: {
      summary: 'Recover from a restore of the whole database',
      description:
        'After D1 Time Travel has set the database back: pauses the deliveries of all companies, revokes again what was revoked since, then raises the ids and invoice numbers of each company past what its backups, the marks that are kept every 5 minutes, its files and its accounting system have, and starts its feed of changes again. Each request does one step: repeat it with `next_cursor` until that is null. A company that is `missing` is in a database without a binding, or moved between databases that were set back to different times: add the binding, or set all of them back to the same minute, and recover again. Deliveries stay paused until `PATCH /companies/{company_id}` resumes them.',
      example: {
        body: {},
        response: { companies_paused: 3, tokens_revoked: 1, company: null, missing: null, next_cursor: 'Wy4uLl0' },
      },
    },
  }),
}

import * as z from 'zod/mini'
import { component, type Documentation, dateTime, id, trimmed } from '../../../kernel/api/contract.ts'
import { DATABASE_BINDING } from '../../../kernel/db/names.ts'
import { id as seededId } from '../../copies/seed/file.ts'
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

export const published = {
  tags: {
    Databases: 'Where the data of companies is.',
    Keys: 'The rotation of the key of stored credentials.',
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
        'Without data: in the database that is named. A seed file that is imported for a company that does not exist creates it in `DB`.',
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
  }),
}

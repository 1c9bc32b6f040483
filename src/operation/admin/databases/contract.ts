import * as z from 'zod/mini'
import { component, dateTime, defineContract, id, idText, trimmed } from '../../../kernel/api/contract.ts'
import { DATABASE_BINDING } from '../../../kernel/db/names.ts'

/** Seeds may use ids up to this one. */
const MAX_ID = 2 ** 48

const count = z.int().check(z.nonnegative())
const database = z
  .string()
  .check(
    z.regex(DATABASE_BINDING, 'must be the binding of a database: DB, or DB_ and capital letters'),
    z.describe('The binding of a database.'),
  )

const common = { tag: 'Databases', permission: null, role: 'operator' } as const

const move = {
  source: database,
  destination: database,
  step: z.string().check(z.describe('What comes next.')),
  rows: count.check(z.describe('Rows copied so far, without those that were written meanwhile.')),
}

export const listDatabases = defineContract({
  ...common,
  method: 'GET',
  path: '/databases',
  operationId: 'listDatabases',
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
  errors: [],
})

export const createCompany = defineContract({
  ...common,
  method: 'POST',
  path: '/companies',
  operationId: 'createCompany',
  body: z
    .strictObject({
      id: id.check(z.maximum(MAX_ID), z.meta({ maximum: MAX_ID })),
      name: z.optional(trimmed(255)),
      database: z._default(database, 'DB'),
    })
    .check(z.meta({ id: 'NewCompany', description: 'A company without data, and where it is to be.' })),
  response: component('CreatedCompany', 'The company.', { id, name: z.string(), database }),
  errors: ['conflict'],
})

export const moveCompany = defineContract({
  ...common,
  method: 'POST',
  path: '/companies/{company_id}/move',
  operationId: 'moveCompany',
  params: z.strictObject({ company_id: idText.check(z.describe('The company.')) }),
  body: z
    .strictObject({ database })
    .check(
      z.meta({ id: 'MoveInput', description: 'Where the company is to be: the present database takes a move back.' }),
    ),
  response: component('MoveProgress', 'How far a move has come.', {
    done: z.boolean().check(z.describe('Whether that was all. Repeat the request until it was.')),
    ...move,
    frozen_ms: count.check(z.describe('How long writes were refused, in milliseconds. 0 before that.')),
  }),
  errors: ['conflict'],
})

export const endpoints = [listDatabases, createCompany, moveCompany]

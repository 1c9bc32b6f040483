import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { databaseText } from '../../../src/kernel/db/client.ts'
import { mintCompany, request, send } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { breakCalls } from '../../support/wrap-bindings.ts'

const SECRET = 'hunter2'

/** The real error of a statement that fails. */
async function failureOf(text: string, ...params: unknown[]): Promise<unknown> {
  try {
    await env.DB.batch([env.DB.prepare(text).bind(...params)])
  } catch (error) {
    return error
  }
  return expect.fail('The statement succeeds.')
}

const STATEMENTS: [string, unknown[], RegExp][] = [
  [
    'INSERT INTO companies (name) VALUES (?)',
    [SECRET],
    /NOT NULL constraint failed: companies\.\w+.*SQLITE_CONSTRAINT/,
  ],
  ['INSERT INTO members VALUES (-5, ?1, ?1, 0)', [SECRET], /CHECK constraint failed|FOREIGN KEY constraint failed/],
  ['SELECT * FROM clients_fts WHERE clients_fts MATCH ?', [`"${SECRET}`], /SQLITE_ERROR/],
  ['SELECT * FROM clients_fts WHERE clients_fts MATCH ?', [`a ${SECRET}' ) : SQLITE_X "`], /SQLITE_ERROR/],
  ['SELECT json_extract(?, ?)', ['{}', `.${SECRET}'["`], /SQLITE_ERROR/],
  ['SELECT json(?)', [SECRET], /malformed JSON: SQLITE_ERROR/],
  [`SELECT '${SECRET}`, [], /SQLITE_ERROR/],
  ['SELECT a_missing_column FROM clients', [], /no such column: a_missing_column.*SQLITE_ERROR/],
  ['SELECT ?', [{ [SECRET]: SECRET }], /^D1_TYPE_ERROR/],
]

it.each(STATEMENTS)('has the code and the columns of %s, and no value', async (text, params, expected) => {
  const error = await failureOf(text, ...params)
  for (const thrown of [error, new Error(`Failed query: ${text} params: ${SECRET}`, { cause: error })]) {
    expect(databaseText(thrown)).toMatch(expected)
    expect(databaseText(thrown)).not.toContain(SECRET)
  }
})

it('is nothing of another error', () => {
  for (const error of [new Error(SECRET), new TypeError(SECRET, { cause: new Error(SECRET) }), SECRET, null]) {
    expect(databaseText(error)).toBeNull()
  }
})

it('is in the log line of a failure', async () => {
  const company = await mintCompany({ home: 'DB' })
  const error = await failureOf('INSERT INTO companies (id, slot, name) VALUES (?, 0, ?)', company.id, SECRET)
  const sent = request(company.token, 'POST', '/clients', { company_name: SECRET })
  const { status, headers } = await send(sent, { env: breakCalls(env, /^DB\.batch$/, error) })
  const line = JSON.stringify(linesOf(headers.get('x-request-id')))
  expect(status).toBe(500)
  expect(line).toMatch(/D1_ERROR: NOT NULL constraint failed: companies\.created_at: SQLITE_CONSTRAINT/)
  expect(line).not.toContain(SECRET)
})

import { env } from 'cloudflare:workers'
import { beforeEach, expect, it } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { sweepMailContents } from '../../../src/resources/mail/content.ts'
import { mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { meterBindings } from '../../support/meter.ts'
import { insert } from '../../support/rows.ts'
import { writeObjects } from './support.ts'

let company: TestCompany

beforeEach(async () => {
  await sql('DELETE FROM company_guards')
  await sql('DELETE FROM email_thread_objects')
  company = await mintCompany({ home: 'DB' })
})

const addDueObject = ({ id }: TestCompany) => writeObjects(id, 1, "'due-' || ?1, 'replaced', NULL, 1")
const dueObjectsOf = ({ id }: TestCompany) =>
  sql("SELECT id FROM email_thread_objects WHERE company_id = ? AND id LIKE 'due-%'", id)

it.each(['read_only', 'moved', 'writable'])(
  'is not held up by more than it takes at once of a company that is %s',
  async (state) => {
    const { id: moving } = await mintCompany({ home: 'DB' })
    await writeObjects(moving, 2_600, `'${state}-' || i, 'replaced', NULL, 0`)
    const guard = { company_id: moving, state, destination: 'DB_TWO', slot: 0, read_only_at: Date.now() }
    await insert('company_guards', guard)
    await addDueObject(company)
    await sweepMailContents(openDatabase(env.DB), env.FILES, Date.now())
    expect(await dueObjectsOf(company)).toEqual([])
  },
)

it('reads few rows beside a company with much mail, where SQLite has no statistics', async () => {
  const measure = async () => {
    await addDueObject(company)
    const { env: metered, take } = meterBindings(env)
    await sweepMailContents(openDatabase(metered.DB), metered.FILES, Date.now())
    const { rowsRead } = take()
    expect(await dueObjectsOf(company)).toEqual([])
    return rowsRead
  }
  const alone = await measure()
  const { id } = await mintCompany({ home: 'DB' })
  await sql(
    `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
     INSERT INTO email_threads (company_id, account_email, message_count, last_synced_at, content_hash, revision,
       content_revision, created_at, updated_at, id, legacy_thread_id)
     SELECT ?, 'x@y.example', 0, 0, 'x', 1, 1, 0, 0, 'full-' || i, 'full-' || i FROM n`,
    id,
  )
  await writeObjects(id, 5_000, "'full-' || i, 'replaced', NULL, 9e15")
  await writeObjects(id, 5_000, "'of-full-' || i, 'stored', 'full-' || i, NULL")
  expect(await sql("SELECT tbl FROM sqlite_stat1 WHERE tbl LIKE 'email%'")).toEqual([])
  // A range of an index ends with the next row, where there is one.
  expect(await measure()).toBeLessThanOrEqual(alone + 10)
})

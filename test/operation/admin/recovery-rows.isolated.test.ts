import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { openCompany, openEach } from '../../../src/kernel/db/placement.ts'
import { closeCopies } from '../../../src/operation/copies/guard-queries.ts'
import { COPY_CHANGES } from '../../../src/operation/copies/write-queries.ts'
import { sweepMailContents } from '../../../src/resources/mail/content.ts'
import { noise, storedObjects } from '../../resources/mail/support.ts'
import { call, type Home, mintCompany, mintToken, sql, sqlIn, type TestCompany } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { insert, insertion } from '../../support/rows.ts'
import {
  backUp,
  HOMES,
  mintBeside,
  recover,
  restoreAsOperator,
  rowsOf,
  sweepDueBackups,
  today,
  wipe,
  wipeAll,
} from '../copies/support.ts'

const DAY_MS = 86_400_000

// A recovery visits every company: those of earlier tests would take most of its time.
beforeEach(wipeAll)

/** A row without its generated columns. */
const writable = (row: object) =>
  Object.fromEntries(Object.entries(row).filter(([name]) => !/^(text|stored)_bytes$/.test(name)))

const THREAD = '/mail/email-threads/t?account_email=a@x.example'

/** Writes a thread whose content is in R2. @returns its text */
async function putThread({ call }: TestCompany): Promise<string> {
  const text = noise(1_500_000)
  const thread = { account_email: 'a@x.example', messages: [{ text }] }
  expect((await call('PUT', '/mail/email-threads/t', thread)).status).toBe(200)
  return text
}

describe.each(HOMES)('mail contents in R2 of %s that was set back', (home) => {
  const sweep = (days: number) => sweepMailContents(openDatabase(env[home]), env.FILES, Date.now() + days * DAY_MS)
  it('are there for every thread of then, and those that it does not know are removed after 43 days', async () => {
    const company = await mintCompany({ home })
    const before = await putThread(company)
    const tables = ['email_threads', 'email_thread_objects'] as const
    const then = await rowsOf(company.id)
    await putThread(company)
    expect(await storedObjects(company.id)).toHaveLength(2)
    await sweep(29)

    // What Time Travel does: the database is as it was, R2 is not.
    for (const table of tables.toReversed()) await sql(`DELETE FROM ${table} WHERE company_id = ?`, company.id)
    await env[home].batch(tables.flatMap((table) => (then[table] ?? []).map((row) => insertion(table, writable(row)))))
    await recover()
    expect((await company.call('GET', THREAD)).body.email_thread.messages).toEqual([{ text: before }])
    await sweep(42)
    expect(await storedObjects(company.id)).toHaveLength(2)
    await sweep(44)
    const [named] = await sql<{ id: string }>('SELECT id FROM email_thread_objects WHERE company_id = ?', company.id)
    expect(await storedObjects(company.id)).toEqual([expect.stringContaining(named?.id ?? 'none')])
    expect((await company.call('GET', THREAD)).body.email_thread.messages).toEqual([{ text: before }])
  })

  it('belong to the threads of a backup that is restored after the recovery, and stay', async () => {
    const company = await mintCompany({ home })
    const [row] = await sqlIn<object>(home, 'SELECT * FROM companies WHERE id = ?', company.id)
    const text = await putThread(company)
    await backUp(company.id)
    // What Time Travel to its beginning does.
    await wipe(company.id)
    await insertion('companies', writable(row ?? {}), home).run()
    await recover()
    const objects = () => sql('SELECT state, remove_at FROM email_thread_objects WHERE company_id = ?', company.id)
    expect(await objects()).toEqual([{ state: 'replaced', remove_at: expect.any(Number) }])

    expect((await restoreAsOperator(company.id, today())).body).toMatchObject({ done: true, differences: [] })
    expect(await objects()).toEqual([{ state: 'stored', remove_at: null }])
    await sweep(44)
    const restored = await call(await mintToken(company.id), 'GET', THREAD)
    expect(restored.body.email_thread?.messages).toEqual([{ text }])
  })
})

it.each([
  ['since it moved to DB after the restored time, and only DB was set back', true],
  ['since it moved there after the restored time, and only that one was set back', false],
])('a recovery names a company without rows in its database, and goes on: %s', async (_, isMoved) => {
  const company = await mintCompany({ home: 'DB_TWO' })
  const last = await mintCompany({ home: 'DB' })
  const { id } = company
  await putThread(company)
  await wipe(id)
  const [row] = await sqlIn<{ slot: number }>('DB', 'SELECT slot FROM companies WHERE id = ?', id)
  const guard = { company_id: id, state: 'moved', destination: 'DB', slot: row?.slot }
  if (isMoved) await insert('company_guards', guard, 'DB_TWO')

  const steps = await recover()
  expect(steps.filter(({ missing }) => missing?.id === id)).toEqual([
    expect.objectContaining({ missing: { id, database: 'DB_TWO' }, company: null }),
  ])
  const recovered = steps.map((step) => step.company?.id)
  expect(recovered).toContain(last.id)
  expect(recovered).not.toContain(id)
  // Their removal would be that of contents which the company's own rows name when they are back.
  expect(await sqlIn('DB', 'SELECT id FROM email_thread_objects WHERE company_id = ?', id)).toEqual([])
})

it('a recovery names a company whose database has no binding, and goes on', async () => {
  const [gone, other] = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB' })]
  await sqlIn('DB', "UPDATE companies SET database = 'DB_GONE', database_slot = 1 WHERE id = ?", gone.id)
  const steps = await recover()
  const missing = { id: gone.id, database: 'DB_GONE' }
  expect(steps.flatMap((step) => step.missing ?? [])).toEqual([missing])
  expect(steps.map((step) => step.company?.id)).toContain(other.id)
})

describe('rows of a company in a database that it moved to after the restored time', () => {
  /** A company whose mail is in R2, with the rows that Time Travel of `DB` leaves in the other database. */
  async function setBack() {
    const company = await mintCompany({ home: 'DB' })
    const { id } = company
    await putThread(company)
    const [row] = await sql<object>('SELECT * FROM companies WHERE id = ?', id)
    const [object] = await sql<object>('SELECT * FROM email_thread_objects WHERE company_id = ?', id)
    const slot = sqlIn<{ slot: number }>('DB_TWO', 'SELECT max(slot) + 1 AS slot FROM companies')
    const unnamed = { state: 'replaced', thread_id: null, remove_at: Date.now() + 43 * DAY_MS }
    await env.DB_TWO.batch([
      insertion('companies', { ...row, ...(await slot)[0] }, 'DB_TWO'),
      insertion('email_thread_objects', { ...object, ...unnamed }, 'DB_TWO'),
    ])
    return company
  }

  const guardOf = (id: number) =>
    sqlIn('DB_TWO', 'SELECT state, destination, slot FROM company_guards WHERE company_id = ?', id)

  it('are left alone by every sweep after the recovery', async () => {
    const company = await setBack()
    const { id } = company
    await sweepDueBackups()
    await recover()
    expect(await guardOf(id)).toEqual([
      { ...(await sql('SELECT slot FROM companies WHERE id = ?', id))[0], state: 'moved', destination: 'DB' },
    ])
    expect(await sqlIn('DB_TWO', 'SELECT last_change FROM companies WHERE id = ?', id)).toEqual([
      { last_change: COPY_CHANGES },
    ])
    await backUp(id)
    logLines.length = 0
    await sqlIn('DB_TWO', 'UPDATE companies SET backed_up_at = 9e15 WHERE id <> ?', id)
    expect(await sweepDueBackups()).not.toContain(id)
    expect(logLines.filter(({ event }) => event === 'database_set_back')).toEqual([])
    await sweepMailContents(openDatabase(env.DB_TWO), env.FILES, Date.now() + 44 * DAY_MS)
    expect(await storedObjects(id)).toHaveLength(1)
    expect((await company.call('GET', THREAD)).status).toBe(200)
  })

  it('stay as they are while a move ends', async () => {
    const { id } = await setBack()
    await insert('company_guards', { company_id: id, state: 'writable', destination: 'DB', slot: 0 }, 'DB_TWO')
    await recover()
    expect(await guardOf(id)).toEqual([{ state: 'writable', destination: 'DB', slot: 0 }])
  })

  it('stay open where they are the only ones', async () => {
    const { id } = await mintCompany({ home: 'DB_TWO' })
    expect(await closeCopies(await openCompany(env, id), 'DB', openEach(env))).toBeUndefined()
    expect(await guardOf(id)).toEqual([])
  })
})

it.each([
  ['DB', { DB: 'read_only' }, 'DB'],
  ['DB_TWO', { DB_TWO: 'moved', DB: 'writable' }, 'DB'],
] as const)('a recovery pauses a company of %s whose move was at its end then: %o', async (home, guards, place) => {
  const { id } = await mintBeside(home)
  const ends = { company_id: id, destination: 'DB', slot: 0, read_only_at: 0 }
  for (const [database, state] of Object.entries(guards)) {
    await insert('company_guards', { ...ends, state }, database as Home)
  }
  await recover()
  expect(await sqlIn(place, 'SELECT deliveries_paused FROM companies WHERE id = ?', id)).toEqual([
    { deliveries_paused: 1 },
  ])
})

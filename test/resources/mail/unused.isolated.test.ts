import { env, exports } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { sweepMailContents } from '../../../src/resources/mail/sweep.ts'
import { migrate, mintCompany, request, sql, type TestCompany } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { meterBindings } from '../../support/meter.ts'
import { insert } from '../../support/rows.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { contentLengthOf, freshThreadId, MAILBOX, noise, objectsOf, storedObjects, threadPath } from './support.ts'

let company: TestCompany

beforeAll(migrate)
beforeEach(async () => {
  await sql('DELETE FROM company_guards')
  await sql('DELETE FROM email_thread_objects WHERE thread_id IS NULL')
  await sql('UPDATE email_threads SET content_used_at = 9e15')
  company = await mintCompany({ home: 'DB' })
})

const DAY_MS = 86_400_000
const THREAD = { labels: ['a'], messages: [{ text: 'x'.repeat(500) }], subject: 'Shirts' }
const put = (id: string, fields: object) =>
  company.call('PUT', threadPath(id), { account_email: MAILBOX, messages: [], ...fields })
const read = (id: string, headers = {}) => company.call('GET', threadPath(id, MAILBOX), undefined, headers)
const sweep = (bucket: R2Bucket = env.FILES) => sweepMailContents(env.DB, bucket, Date.now())

/** Makes a thread one that nobody used for so many days. */
const age = (id: string, days: number) =>
  sql('UPDATE email_threads SET content_used_at = ? WHERE legacy_thread_id = ?', Date.now() - days * DAY_MS, id)

async function unused(fields: object = THREAD): Promise<string> {
  const id = freshThreadId()
  expect((await put(id, fields)).status).toBe(200)
  await age(id, 32)
  return id
}

const bytesOf = async () =>
  (await sql<{ n: number }>('SELECT mail_bytes AS n FROM companies WHERE id = ?', company.id))[0]?.n

describe('content that nobody used for 30 days', () => {
  it('moves to R2 with its ETag and its response unchanged, and its bytes counted', async () => {
    const [id, other] = [await unused(), freshThreadId()]
    await put(other, THREAD)
    await age(other, 30)
    const [before] = await sql(
      'SELECT revision, content_revision, updated_at FROM email_threads WHERE legacy_thread_id = ?',
      id,
    )
    const shown = await company.call('GET', `/mail/email-threads?account_email=${MAILBOX}`)
    await sweep()
    expect([await contentLengthOf(id), await contentLengthOf(other)]).toEqual([null, expect.any(Number)])
    const [object] = await objectsOf(id)
    expect(await storedObjects(company.id)).toEqual([`mail/${company.id}/${object?.content_hash}/${object?.id}`])
    const first = await read(id)
    expect(first.body.email_thread).toMatchObject(THREAD)
    expect((await read(id, { 'if-none-match': first.headers.get('etag') ?? '' })).status).toBe(304)
    expect(
      await sql('SELECT revision, content_revision, updated_at FROM email_threads WHERE legacy_thread_id = ?', id),
    ).toEqual([before])
    expect((await company.call('GET', `/mail/email-threads?account_email=${MAILBOX}`)).body).toEqual(shown.body)
    const ofTexts = 2 * JSON.stringify(THREAD.subject).length
    expect(await bytesOf()).toBe((object?.bytes ?? 0) + ((await contentLengthOf(other)) ?? 0) + ofTexts)
    // Nothing is left to do.
    await sweep()
    expect(await storedObjects(company.id)).toHaveLength(1)
  })

  it('is not moved when it was read since: reading notes it once a day, and writing too', async () => {
    const [id, written, replaced] = [await unused(), await unused(), await unused()]
    await read(id)
    await put(written, THREAD)
    await put(replaced, { ...THREAD, labels: ['b'] })
    const [noted] = await sql('SELECT content_used_at AS at FROM email_threads WHERE legacy_thread_id = ?', id)
    await read(id)
    expect(await sql('SELECT content_used_at AS at FROM email_threads WHERE legacy_thread_id = ?', id)).toEqual([noted])
    await sweep()
    expect(await storedObjects(company.id)).toEqual([])
  })

  it('gives way to other content in the database', async () => {
    const [id, fields] = [await unused(), { ...THREAD, labels: ['b'] }]
    await sweep()
    expect((await put(id, fields)).status).toBe(200)
    expect([await contentLengthOf(id), await objectsOf(id)]).toEqual([expect.any(Number), []])
    expect((await read(id)).body.email_thread).toMatchObject(fields)
    const ofTexts = JSON.stringify(THREAD.subject).length
    expect(await bytesOf()).toBe(((await contentLengthOf(id)) ?? 0) + ofTexts)
    await age(id, 32)
    await sweep()
    expect(await objectsOf(id)).toHaveLength(1)
    expect((await read(id)).body.email_thread).toMatchObject(fields)
  })

  it.each([500, 900_000, 3_000_000])('stays in R2 when it is written unchanged: %i bytes', async (size) => {
    const thread = { messages: [{ text: noise(size) }] }
    const id = await unused(thread)
    await sweep()
    const before = await objectsOf(id)
    expect(before).toHaveLength(1)
    // Of the longer subject alone.
    await sql('UPDATE companies SET mail_quota_bytes = mail_bytes + 5 WHERE id = ?', company.id)
    expect((await put(id, { ...thread, subject: 'new' })).body.email_thread).toMatchObject(thread)
    expect([await contentLengthOf(id), await objectsOf(id)]).toEqual([null, before])
    expect((await read(id)).body.email_thread).toMatchObject(thread)
  })

  it('of megabytes is returned as it was sent', async () => {
    const fields = { messages: [{ text: noise(900_000) + 'x'.repeat(2_000_000) }], snippet: 's'.repeat(100_000) }
    const id = await unused(fields)
    await sweep()
    expect(await contentLengthOf(id)).toBe(null)
    expect((await read(id)).body.email_thread).toMatchObject(fields)
  })

  it('that moves while a caller reads it is read to its end', async () => {
    const text = noise(700_000) + 'x'.repeat(1_000_000) + noise(200_000)
    const id = await unused({ messages: [{ text }] })
    const response = await exports.default.fetch(request(company.token, 'GET', threadPath(id, MAILBOX)))
    const reader = (response.body ?? new ReadableStream<Uint8Array>()).getReader()
    const parts = [(await reader.read()).value as Uint8Array]
    await age(id, 32)
    await sweep()
    expect(await contentLengthOf(id)).toBe(null)
    for (let next = await reader.read(); !next.done; next = await reader.read()) parts.push(next.value as Uint8Array)
    const body = JSON.parse(await new Blob(parts).text())
    expect(body.email_thread.messages[0].text === text).toBe(true)
  })
})

describe('the move', () => {
  it('leaves content alone that is read or replaced between the copy and the change', async () => {
    const [readMeanwhile, replaced] = [await unused(), await unused()]
    let isFirst = true
    const { FILES } = wrapBindings(env, async (name, work) => {
      const stored = await work()
      if (name === 'FILES.put' && isFirst) {
        isFirst = false
        await read(readMeanwhile)
        await put(replaced, { messages: [{ text: 'newer' }] })
      }
      return stored
    })
    await sweep(FILES)
    for (const id of [readMeanwhile, replaced]) expect(await contentLengthOf(id)).toEqual(expect.any(Number))
    expect((await read(replaced)).body.email_thread.messages).toEqual([{ text: 'newer' }])
    await sweepMailContents(env.DB, env.FILES, Date.now() + 2 * 3_600_000)
    expect(await storedObjects(company.id)).toEqual([])
  })

  it('changes nothing when R2 fails, and is repeated', async () => {
    const id = await unused()
    const { FILES } = wrapBindings(env, (name, work) =>
      name === 'FILES.put' ? Promise.reject(new Error('internal')) : work(),
    )
    await sweep(FILES)
    expect(await contentLengthOf(id)).toEqual(expect.any(Number))
    expect(logLines).toContainEqual(expect.objectContaining({ event: 'mail_contents_failed' }))
    await sweep()
    expect(await objectsOf(id)).toHaveLength(1)
  })

  it('is bounded, takes the oldest first, and is not held up by a thread without content', async () => {
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 230)
       INSERT INTO email_threads (id, company_id, account_email, legacy_thread_id, message_count, last_synced_at, content_hash, revision, content_revision, created_at, updated_at, content_used_at, content)
       SELECT 'old-' || i, ?1, 'x@y.example', 'old' || i, 0, 0, 'x', 1, 1, i, i, i, iif(i = 1, NULL, 'Cwf4') FROM n`,
      company.id,
    )
    await sweep()
    const left = await sql<{ id: string }>("SELECT id FROM email_threads WHERE id LIKE 'old-%' AND content IS NOT NULL")
    expect(left).toHaveLength(29)
    expect(left.every(({ id }) => Number(id.slice(4)) > 201)).toBe(true)
    await sweep()
    expect(await sql("SELECT id FROM email_threads WHERE id LIKE 'old-%' AND content IS NOT NULL")).toEqual([])
  })
})

/** Writes rows for the numbers from `i` = 1 on. */
const writeMany = (count: number, text: string, companyId: number) =>
  sql(
    `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?2) ${text} FROM n`,
    ...[companyId, count],
  )
const INTO_THREADS = `INSERT INTO email_threads (company_id, account_email, message_count, last_synced_at, content_hash,
  revision, content_revision, created_at, updated_at, id, legacy_thread_id, content_used_at, content)
  SELECT ?1, 'x@y.example', 0, 0, 'x', 1, 1, 0, 0`
const INTO_OBJECTS = `INSERT INTO email_thread_objects (company_id, content_hash, bytes, id, state, thread_id, remove_at)
  SELECT ?1, 'x', 1`

const addDueObject = ({ id }: TestCompany) => writeMany(1, `${INTO_OBJECTS}, 'due-' || ?1, 'replaced', NULL, 1`, id)
const dueObjectsOf = ({ id }: TestCompany) =>
  sql("SELECT id FROM email_thread_objects WHERE company_id = ? AND id LIKE 'due-%'", id)

describe('the sweep', () => {
  it.each(['read_only', 'moved', 'writable'])(
    'is not held up by more than it takes at once of a company that is %s',
    async (state) => {
      const { id: moving } = await mintCompany({ home: 'DB' })
      const mark = `'${state}-' || i`
      await writeMany(250, `${INTO_THREADS}, ${mark}, ${mark}, 0, 'Cwf4'`, moving)
      await writeMany(2_600, `${INTO_OBJECTS}, ${mark}, 'replaced', NULL, 0`, moving)
      const guard = { company_id: moving, state, destination: 'DB_TWO', slot: 0, read_only_at: Date.now() }
      await insert('company_guards', guard)
      const id = await unused()
      await addDueObject(company)
      await sweep()
      expect(await contentLengthOf(id)).toBe(null)
      expect(await dueObjectsOf(company)).toEqual([])
    },
  )

  it('reads few rows beside a company with much mail, where SQLite has no statistics', async () => {
    const measure = async () => {
      await sweep()
      const id = await unused()
      await addDueObject(company)
      const { env: metered, take } = meterBindings(env)
      await sweepMailContents(metered.DB, metered.FILES, Date.now())
      const { rowsRead } = take()
      expect(await contentLengthOf(id)).toBe(null)
      expect(await dueObjectsOf(company)).toEqual([])
      return rowsRead
    }
    const alone = await measure()
    const { id } = await mintCompany({ home: 'DB' })
    const mark = "'full-' || i"
    await writeMany(10_000, `${INTO_THREADS}, ${mark}, ${mark}, 9e15, iif(i > 5000, NULL, 'Cwf4')`, id)
    await writeMany(5_000, `${INTO_OBJECTS}, ${mark}, 'replaced', NULL, 9e15`, id)
    await writeMany(5_000, `${INTO_OBJECTS}, 'of-' || ${mark}, 'stored', 'full-' || (5000 + i), NULL`, id)
    expect(await sql("SELECT tbl FROM sqlite_stat1 WHERE tbl LIKE 'email%'")).toEqual([])
    // A range of an index ends with the next row, where there is one.
    expect(await measure()).toBeLessThanOrEqual(alone + 10)
  })
})

import { beforeEach, describe, expect, it } from 'vitest'
import { mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { contentLengthOf, freshThreadId, MAILBOX, noise, putThread, threadPath } from './support.ts'

let company: TestCompany

beforeEach(async () => {
  company = await mintCompany()
})

const put = (legacyId: string, fields: object, by = company) => putThread(by, legacyId, fields)

/** On a busy machine the limit of database time may refuse one of many at once: it is sent again. */
async function putInTurn(legacyId: string, fields: object) {
  let response = await put(legacyId, fields)
  while (response.status === 429) response = await put(legacyId, fields)
  return response
}

const read = async (legacyId: string, by = company) => (await by.call('GET', threadPath(legacyId, MAILBOX))).body

async function storedBytes(): Promise<number> {
  const [row] = await sql<{ bytes: number }>('SELECT mail_bytes AS bytes FROM companies WHERE id = ?', company.id)
  return row?.bytes ?? 0
}

async function setQuota(bytes: number): Promise<void> {
  await sql('UPDATE companies SET mail_quota_bytes = ? WHERE id = ?', bytes, company.id)
}

/** The stored bytes, counted without the triggers. */
async function countBytes(): Promise<number> {
  const [row] = await sql<{ bytes: number }>(
    `SELECT (SELECT coalesce(sum(octet_length(content)), 0) FROM email_threads WHERE company_id = ?1)
      + (SELECT coalesce(sum(o.bytes), 0) FROM email_thread_objects AS o JOIN email_threads AS t ON t.id = o.thread_id WHERE t.company_id = ?1)
      + (SELECT coalesce(sum(octet_length(coalesce(subject, '') || coalesce(snippet, '') || coalesce(mail_thread_id, '') || coalesce(mail_history_id, ''))), 0) FROM email_threads WHERE company_id = ?1) AS bytes`,
    company.id,
  )
  return row?.bytes ?? 0
}

it('the stored bytes of a company equal those of its content and texts after every kind of PUT', async () => {
  const id = freshThreadId()
  const long = 'é'.repeat(50_000)
  for (const fields of [
    { messages: [{ a: noise(3_000) }], subject: 'Grüße', snippet: null },
    { messages: [{ a: noise(500) }], subject: 'Grüße an alle' },
    { messages: [{ a: 1 }], subject: long },
    { messages: [{ a: 1 }], snippet: 'x'.repeat(90_000) },
    { messages: [{ a: noise(3_000_000) }], subject: 'short', mail_history_id: '1' },
    { messages: [{ a: noise(9_000_000) }], snippet: null },
    { messages: [], subject: null, mail_history_id: null },
  ]) {
    expect((await put(id, fields)).status).toBe(200)
    expect((await put(freshThreadId(), fields)).status).toBe(200)
    expect((await put(id, fields)).status).toBe(200)
    expect(await storedBytes()).toBe(await countBytes())
  }
  expect(await storedBytes()).toBeGreaterThan(6_000_000)
})

describe('the storage quota', () => {
  it('admits a PUT that reaches it exactly; one byte more is refused with 413 and changes nothing', async () => {
    const [id, other] = [freshThreadId(), freshThreadId()]
    const fields = { messages: [{ a: noise(5_000) }], subject: 'first' }
    await put(id, fields)
    const bytes = await storedBytes()
    await setQuota(2 * bytes)
    expect((await put(other, fields)).status).toBe(200)
    expect(await storedBytes()).toBe(2 * bytes)

    const before = [await read(id), await contentLengthOf(id)]
    const count = (table: string) => sql(`SELECT count(*) AS n FROM ${table} WHERE company_id = ?`, company.id)
    const log = await count('audit_log')
    const refused = [
      await put(id, { ...fields, subject: 'first.' }),
      await put(freshThreadId(), {}),
      await put(id, { messages: [{ a: noise(9_000_000) }] }),
    ]
    const details = { reason: 'storage_quota', limit_bytes: 2 * bytes }
    const refusal = { status: 413, body: { error: { code: 'invalid_request', details } } }
    expect(refused).toMatchObject(Array(3).fill(refusal))
    expect([await read(id), await contentLengthOf(id)]).toEqual(before)
    expect(await storedBytes()).toBe(2 * bytes)
    expect([await count('audit_log'), await count('email_threads')]).toEqual([log, [{ n: 2 }]])
  })

  it('admits reads and PUTs that do not raise the stored bytes of a company far over it', async () => {
    const id = freshThreadId()
    const [large, small] = [{ messages: [{ a: noise(5_000_000) }] }, { messages: [{ a: noise(1_000_000) }] }]
    await put(id, { ...large, subject: 'old' })
    await put(freshThreadId(), large)
    await setQuota(1_000)
    expect((await put(id, { ...large, subject: 'new' })).status).toBe(200)
    expect((await put(id, { ...small, subject: 'a longer one' })).status).toBe(200)
    expect((await read(id)).email_thread).toMatchObject({ ...small, subject: 'a longer one' })
    expect((await put(id, large)).status).toBe(413)
    expect((await company.call('POST', '/clients', { company_name: 'A' })).status).toBe(200)
  })

  it('counts soft-deleted threads', async () => {
    const id = freshThreadId()
    const fields = { messages: [{ a: noise(5_000) }] }
    await put(id, fields)
    await setQuota((await storedBytes()) + 100)
    await sql('UPDATE email_threads SET deleted = 1 WHERE legacy_thread_id = ?', id)
    expect((await put(freshThreadId(), fields)).status).toBe(413)
    expect((await put(id, fields)).status).toBe(200)
  })

  it('applies to its company only', async () => {
    const other = await mintCompany()
    await setQuota(1)
    expect((await put(freshThreadId(), {})).status).toBe(413)
    expect((await put(freshThreadId(), {}, other)).status).toBe(200)
  })

  it('admits exactly as many concurrent PUTs as fit', async () => {
    const fields = () => ({ messages: [{ a: noise(20_000) }] })
    await put(freshThreadId(), fields())
    const bytes = await storedBytes()
    // Random bytes do not all compress to the same length.
    await setQuota(Math.floor(5.5 * bytes))
    const responses = await Promise.all(Array.from({ length: 10 }, () => putInTurn(freshThreadId(), fields())))
    const statuses = responses.map(({ status }) => status).sort()
    expect(statuses).toEqual([...Array(4).fill(200), ...Array(6).fill(413)])
    expect(await storedBytes()).toBe(await countBytes())
    expect(await storedBytes()).toBeLessThanOrEqual(5.5 * bytes)
  })
})

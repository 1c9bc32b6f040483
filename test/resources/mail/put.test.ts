import { describe, expect, it } from 'vitest'
import { expect200, mintCompany, sql } from '../../support/app.ts'
import { freshThreadId, MAILBOX, putThread, threadPath } from './support.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const company = await mintCompany()

async function put(legacyId: string, fields: object = {}) {
  return expect200(await putThread(company, legacyId, fields)).email_thread
}

async function read(legacyId: string, accountEmail = MAILBOX) {
  const response = await company.call('GET', threadPath(legacyId, accountEmail))
  return response.status === 200 ? response.body.email_thread : response.status
}

const TEXTS = ['subject', 'snippet', 'mail_thread_id', 'mail_history_id'] as const
const OPTIONAL = [...TEXTS, 'first_message_at', 'last_message_at'] as const

const WHOLE = {
  participants: [{ name: 'Ines', email: 'ines@harbor.example' }, {}],
  labels: ['INBOX', ''],
  subject: 'Shirts',
  snippet: 'Could you …',
  mail_thread_id: 'thread-f:1784215093462262801',
  mail_history_id: '18446744073709551615',
  first_message_at: '2026-03-02T09:30:00+02:00',
  last_message_at: '2026-03-02T10:00:00.5Z',
  last_synced_at: '2026-03-02T11:00:00Z',
  // The last one has nothing of the form that is suggested.
  messages: [
    { id: '1', from: { email: 'a@b.example' } },
    {},
    { id: 1, from: 'text', to: {}, attachments: 'x', sent_at: false, '': [[{ deep: null }]] },
  ],
}

describe('PUT and GET of an email thread', () => {
  it('return every field of the thread, and messages of any form', async () => {
    const id = freshThreadId()
    const before = Date.now()
    const made = await put(id, WHOLE)
    expect(made).toEqual({
      ...{ ...WHOLE, id: expect.stringMatching(UUID), account_email: MAILBOX, legacy_thread_id: id },
      ...{ first_message_at: '2026-03-02T07:30:00.000Z', last_message_at: '2026-03-02T10:00:00.500Z' },
      ...{ last_synced_at: '2026-03-02T11:00:00.000Z', created_at: expect.any(String), updated_at: made.created_at },
      ...{ message_count: 3, deleted: false },
    })
    expect(Date.parse(made.created_at)).toBeGreaterThanOrEqual(before)
    expect(await read(id)).toEqual(made)
  })

  it('accept the minimum: a mailbox and no messages', async () => {
    const before = Date.now()
    const made = await put(freshThreadId())
    const none = Object.fromEntries(OPTIONAL.map((field) => [field, null]))
    const lists = { participants: [], labels: [], messages: [] }
    expect(made).toMatchObject({ ...none, ...lists, message_count: 0, deleted: false })
    expect(Date.parse(made.last_synced_at)).toBeGreaterThanOrEqual(before)
  })

  it('separate mailboxes and companies', async () => {
    const id = freshThreadId()
    const other = await mintCompany()
    const theirs = await other.call('PUT', threadPath(id), { account_email: MAILBOX, messages: [{ of: 'theirs' }] })
    const first = await put(id, { messages: [{ of: 'sales' }] })
    const second = await put(id, { account_email: 'info@shop.example', messages: [{ of: 'info' }] })
    expect(new Set([theirs.body.email_thread.id, first.id, second.id]).size).toBe(3)
    expect(await read(id)).toEqual(first)
    expect(await read(id, 'info@shop.example')).toEqual(second)
    expect(await read(id, 'nobody@shop.example')).toBe(404)
    expect((await other.call('GET', threadPath(id, MAILBOX))).body).toEqual(theirs.body)
    expect((await other.call('GET', threadPath(id, 'info@shop.example'))).status).toBe(404)
  })

  it('trim and lower-case the mailbox', async () => {
    const id = freshThreadId()
    const made = await put(id, { account_email: ' Sales@SHOP.example ' })
    expect(made.account_email).toBe('sales@shop.example')
    expect((await put(id, { account_email: 'SALES@shop.example' })).id).toBe(made.id)
    expect((await read(id, 'sAlEs@shop.EXAMPLE')).id).toBe(made.id)
  })

  it('replace arrays whole: an array that is left out becomes empty', async () => {
    const legacyId = freshThreadId()
    const { id, created_at } = await put(legacyId, WHOLE)
    const replaced = await put(legacyId, { messages: [{ only: true }] })
    const lists = { messages: [{ only: true }], participants: [], labels: [], message_count: 1 }
    expect(replaced).toMatchObject({ id, created_at, ...lists })
    expect(await read(legacyId)).toEqual(replaced)
    expect(await sql('SELECT id FROM email_threads WHERE legacy_thread_id = ?', legacyId)).toEqual([{ id }])
  })

  it.each(OPTIONAL)('preserve %s when it is left out, and clear it with null', async (field) => {
    const id = freshThreadId()
    const made = await put(id, WHOLE)
    const { [field]: _, ...without } = WHOLE
    // Once with other content, once with the content that is stored.
    for (const messages of [[], []]) expect((await put(id, { ...without, messages }))[field]).toBe(made[field])
    for (const messages of [[], [{ a: 1 }]]) {
      await put(id, { ...WHOLE, messages })
      expect((await put(id, { ...WHOLE, messages, [field]: null }))[field]).toBeNull()
      expect((await read(id))[field]).toBeNull()
    }
  })

  it.each([{}, { last_synced_at: null }])('set last_synced_at to the server’s time for %j', async (fields) => {
    const id = freshThreadId()
    await put(id, { last_synced_at: '2020-01-01T00:00:00Z' })
    const before = Date.now()
    expect(Date.parse((await put(id, fields)).last_synced_at)).toBeGreaterThanOrEqual(before)
  })

  it('ignore unknown and read-only fields', async () => {
    const ids = { company_id: 999_999, id: 'mine', legacy_thread_id: 'other' }
    const more = { deleted: true, created_at: 'never', message_count: 99, extra: [{ of: 'the sender' }] }
    const made = await put(freshThreadId(), { ...ids, ...more })
    expect(made).toMatchObject({ id: expect.stringMatching(UUID), deleted: false, message_count: 0 })
    expect(made).not.toHaveProperty('extra')
    expect(await sql('SELECT company_id FROM email_threads WHERE id = ?', made.id)).toEqual([
      { company_id: company.id },
    ])
  })

  it('use the last of two fields with one name, however it is escaped', async () => {
    const id = freshThreadId()
    const text = `{"messages":[1],"subject":1,"account_email":"x","messages":[{"last":true}],"subj\\u0065ct":"last","account_email":"${MAILBOX}"}`
    expect((await company.call('PUT', threadPath(id), text)).status).toBe(200)
    expect(await read(id)).toMatchObject({ messages: [{ last: true }], subject: 'last' })
  })

  it('accept a byte order mark and any white space', async () => {
    const id = freshThreadId()
    const text = `\ufeff \r\n{ "messages" : [ { "a" : 1 } , { } ] ,\t"account_email" : "${MAILBOX}" }\n`
    const stored = { messages: [{ a: 1 }, {}], message_count: 2 }
    expect((await company.call('PUT', threadPath(id), text)).body.email_thread).toMatchObject(stored)
    expect(await read(id)).toMatchObject(stored)
  })

  it.each([
    ['100,000 bytes', 'x'.repeat(100_000), 200],
    ['one more', 'x'.repeat(100_001), 400],
    ['100,000 bytes of two-byte characters', 'é'.repeat(50_000), 200],
    ['one more character', 'é'.repeat(50_001), 400],
    ['150,000 bytes as JSON', `${'"'.repeat(49_998)}xx`, 200],
    ['more as JSON', '"'.repeat(75_000), 400],
    ['megabytes', 'x'.repeat(2_000_000), 400],
  ])('accept texts of at most 100,000 bytes, and 150,000 as JSON: %s', async (_, text, status) => {
    for (const field of TEXTS) {
      const id = freshThreadId()
      const response = await putThread(company, id, { [field]: text })
      expect(response.status).toBe(status)
      if (status === 200) expect((await read(id))[field] === text).toBe(true)
      else {
        const message = 'must have at most 100,000 bytes of UTF-8, and 150,000 as JSON'
        expect(response.body.error.details.issues).toEqual([{ path: field, message }])
        expect(await read(id)).toBe(404)
      }
    }
  })

  it('accept texts whose escapes make them six times as long', async () => {
    const id = freshThreadId()
    const escaped = '\\u0078'.repeat(100_000)
    const body = `{"account_email":"${MAILBOX}","messages":[],"subject":"${escaped}"}`
    expect((await company.call('PUT', threadPath(id), body)).status).toBe(200)
    expect((await read(id)).subject === 'x'.repeat(100_000)).toBe(true)
  })
})

import { describe, expect, it } from 'vitest'
import { expect200, mintCompany, sql } from '../../support/app.ts'
import { contentLengthOf, freshThreadId, MAILBOX, putThread, threadPath } from './support.ts'

const company = await mintCompany()

const LARGE = [{ body_html: '<p>proof</p>'.repeat(300_000) }]

async function put(legacyId: string, fields: object) {
  return expect200(await putThread(company, legacyId, fields)).email_thread
}

/** Changes the stored row unknown to the isolate, as another isolate does. */
const update = (legacyId: string, set: string) =>
  sql(`UPDATE email_threads SET ${set} WHERE legacy_thread_id = ?`, legacyId)

/** Replaces the stored content with a mark: a PUT that writes content removes it, one that does not leaves it. */
const markContent = (legacyId: string) => update(legacyId, "content = 'mark'")

const isMarked = async (legacyId: string) => (await contentLengthOf(legacyId)) === 'mark'.length

async function read(legacyId: string) {
  return (await company.call('GET', threadPath(legacyId, MAILBOX))).body.email_thread
}

describe('a PUT of stored content', () => {
  it.each([
    ['small', [{ a: 1 }]],
    ['large', LARGE],
  ])('does not write it: %s', async (_, messages) => {
    const id = freshThreadId()
    const first = await put(id, { messages, labels: ['x'], subject: 'old' })
    await markContent(id)
    await update(id, 'deleted = 1, updated_at = 5, last_synced_at = 5')
    const second = await put(id, { messages, labels: ['x'], subject: 'new', last_message_at: '2026-01-01T00:00:00Z' })
    expect(await isMarked(id)).toBe(true)
    const { id: threadId, created_at } = first
    const texts = { subject: 'new', last_message_at: '2026-01-01T00:00:00.000Z' }
    expect(second).toMatchObject({ id: threadId, created_at, ...texts, deleted: false })
    expect(second.messages).toEqual(messages)
    expect(Date.parse(second.updated_at)).toBeGreaterThan(5)
    expect(Date.parse(second.last_synced_at)).toBeGreaterThan(5)
  })

  it.each([
    ['a message', { messages: [{ a: 2 }], labels: ['x'], participants: [{}] }],
    ['a label', { messages: [{ a: 1 }], labels: ['y'], participants: [{}] }],
    ['a participant', { messages: [{ a: 1 }], labels: ['x'], participants: [{ name: 'x' }] }],
    ['an array left out', { messages: [{ a: 1 }], labels: ['x'] }],
  ])('writes it when it differs in %s', async (_, changed) => {
    const id = freshThreadId()
    const before = { messages: [{ a: 1 }], labels: ['x'], participants: [{}] }
    await put(id, before)
    // Content that is sent twice is cached by the isolate.
    await put(id, before)
    await markContent(id)
    await put(id, changed)
    expect(await isMarked(id)).toBe(false)
    expect(await read(id)).toMatchObject(changed)
    await put(id, before)
    expect(await read(id)).toMatchObject(before)
  })

  it('never writes it, whatever else changes and in whatever order the fields come', async () => {
    const id = freshThreadId()
    const [messages, labels, participants] = [[{ a: 1.5, b: '\ud800' }, {}], ['x', 'é'], [{ name: 'Zoë' }]]
    await put(id, { messages, labels, participants })
    await markContent(id)
    const bodies = [
      { messages, labels, participants, subject: 'one' },
      { subject: 'two', participants, last_synced_at: '2026-01-01T00:00:00Z', messages, labels },
      { other: [messages], labels, snippet: null, messages, participants, subject: 'three' },
    ]
    for (const body of bodies) {
      const { subject, message_count, ...stored } = await put(id, body)
      expect([subject, message_count]).toEqual([body.subject, 2])
      expect([stored.messages, stored.labels, stored.participants]).toEqual([messages, labels, participants])
    }
    expect(await isMarked(id)).toBe(true)
  })

  it('is independent of another mailbox or company with the same thread id', async () => {
    const id = freshThreadId()
    const messages = [{ a: 1 }]
    await put(id, { messages })
    await put(id, { messages })
    const other = await mintCompany()
    for (const [caller, mailbox] of [
      [company, 'other@shop.example'],
      [other, MAILBOX],
    ] as const) {
      const response = await caller.call('PUT', threadPath(id), { account_email: mailbox, messages })
      expect(response.status).toBe(200)
      const stored = await caller.call('GET', threadPath(id, mailbox))
      expect(stored.body.email_thread.messages).toEqual(messages)
    }
  })

  it('does not write it even where the isolate knows another hash', async () => {
    const id = freshThreadId()
    await put(id, { messages: [{ a: 1 }] })
    const [before] = await sql('SELECT content_hash FROM email_threads WHERE legacy_thread_id = ?', id)
    // The isolate remembers another hash.
    await update(id, "content_hash = 'other'")
    await read(id)
    await update(id, `content_hash = '${before?.content_hash}'`)
    await markContent(id)
    await put(id, { messages: [{ a: 1 }] })
    expect(await isMarked(id)).toBe(true)
  })

  it.each([
    ['small, where other content was stored in between', [{ a: 1 }], "content_hash = 'other', content = 'mark'"],
    ['large, where other content was stored in between', LARGE, "content_hash = 'other', content = 'mark'"],
    ['small, where it was lost', [{ a: 1 }], 'content = NULL'],
    ['large, where it was lost', LARGE, 'content = NULL'],
  ])('writes it: %s', async (_, messages, change) => {
    const id = freshThreadId()
    await put(id, { messages })
    await update(id, change)
    expect((await put(id, { messages })).messages).toEqual(messages)
    expect((await read(id)).messages).toEqual(messages)
  })

  it('does not write it when texts become longer or shorter', async () => {
    const id = freshThreadId()
    const long = 'x'.repeat(99_999)
    await put(id, { messages: [{ a: 1 }], subject: long })
    await markContent(id)
    expect((await put(id, { messages: [{ a: 1 }] })).subject).toBe(long)
    expect((await put(id, { messages: [{ a: 1 }], subject: `${long}y` })).subject).toBe(`${long}y`)
    expect((await put(id, { messages: [{ a: 1 }], subject: 'short', snippet: long })).subject).toBe('short')
    expect(await isMarked(id)).toBe(true)
  })
})

describe('the ETag of a thread', () => {
  const get = (id: string, etag?: string, method = 'GET') =>
    company.call(method, threadPath(id, MAILBOX), undefined, etag === undefined ? {} : { 'if-none-match': etag })

  async function made(): Promise<{ id: string; etag: string }> {
    const id = freshThreadId()
    await put(id, { messages: [{ a: 1 }] })
    return { id, etag: (await get(id)).headers.get('etag') ?? '' }
  }

  it('is strong, and constant while nothing changes', async () => {
    const { id, etag } = await made()
    expect(etag).toMatch(/^"[^"]+"$/)
    expect((await get(id)).headers.get('etag')).toBe(etag)
    expect((await get(id, undefined, 'HEAD')).headers.get('etag')).toBe(etag)
  })

  it.each<[string, (etag: string) => string, number]>([
    ['its weak form', (etag) => `W/${etag}`, 304],
    ['a list that has it', (etag) => `"x", W/"y" , ${etag}`, 304],
    ['any', () => '*', 304],
    ['a list without it', (etag) => `"x${etag.slice(1)}, "y"`, 200],
  ])('is compared with If-None-Match: %s', async (_, header, status) => {
    const { id, etag } = await made()
    for (const method of ['GET', 'HEAD']) {
      const response = await get(id, header(etag), method)
      expect(response.status).toBe(status)
      expect(response.headers.get('etag')).toBe(etag)
      expect(response.headers.get('access-control-allow-origin')).toBe('*')
      expect(response.headers.get('cache-control')).toBe('private, no-store')
      expect(response.body === null).toBe(status === 304 || method === 'HEAD')
    }
  })

  it('changes with every PUT, since the response’s times do', async () => {
    const { id, etag } = await made()
    const seen = new Set([etag])
    for (const fields of [{ messages: [{ a: 1 }] }, { messages: [{ a: 2 }] }, { messages: [{ a: 2 }], subject: 'x' }]) {
      await put(id, fields)
      const response = await get(id, [...seen].join(', '))
      expect(response.status).toBe(200)
      seen.add(response.headers.get('etag') ?? '')
    }
    expect(seen.size).toBe(4)
  })

  // As after a recovery of the database, when a revision comes again.
  it.each([
    ['content', { messages: [{ a: 2 }] }, 0],
    ['subject, written at another time', { messages: [{ a: 1 }], subject: 'x' }, 5],
  ])('is not that of the same revision with another %s', async (_, fields, laterMs) => {
    const { id, etag } = await made()
    const [row] = await sql('SELECT updated_at FROM email_threads WHERE legacy_thread_id = ?', id)
    await put(id, fields)
    await update(id, `revision = 1, updated_at = ${Number(row?.updated_at) + laterMs}`)
    const response = await get(id, etag)
    expect([response.status, response.body?.email_thread]).toMatchObject([200, fields])
  })

  it('is not that of another mailbox, and does not hide a 404', async () => {
    const { id, etag } = await made()
    await put(id, { account_email: 'other@shop.example', messages: [{ a: 1 }] })
    const other = await company.call('GET', threadPath(id, 'other@shop.example'), undefined, { 'if-none-match': etag })
    expect(other.status).toBe(200)
    expect((await get(freshThreadId(), '*')).status).toBe(404)
    await update(id, 'deleted = 1')
    expect((await get(id, etag)).status).toBe(404)
  })
})

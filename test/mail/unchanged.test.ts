import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, mintCompany, sql, type TestCompany } from '../support/app.ts'
import { freshThreadId, MAILBOX, segmentsOf, threadPath } from './support.ts'

let company: TestCompany

beforeAll(async () => {
  await migrate()
  company = await mintCompany()
})

const LARGE = [{ body_html: '<p>proof</p>'.repeat(300_000) }]

async function put(legacyId: string, fields: object) {
  const answer = await company.call('PUT', threadPath(legacyId), { account_email: MAILBOX, messages: [], ...fields })
  expect(answer.status).toBe(200)
  return answer.body.email_thread
}

/** Replaces the stored content with a mark: a PUT that writes content removes it, one that does not leaves it. */
async function markContent(legacyId: string): Promise<void> {
  await sql(
    `UPDATE email_thread_segments SET data = 'mark' WHERE field = 'content'
     AND thread_id IN (SELECT id FROM email_threads WHERE legacy_thread_id = ?)`,
    legacyId,
  )
}

async function isMarked(legacyId: string): Promise<boolean> {
  return (await segmentsOf(legacyId)).every(({ length }) => length === 'mark'.length)
}

/** Makes the isolate that answers know of other content than is stored, as it does after another isolate's PUT. */
async function storeBehindItsBack(legacyId: string, hash: string): Promise<void> {
  await sql('UPDATE email_threads SET content_hash = ? WHERE legacy_thread_id = ?', hash, legacyId)
}

describe('a PUT of what is stored', () => {
  it.each([
    ['small', [{ a: 1 }]],
    ['large', LARGE],
  ])('writes no content: %s', async (_, messages) => {
    const id = freshThreadId()
    const first = await put(id, { messages, labels: ['x'], subject: 'old' })
    await markContent(id)
    await sql('UPDATE email_threads SET deleted = 1, updated_at = 5, last_synced_at = 5 WHERE legacy_thread_id = ?', id)
    const second = await put(id, { messages, labels: ['x'], subject: 'new', last_message_at: '2026-01-01T00:00:00Z' })
    expect(await isMarked(id)).toBe(true)
    expect(second).toMatchObject({
      id: first.id,
      created_at: first.created_at,
      subject: 'new',
      last_message_at: '2026-01-01T00:00:00.000Z',
      deleted: false,
    })
    expect(second.messages).toEqual(messages)
    expect(Date.parse(second.updated_at)).toBeGreaterThan(5)
    expect(Date.parse(second.last_synced_at)).toBeGreaterThan(5)
  })

  it.each([
    ['a message', { messages: [{ a: 2 }], labels: ['x'], participants: [{}] }],
    ['a label', { messages: [{ a: 1 }], labels: ['y'], participants: [{}] }],
    ['a participant', { messages: [{ a: 1 }], labels: ['x'], participants: [{ name: 'x' }] }],
    ['an array left out', { messages: [{ a: 1 }], labels: ['x'] }],
  ])('but for %s writes it', async (_, changed) => {
    const id = freshThreadId()
    const before = { messages: [{ a: 1 }], labels: ['x'], participants: [{}] }
    await put(id, before)
    // Seen twice, it is kept by the isolate.
    await put(id, before)
    await markContent(id)
    await put(id, changed)
    expect(await isMarked(id)).toBe(false)
    expect((await company.call('GET', threadPath(id, MAILBOX))).body.email_thread).toMatchObject(changed)
  })

  it('again and again writes none, whatever else changes and in whatever order it comes', async () => {
    const id = freshThreadId()
    const [messages, labels, participants] = [[{ a: 1.5, b: '\ud800' }, {}], ['x', 'é'], [{ name: 'Zoë' }]]
    const first = await put(id, { messages, labels, participants })
    await markContent(id)
    const bodies = [
      { messages, labels, participants, subject: 'one' },
      { subject: 'two', participants, last_synced_at: '2026-01-01T00:00:00Z', messages, labels },
      { other: [messages], labels, snippet: null, messages, participants, subject: 'three' },
    ]
    for (const body of bodies) {
      const { subject, messages, labels, participants, message_count } = await put(id, body)
      expect({ subject, messages, labels, participants, message_count }).toEqual({
        subject: body.subject,
        messages: first.messages,
        labels: first.labels,
        participants: first.participants,
        message_count: 2,
      })
    }
    expect(await isMarked(id)).toBe(true)
  })

  it('that alternates with other content of the same length is told apart', async () => {
    const id = freshThreadId()
    for (const letter of ['a', 'a', 'b', 'b', 'a', 'b']) {
      const messages = [{ text: `${letter}${'x'.repeat(5_000)}` }]
      expect((await put(id, { messages })).messages).toEqual(messages)
      expect((await company.call('GET', threadPath(id, MAILBOX))).body.email_thread.messages).toEqual(messages)
    }
  })

  it('in one mailbox says nothing of another mailbox or company with the same thread id', async () => {
    const id = freshThreadId()
    const messages = [{ a: 1 }]
    await put(id, { messages })
    await put(id, { messages })
    const other = await mintCompany()
    for (const [caller, mailbox] of [
      [company, 'other@shop.example'],
      [other, MAILBOX],
    ] as const) {
      const answer = await caller.call('PUT', threadPath(id), { account_email: mailbox, messages })
      expect(answer.status).toBe(200)
      const stored = await caller.call('GET', threadPath(id, mailbox))
      expect(stored.body.email_thread.messages).toEqual(messages)
    }
  })

  it('writes no content even where the isolate does not know what is stored', async () => {
    const id = freshThreadId()
    await put(id, { messages: [{ a: 1 }] })
    const [before] = await sql<{ content_hash: string }>(
      'SELECT content_hash FROM email_threads WHERE legacy_thread_id = ?',
      id,
    )
    // The isolate comes to believe that other content is stored.
    await storeBehindItsBack(id, 'other')
    await company.call('GET', threadPath(id, MAILBOX))
    await storeBehindItsBack(id, before?.content_hash ?? '')
    await markContent(id)
    await put(id, { messages: [{ a: 1 }] })
    expect(await isMarked(id)).toBe(true)
  })

  it.each([
    ['small', [{ a: 1 }]],
    ['large', LARGE],
  ])('writes it where other content was stored since: %s', async (_, messages) => {
    const id = freshThreadId()
    await put(id, { messages })
    await storeBehindItsBack(id, 'other')
    await markContent(id)
    expect((await put(id, { messages })).messages).toEqual(messages)
    expect((await company.call('GET', threadPath(id, MAILBOX))).body.email_thread.messages).toEqual(messages)
  })

  it('and whose texts are too long for the row', async () => {
    const id = freshThreadId()
    const long = 'x'.repeat(150_000)
    await put(id, { messages: [{ a: 1 }], subject: long })
    await markContent(id)
    expect((await put(id, { messages: [{ a: 1 }] })).subject).toBe(long)
    expect((await put(id, { messages: [{ a: 1 }], subject: `${long}y` })).subject).toBe(`${long}y`)
    expect((await put(id, { messages: [{ a: 1 }], subject: 'short', snippet: long })).subject).toBe('short')
    const stored = await segmentsOf(id)
    expect(stored.map(({ field }) => field)).toEqual(['content', 'snippet'])
    expect(stored[0]?.length).toBe('mark'.length)
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

  it('is strong, and the same while nothing changes', async () => {
    const { id, etag } = await made()
    expect(etag).toMatch(/^"[^"]+"$/)
    expect((await get(id)).headers.get('etag')).toBe(etag)
    expect((await get(id, undefined, 'HEAD')).headers.get('etag')).toBe(etag)
  })

  it.each<[string, (etag: string) => string, number]>([
    ['itself', (etag) => etag, 304],
    ['its weak form', (etag) => `W/${etag}`, 304],
    ['a list that has it', (etag) => `"x", W/"y" , ${etag}`, 304],
    ['any', () => '*', 304],
    ['another', () => '"x"', 200],
    ['a list without it', (etag) => `"x${etag.slice(1)}, "y"`, 200],
    ['itself without quotes', (etag) => etag.slice(1, -1), 200],
    ['nothing', () => '', 200],
  ])('in If-None-Match: %s', async (_, header, status) => {
    const { id, etag } = await made()
    for (const method of ['GET', 'HEAD']) {
      const answer = await get(id, header(etag), method)
      expect(answer.status).toBe(status)
      expect(answer.headers.get('etag')).toBe(etag)
      expect(answer.headers.get('access-control-allow-origin')).toBe('*')
      expect(answer.headers.get('cache-control')).toBe('private, no-store')
      expect(answer.body === null).toBe(status === 304 || method === 'HEAD')
    }
  })

  it('changes with every PUT, since the times of the answer do', async () => {
    const { id, etag } = await made()
    const seen = new Set([etag])
    for (const fields of [{ messages: [{ a: 1 }] }, { messages: [{ a: 2 }] }, { messages: [{ a: 2 }], subject: 'x' }]) {
      await put(id, fields)
      const answer = await get(id, [...seen].join(', '))
      expect(answer.status).toBe(200)
      seen.add(answer.headers.get('etag') ?? '')
    }
    expect(seen.size).toBe(4)
  })

  it('is not that of another mailbox, nor found without the thread', async () => {
    const { id, etag } = await made()
    await put(id, { account_email: 'other@shop.example', messages: [{ a: 1 }] })
    const other = await company.call('GET', threadPath(id, 'other@shop.example'), undefined, { 'if-none-match': etag })
    expect(other.status).toBe(200)
    expect((await get(freshThreadId(), '*')).status).toBe(404)
    await sql('UPDATE email_threads SET deleted = 1 WHERE legacy_thread_id = ?', id)
    expect((await get(id, etag)).status).toBe(404)
  })
})

import { beforeEach, expect, it } from 'vitest'
import { mintCompany, sql } from '../../support/app.ts'
import { stopTime } from '../../support/time.ts'
import { freshThreadId, MAILBOX, threadPath } from './support.ts'

const company = await mintCompany()

// However slow the machine, no request waits too long for the memory of the others.
beforeEach(stopTime)

/** A thread of so many megabytes that names its writer in every part. */
function threadOf(writer: number, megabytes: number) {
  const text = `${writer}`.padEnd(1_000, `-${writer}`)
  return {
    account_email: MAILBOX,
    subject: `of ${writer}`,
    snippet: `of ${writer}`,
    labels: [`${writer}`],
    participants: [{ writer }],
    messages: Array.from({ length: megabytes * 1_000 }, (_, index) => ({ writer, index, text })),
  }
}

it.each([
  ['small ones', 3, 12, () => 0.01],
  ['of different sizes', 1, 8, (writer: number) => (writer % 4) + 0.5],
])('concurrent PUTs of one thread store exactly one of them: %s', async (_, rounds, writers, megabytes) => {
  for (let round = 0; round < rounds; round++) {
    const id = freshThreadId()
    const sent = Array.from({ length: writers }, (_, writer) => threadOf(writer, megabytes(writer)))
    const responses = await Promise.all(sent.map((body) => company.call('PUT', threadPath(id), body)))
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]))
    expect(new Set(responses.map(({ body }) => body.email_thread.id)).size).toBe(1)

    const { email_thread: stored } = (await company.call('GET', threadPath(id, MAILBOX))).body
    const winner = sent[stored.messages[0].writer]
    for (const field of ['subject', 'snippet', 'labels', 'participants', 'messages'] as const) {
      expect(JSON.stringify(stored[field]) === JSON.stringify(winner?.[field])).toBe(true)
    }
    expect(stored.message_count).toBe(winner?.messages.length)
    expect(await sql('SELECT count(*) AS n FROM email_threads WHERE legacy_thread_id = ?', id)).toEqual([{ n: 1 }])
  }
})

it('concurrent PUTs of one thread never show a mix to readers when they alternate between two contents', async () => {
  const id = freshThreadId()
  const [first, second] = [threadOf(1, 1.5), threadOf(2, 2.5)]
  await company.call('PUT', threadPath(id), first)
  const writes = Array.from({ length: 10 }, (_, turn) => company.call('PUT', threadPath(id), turn % 2 ? first : second))
  const reads = Array.from({ length: 10 }, () => company.call('GET', threadPath(id, MAILBOX)))
  for (const { status, body } of await Promise.all([...writes, ...reads])) {
    expect(status, JSON.stringify(body).slice(0, 200)).toBe(200)
    const thread = body.email_thread
    const expected = thread.participants[0].writer === 1 ? first : second
    expect(JSON.stringify(thread.messages) === JSON.stringify(expected.messages)).toBe(true)
    expect(thread).toMatchObject({ subject: expected.subject, message_count: expected.messages.length })
  }
})

import { beforeAll, describe, expect, it } from 'vitest'
import { putEmailThread } from '../../../src/resources/mail/contract.ts'
import { eachValue, issuesOf, mintCompany } from '../../support/app.ts'
import { freshThreadId, MAILBOX, threadPath } from './support.ts'

const LIMIT_BYTES = 26_214_400

let company = await mintCompany()

const put = (body: unknown, path = threadPath(freshThreadId())) => company.call('PUT', path, body)

const VALID = { account_email: MAILBOX, messages: [] }

/** Fields, each with values that it refuses. */
const INVALID: [field: string, ...values: unknown[]][] = [
  ['account_email', 'sales', '', null, 5, ['a@b.example'], `${'a'.repeat(320)}@b.example`],
  ['account_email', `a@b.example${'e'.repeat(10_000)}`],
  ['messages', null, {}, '[]'],
  ['participants', null],
  ['labels', null],
  ['subject', 1],
  ['snippet', {}],
  ['mail_thread_id', true],
  ['mail_history_id', 987_654],
  ['first_message_at', 'yesterday', '', ['2026-03-02T09:30:00Z']],
  ['last_message_at', 1_767_225_600_000, '2026-02-30T00:00:00Z'],
  ['last_synced_at', '2026-03-02T09:30:00', '2026-03-02'],
]

/** A body and the paths of its issues; none: it is accepted. */
const BODIES: [unknown, string[]][] = [
  [VALID, []],
  [{ ...VALID, subject: null, first_message_at: null, last_synced_at: null }, []],
  [{}, ['account_email', 'messages']],
  [{ messages: [] }, ['account_email']],
  [{ account_email: MAILBOX }, ['messages']],
  ...eachValue(INVALID).map(([field, value]): [unknown, string[]] => [{ ...VALID, [field]: value }, [field]]),
  [{ ...VALID, messages: [1] }, ['messages.0']],
  [{ ...VALID, messages: [{}, null, {}, [], 'x', true] }, ['messages.1', 'messages.3', 'messages.4', 'messages.5']],
  [{ ...VALID, participants: ['a@b.example', {}] }, ['participants.0']],
  [{ ...VALID, labels: ['a', 1, {}] }, ['labels.1', 'labels.2']],
  [
    { account_email: 'x', messages: [0], labels: [0], participants: [0], subject: 0, last_synced_at: 0 },
    ['account_email', 'subject', 'last_synced_at', 'participants.0', 'labels.0', 'messages.0'],
  ],
]

describe('PUT of an email thread', () => {
  it.each(BODIES)('validates %j with issues at %j', async (body, paths) => {
    const response = await put(body)
    if (paths.length > 0) expect(issuesOf(response).sort()).toEqual([...paths].sort())
    else expect(response.status).toBe(200)
    // The published schema and the validation by hand agree.
    expect(putEmailThread.body.safeParse(body).success).toBe(paths.length === 0)
  })

  it('stores nothing of an invalid body', async () => {
    const id = freshThreadId()
    await put({ ...VALID, messages: [{ a: 1 }] }, threadPath(id))
    await put({ ...VALID, messages: [{ a: 2 }, 3] }, threadPath(id))
    expect((await company.call('GET', threadPath(id, MAILBOX))).body.email_thread.messages).toEqual([{ a: 1 }])
  })

  const NO_OBJECTS = ['', '{', '{"messages":[}', '{"messages":[{]}', 'null', '[]', '"x"', '1']
  it.each(NO_OBJECTS)('returns 400 for the text %j as a whole', async (text) => {
    expect(issuesOf(await put(text))).toEqual([''])
  })

  it('returns 413 for a body over the limit', async () => {
    const response = await put(`{"x":"${'y'.repeat(LIMIT_BYTES)}"}`)
    expect(response).toMatchObject({ status: 413, body: { error: { details: { limit_bytes: LIMIT_BYTES } } } })
  })

  it('accepts a body of exactly the limit', async () => {
    const start = `{"account_email":"${MAILBOX}","messages":[],"padding":"`
    const response = await put(`${start}${'x'.repeat(LIMIT_BYTES - start.length - 2)}"}`)
    expect(response.status).toBe(200)
  })
})

describe.each(['/mail/threads/ID', `/mail/email-threads/ID?account_email=${MAILBOX}`, 'PUT'])(
  'the path of %s',
  (path) => {
    // Whose threads no other test stores.
    beforeAll(async () => {
      company = await mintCompany()
    })

    const call = (id: string) =>
      path === 'PUT' ? put(VALID, threadPath(id)) : company.call('GET', path.replace('ID', id))

    const ACCEPTED = ['18c2f0a9b7d3e411', 'a', '0', 'thread-a:r-12', 'A_b.c=d+e-', 'a%2Bb', '..a', 'x'.repeat(255)]
    it.each(ACCEPTED)('accepts %s', async (id) => {
      expect((await call(id)).status).toBe(path === 'PUT' ? 200 : 404)
    })

    const REFUSED = ['x'.repeat(256), 'a%20b', 'a%2Fb', '%C3%A9', 'a%00', 'a|b', 'a;b', '...', 'a@b', 'a,b']
    it.each(REFUSED)('refuses %s', async (id) => {
      expect(issuesOf(await call(id))).toEqual(['legacyThreadId'])
    })

    it.each(['%', '%ZZ'])('refuses %s, which is not UTF-8', async (id) => {
      expect(issuesOf(await call(id))).toEqual(['path'])
    })
  },
)

describe.each(['GET', 'DELETE'])('%s of an email thread', (method) => {
  it.each([
    ['', ['account_email']],
    ['?account_email=', ['account_email']],
    ['?account_email=sales', ['account_email']],
    [`?account_email=${MAILBOX}&account_email=${MAILBOX}`, ['account_email']],
    [`?account_email=${MAILBOX}&extra=1`, ['extra']],
  ])('returns 400 for the query %j with issues at %j', async (query, paths) => {
    expect(issuesOf(await company.call(method, `/mail/email-threads/abc${query}`))).toEqual(paths)
  })
})

import { beforeEach, describe, expect, it } from 'vitest'
import { issuesOf, sql, type TestCompany } from '../../support/app.ts'
import { clients, makeCompanies, me, orders, other, store } from './context-support.ts'
import { freshThreadId, MAILBOX, putThread, sendText, threadPath } from './support.ts'

beforeEach(() => makeCompanies())

interface Listed {
  data: { legacy_thread_id: string; thread_id: string }[]
  pagination: { per_page: number; next_cursor: string | null; has_more: boolean }
}

/** Every element of a list, page by page; `between` runs after each page. */
async function walk(company: TestCompany, path: string, between: () => Promise<unknown> = async () => undefined) {
  const pages: Listed[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const response = await company.call('GET', cursor === '' ? path : `${path}&cursor=${cursor}`)
    expect(response.status, JSON.stringify(response.body)).toBe(200)
    const page: Listed = response.body
    pages.push(page)
    cursor = page.pagination.next_cursor
    expect(page.pagination.has_more).toBe(cursor !== null)
    const link = response.headers.get('link')
    if (cursor === null) expect(link).toBeNull()
    else expect(new URL(link?.match(/^<(.+)>; rel="next"$/)?.[1] ?? '').searchParams.get('cursor')).toBe(cursor)
    await between()
  }
  return { pages, ids: pages.flatMap(({ data }) => data.map((element) => element.legacy_thread_id)) }
}

const pathOf = (options: Record<string, string | number>) => {
  const query = new URLSearchParams({ account_email: MAILBOX })
  for (const [name, value] of Object.entries(options)) query.set(name, String(value))
  return `/mail/email-threads?${query}`
}
const put = (legacyId: string, body: object = {}, company = me) => putThread(company, legacyId, body)
const remove = (legacyId: string, company = me) => company.call('DELETE', threadPath(legacyId, MAILBOX))

/** Rows of this mailbox, created one after the other in their order; the ids of `deleted` ones are deleted. */
async function makeThreads(count: number, isDeleted: (index: number) => boolean = () => false, company = me) {
  await sql(
    `INSERT INTO email_threads (id, company_id, account_email, legacy_thread_id, message_count, last_synced_at, content_hash,
       revision, content_revision, created_at, updated_at, deleted)
     SELECT printf('00000000-0000-4000-8000-%06d%06d', ?1, value ->> 'n'), ?1, ?2, 'n' || (value ->> 'n'), 0, 0, 'x', 1, 1,
       (value ->> 'n') / 3, value ->> 'n', value ->> 'deleted' FROM json_each(?3)`,
    company.id,
    MAILBOX,
    JSON.stringify(Array.from({ length: count }, (_, n) => ({ n, deleted: isDeleted(n) ? 1 : 0 }))),
  )
  return Array.from({ length: count }, (_, n) => `n${n}`).reverse()
}

describe('the list of a mailbox', () => {
  it('has every thread without its content, newest created first', async () => {
    const [first, second] = [freshThreadId(), freshThreadId()]
    const texts = { subject: 'Shirts \u0000 😀 \ud800', snippet: null, mail_thread_id: 'm', mail_history_id: '1' }
    const { body } = await put(first, { ...texts, messages: [{ a: 1 }], labels: ['x'], participants: [{ b: 2 }] })
    await sql('UPDATE email_threads SET created_at = created_at - 1000 WHERE legacy_thread_id = ?', first)
    await put(second)
    await put(freshThreadId(), { account_email: 'another@shop.example' })
    await put(freshThreadId(), {}, other)
    const { messages, participants, labels, ...rest } = body.email_thread
    const listed = await me.call('GET', pathOf({ account_email: MAILBOX.toUpperCase() }))
    expect(listed.body.data.map((thread: Listed['data'][0]) => thread.legacy_thread_id)).toEqual([second, first])
    expect(listed.body.data[1]).toEqual({ ...rest, created_at: expect.any(String) })
    expect(listed.body.pagination).toEqual({ per_page: 25, next_cursor: null, has_more: false })
  })

  it.each([
    ['2,000 characters', 'x'.repeat(2_000), 'x'.repeat(2_000)],
    ['one more', 'x'.repeat(2_001), `${'x'.repeat(2_000)}…`],
    ['the longest', 'x'.repeat(100_000), `${'x'.repeat(2_000)}…`],
    ['2,000 that are escaped', '\u0001"'.repeat(1_000), '\u0001"'.repeat(1_000)],
    ['2,000 halves of pairs', '\ud83d'.repeat(2_000), '\ud83d'.repeat(2_000)],
    ['many that are escaped', '\u0001'.repeat(24_000), `${'\u0001'.repeat(2_000)}…`],
    ['one that is cut before an escape', `${'x'.repeat(2_000)}\n`, `${'x'.repeat(2_000)}…`],
    ['one with pairs', '👕'.repeat(2_000), '👕'.repeat(2_000)],
    ['one that is cut between pairs', '👕'.repeat(25_000), `${'👕'.repeat(2_000)}…`],
    ['one that is cut before an ellipsis', `${'x'.repeat(2_000)}…`, `${'x'.repeat(2_000)}…`],
    ['one that ends with an ellipsis', 'x…', 'x…'],
  ])('has a text of %s', async (_, subject, listed) => {
    const legacyId = freshThreadId()
    await put(legacyId, { subject })
    const { body } = await me.call('GET', pathOf({}))
    expect(JSON.stringify(body.data[0].subject)).toBe(JSON.stringify(listed))
    const { body: deleted } = await remove(legacyId)
    expect(JSON.stringify(deleted.email_thread.subject)).toBe(JSON.stringify(listed))
  })

  it('pages by key through threads of equal times', async () => {
    const expected = await makeThreads(53)
    const { pages, ids } = await walk(me, pathOf({ per_page: 10 }))
    expect(ids).toEqual(expected)
    expect(pages.map(({ data }) => data.length)).toEqual([10, 10, 10, 10, 10, 3])
    expect((await walk(me, pathOf({ per_page: 53 }))).pages).toHaveLength(1)
  })

  it('has only threads that were changed since', async () => {
    await makeThreads(30)
    const since = '1970-01-01T01:00:00.020+01:00'
    const { ids } = await walk(me, pathOf({ updated_since: since, per_page: 4 }))
    expect(ids).toEqual(Array.from({ length: 10 }, (_, n) => `n${29 - n}`))
    // A caller that does not encode the plus sign.
    expect((await walk(me, `/mail/email-threads?account_email=${MAILBOX}&updated_since=${since}`)).ids).toEqual(ids)
  })

  it('finds the few that a filter leaves among thousands, over pages that may be empty', async () => {
    await makeThreads(3_500, (n) => n === 5 || n === 1_500 || n === 2_499)
    const { pages, ids } = await walk(me, pathOf({ deleted: 'only', per_page: 2 }))
    expect(ids).toEqual(['n2499', 'n1500', 'n5'])
    expect(pages.length).toBeLessThanOrEqual(5)
  })

  it.each([
    ['no account_email', '/mail/email-threads', 'account_email'],
    ['an invalid account_email', '/mail/email-threads?account_email=x', 'account_email'],
    ['an unknown `deleted`', pathOf({ deleted: 'yes' }), 'deleted'],
    ['a date as `updated_since`', pathOf({ updated_since: '2026-01-31' }), 'updated_since'],
    ['`updated_since` without an offset', pathOf({ updated_since: '2026-01-31T00:00:00' }), 'updated_since'],
    ['101 a page', pathOf({ per_page: 101 }), 'per_page'],
    ['a page number', pathOf({ page: 2 }), 'page'],
    ['a cursor that is none', pathOf({ cursor: 'AAAA' }), 'cursor'],
  ])('returns 400 for %s', async (_, path, field) => {
    expect(issuesOf(await me.call('GET', path))[0]).toBe(field)
  })

  it('refuses the cursor of another company, mailbox or filter', async () => {
    await makeThreads(3)
    await makeThreads(3, undefined, other)
    const { body } = await me.call('GET', pathOf({ per_page: 1 }))
    const cursor: string = body.pagination.next_cursor
    expect((await me.call('GET', pathOf({ per_page: 2, cursor }))).status).toBe(200)
    expect((await other.call('GET', pathOf({ per_page: 1, cursor }))).status).toBe(400)
    for (const [name, value] of [
      ['account_email', 'b@shop.example'],
      ['deleted', 'include'],
      ['updated_since', '1970-01-01T00:00:01Z'],
    ] as const) {
      expect((await me.call('GET', pathOf({ cursor, [name]: value }))).status).toBe(400)
    }
  })
})

describe('DELETE of an email thread', () => {
  const read = (legacyId: string, etag = '') =>
    me.call('GET', threadPath(legacyId, MAILBOX), undefined, { 'if-none-match': etag })
  const bytesOf = async () => (await sql('SELECT mail_bytes FROM companies WHERE id = ?', me.id))[0]?.mail_bytes

  it.each([
    ['its own', [{ body: 'x'.repeat(5_000) }]],
    ['other', [{ body: 'y'.repeat(5_000) }]],
  ])('returns it without its content; GET is then 404, until a PUT of %s content restores it', async (_, messages) => {
    const legacyId = freshThreadId()
    const { body: stored } = await put(legacyId, { subject: 's', messages: [{ body: 'x'.repeat(5_000) }] })
    const bytes = await bytesOf()
    const etag = (await read(legacyId)).headers.get('etag') ?? ''
    const { status, body } = await remove(legacyId)
    const { messages: _m, participants: _p, labels: _l, ...summary } = stored.email_thread
    expect(status).toBe(200)
    expect(body).toEqual({ email_thread: { ...summary, deleted: true, updated_at: expect.any(String) } })
    expect((await read(legacyId)).status).toBe(404)
    expect((await remove(legacyId)).status).toBe(404)
    expect(await bytesOf()).toBe(bytes)
    const restored = await put(legacyId, { messages })
    const { id } = stored.email_thread
    expect(restored.body.email_thread).toMatchObject({ id, subject: 's', deleted: false, messages })
    const again = await read(legacyId, etag)
    expect([again.status, again.body]).toEqual([200, restored.body])
    expect(await bytesOf()).toBe(bytes)
  })

  it('is of one mailbox and one company', async () => {
    const legacyId = freshThreadId()
    await put(legacyId)
    await put(legacyId, { account_email: 'b@shop.example' })
    expect((await remove(legacyId, other)).status).toBe(404)
    expect((await me.call('DELETE', threadPath(legacyId, MAILBOX.toUpperCase()))).status).toBe(200)
    expect((await me.call('GET', threadPath(legacyId, 'b@shop.example'))).status).toBe(200)
  })
})

const text = () => `"orders_data":[{"id":${orders.mine},"n":12345678901234567890,"s":"\\ud800"}]`
it.each<[string, pathOf: (id: string) => string, make: (id: string) => Promise<unknown>, () => string]>([
  ['an email thread', (id) => threadPath(id, MAILBOX), put, () => '"deleted":true'],
  [
    'a context',
    (id) => `/mail/threads/${id}`,
    (id) => store(me, id, { orders_data: text().slice('"orders_data":'.length) }, true),
    text,
  ],
])('a deletion of %s with a key gives its first response again, byte for byte', async (_, pathOf, make, part) => {
  const legacyId = freshThreadId()
  const headers = { 'idempotency-key': `delete-${legacyId}` }
  const remove = () => sendText(me, 'DELETE', pathOf(legacyId), undefined, headers)
  await make(legacyId)
  const first = await remove()
  await make(legacyId)
  const second = await remove()
  const replayed = [first, second].map((response) => response.headers.get('idempotency-replayed'))
  expect([first.status, second.status, ...replayed]).toEqual([200, 200, null, 'true'])
  expect(second.text).toBe(first.text)
  expect(first.text).toContain(part())
  expect((await me.call('GET', pathOf(legacyId))).status).toBe(200)
})

describe('the contexts of an order or a client', () => {
  const list = (options: object, company = me) =>
    company.call('GET', `/mail/threads?${new URLSearchParams(Object.entries(options).map(([k, v]) => [k, String(v)]))}`)
  const idsOf = async (options: object, company = me) =>
    (await list(options, company)).body.data.map((context: Listed['data'][0]) => context.legacy_thread_id).sort()

  it('are those that are linked to it, as GET gives them', async () => {
    const [byOrder, byClient, byClients, both] = [freshThreadId(), freshThreadId(), freshThreadId(), freshThreadId()]
    const link = (legacyId: string, body: object) => me.call('PUT', `/mail/threads/${legacyId}`, body)
    await link(byOrder, { orders_data: [{ id: orders.both }, { id: orders.mine }] })
    await link(byClient, { client_id: clients.mine })
    await link(byClients, { clients_data: [{ id: clients.mine }], orders_data: [{ id: orders.both }] })
    await link(both, { client_id: clients.mine, orders_data: [{ id: orders.mine }] })
    expect(await idsOf({ order_id: orders.mine })).toEqual([byOrder, both].sort())
    expect(await idsOf({ order_id: orders.both })).toEqual([byOrder, byClients].sort())
    expect(await idsOf({ client_id: clients.mine })).toEqual([byClient, byClients, both].sort())
    const { body } = await list({ order_id: orders.mine })
    for (const context of body.data) {
      expect(context).toEqual((await me.call('GET', `/mail/threads/${context.legacy_thread_id}`)).body)
    }
    await link(both, { client_id: clients.both })
    await me.call('DELETE', `/mail/threads/${byOrder}`)
    expect(await idsOf({ order_id: orders.mine })).toEqual([])
    expect(await idsOf({ client_id: clients.mine })).toEqual([byClient, byClients].sort())
  })

  it('are none of another company’s, and none for what is not the company’s', async () => {
    await store(other, freshThreadId(), { client_id: String(clients.both), orders_data: [{ id: orders.both }] })
    await store(me, freshThreadId(), { client_id: String(clients.theirs), participants_data: [{ company_id: me.id }] })
    for (const id of [clients.both, clients.theirs, clients.nobody]) expect(await idsOf({ client_id: id })).toEqual([])
    for (const id of [orders.both, orders.theirs, orders.nobody]) expect(await idsOf({ order_id: id })).toEqual([])
  })

  it.each([
    ['an element that names another company', () => [{ id: orders.mine, company_id: other.id }], false],
    ['an id that only begins like it', () => [{ id: `${orders.mine}x` }], false],
    ['a bare number', () => [orders.mine], true],
    ['an id as text', () => [{ id: String(orders.mine) }], true],
    ['an object in place of an array', () => ({ id: orders.mine }), true],
  ])('are found by %s as GET shows it', async (_, orders_data, isFound) => {
    const legacyId = freshThreadId()
    await store(me, legacyId, { orders_data: orders_data(), client_id: String(clients.mine) })
    expect(await idsOf({ order_id: orders.mine })).toEqual(isFound ? [legacyId] : [])
  })

  it.each(['👕', '"', '\\'])('go on behind the longest thread_id, of %j', async (character) => {
    await other.call('PUT', '/mail/threads/theirs', { orders_data: [{ id: orders.both }] })
    for (const name of ['a', 'b', 'c']) {
      const body = { thread_id: character.repeat(254) + name, orders_data: [{ id: orders.both }] }
      expect((await me.call('PUT', `/mail/threads/${name}`, body)).status).toBe(200)
    }
    expect((await walk(me, `/mail/threads?order_id=${orders.both}&per_page=1`)).ids).toEqual(['a', 'b', 'c'])
  })

  it('go on behind contexts that are filtered out', async () => {
    for (let n = 0; n < 5; n++) {
      await store(me, `f${n}`, { orders_data: [{ id: orders.mine, company_id: n < 4 ? other.id : me.id }] })
    }
    const { ids } = await walk(me, `/mail/threads?order_id=${orders.mine}&per_page=2`)
    expect(ids).toEqual(['f4'])
  })

  it('have at most about 4 MB a page', async () => {
    for (let n = 0; n < 6; n++) {
      await store(me, `big${n}`, { orders_data: [{ id: orders.mine, text: 'x'.repeat(1_500_000) }] })
    }
    const { pages, ids } = await walk(me, `/mail/threads?order_id=${orders.mine}&per_page=100`)
    expect(ids).toHaveLength(6)
    expect(pages.map(({ data }) => data.length)).toEqual([3, 3])
  })

  it.each([
    ['neither', {}, 'order_id'],
    ['both', { order_id: 1, client_id: 1 }, 'client_id'],
    ['text', { order_id: 'x' }, 'order_id'],
    ['zero', { client_id: 0 }, 'client_id'],
    ['an unknown parameter', { order_id: 1, account_email: 'x' }, 'account_email'],
    ['a cursor that is none', { order_id: 1, cursor: 'AAAA' }, 'cursor'],
  ])('need exactly one id: 400 for %s', async (_, options, field) => {
    expect(issuesOf(await list(options))[0]).toBe(field)
  })
})

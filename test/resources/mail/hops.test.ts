import { expect, it } from 'vitest'
import { mintCompany, sql } from '../../support/app.ts'
import { ADMIT, hopsOf } from '../../support/hops.ts'
import { freshThreadId, MAILBOX, noise, threadPath } from './support.ts'

const { token, call } = await mintCompany()
await hopsOf(token, 'GET', '/mail/threads/warm')

const SMALL = [{ a: 1 }]
const LARGE = [{ body_html: 'x'.repeat(2_000_000) }]
const IN_R2 = [{ body_html: noise(2_000_000) }]

/** Every request that comes over the network has a Content-Length. */
function put(legacyId: string, messages: object[]) {
  const body = JSON.stringify({ account_email: MAILBOX, messages })
  return hopsOf(token, 'PUT', threadPath(legacyId), body, { 'content-length': String(body.length) })
}

const get = (legacyId: string, etag = '') =>
  hopsOf(token, 'GET', threadPath(legacyId, MAILBOX), undefined, { 'if-none-match': etag })

const etagOf = async (legacyId: string) =>
  (await call('GET', threadPath(legacyId, MAILBOX))).headers.get('etag') ?? expect.fail()

const ONE_BATCH = [200, ADMIT, '2 DB.batch']
const TWO_BATCHES = [...ONE_BATCH, '3 DB.batch']

it('behind the call of the token’s object GET of a thread of more than 192 KB compressed waits for a second batch, when it has the memory', async () => {
  const id = freshThreadId()
  await put(id, [{ body_html: noise(240_000) }])
  expect(await get(id)).toEqual(ONE_BATCH)
  await put(id, [{ body_html: noise(280_000) }])
  expect(await get(id)).toEqual(TWO_BATCHES)
})

it('behind the call of the token’s object GET of a thread that R2 holds waits for one batch and for R2, and with its ETag not for R2', async () => {
  const id = freshThreadId()
  await put(id, IN_R2)
  expect(await get(id)).toEqual([...ONE_BATCH, '3 FILES.get'])
  expect(await get(id, await etagOf(id))).toEqual([304, ADMIT, '2 DB.batch'])
})

it('behind the call of the token’s object PUT of content for R2 announces it, writes it and names it: two waits more; unchanged it waits for one batch', async () => {
  const id = freshThreadId()
  await put(id, SMALL)
  for (const messages of [IN_R2, [...IN_R2, {}]]) {
    expect(await put(id, messages)).toEqual([...ONE_BATCH, '3 FILES.put', '4 DB.batch'])
  }
  expect(await put(id, [...IN_R2, {}])).toEqual(ONE_BATCH)
})

it('behind the call of the token’s object a large PUT first tries whether its content is stored, unless the isolate knows the thread', async () => {
  const id = freshThreadId()
  expect(await put(id, LARGE)).toEqual(TWO_BATCHES)
  // Now the isolate knows the stored hash.
  for (const messages of [LARGE, [...LARGE, {}]]) expect(await put(id, messages)).toEqual(ONE_BATCH)
  // The isolate does not know the thread by this id.
  const renamed = freshThreadId()
  await sql('UPDATE email_threads SET legacy_thread_id = ? WHERE legacy_thread_id = ?', renamed, id)
  expect(await put(renamed, [...LARGE, {}])).toEqual(ONE_BATCH)
})

it('behind the call of the token’s object a PUT that repeats what another isolate has replaced needs a second batch', async () => {
  const id = freshThreadId()
  await put(id, SMALL)
  await sql("UPDATE email_threads SET content_hash = 'other' WHERE legacy_thread_id = ?", id)
  expect(await put(id, SMALL)).toEqual(TWO_BATCHES)
  expect(await put(id, SMALL)).toEqual(ONE_BATCH)
})

it('behind the call of the token’s object a PUT that is forbidden, or whose path is invalid, does not reach the database', async () => {
  const reader = await mintCompany({ permissions: ['mail:read'] })
  await hopsOf(reader.token, 'GET', '/mail/threads/warm')
  const body = JSON.stringify({ account_email: MAILBOX, messages: LARGE })
  expect(await hopsOf(reader.token, 'PUT', threadPath(freshThreadId()), body)).toEqual([403, ADMIT])
  expect(await hopsOf(token, 'PUT', threadPath('a%20b'), body)).toEqual([400, ADMIT])
})

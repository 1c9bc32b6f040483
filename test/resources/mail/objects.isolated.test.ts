import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { BUDGET_MS, isolateMemory } from '../../../src/kernel/http/isolate.ts'
import { sweepMailContents } from '../../../src/resources/mail/content.ts'
import { type ApiResponse, mintCompany, request, send, sql, type TestCompany } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { holdTimers, moveTime, resumeTime, stopTime } from '../../support/time.ts'
import { type Around, wrapBindings } from '../../support/wrap-bindings.ts'
import {
  contentLengthOf,
  freshThreadId,
  MAILBOX,
  noise,
  objectsOf,
  putThread,
  storedObjects,
  threadPath,
  writeObjects,
} from './support.ts'

let company: TestCompany
/** A Worker that dies in another test keeps its memory. */
let usedBefore = 0

beforeEach(async () => {
  company = await mintCompany()
  usedBefore = isolateMemory.usedBytes
})

const [HOUR_MS, DAY_MS] = [3_600_000, 86_400_000]
const large = (label: string) => ({ labels: [label], messages: [{ text: noise(3_000_000) }, { text: 'behind' }] })
const put = (id: string, fields: object) => putThread(company, id, fields)
const read = (id: string, headers = {}) => company.call('GET', threadPath(id, MAILBOX), undefined, headers)
const sweep = (inMs = 0, bucket: R2Bucket = env.FILES) =>
  sweepMailContents(openDatabase(env.DB), bucket, Date.now() + inMs)

/** Sends to the application, whose calls of bindings go through `around`. */
const sendThrough = (around: Around, method: string, path: string, body?: object, headers = {}) =>
  send(request(company.token, method, path, body, headers), { env: wrapBindings(env, around) })
const putThrough = (around: Around, id: string, fields: object) =>
  sendThrough(around, 'PUT', threadPath(id), { account_email: MAILBOX, ...fields })
const ofFiles = (name: string) => name.startsWith('FILES.')
/** The states of the company's objects, in their order by name. */
async function statesOf() {
  const states = 'SELECT state FROM email_thread_objects WHERE company_id = ? ORDER BY state'
  return (await sql(states, company.id)).map(({ state }) => state)
}
function expect503({ status, headers, body }: ApiResponse, retryAfter = '10') {
  expect([status, body.error.code, headers.get('retry-after')]).toEqual([503, 'internal_error', retryAfter])
}
const failing: Around = (name, work) => (ofFiles(name) ? Promise.reject(new Error('internal')) : work())

describe('content over a megabyte compressed', () => {
  it('is not stored after a response without it, since a newer one may be stored by then', async () => {
    const id = freshThreadId()
    onTestFinished(resumeTime)
    const slow: Around = async (name, work) => {
      const result = await work()
      if (name === 'FILES.put') moveTime(BUDGET_MS.handler)
      return result
    }
    expect((await putThrough(slow, id, large('a'))).status).toBe(503)
    resumeTime()
    expect((await read(id)).status).toBe(404)
  })

  it('is one object of R2 under its company and hash, and in no row of the database', async () => {
    const id = freshThreadId()
    const thread = large('a')
    const { body } = await put(id, thread)
    expect(body.email_thread).toMatchObject(thread)
    expect((await read(id)).body).toEqual(body)
    expect(await contentLengthOf(id)).toBe(null)
    const [row] = await sql('SELECT content_hash FROM email_threads WHERE legacy_thread_id = ?', id)
    const [object] = await objectsOf(id)
    const key = `mail/${company.id}/${row?.content_hash}/${object?.id}`
    expect(await storedObjects(company.id)).toEqual([key])
    expect((await env.FILES.head(key))?.size).toBe(object?.bytes)
  })

  it('comes back with a deleted thread that is put again, and its other object is not announced any more', async () => {
    const id = freshThreadId()
    const thread = large('a')
    await put(id, thread)
    const [before] = await objectsOf(id)
    expect((await company.call('DELETE', threadPath(id, MAILBOX))).status).toBe(200)
    expect((await read(id)).status).toBe(404)
    expect((await put(id, thread)).status).toBe(200)
    expect((await read(id)).body.email_thread).toMatchObject({ ...thread, deleted: false })
    expect(await objectsOf(id)).toEqual([before])
    const unnamed = 'SELECT state FROM email_thread_objects WHERE company_id = ? AND thread_id IS NULL'
    expect(await sql(unnamed, company.id)).toEqual([{ state: 'replaced' }])
  })

  it('of more than four megabytes compressed is returned as it was sent', async () => {
    const id = freshThreadId()
    const messages = Array.from({ length: 4 }, () => ({ text: noise(4_000_000) }))
    expect((await put(id, { messages })).body.email_thread.messages).toEqual(messages)
    expect((await read(id)).body.email_thread.messages).toEqual(messages)
    expect(isolateMemory.usedBytes).toBeLessThanOrEqual(usedBefore)
  })

  it('does not hold the memory of its body while R2 writes it: another large PUT goes on', async () => {
    stopTime()
    holdTimers(BUDGET_MS.storage, BUDGET_MS.handler)
    const [slow, other] = [freshThreadId(), freshThreadId()]
    const messages = [{ text: noise(20_000_000) }]
    const otherDone = Promise.withResolvers<void>()
    let isWriting = false
    const waits: Around = async (name, work) => {
      if (name === 'FILES.put') {
        isWriting = true
        await otherDone.promise
      }
      return work()
    }
    const first = putThrough(waits, slow, { messages })
    await expect.poll(() => isWriting).toBe(true)
    const second = await put(other, { messages })
    otherDone.resolve()
    expect([second.status, (await first).status]).toEqual([200, 200])
    expect(isolateMemory.usedBytes).toBeLessThanOrEqual(usedBefore)
  })

  it('is not written again when it is unchanged; where a text changed, the object that nothing names goes', async () => {
    const id = freshThreadId()
    const thread = { ...large('a'), subject: 'Shirts' }
    await put(id, thread)
    const before = await objectsOf(id)
    await put(id, { ...thread, subject: 'Prints' })
    expect(await storedObjects(company.id)).toHaveLength(1)
    await put(id, { ...thread, subject: 'Shirts and prints' })
    await sweep()
    expect(await storedObjects(company.id)).toHaveLength(1)
    expect(await objectsOf(id)).toEqual(before)
    expect((await read(id)).body.email_thread).toMatchObject({ ...thread, subject: 'Shirts and prints' })
  })

  it('is replaced by other content, large or small, and counted as stored bytes until then', async () => {
    const id = freshThreadId()
    const bytes = async () =>
      (await sql<{ n: number }>('SELECT mail_bytes AS n FROM companies WHERE id = ?', company.id))[0]?.n
    await put(id, large('a'))
    const [first] = await objectsOf(id)
    expect(await bytes()).toBe(first?.bytes)
    await put(id, large('b'))
    const [second] = await objectsOf(id)
    expect(second?.id).not.toBe(first?.id)
    expect(await bytes()).toBe(second?.bytes)
    const small = { messages: [{ text: 'small' }] }
    await put(id, small)
    expect(await objectsOf(id)).toEqual([])
    expect((await read(id)).body.email_thread).toMatchObject(small)
    expect(await bytes()).toBeLessThan(1_000)
  })

  it('that another company has too is another object: one company’s removal is not the other’s', async () => {
    const other = await mintCompany()
    const id = freshThreadId()
    const thread = large('a')
    await put(id, thread)
    await putThread(other, id, thread)
    await put(id, { messages: [] })
    await sweep(60 * DAY_MS)
    expect(await storedObjects(company.id)).toEqual([])
    const response = await other.call('GET', threadPath(id, MAILBOX))
    expect(response.body.email_thread).toMatchObject(thread)
  })
})

describe('when R2 fails', () => {
  it('GET of such a thread is 503, or 200 where only the first call fails; 304, lists and other threads go on', async () => {
    const [id, small] = [freshThreadId(), freshThreadId()]
    await put(id, large('a'))
    await put(small, { messages: [{ a: 1 }] })
    const known = { 'if-none-match': (await read(id)).headers.get('etag') ?? '' }
    expect503(await sendThrough(failing, 'GET', threadPath(id, MAILBOX)))
    let calls = 0
    const once: Around = (name, work) => (ofFiles(name) && calls++ === 0 ? Promise.reject(new Error('x')) : work())
    expect((await sendThrough(once, 'GET', threadPath(id, MAILBOX))).status).toBe(200)
    expect((await sendThrough(failing, 'GET', threadPath(id, MAILBOX), undefined, known)).status).toBe(304)
    expect((await sendThrough(failing, 'GET', threadPath(small, MAILBOX))).status).toBe(200)
    const list = await sendThrough(failing, 'GET', `/mail/email-threads?account_email=${MAILBOX}`)
    expect(list.body.data).toHaveLength(2)
    expect((await sendThrough(failing, 'DELETE', threadPath(id, MAILBOX))).status).toBe(200)
    expect(isolateMemory.usedBytes).toBeLessThanOrEqual(usedBefore)
  })

  it('PUT of large content is 503 and changes nothing; one of small content goes on', async () => {
    const id = freshThreadId()
    const before = { messages: [{ a: 1 }], subject: 'before' }
    await put(id, before)
    expect503(await putThrough(failing, id, { ...large('a'), subject: 'behind' }))
    expect((await read(id)).body.email_thread).toMatchObject({ ...before, labels: [] })
    expect((await putThrough(failing, id, { messages: [{ a: 2 }] })).status).toBe(200)
    await sweep(2 * HOUR_MS)
    expect(await statesOf()).toEqual([])
    expect(isolateMemory.usedBytes).toBeLessThanOrEqual(usedBefore)
  })

  it('GET of content that is missing is 503, and logged', async () => {
    const id = freshThreadId()
    await put(id, large('a'))
    await env.FILES.delete(await storedObjects(company.id))
    const { status, headers } = await read(id)
    expect(status).toBe(503)
    expect(linesOf(headers.get('x-request-id'))).toContainEqual(
      expect.objectContaining({ event: 'mail_content_missing', company_id: company.id }),
    )
  })
})

describe('the removal of objects that nothing names', () => {
  it('keeps what was replaced for 43 days, so that backups and Time Travel find it, and then removes it', async () => {
    const id = freshThreadId()
    await put(id, large('a'))
    await put(id, large('b'))
    const [kept] = await objectsOf(id)
    await sweep(42 * DAY_MS)
    expect(await storedObjects(company.id)).toHaveLength(2)
    await sweep(44 * DAY_MS)
    expect(await storedObjects(company.id)).toEqual([expect.stringContaining(kept?.id ?? '')])
    expect((await read(id)).status).toBe(200)
    expect(await statesOf()).toEqual(['stored'])
  })

  it.each([
    ['before the object is written', 1],
    ['behind the object, before the batch that names it', 2],
  ])('finds what a Worker that dies %s has left; readers have the content before it', async (_, objects) => {
    const id = freshThreadId()
    const before = large('before')
    await put(id, before)
    let isDead = false
    const dies: Around = async (name, work) => {
      if (isDead) return new Promise(() => undefined)
      isDead = ofFiles(name)
      return isDead && objects === 1 ? new Promise(() => undefined) : work()
    }
    void putThrough(dies, id, large('behind')).catch(() => undefined)
    await expect.poll(async () => isDead && (await storedObjects(company.id)).length).toBe(objects)
    expect(await statesOf()).toEqual(['stored', 'writing'])
    expect((await read(id)).body.email_thread).toMatchObject(before)
    await sweep(2 * HOUR_MS)
    expect(await storedObjects(company.id)).toHaveLength(1)
    expect(await statesOf()).toEqual(['stored'])
    expect((await read(id)).body.email_thread).toMatchObject(before)
  })

  it('takes nothing that a write under way goes on to name: the write is 503, and changes nothing', async () => {
    const id = freshThreadId()
    const before = large('before')
    await put(id, before)
    // Two hours pass between the object and the batch that names it.
    const late: Around = async (name, work) => {
      const result = await work()
      if (name === 'FILES.put') await sweep(2 * HOUR_MS)
      return result
    }
    expect503(await putThrough(late, id, large('behind')))
    expect((await read(id)).body.email_thread).toMatchObject(before)
    expect(await storedObjects(company.id)).toHaveLength(1)
  })

  it('of the same content, put again while its earlier object is removed, leaves the new one alone', async () => {
    const id = freshThreadId()
    const thread = large('a')
    await put(id, thread)
    await put(id, { messages: [] })
    // The sweep has marked the old object, and is about to remove it, when the same content is written again.
    const { FILES } = wrapBindings(env, async (name, work) => {
      if (name === 'FILES.delete') expect((await put(id, thread)).status).toBe(200)
      return work()
    })
    await sweep(60 * DAY_MS, FILES)
    expect(await storedObjects(company.id)).toHaveLength(1)
    expect((await read(id)).body.email_thread).toMatchObject(thread)
  })

  it('goes on behind a failure between the mark, R2 and the row', async () => {
    const id = freshThreadId()
    await put(id, large('a'))
    await put(id, { messages: [] })
    await sweep(60 * DAY_MS, wrapBindings(env, failing).FILES)
    expect(await storedObjects(company.id)).toHaveLength(1)
    await sweep(60 * DAY_MS)
    expect(await storedObjects(company.id)).toEqual([])
    expect(await statesOf()).toEqual([])
  })

  it('is bounded: more than 500 objects that are being written are refused with 503, those of the company', async () => {
    const write = ({ id }: TestCompany, name: string, count: number) =>
      writeObjects(id, count, `'${name}-${id}-' || i, 'writing', NULL, ${Date.now() + 3_600_000}`)
    await write(await mintCompany(), 'a', 501)
    await write(company, 'a', 499)
    expect((await put(freshThreadId(), large('a'))).status).toBe(200)
    await write(company, 'b', 1)
    expect503(await put(freshThreadId(), large('a')), '60')
    await sweep(2 * HOUR_MS)
    expect((await put(freshThreadId(), large('a'))).status).toBe(200)
  })
})

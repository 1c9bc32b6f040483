import { createExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeEach, expect, it } from 'vitest'
import { app } from '../../../src/app.ts'
import type { Env } from '../../../src/env.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { mintCompany, request, send, sql } from '../../support/app.ts'
import { holdTimers, moveTime, stopTime } from '../../support/time.ts'
import { breakCalls, wrapBindings } from '../../support/wrap-bindings.ts'
import { guarded, tokenObject } from './support.ts'

beforeEach(stopTime)

/** Where the token's next read may run, as its object knows. */
async function constraintOf(token: string) {
  const admission = await tokenObject(token).admit(hashToken(token), { databaseMs: 0, isWrite: false })
  return admission.kind === 'admitted' ? admission.constraint : admission.kind
}

/** Bindings whose reports to the objects are lost. */
const withoutReports = (bindings: Env, report: () => Promise<unknown> = () => Promise.reject(new Error('lost'))) =>
  wrapBindings(bindings, (name, work) => (name === 'RATE_LIMITER.report' ? report() : work()))

const ZERO = `00000000-00000000-00000000-${'0'.repeat(32)}`
const LAST = `ffffffff-ffffffff-ffffffff-${'f'.repeat(32)}`

it('is sent with every response; a token that wrote reads at least that version, without sending it', async () => {
  const { token } = await mintCompany()
  const { seen, bindings, get } = guarded()
  await get(token)
  const written = await send(request(token, 'POST', '/clients', { company_name: 'a' }), { env: bindings })
  const bookmark = written.headers.get('x-bookmark') ?? ''
  expect(bookmark).toMatch(/^[0-9a-f-]{20,}$/)
  expect((await get(token)).body.pagination.total).toBe(1)
  // An older one changes nothing, a newer one is followed: another token may have written it.
  await get(token, { 'x-bookmark': ZERO })
  await get(token, { 'x-bookmark': LAST })
  expect(seen.bookmarks).toEqual(['first-unconstrained', 'first-primary', bookmark, bookmark, LAST])
})

it('of a write that has not been reported is not waited for: the primary is read', async () => {
  const { token } = await mintCompany()
  const { seen, bindings, get } = guarded()
  // The isolate takes the report for delivered.
  const delivered = { allowed: true, window: { startedAt: 0, count: 0, databaseMs: 0 } }
  const lossy = withoutReports(bindings, async () => delivered)
  await send(request(token, 'POST', '/clients', { company_name: 'a' }), { env: lossy })
  await get(token)
  await get(token, { 'x-bookmark': ZERO })
  expect(seen.bookmarks.slice(1)).toEqual(['first-primary', 'first-primary'])
  // The read that replaces the lost report is the last one at the primary.
  moveTime(61_000)
  for (let i = 0; i < 2; i++) await get(token)
  expect(seen.bookmarks.slice(3)).toEqual(['first-primary', expect.stringMatching(/^[0-9a-f-]{20,}$/)])
})

it('of a write that failed counts as not reported: it may happen still', async () => {
  const { token } = await mintCompany()
  const { seen, bindings, get } = guarded()
  const { DB } = breakCalls(env, /^DB\.batch$/, new Error('no'))
  const made = request(token, 'POST', '/clients', { company_name: 'a' })
  expect((await send(made, { env: { ...bindings, DB } })).status).toBe(500)
  await get(token)
  expect(seen.bookmarks).toEqual(['first-primary'])
})

it.each([
  ['of a write whose object failed is known to the object with the next call', 'POST', 5_000, 'GET', /^$/],
  ['of a write is awaited again once an object that failed may be called', 'GET', 600_000, 'POST', /report$/],
])('%s', async (_, before, laterMs, after, failsLater) => {
  const { token } = await mintCompany({ home: 'DB' })
  let failing = /^RATE_LIMITER\./
  const bindings = wrapBindings(env, (name, work) => (failing.test(name) ? Promise.reject(new Error('down')) : work()))
  const use = (method: string) => {
    const body = method === 'POST' ? { company_name: 'a' } : undefined
    return send(request(token, method, '/clients', body), { env: bindings })
  }
  expect((await use(before)).status).toBe(200)
  failing = failsLater
  moveTime(laterMs)
  await use(after)
  expect(await constraintOf(token)).toBe('primary')
})

/** A PUT as large as a body must be that may take so long; `meanwhile` runs before its end arrives. */
function slowPut(token: string, meanwhile: () => Promise<unknown>): Request {
  const [begin, end] = [`{"account_email":"a@x.example","messages":[{"a":"${'x'.repeat(8_000_000)}`, '"}]}']
  let isFirst = true
  const body = new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      if (isFirst) {
        isFirst = false
        return controller.enqueue(new TextEncoder().encode(begin))
      }
      await meanwhile()
      controller.enqueue(new TextEncoder().encode(end))
      controller.close()
    },
  })
  return new Request(request(token, 'PUT', '/mail/email-threads/slow', {}), { body })
}

it('of a write whose body takes longer than a minute is awaited from its batch on', async () => {
  const { token } = await mintCompany({ home: 'DB' })
  const bindings = wrapBindings(env, (name, work, [report]) =>
    name === 'RATE_LIMITER.report' && Object(report).seen?.write ? Promise.reject(new Error('lost')) : work(),
  )
  const put = slowPut(token, async () => {
    moveTime(61_000)
    await send(request(token, 'GET', '/clients'), { env: bindings })
    expect(await constraintOf(token)).not.toBe('primary')
  })
  expect((await app.fetch(put, bindings, createExecutionContext())).status).toBe(200)
  expect(await constraintOf(token)).toBe('primary')
})

it('of a write with a slow body waits for its silent object no longer than 2 s', async () => {
  const { token } = await mintCompany({ home: 'DB' })
  const twoSeconds = holdTimers(2_000)
  const silence = Promise.withResolvers<never>()
  const bindings = withoutReports(env, async () => {
    await scheduler.wait(1)
    for (const pass of twoSeconds) pass()
    return silence.promise
  })
  const put = slowPut(token, async () => moveTime(25_000))
  expect((await app.fetch(put, bindings, createExecutionContext())).status).toBe(200)
  silence.reject(new Error('lost'))
})

it('of the feed of changes is remembered before the response: what it names is read as it is there', async () => {
  const { token } = await mintCompany()
  const { seen, bindings, get } = guarded()
  for (const path of ['/changes?start=latest', '/changes']) {
    seen.bookmarks.length = 0
    await sql('UPDATE companies SET updated_at = updated_at + 1')
    const feed = await get(token, {}, path)
    await send(request(token, 'GET', '/clients'), { env: withoutReports(bindings) })
    expect(seen.bookmarks.at(-1)).toBe(feed.headers.get('x-bookmark'))
  }
})

it.each([
  ['/clients?per_page=1&sort=-updated_at', true],
  ['/clients?per_page=1&updated_since=2026-01-01T00:00:00Z', true],
  ['/mail/email-threads?per_page=1&account_email=a@x.example&updated_since=2026-01-01T00:00:00Z', true],
  ['/clients?per_page=1', false],
])('of a page of %s is remembered for the next one: %s', async (path, isRemembered) => {
  const { token } = await mintCompany()
  const { seen, bindings, get } = guarded()
  for (const name of ['a', 'b']) {
    const thread = { account_email: 'a@x.example', messages: [{ id: name }] }
    await send(request(token, 'POST', '/clients', { company_name: name }), { env: bindings })
    await send(request(token, 'PUT', `/mail/email-threads/${name}`, thread), { env: bindings })
  }
  await sql('UPDATE companies SET updated_at = updated_at + 1')
  const page = await get(token, {}, path)
  const next = `${path}&cursor=${page.body.pagination.next_cursor}`
  expect((await send(request(token, 'GET', next), { env: withoutReports(bindings) })).status).toBe(200)
  expect(seen.bookmarks.at(-1) === page.headers.get('x-bookmark')).toBe(isRemembered)
})

const MALFORMED = ['', 'x', 'first-unconstrained', 'first-primary', '00000000-00000000-00000000', 'f'.repeat(400)]
it.each([...MALFORMED, "'; DROP TABLE clients"])('that is not well-formed is ignored: %s', async (mark) => {
  const { token } = await mintCompany()
  const { seen, get } = guarded()
  expect((await get(token, { 'x-bookmark': mark })).status).toBe(200)
  expect(seen.bookmarks).toEqual(['first-unconstrained'])
})

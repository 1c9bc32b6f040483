import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { type ApiResponse, request, send, sql } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { breakCalls, DATABASE_BATCH, replaceCalls } from '../../support/wrap-bindings.ts'
import {
  ask,
  fillBucket,
  folderOf,
  giveStorage,
  listFiles,
  mintCompanyWithOrder,
  mintOrder,
  NAMES,
  pathsOf,
  setFaults,
  target,
} from './support.ts'

const company = await mintCompanyWithOrder()
const own = await mintCompanyWithOrder()
const bucket = await giveStorage(own)

/** A file of an order of its own in the deployment's storage, and the request that deletes it. */
async function mintFile(name: string) {
  const order = { ...company, orderId: await mintOrder(company) }
  const key = folderOf(order) + name
  await env.FILES.put(key, 'abc')
  const deletion = (headers: Record<string, string> = { 'idempotency-key': key }) =>
    request(company.token, ...target('delete', order.orderId, key), undefined, headers)
  return { order, key, deletion }
}

/** How many deletions of the company's file the audit has. */
async function recordsOf(key: string): Promise<number> {
  const isDeletion = "company_id = ? AND action = 'file.delete' AND entity_id = ?"
  return (await sql(`SELECT id FROM audit_log WHERE ${isDeletion}`, company.id, key)).length
}

describe('a deletion', () => {
  it('removes the file from the deployment’s storage, once', async () => {
    const { order, key } = await mintFile('email/t/a')
    await env.FILES.put(`${key}2`, 'abc')
    const { status, body } = await ask('delete', order, key)
    expect(status).toBe(200)
    const file = { path: key, objectName: 'a', length: 3, lastChanged: expect.any(String), source: 'email' }
    expect(body.file).toEqual(file)
    expect(pathsOf(await listFiles(order))).toEqual([`${key}2`])
    expect((await ask('delete', order, key)).status).toBe(404)
    expect((await ask('download', order, key)).status).toBe(404)
  })

  it.each(NAMES)('removes the file %j from the company’s own storage, and no other', async (name) => {
    const [key, other] = [`${folderOf(own)}${name}`, `${folderOf(own)}other`]
    await fillBucket(bucket, [key, other])
    expect((await ask('delete', own, key)).body.file).toMatchObject({ path: key, length: 3, source: 'manual' })
    expect(pathsOf(await listFiles(own))).toEqual([other])
    expect((await ask('delete', own, key)).status).toBe(404)
  })

  it('with an Idempotency-Key gives its first response again, whatever has become of the file', async () => {
    const { order, key, deletion } = await mintFile('keyed')
    const first = await send(deletion())
    expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([200, null])
    const expectReplay = async () => {
      const again = await send(deletion())
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true'])
      expect(again.body).toEqual(first.body)
    }
    await expectReplay()
    await env.FILES.put(key, 'another file')
    await expectReplay()
    expect(await env.FILES.head(key)).not.toBeNull()
    const other = target('delete', order.orderId, `${key}2`)
    const reused = await company.call(...other, undefined, { 'idempotency-key': key })
    expect([reused.status, reused.body.error.details.reason]).toEqual([400, 'idempotency_key_reused'])
    await company.call('DELETE', `/orders/${order.orderId}`)
    await expectReplay()
  })

  it.each([true, false])('whose record the database refuses deletes nothing, with a key: %s', async (isKeyed) => {
    const { key, deletion } = await mintFile('refused')
    const sent = () => (isKeyed ? deletion() : deletion({}))
    // The first batch finds the order, and the second records the deletion.
    const overloaded = replaceCalls(env, DATABASE_BATCH, async (work, count) => {
      if (count > 1) throw new Error('D1_ERROR: D1 DB is overloaded. Requests queued for too long.')
      return work()
    })
    const refused = await send(sent(), { env: overloaded })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '2'])
    expect(await env.FILES.head(key)).not.toBeNull()
    expect(await recordsOf(key)).toBe(0)
    expect((await send(sent())).status).toBe(200)
    expect(await env.FILES.head(key)).toBeNull()
    expect(await recordsOf(key)).toBe(1)
  })

  it.each([
    ['and is not carried out', false],
    ['although it is carried out', true],
  ])('that fails in the deployment’s storage %s is recorded, and finished by the same request', async (_, isDone) => {
    const { key, deletion } = await mintFile('failed')
    const failing = replaceCalls(env, /^FILES.delete$/, async (work) => {
      if (isDone) await work()
      throw new Error('internal error')
    })
    const failed = await send(deletion(), { env: failing })
    expect([failed.status, failed.headers.get('retry-after')]).toEqual([503, null])
    expect(failed.body.error.message).toMatch(/may have been deleted/)
    expect((await env.FILES.head(key)) === null).toBe(isDone)
    expect(await recordsOf(key)).toBe(1)
    for (let again = 0; again < 2; again++) {
      const { status, body } = await send(deletion())
      expect([status, body.file?.path]).toEqual([200, key])
      expect(await env.FILES.head(key)).toBeNull()
    }
  })

  it('that the company’s storage fails is finished by the same request', async () => {
    const key = `${folderOf(own)}failed`
    await fillBucket(bucket, [key])
    const ask = () => own.call(...target('delete', own.orderId, key), undefined, { 'idempotency-key': key })
    await setFaults(bucket, { match: '^DELETE', status: 500 })
    expect((await ask()).status).toBe(502)
    expect(pathsOf(await listFiles(own))).toEqual([key])
    await setFaults(bucket)
    expect((await ask()).status).toBe(200)
    expect(pathsOf(await listFiles(own))).toEqual([])
  })

  it.each([
    ['NoSuchKey', 200],
    ['NoSuchBucket', 502],
  ])('whose storage answers 404 with %s gives %i', async (code, status) => {
    const key = `${folderOf(own)}${code}`
    await fillBucket(bucket, [key])
    await setFaults(bucket, { match: '^DELETE', status: 404, body: `<Error><Code>${code}</Code></Error>` })
    expect((await own.call(...target('delete', own.orderId, key))).status).toBe(status)
    await setFaults(bucket)
  })

  it('that two isolates begin with one key gives both the same response', async () => {
    const { key, deletion } = await mintFile('twice')
    // Another request is done before this one looks for the file.
    let other: ApiResponse | undefined
    const slow = replaceCalls(env, /^FILES.head$/, async (work) => {
      other ??= await send(deletion({ 'idempotency-key': `${key}x` }))
      await sql('UPDATE idempotency_keys SET key = ? WHERE company_id = ? AND key = ?', key, company.id, `${key}x`)
      return work()
    })
    const { status, body } = await send(deletion(), { env: slow })
    expect(other?.status).toBe(200)
    expect([status, body]).toEqual([200, other?.body])
    expect(await recordsOf(key)).toBe(1)
  })
})

it.each([
  ['a listing', 'GET'],
  ['a download', 'GET'],
  ['a deletion', 'DELETE'],
])(
  'an outage of the deployment’s storage gives 503 with Retry-After to %s, which changes nothing',
  async (name, method) => {
    const { order, key } = await mintFile('out')
    const [, path] = target(name === 'a deletion' ? 'delete' : 'download', order.orderId, key)
    const outage = breakCalls(env, /^FILES\./, new Error('internal'))
    const sent = request(company.token, method, name === 'a listing' ? `/orders/${order.orderId}/files` : path)
    const { status, headers } = await send(sent, { env: outage })
    expect([status, headers.get('retry-after')]).toEqual([503, '10'])
    const [logged] = linesOf(headers.get('x-request-id')).filter(({ event }) => event === 'unavailable')
    expect(logged).toMatchObject({ error: expect.stringContaining('R2') })
    expect(await env.FILES.head(key)).not.toBeNull()
  },
)

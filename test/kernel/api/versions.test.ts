import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { dump } from '../../resources/orders/support.ts'
import { type ApiResponse, mintCompany, request, send } from '../../support/app.ts'

const company = await mintCompany()
const clientId: number = (await company.call('POST', '/clients', { company_name: 'Client' })).body.client.id

/** Creates one of version 1 and returns its path. */
const createClient = async () =>
  `/clients/${(await company.call('POST', '/clients', { company_name: 'A' })).body.client.id}`
const createOrder = async () =>
  `/orders/${(await company.call('POST', '/orders', { title: 'A', client_id: clientId })).body.project.id}`

const KINDS = [
  { kind: 'client', create: createClient, change: { phone: '1' } },
  { kind: 'order', create: createOrder, change: { title: 'B', discount_amount: 5 } },
]
const versionIn = ({ body }: ApiResponse): number => (body.project ?? body.client).version

const read = (path: string, headers?: Record<string, string>) => company.call('GET', path, undefined, headers)

type Condition = [string, (etag: string) => string | undefined, number]

const CONDITIONS: Condition[] = [
  ['none', () => undefined, 200],
  ['the ETag of the read', (etag) => etag, 200],
  ['the ETag of a change', () => '"1"', 200],
  ['any', () => '*', 200],
  ['an older version', () => '"0"', 412],
  ['a newer version', () => '"2"', 412],
]
/** They are read alike for every resource. */
const FORMS: Condition[] = [
  ['a weak one', (etag) => `W/${etag}`, 412],
  ['a list with it', () => '"7", "1"', 200],
  ['a list with it behind a weak one', () => 'W/"9" ,"1"', 200],
  ['a list with a weak one only', () => '"7",W/"1"', 412],
  ['a tag of no version', () => '"x"', 412],
  ['a list without it', () => '"2", W/"3-abc"', 412],
  ['a version with a zero in front', () => '"01"', 412],
  ['a version with a dash and nothing', () => '"1-"', 412],
  ['another digit in front', (etag) => etag.replace('"1', '"11'), 412],
  ['an empty list', () => ' , ', 412],
]

describe.each(KINDS)('the version of a $kind', ({ kind, create, change }) => {
  it('is 1 at first, and is raised by 1 with every change, which carries it as ETag', async () => {
    const path = await create()
    const first = await read(path)
    expect(versionIn(first)).toBe(1)
    expect(first.headers.get('etag')).toMatch(/^"1-[0-9a-f]{16}"$/)
    for (const version of [2, 3]) {
      const changed = await company.call('PATCH', path, change)
      expect(versionIn(changed)).toBe(version)
      expect(changed.headers.get('etag')).toBe(`"${version}"`)
      expect((await read(path)).headers.get('etag')).toMatch(new RegExp(`^"${version}-`))
    }
    const again = await read(path, { 'if-none-match': first.headers.get('etag') ?? '' })
    expect([again.status, versionIn(again)]).toEqual([200, 3])
  })

  it.each<Condition>([
    ['none', () => undefined, 200],
    ['the ETag', (etag) => etag, 304],
    ['any', () => '*', 304],
    ['another ETag', () => '"1-0000000000000000"', 200],
    ['the ETag without its quotes', (etag) => etag.replaceAll('"', ''), 200],
    ['nothing', () => '', 200],
  ])('with %s in If-None-Match decides whether it is sent', async (_name, header, status) => {
    const path = await create()
    const first = await read(path)
    const etag = first.headers.get('etag') ?? ''
    const sent = header(etag)
    const response = await read(path, sent === undefined ? {} : { 'if-none-match': sent })
    expect([response.status, response.headers.get('etag')]).toEqual([status, etag])
    expect(response.body).toEqual(status === 304 ? null : first.body)
  })

  it.each(kind === 'client' ? [...CONDITIONS, ...FORMS] : CONDITIONS)(
    'with %s in If-Match decides whether it is changed',
    async (_name, header, status) => {
      const path = await create()
      const sent = header((await read(path)).headers.get('etag') ?? '')
      const before = await dump(company)
      const response = await company.call('PATCH', path, change, sent === undefined ? {} : { 'if-match': sent })
      expect(response.status).toBe(status)
      if (status === 200) return expect(versionIn(response)).toBe(2)
      expect(response.body.error).toMatchObject({ code: 'invalid_request', details: { reason: 'version_mismatch' } })
      expect(await dump(company)).toEqual(before)
    },
  )

  it('lets only one of several changes through that all name it', async () => {
    const path = await create()
    const sent = () => company.call('PATCH', path, change, { 'if-match': '"1"' })
    const statuses = (await Promise.all(Array.from({ length: 6 }, sent))).map((response) => response.status)
    expect(statuses.sort()).toEqual([200, 412, 412, 412, 412, 412])
    expect(versionIn(await read(path))).toBe(2)
  })

  it('counts every one of several changes at once that name none', async () => {
    const path = await create()
    await Promise.all(Array.from({ length: 6 }, () => company.call('PATCH', path, change)))
    expect(versionIn(await read(path))).toBe(7)
  })
})

describe('If-Match', () => {
  it.each(['/clients/1', '/orders/1', '/clients/nobody%40x.example'])(
    'is 404 for %s, which is not there',
    async (path) => {
      const body = path.startsWith('/orders') ? { title: 'A' } : { phone: '1' }
      for (const version of ['"1"', '*']) {
        expect((await company.call('PATCH', path, body, { 'if-match': version })).status).toBe(404)
      }
    },
  )

  it('is 412 with an empty value: no version of an empty list matches (RFC 9110, 13.1.1)', async () => {
    const [path, body] = [await createClient(), { phone: '1' }]
    // Sent to the application: over a connection the runtime drops the empty header.
    const sent = request(company.token, 'PATCH', path, body, { 'if-match': '' })
    expect((await send(sent, { env: { ...env } })).status).toBe(412)
    const batch = await company.call('POST', '/batch', { operations: [{ method: 'PATCH', path, body, if_match: '' }] })
    expect(batch.body.results).toMatchObject([{ status: 412 }])
    expect((await read(path)).body.client.version).toBe(1)
  })

  it.each(['1', '"1', '1"', '"1""1"', '"2", 1', "'1'", 'w/"1"', 'W/1', 'x"1"', '* , "1"', 'v1'])(
    'is 400 with %s, and the response shows the right form',
    async (ifMatch) => {
      const [path, body] = [await createClient(), { phone: '1' }]
      const message = 'must be `*`, or versions with their double quotes, such as `"1"`'
      const refusal = (path: string) => ({ status: 400, body: { error: { details: { issues: [{ path, message }] } } } })
      const changed = await company.call('PATCH', path, body, { 'if-match': ifMatch })
      expect(changed).toMatchObject(refusal('If-Match'))
      const operations = [{ method: 'PATCH', path, body, if_match: ifMatch }]
      const batch = await company.call('POST', '/batch', { operations })
      expect(batch.body.results).toMatchObject([refusal('if_match')])
      expect((await read(path)).body.client.version).toBe(1)
    },
  )

  it('is 400 without quotes for an order, its lines and its payments', async () => {
    const path = await createOrder()
    for (const [method, end, body] of [
      ['PATCH', '', { title: 'B' }],
      ['DELETE', '', undefined],
      ['PUT', '/invoice-items', { items: [] }],
      ['POST', '/payments', { amount: 1 }],
      ['DELETE', '/payments/1', undefined],
    ] as const) {
      expect((await company.call(method, path + end, body, { 'if-match': '1' })).status).toBe(400)
    }
    expect((await read(path)).body.project.version).toBe(1)
  })

  it('takes the tag of every response of an object, whatever coding its caller accepts', async () => {
    for (const { create, change } of KINDS) {
      const path = await create()
      for (const coding of ['gzip, deflate, br', '*', '']) {
        const headers = { 'accept-encoding': coding }
        const shown = await read(path, headers)
        const known = await read(path, { ...headers, 'if-none-match': `W/${shown.headers.get('etag')}` })
        expect(known.status).toBe(304)
        const sent = { ...headers, 'if-match': known.headers.get('etag') ?? '' }
        const changed = await company.call('PATCH', path, change, sent)
        expect(changed.status).toBe(200)
        for (const response of [shown, known, changed]) {
          expect(response.headers.get('etag')).toMatch(/^"\d+(-[0-9a-f]{16})?"$/)
          expect(response.headers.get('cache-control')).toContain('no-transform')
        }
      }
    }
  })

  it('guards the deletion of an order', async () => {
    const path = await createOrder()
    const remove = (version: string) => company.call('DELETE', path, undefined, { 'if-match': version })
    const before = await dump(company)
    expect((await remove('"2"')).status).toBe(412)
    expect(await dump(company)).toEqual(before)
    const removed = await remove('"1"')
    expect([removed.status, removed.body.project.version, removed.headers.get('etag')]).toEqual([200, 2, '"2"'])
    expect((await remove('"2"')).status).toBe(404)
  })

  it('guards a client that is found by its email', async () => {
    const email = 'guarded@x.example'
    await company.call('POST', '/clients', { company_name: 'A', email })
    const path = `/clients/${encodeURIComponent(email)}`
    expect((await company.call('PATCH', path, { email: null }, { 'if-match': '"2"' })).status).toBe(412)
    expect((await company.call('PATCH', path, { email: null }, { 'if-match': '"1"' })).body.client.version).toBe(2)
  })

  it('of one company does not look at another', async () => {
    const other = await mintCompany()
    expect((await other.call('PATCH', `/clients/${clientId}`, { phone: '1' }, { 'if-match': '"9"' })).status).toBe(404)
  })
})

describe('an external id', () => {
  it.each<[string, string, (external_id: string | null) => object]>([
    ['clients', 'client', (external_id) => ({ company_name: 'A', external_id })],
    ['orders', 'project', (external_id) => ({ title: 'A', client_id: clientId, external_id })],
  ])('of %s is unique in the company', async (list, one, fields) => {
    const create = (external_id: string | null) => company.call('POST', `/${list}`, fields(external_id))
    const first = (await create('shop-1')).body[one]
    expect(first.external_id).toBe('shop-1')
    const second = (await create(null)).body[one]
    const name = ({ id }: { id: number }, external_id: string | null) =>
      company.call('PATCH', `/${list}/${id}`, { external_id })
    const before = await dump(company)
    for (const refused of [await create('shop-1'), await create(' shop-1 '), await name(second, 'shop-1')]) {
      expect(refused).toMatchObject({ status: 409, body: { error: { details: { reason: 'external_id_taken' } } } })
    }
    expect(await dump(company)).toEqual(before)
    expect((await name(first, 'shop-1')).status).toBe(200)
    expect((await name(first, null)).body[one].external_id).toBe(null)
    expect((await name(second, 'shop-1')).status).toBe(200)
    expect((await create('SHOP-1')).status).toBe(200)
  })

  it('stays that of a deleted order and client', async () => {
    const { client } = (await company.call('POST', '/clients', { company_name: 'A', external_id: 'gone' })).body
    await company.call('PATCH', `/clients/${client.id}`, { deleted: true })
    expect((await company.call('POST', '/clients', { company_name: 'B', external_id: 'gone' })).status).toBe(409)
    const body = { title: 'A', client_id: clientId, external_id: 'gone' }
    const { project } = (await company.call('POST', '/orders', body)).body
    await company.call('DELETE', `/orders/${project.id}`)
    expect((await company.call('POST', '/orders', body)).status).toBe(409)
  })

  it('may be the same in two companies, and has 1 to 255 characters of one line', async () => {
    const other = await mintCompany()
    const create = (external_id: unknown) => other.call('POST', '/clients', { company_name: 'A', external_id })
    expect((await create('shop-1')).status).toBe(200)
    expect((await create('é'.repeat(255))).status).toBe(200)
    for (const wrong of ['', '  ', 'x'.repeat(256), 'a\nb', 1, true]) expect((await create(wrong)).status).toBe(400)
  })
})

import { describe, expect, it } from 'vitest'
import { issuesOf, mintCompany, sql } from '../../support/app.ts'

const company = await mintCompany()

const ALL = {
  ...{ company_name: 'Harbor Rowing Club', first_name: 'Ines', last_name: 'Duarte', phone: '(555) 010-0142' },
  ...{ email: 'ines@harbor.example', website: 'https://harbor.example', deleted: true },
  ...{ accounting_sync_enabled: true, tax_exempt: true, tax_exempt_reason: 'Non-profit' },
}

const pathOf = (externalId: string) => `/clients/by-external-id/${encodeURIComponent(externalId)}`
const put = (externalId: string, body: object, headers?: Record<string, string>) =>
  company.call('PUT', pathOf(externalId), body, headers)
const get = (externalId: string, headers?: Record<string, string>) =>
  company.call('GET', pathOf(externalId), undefined, headers)

const readRows = () => sql('SELECT * FROM clients WHERE company_id = ? ORDER BY id', company.id)
const countClients = async () => (await readRows()).length

describe('PUT /clients/by-external-id/{external_id}', () => {
  it('creates a client, and then replaces every field of it', async () => {
    const created = await put('a', ALL)
    expect(created.status).toBe(200)
    expect(created.body.client).toMatchObject({ ...ALL, external_id: 'a', version: 1 })
    expect(created.headers.get('etag')).toBe('"1"')
    const { id, created_at } = created.body.client

    const replaced = await put('a', { company_name: 'Quay' })
    const { client: bare } = (await company.call('POST', '/clients', { company_name: 'Quay' })).body
    const updated_at = expect.any(String)
    expect(replaced.body.client).toEqual({ ...bare, id, external_id: 'a', version: 2, created_at, updated_at })
    expect((await get('a')).body).toEqual(replaced.body)
    expect((await company.call('GET', `/clients/${id}`)).body).toEqual(replaced.body)
    const changes =
      "SELECT operation, version FROM changes WHERE company_id = ? AND type = 'clients' AND entity_id = ? ORDER BY sequence"
    expect(await sql(changes, company.id, String(id))).toEqual([
      { operation: 'delete', version: 1 },
      { operation: 'update', version: 2 },
    ])
  })

  it('keeps searches and lookups by email right', async () => {
    await put('search', { company_name: 'Zebra Prints', email: 'old@zebra.example', phone: '555 777 1234' })
    await put('search', { company_name: 'Ocelot Prints', email: 'new@zebra.example' })
    const found = async (q: string) => (await company.call('GET', `/clients?q=${q}`)).body.pagination.total
    expect([await found('zebra%20prints'), await found('ocelot'), await found('5557771234')]).toEqual([0, 1, 0])
    expect((await company.call('GET', '/clients/new%40zebra.example')).body.client.external_id).toBe('search')
    expect((await company.call('GET', '/clients/old%40zebra.example')).status).toBe(404)
  })

  it('restores a deleted client, and may delete one', async () => {
    const { client } = (await put('restored', { company_name: 'A' })).body
    await company.call('PATCH', `/clients/${client.id}`, { deleted: true })
    expect((await get('restored')).body.client.deleted).toBe(true)
    expect((await put('restored', { company_name: 'A' })).body.client).toMatchObject({ id: client.id, deleted: false })
    expect((await put('restored', { company_name: 'A', deleted: true })).body.client.deleted).toBe(true)
  })

  it('takes over a client that got its external id by an update', async () => {
    const { client } = (await company.call('POST', '/clients', { company_name: 'A' })).body
    await company.call('PATCH', `/clients/${client.id}`, { external_id: 'given' })
    expect((await put('given', { company_name: 'B' })).body.client.id).toBe(client.id)
  })

  it.each(['.', '..', ' .. '])('refuses the external id %j, which no URL can name', async (external_id) => {
    const body = { company_name: 'A', external_id }
    const { client } = (await put('named', { company_name: 'A' })).body
    const batch = { operations: [{ method: 'PUT', path: pathOf(external_id), body: { company_name: 'A' } }] }
    const [result] = (await company.call('POST', '/batch', batch)).body.results
    const issue = { path: 'external_id', message: 'must not be . or ..' }
    const refused = [
      await company.call('POST', '/clients', body),
      await company.call('PATCH', `/clients/${client.id}`, { external_id }),
      await company.call('POST', '/orders', { title: 'T', client_id: client.id, external_id }),
      result,
    ]
    expect(refused).toMatchObject(Array(4).fill({ status: 400, body: { error: { details: { issues: [issue] } } } }))
  })

  it('reads what was stored as .. before it was refused', async () => {
    const { client } = (await put('before', { company_name: 'A' })).body
    await sql("UPDATE clients SET external_id = '..' WHERE company_id = ? AND id = ?", company.id, client.id)
    const stored = { ...client, external_id: '..' }
    expect((await company.call('GET', '/clients?external_id=..')).body.data).toEqual([stored])
    expect((await company.call('GET', `/clients/${client.id}`)).body.client).toEqual(stored)
    const { client: renamed } = (await company.call('PATCH', `/clients/${client.id}`, { external_id: 'after' })).body
    expect(renamed.external_id).toBe('after')
  })

  const UNUSUAL = ['...', 'a/b', 'a b', '100%', 'ä', '?q=1', '#', 'by-external-id', '42', 'x'.repeat(255), '%2F']
  it.each(UNUSUAL)('takes the external id %j', async (externalId) => {
    const { client } = (await put(externalId, { company_name: 'A' })).body
    expect(client.external_id).toBe(externalId)
    expect((await get(externalId)).body.client.id).toBe(client.id)
  })

  it.each(['caf%E9', 'z%20b%E9', '100%'])('refuses a path that is not UTF-8: %j', async (segment) => {
    const path = `/clients/by-external-id/${segment}`
    for (const response of [await company.call('PUT', path, { company_name: 'A' }), await company.call('GET', path)]) {
      expect(issuesOf(response)).toEqual(['path'])
    }
  })

  it.each([' ', 'x'.repeat(256), 'a\nb'])('refuses the external id %j', async (externalId) => {
    for (const response of [await put(externalId, { company_name: 'A' }), await get(externalId)]) {
      expect(issuesOf(response)).toEqual(['external_id'])
    }
  })

  const BODIES = [{}, { company_name: '' }, { company_name: 'A', external_id: 'b' }, { company_name: 'A', id: 1 }]
  it.each(BODIES)('refuses the body %j', async (body) => {
    const before = await countClients()
    expect((await put('refused', body)).status).toBe(400)
    expect(await countClients()).toBe(before)
  })

  it.each<[string, Record<string, string>, statuses: number[]]>([
    ['of several requests', {}, [200, 200, 200, 200]],
    ['of several that only create', { 'if-none-match': '*' }, [200, 412, 412, 412]],
  ])('makes one client %s at once', async (name, headers, statuses) => {
    const before = await countClients()
    const responses = await Promise.all([1, 2, 3, 4].map((n) => put(name, { company_name: `N${n}` }, headers)))
    expect(responses.map(({ status }) => status).sort()).toEqual(statuses)
    expect(await countClients()).toBe(before + 1)
    const done = responses.filter(({ status }) => status === 200)
    expect(done.map(({ body }) => body.client.version).sort()).toEqual(done.map((_, n) => n + 1))
  })

  it.each<[string, Record<string, string>, [absent: number, version1: number, deleted: number]]>([
    ['no condition', {}, [200, 200, 200]],
    ['If-None-Match: *', { 'if-none-match': '*' }, [200, 412, 412]],
    ['If-Match: *', { 'if-match': '*' }, [412, 200, 200]],
    ['If-Match with the version', { 'if-match': '"1"' }, [412, 200, 412]],
    ['If-Match with another version', { 'if-match': '"7"' }, [412, 412, 412]],
    ['If-Match with a list', { 'if-match': '"7", "1-ab"' }, [412, 200, 412]],
    ['If-Match with a weak tag', { 'if-match': 'W/"1"' }, [412, 412, 412]],
    ['both', { 'if-match': '*', 'if-none-match': '*' }, [412, 412, 412]],
  ])('with %s returns the statuses of the table', async (name, headers, [absent, first, deleted]) => {
    await put(`${name} 1`, { company_name: 'A' })
    const { client } = (await put(`${name} 2`, { company_name: 'A' })).body
    await company.call('PATCH', `/clients/${client.id}`, { deleted: true })
    const before = await readRows()
    const responses = [0, 1, 2].map((n) => put(`${name} ${n}`, { company_name: 'B' }, headers))
    const statuses = (await Promise.all(responses)).map(({ status }) => status)
    expect(statuses).toEqual([absent, first, deleted])
    if (statuses.every((status) => status === 412)) expect(await readRows()).toEqual(before)
  })

  it.each([
    ['If-Match', '1'],
    ['If-None-Match', '"1"'],
    ['If-None-Match', '1'],
  ])('is 400 with %s: %s', async (name, value) => {
    expect(issuesOf(await put('malformed', { company_name: 'A' }, { [name]: value }))).toEqual([name])
    expect((await get('malformed')).status).toBe(404)
  })

  it('says which condition failed', async () => {
    await put('said', { company_name: 'A' })
    const errorOf = async (id: string, headers: Record<string, string>) =>
      (await put(id, { company_name: 'A' }, headers)).body.error
    expect((await errorOf('said', { 'if-none-match': '*' })).details.reason).toBe('already_exists')
    expect((await errorOf('said', { 'if-match': '"9"' })).details.reason).toBe('version_mismatch')
    const message = 'The resource does not exist, is deleted, or has another version than `If-Match` names'
    expect(await errorOf('nobody has it', { 'if-match': '"1"' })).toMatchObject({
      message: expect.stringContaining(message),
      details: { reason: 'version_mismatch' },
    })
  })
})

describe('GET /clients/by-external-id/{external_id}', () => {
  it('is 404 for one that nobody has, in exactly this case', async () => {
    await put('Case', { company_name: 'A' })
    for (const id of ['case', 'nobody']) expect((await get(id)).status).toBe(404)
  })

  it('has an ETag, and 304 while unchanged', async () => {
    await put('tagged', { company_name: 'A' })
    const etag = (await get('tagged')).headers.get('etag') ?? ''
    expect((await get('tagged', { 'if-none-match': etag })).status).toBe(304)
    await put('tagged', { company_name: 'B' })
    expect((await get('tagged', { 'if-none-match': etag })).status).toBe(200)
  })
})

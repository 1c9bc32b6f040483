import { beforeEach, describe, expect, inject, it } from 'vitest'
import { BUDGET_MS } from '../../../src/kernel/http/isolate.ts'
import { S3_KEYS, S3_REGION } from '../../../src/simulators/s3-keys.ts'
import { CREDENTIALS } from '../../../src/simulators/supplier-b-catalogue.ts'
import { Shop } from '../../delivery/accounting/shop.ts'
import { fillBucket, scopeUrl } from '../../resources/files/support.ts'
import { addMember, adminCall, credentialsOf, startAccess } from '../../support/admin.ts'
import { issuesOf, mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { insert } from '../../support/rows.ts'
import { holdTimers } from '../../support/time.ts'

let company: TestCompany

const access = await startAccess()

beforeEach(async () => {
  company = await mintCompany()
  await addMember(company.id, 'owner@example.com', 'owner')
  await addMember(company.id, 'dev@example.com', 'developer')
})

const path = (kind = '') => `/companies/${company.id}/integrations${kind && `/${kind}`}`
const as = (method: string, at: string, body?: unknown) => access.callAs('owner@example.com', method, at, body)
const supplier = () => ({
  enabled: true,
  base_url: `${inject('supplierBUrl')}/t/${crypto.randomUUID()}`,
  credentials: { ...CREDENTIALS } as Record<string, string>,
})

describe('an integration', () => {
  it('is saved by an owner, with credentials that no response has', async () => {
    const { status, body } = await as('PUT', path('supplier_b'), supplier())
    expect(status).toBe(200)
    const connected = { enabled: true, state: 'connected', reason: null, paused_until: null }
    expect(body).toMatchObject({ kind: 'supplier_b', ...connected })
    expect(await credentialsOf(company.id, 'supplier_b')).toEqual(CREDENTIALS)
    const list = await access.callAs('dev@example.com', 'GET', path())
    expect(list.body.data).toEqual([body])
    for (const secret of Object.values(CREDENTIALS)) expect(JSON.stringify(list.body)).not.toContain(secret)
    expect((await access.callAs('dev@example.com', 'PUT', path('supplier_b'), supplier())).status).toBe(403)
  })

  it('keeps its credentials where they are left out', async () => {
    const { credentials: _, ...rest } = supplier()
    await as('PUT', path('supplier_b'), supplier())
    const { body } = await as('PUT', path('supplier_b'), { ...rest, enabled: false })
    expect(body).toMatchObject({ enabled: false, state: 'disabled' })
    expect((await as('PUT', path('supplier_b'), rest)).body.state).toBe('connected')
    expect((await as('POST', path('supplier_b/test'))).body).toEqual({
      ok: true,
      message: 'The supplier accepts the credentials.',
    })
  })

  it('needs no credentials while it is disabled, and names those that it needs when it is enabled', async () => {
    const { credentials: _, ...rest } = supplier()
    const { status, body } = await as('PUT', path('supplier_b'), { ...rest, enabled: false })
    expect([status, body.state]).toEqual([200, 'disabled'])
    const refused = await as('PUT', path('supplier_b'), rest)
    expect(issuesOf(refused)).toEqual(['credentials.account_number', 'credentials.api_key'])
  })

  it('needs its credentials where the address is of another host', async () => {
    await as('PUT', path('supplier_b'), supplier())
    const { credentials, ...rest } = { ...supplier(), base_url: 'https://elsewhere.example' }
    expect(issuesOf(await as('PUT', path('supplier_b'), rest))).toEqual(['credentials'])
    expect((await as('PUT', path('supplier_b'), { ...rest, credentials })).status).toBe(200)
  })

  it('is tested with one call, whose failure is told, and logged where it is none of the supplier’s', async () => {
    await as('PUT', path('supplier_b'), { ...supplier(), credentials: { ...CREDENTIALS, api_key: 'wrong' } })
    const test = async () => {
      const { body, headers } = await as('POST', path('supplier_b/test'))
      return { body, events: linesOf(headers.get('x-request-id')).map(({ event }) => event) }
    }
    const rejected = await test()
    expect(rejected.body).toEqual({ ok: false, message: 'the credentials were rejected' })
    expect(rejected.events).not.toContain('integration_test_failed')
    await sql("UPDATE integrations SET credentials = 'v1.0.x' WHERE company_id = ? AND kind = 'supplier_b'", company.id)
    const failure = 'integration_test_failed'
    expect(await test()).toMatchObject({ body: { ok: false }, events: expect.arrayContaining([failure]) })
    expect((await as('POST', path('supplier_a/test'))).status).toBe(404)
  })

  it('of storage lists the company’s files', async () => {
    const bucket = `uploads-${crypto.randomUUID()}`
    await fillBucket(bucket, [])
    const storage = { endpoint: scopeUrl(bucket), bucket, region: S3_REGION, credentials: S3_KEYS }
    expect((await as('PUT', path('storage'), { ...storage, endpoint: `${storage.endpoint} ` })).body).toMatchObject({
      base_url: storage.endpoint,
      settings: { bucket, region: S3_REGION, addressing: 'path' },
    })
    expect((await as('POST', path('storage/test'))).body).toEqual({
      ok: true,
      message: 'The storage lists the files of the company.',
    })
  })

  it('says when its credentials cannot be read, and is then saved with new ones only', async () => {
    await as('PUT', path('supplier_b'), supplier())
    await sql("UPDATE integrations SET credentials = 'v1.0.x' WHERE company_id = ? AND kind = 'supplier_b'", company.id)
    const { data } = (await as('GET', path())).body
    expect(data.find(({ kind }: { kind: string }) => kind === 'supplier_b').state).toBe('credentials_unreadable')
    const { credentials: _, ...rest } = supplier()
    expect((await as('PUT', path('supplier_b'), rest)).body.error.details.reason).toBe('credentials_unreadable')
    expect((await as('PUT', path('supplier_b'), supplier())).body.state).toBe('connected')
  })

  it.each([
    ['an unknown kind', 'dropbox', {}, 404],
    ['a field of another kind', 'supplier_b', { bucket: 'x' }, 400],
    ['plain http', 'supplier_b', { base_url: 'http://supplier.example' }, 400],
    ['credentials of another kind', 'supplier_b', { credentials: { realm_id: '1' } }, 400],
    ['a number as a credential', 'supplier_b', { credentials: { api_key: 1 } }, 400],
  ])('is refused with %s', async (_, kind, fields, status) => {
    const before = await sql('SELECT * FROM integrations WHERE company_id = ?', company.id)
    expect((await as('PUT', path(kind), { ...supplier(), ...fields })).status).toBe(status)
    expect(await sql('SELECT * FROM integrations WHERE company_id = ?', company.id)).toEqual(before)
  })
})

describe('an address', () => {
  const storage = { bucket: 'uploads', credentials: { access_key_id: 'a', secret_access_key: 's' } }
  const soap = { credentials: { customer_number: '1', username: 'u', password: 'p' } }
  const accounting = {
    credentials: { realm_id: '1', client_id: 'c', client_secret: 's', refresh_token: 'r' },
    base_url: 'https://accounting.example',
  }
  it.each<[string, string, object]>([
    ['supplier_a', 'base_url', { ...soap, base_url: 'https://soap.example/service?wsdl' }],
    ['supplier_b', 'base_url', { credentials: CREDENTIALS, base_url: 'https://supplier.example/?' }],
    ['supplier_b', 'base_url', { credentials: CREDENTIALS, base_url: 'https://supplier.example/#' }],
    ['accounting_sync', 'base_url', { ...accounting, base_url: 'https://accounting.example?x=1' }],
    ['storage', 'endpoint', { ...storage, endpoint: 'https://s3.example/s3?x=1' }],
  ])('of %s is refused in %s where no path can follow: %o', async (kind, field, body) => {
    const response = await as('PUT', path(kind), body)
    expect([response.status, response.body.error.details.issues]).toEqual([
      400,
      [{ path: field, message: expect.stringMatching(/^must not contain a (query|fragment)$/) }],
    ])
  })

  it('of access tokens may have a query', async () => {
    const token_url = 'https://accounting.example/token?tenant=1'
    expect((await as('PUT', path('accounting_sync'), { ...accounting, token_url })).status).toBe(200)
  })
})

describe('the name of a bucket', () => {
  const put = (bucket: string, addressing: string) =>
    as('PUT', path('storage'), {
      ...{ endpoint: 'https://s3.example', bucket, addressing },
      credentials: { access_key_id: 'a', secret_access_key: 's' },
    })

  it.each(['.', '..', 'a?b', 'a#b', 'x/../y', '-a', 'a b', 'é', 'a'.repeat(256)])('is refused: %s', async (bucket) => {
    for (const addressing of ['path', 'virtual']) {
      expect(issuesOf(await put(bucket, addressing))).toEqual(['bucket'])
    }
  })

  it.each(['shop_files', 'Shop.Files-2', 'a'.repeat(255)])('is accepted in a path: %s', async (bucket) => {
    expect((await put(bucket, 'path')).status).toBe(200)
  })
})

describe('the accounting connection', () => {
  it('is tested by the company’s object, and needs a new consent when the system refuses the old one', async () => {
    const shop = await Shop.open()
    const at = `/companies/${shop.company.id}/integrations`
    expect((await adminCall('POST', `${at}/accounting_sync/test`)).body).toEqual({
      ok: true,
      message: 'The accounting system accepts the credentials.',
    })
    await shop.connect({ refresh_token: 'revoked' })
    expect((await adminCall('POST', `${at}/accounting_sync/test`)).body.ok).toBe(false)
    await shop.deliverOrder()
    const { data } = (await adminCall('GET', at)).body
    expect(data).toMatchObject([{ kind: 'accounting_sync', state: 'reconnect_needed', reason: expect.any(String) }])
    await shop.connect()
    expect((await adminCall('GET', at)).body.data).toMatchObject([{ state: 'connected', reason: null }])
  })

  it('is tested within 15 seconds, and says when the system did not respond in time', async () => {
    const shop = await Shop.open()
    await shop.world.spoil({ hold: true, times: -1 })
    const deadlines = holdTimers(BUDGET_MS.handler / 2)
    const tested = adminCall('POST', `/companies/${shop.company.id}/integrations/accounting_sync/test`)
    await expect.poll(() => shop.world.lines()).toHaveLength(1)
    deadlines[0]?.()
    expect((await tested).body).toEqual({ ok: false, message: 'There was no response in time.' })
    await shop.world.spoil()
  })

  it('says until when it is paused, and null where it is not', async () => {
    const { id } = (await Shop.open()).company
    const list = async () => (await adminCall('GET', `/companies/${id}/integrations`)).body.data
    const connected = { kind: 'accounting_sync', state: 'connected', reason: null, paused_until: null }
    expect(await list()).toMatchObject([connected])
    const until = Date.UTC(2099, 0, 1)
    const pause = { company_id: id, remote_account: 'x', paused_until: until, reason: 'busy' }
    await insert('accounting_connections', pause)
    const paused_until = new Date(until).toISOString()
    expect(await list()).toMatchObject([{ state: 'paused', reason: 'busy', paused_until }])
    await sql('UPDATE accounting_connections SET paused_until = 1 WHERE company_id = ?', id)
    expect(await list()).toMatchObject([connected])
  })

  it('is tried again after a stop once the integration is saved, even with the same values', async () => {
    const [shop, other] = [await Shop.open(), await Shop.open()]
    const at = `/companies/${shop.company.id}/integrations`
    const put = () => adminCall('PUT', `${at}/accounting_sync`, { base_url: shop.world.baseUrl })
    await put()
    const stop = `INSERT INTO accounting_connections (company_id, remote_account, stopped_for, reason)
      SELECT company_id, '', updated_at, 'No.' FROM integrations WHERE company_id = ?`
    await sql(stop, shop.company.id)
    await sql(stop, other.company.id)
    const [before] = (await adminCall('GET', at)).body.data
    expect(before).toMatchObject({ state: 'reconnect_needed', reason: 'No.' })
    expect((await put()).body).toEqual({ ...before, state: 'connected', reason: null })
    expect(await other.connection()).toMatchObject({ stopped_for: expect.any(Number) })
  })
})
